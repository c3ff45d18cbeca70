// Tiles of keys that walk in rings, so that nobody queues for a turn to add to dq. Plain host code.
#pragma once

#include <cstdint>

#include "kernels/work/work_list.hpp"

namespace cplab::kernels::cuda {

// Tiles of keys that all walk over the same queries and take turns to add to them would begin one after the
// other. In a ring of r tiles each begins somewhere else, a whole number of cells of dq further on than the
// one before it, and goes around: downward to the first query, and then from the last one on. At a cell the
// tile comes first that begins there, then the next one, and so on around, always about as long after it as
// it began further on. So every tile begins at once and finds its turn come.
//
// Then a tile waits for tiles behind it in the list: those of a ring, of one head, must all run at the same
// time, and follow each other in a launch (why nobody waits for ever: dq_turns.cuh). So a ring has at most a
// quarter of the multiprocessors, which whatever runs beside a kernel of attention, exchanges over NCCL for
// example, leaves free sooner or later.
constexpr std::int64_t most_ring_tiles(std::int64_t sms) {
  return sms / 4;
}

// Makes rings of an even list (WorkTables::ring) of sequences that all have as many tiles, at least 2 and at
// most `most`, each of which walks over all of its sequence's queries. A tile's segment is cut in two where
// it begins. Returns false, and leaves the list alone, where that is not so; and where there are not two
// cells for each tile: a tile would come to a cell one block's time after the one before it, which is less
// than it takes to pass a turn (0.82 of the speed at 1 x 1024 of head size 64).
bool walk_in_rings(WorkTables& by_k, std::int64_t rows_of_cell, std::int64_t most);

}  // namespace cplab::kernels::cuda

// A list of tiles of keys, for tests of what is made of it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tiles/tile_cuts.hpp"

namespace cplab::testing {

// Tiles of 128 of the keys, all of them kept.
inline kernels::cuda::WorkTables key_tile_list(const std::vector<kernels::Segment>& segments,
                                               std::int64_t keys) {
  using namespace kernels::cuda;
  return key_tiles(live_segments(segments), even_cuts(keys, 128), true);
}

}  // namespace cplab::testing

// Launches whose thread blocks take one tile each, in the order of the list: what the tiles walk over, and
// when the last is done.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tiles/work_list.hpp"

namespace cplab::kernels::cuda {

// Of each tile, the blocks of `unit` keys that it walks over (of a tile of keys: queries), in blocks of 128.
std::vector<double> walked_blocks(const WorkTables& work, bool by_key, std::int64_t unit);

// Head after head takes all tiles of the list, `together` thread blocks on a multiprocessor at once, each of
// which then takes that many times as long as times[n].
double in_order_us(std::vector<double> times, std::int64_t heads, std::int64_t together, int sms);

}  // namespace cplab::kernels::cuda

// See block_walks.hpp.
#include "kernels/tiles/block_walks.hpp"

#include <algorithm>

#include "kernels/tiles/tile_cuts.hpp"

namespace cplab::kernels::cuda {

std::vector<double> walked_blocks(const WorkTables& work, bool by_key, std::int64_t unit) {
  std::vector<double> all;
  for (const WorkTile& tile : work.tiles) {
    std::int64_t rows = 0;
    for (std::int32_t at = tile.first; at < tile.first + tile.count; ++at) {
      const DeviceSegment& s = work.segments[static_cast<std::size_t>(at)];
      const std::int64_t begin = std::max(tile.begin, by_key ? s.k_begin : s.q_begin),
                         end = std::min(tile.end, by_key ? s.k_end : s.q_end);
      if (begin >= end) continue;
      const std::int64_t first = by_key ? std::max<std::int64_t>(s.q_begin, begin - s.high)
                                        : std::max<std::int64_t>(s.k_begin, begin + s.low),
                         last = by_key ? std::min<std::int64_t>(s.q_end, end - s.low)
                                       : std::min<std::int64_t>(s.k_end, end + s.high);
      if (last > first) rows += (last - first + unit - 1) / unit * unit;
    }
    all.push_back(static_cast<double>(rows) / 128);
  }
  return all;
}

double in_order_us(std::vector<double> times, std::int64_t heads, std::int64_t together, int sms) {
  if (times.empty() || heads == 0) return 0;
  for (double& time : times) time *= static_cast<double>(together);
  return makespan(times, {.heads = heads, .heads_per_group = 1, .sms = sms * together});
}

}  // namespace cplab::kernels::cuda

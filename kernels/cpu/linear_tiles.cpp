// The table of the CPU tiles of linear attention, and what they share.
#include "kernels/cpu/linear_tiles.hpp"

#include <algorithm>
#include <vector>

#include "kernels/cpu/linear_parts.hpp"

namespace cplab::kernels {
const LinearTiles& cpu_linear_tiles() {
  static const LinearTiles tiles{linear_local_cpu, linear_local_backward_cpu, linear_state_cpu,
                                 linear_scan_cpu,  linear_combine_cpu,        linear_inter_cpu,
                                 convolve_cpu,     filter_gradient_cpu};
  return tiles;
}

void clear_other_rows(const View& into, std::span<const Chunk> chunks) {
  std::vector<char> in_a_chunk(static_cast<std::size_t>(into.rows));
  for (const Chunk& c : chunks) std::fill_n(in_a_chunk.begin() + c.row, c.count, char{1});
  const ViewRows rows(into);
  const std::vector<float> zeros(static_cast<std::size_t>(into.width));
  for (std::int64_t row = 0; row < into.rows; ++row) {
    if (in_a_chunk[static_cast<std::size_t>(row)] != 0) continue;
    for (std::int64_t head = 0; head < into.heads; ++head) rows.store(row, head, zeros.data());
  }
}

}  // namespace cplab::kernels

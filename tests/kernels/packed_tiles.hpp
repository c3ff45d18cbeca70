// Packed sequences and costs of tiles, for tests of how rows are cut and in which order tiles are taken.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tiles/tile_cuts.hpp"
#include "tests/kernels/sequences.hpp"

namespace cplab::testing {

// Sequences one behind the other, the same rows in q and k.
inline std::vector<kernels::cuda::DeviceSegment> packed(const std::vector<std::int64_t>& lengths,
                                                        bool causal = true) {
  return kernels::cuda::live_segments(sequences(lengths, causal));
}

// Tiles of any height take as long.
inline constexpr kernels::cuda::TileCosts equal_costs = {{1, 1, 1}, 1.32, 0.41};

}  // namespace cplab::testing

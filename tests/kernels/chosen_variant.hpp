// What choose_variant() takes for equal sequences on an H100 or H200, or an A100, for tests of the choice.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/choice/choose.hpp"
#include "kernels/families/family.hpp"
#include "tests/kernels/square_call.hpp"

namespace cplab::testing {

inline constexpr kernels::cuda::VariantOptions on_hopper{.sm_major = 9, .sms = 132, .build = {}};
inline constexpr kernels::cuda::VariantOptions on_ampere{.sm_major = 8, .sms = 108, .build = {}};

constexpr kernels::cuda::VariantOptions with_choice(kernels::cuda::VariantOptions options,
                                                    kernels::KernelChoice choice) {
  options.choice = choice;
  return options;
}

constexpr kernels::cuda::VariantOptions with_same_bits(const kernels::cuda::VariantOptions& options) {
  return with_choice(options, kernels::KernelChoice::deterministic);
}

inline kernels::cuda::ChosenForward chosen_forward(const Call& call,
                                                   const kernels::cuda::VariantOptions& options = on_hopper) {
  const std::vector<Segment> segments = call.segments();
  return choose_variant(forward(call, segments), options);
}

inline kernels::cuda::ChosenBackward chosen_backward(
    const Call& call, const kernels::cuda::VariantOptions& options = on_hopper) {
  const std::vector<Segment> segments = call.segments();
  return choose_variant(backward(call, segments), options);
}

inline std::string forward_name(const Call& call, const kernels::cuda::VariantOptions& options) {
  return chosen_forward(call, options).variant->name;
}

inline std::string backward_name(const Call& call, const kernels::cuda::VariantOptions& options) {
  return chosen_backward(call, options).variant->name;
}

// Begins and ends of the tiles cover the rows without gap or overlap, and none is higher than `most`.
inline bool covers(std::vector<kernels::cuda::WorkTile> tiles, std::int64_t rows, std::int32_t most) {
  std::sort(tiles.begin(), tiles.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
  std::int32_t at = 0;
  for (const kernels::cuda::WorkTile& tile : tiles) {
    if (tile.begin != at || tile.end - tile.begin > most) return false;
    at = tile.end;
  }
  return at == rows;
}

}  // namespace cplab::testing

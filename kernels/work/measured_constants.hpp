// Every constant of the kernels that somebody measured or tried out rather than derived: name, value, unit,
// and the record that it came from. `scripts/fit_tile_costs.py` fits the tile costs anew from `tiles
// --heights`.
#pragma once

#include <string_view>

namespace cplab::kernels {

struct MeasuredConstant {
  std::string_view name;
  double value;
  std::string_view unit;
  std::string_view record;  // a file of this repository, or "no record" and what is known instead
};

namespace records {
constexpr std::string_view heights = "scenarios/measured/h200-2026-11-21/hopper/heights.json";
constexpr std::string_view by_turns = "no record: by turns on an H100, differences in docs/08-hopper.md";
constexpr std::string_view linear = "scenarios/measured/h200-2026-11-22/linear-attention.json";
constexpr std::string_view none = "no record";
}  // namespace records

constexpr MeasuredConstant measured_constants[] = {
    // Forward kernel for Hopper: tile rows where there are tiles enough, and what tiles cost (tile_cuts.hpp).
    {"hopper_forward_64_rows", 192, "rows", records::heights},
    {"hopper_forward_128_rows", 128, "rows", records::heights},
    {"hopper_forward_64_cost_of_64_rows", 0.899, "us for 128 keys", records::heights},
    {"hopper_forward_64_cost_of_128_rows", 1.167, "us for 128 keys", records::heights},
    {"hopper_forward_64_cost_of_192_rows", 1.418, "us for 128 keys", records::heights},
    {"hopper_forward_128_cost_of_64_rows", 1.110, "us for 128 keys", records::heights},
    {"hopper_forward_128_cost_of_128_rows", 1.515, "us for 128 keys", records::heights},
    {"tile_cost_beyond_keys", 1.32, "blocks of 128 keys", records::heights},
    {"tile_cost_of_masked_block", 0.41, "blocks of 128 keys", records::heights},
    // The search for tiles (tile_cuts.hpp).
    {"other_tiles_handicap", 1.015, "predicted time over that of even cuts", records::none},
    {"last_wave_matters_below", 32, "tiles of a multiprocessor", records::none},
    {"even_tiles_ratio", 1.25, "most over fewest live pairs of a row", records::none},
    // Tile scheduler: how much K and V (or Q and dO) of the heads taken side by side may hold, of an L2 of 50
    // to 60 MB.
    {"heads_per_group_cache", 32 << 20, "bytes", records::none},
    // Forward kernel for Hopper: how it is written. 0 and 1 are no and yes.
    {"rescale_threshold", 8, "log2", records::by_turns},
    {"softmax_before_pv_wait_64", 1, "", records::by_turns},
    {"softmax_before_pv_wait_128", 0, "", records::by_turns},
    {"ping_pong", 1, "", records::by_turns},
    {"polynomial_every", 0, "column tiles, 0: none", records::by_turns},
    {"lanes_release_k_64", 32, "lanes", records::by_turns},
    {"lanes_release_k_128", 1, "lanes", records::by_turns},
    // Other tile heights.
    {"mma_rows", 128, "rows", records::none},
    {"hopper_backward_rows", 128, "rows", records::none},
    // A scan of states: a thread block walks its run of them one after the other. Times over states lay
    // between 0.89 us (16 states) and 1.25 us (8 of 65536 tokens); this is the geometric mean of the two.
    // Runs beyond 64 states, and launches of more thread blocks than run at once, were not in the fit.
    {"linear_scan_step", 1.05, "us for a state", records::linear},
    // Row-wise kernels: thread blocks of a launch at most; the rest is done by striding.
    {"elementwise_most_blocks", 8192, "thread blocks", records::none},
};

// The value of a constant; a name that is not in the table does not compile.
consteval double measured(std::string_view name) {
  for (const MeasuredConstant& constant : measured_constants)
    if (constant.name == name) return constant.value;
  throw "no such constant";
}

}  // namespace cplab::kernels

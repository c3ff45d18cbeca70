// Every number by which kernels are written and work is cut that somebody tried out rather than derived:
// name, value, unit, and the record that it came from. How fast kernels then are is data of a machine
// (kernels/families/rates.hpp).
#pragma once

#include <string_view>

namespace cplab::kernels {

struct MeasuredConstant {
  std::string_view name;
  double value;
  std::string_view unit;
  // A file of this repository, or "no record" and what is known instead: where, when, of what (git's history
  // has such files of before 2026-11-28, in scenarios/measured).
  std::string_view record;
};

namespace records {
constexpr std::string_view heights = "no record: one H200, 2026-11-24, tiles/heights";
constexpr std::string_view by_turns =
    "no record: by turns on an H100, differences in docs/lab/hopper-attention.md";
constexpr std::string_view heads = "no record: one H200, 2026-11-24, by-turns/heads";
constexpr std::string_view stages = "no record: one H100, 2026-11-25, stages/by-turns-64";
constexpr std::string_view more_k = "no record: one H100, 2026-11-25, stages/by-turns-128";
constexpr std::string_view turns = "no record: one H100, 2026-11-25, stages/out-of-turn";
constexpr std::string_view side_by_side = "no record: one H100, 2026-11-26, sequences/heads-in-turn";
constexpr std::string_view beside = "no record: one H100, 2026-11-27, beside/kernels";
constexpr std::string_view none = "no record";
}  // namespace records

constexpr MeasuredConstant measured_constants[] = {
    // Tile rows of Hopper's kernels where there are tiles enough, and of the mma kernels.
    {"hopper_forward_64_rows", 192, "rows", records::heights},
    {"hopper_forward_128_rows", 128, "rows", records::heights},
    {"hopper_backward_rows", 128, "rows", records::none},
    {"mma_rows", 128, "rows", records::none},
    // The search for tiles (tile_cuts.hpp).
    {"other_tiles_handicap", 1.015, "predicted time over that of even cuts", records::none},
    {"last_wave_matters_below", 32, "tiles of a multiprocessor", records::none},
    {"even_tiles_ratio", 1.25, "most over fewest live pairs of a row", records::none},
    // Tile scheduler: how much K and V (or Q, dO and dq) of the heads taken side by side may hold, of an L2
    // of 50 to 60 MB.
    {"heads_per_group_cache", 32 << 20, "bytes", records::none},
    {"heads_per_group_cache_together", 8 << 20, "bytes", records::none},
    {"heads_per_group_cache_alike", 4 << 20, "bytes", records::heads},
    {"fused_rows_of_alike", 8192, "rows of heads side by side", records::beside},
    {"fused_rows_of_uneven", 32768, "rows of heads side by side", records::beside},
    {"fused_heads_cache_together", 16 << 20, "bytes", records::side_by_side},
    // Forward kernel for Hopper. 0 and 1 are no and yes.
    {"hopper_forward_64_stages", 4, "blocks of K and V, tiles of 192 rows", records::stages},
    {"hopper_forward_128_more_k", 1, "blocks of K beside those of V, tiles of 128 rows", records::more_k},
    {"short_tile_blocks", 8, "blocks of keys", records::by_turns},
    {"rescale_threshold", 8, "log2", records::by_turns},
    {"softmax_before_pv_wait_64", 1, "", records::by_turns},
    {"softmax_before_pv_wait_128", 0, "", records::by_turns},
    {"ping_pong", 1, "", records::by_turns},
    // The warpgroups of tiles of 192 rows go without ping-pong where there are many tiles, and some warpgroup
    // does not meet many of their blocks (idle_share()).
    {"out_of_turn_tiles", 16, "tiles of a multiprocessor", records::turns},
    {"out_of_turn_idle", 0.13, "share of blocks", records::turns},
    {"polynomial_every", 0, "column tiles, 0: none", records::by_turns},
    {"lanes_release_k_64", 32, "lanes", records::by_turns},
    {"lanes_release_k_128", 32, "lanes", records::by_turns},
    // Kernels for few queries: a piece of the keys, in blocks, is not shorter.
    {"decode_least_blocks", 2, "blocks of keys", records::none},
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

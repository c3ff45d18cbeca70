// Every constant of the kernels that somebody measured or tried out rather than derived: name, value, unit,
// and the record that it came from. Tile costs were fitted to times of `tiles --heights`.
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
constexpr std::string_view tile_ends = "no record: one H200, 2026-11-21, hopper/heights";
constexpr std::string_view by_turns =
    "no record: by turns on an H100, differences in docs/lab/hopper-attention.md";
constexpr std::string_view linear = "scenarios/measured/h200-2026-11-22-linear-attention.json";
constexpr std::string_view hopper_tables = "scenarios/hardware/h200x4.toml";
constexpr std::string_view mma_tables = "scenarios/hardware/h200x4-2026-11-21.toml";
constexpr std::string_view rings = "no record: one H200, 2026-11-23, rows/run-packed-mixed-1";
constexpr std::string_view merge = "no record: one H200, 2026-11-23, merge/ab-32768-new";
constexpr std::string_view tiles = "no record: one H200, 2026-11-23, tiles/run-packed-16-1";
constexpr std::string_view small_tiles = "no record: one H200, 2026-11-23, small-tiles/backward-heights";
constexpr std::string_view heads = "no record: one H200, 2026-11-24, by-turns/heads";
constexpr std::string_view together = "no record: one H100, 2026-11-25, two-blocks/heights";
constexpr std::string_view each_height = "no record: one H100, 2026-11-25, two-blocks/each-height";
constexpr std::string_view stages = "no record: one H100, 2026-11-25, stages/by-turns-64";
constexpr std::string_view more_k = "no record: one H100, 2026-11-25, stages/by-turns-128";
constexpr std::string_view turns = "no record: one H100, 2026-11-25, stages/out-of-turn";
constexpr std::string_view stages_heights = "no record: one H100, 2026-11-25, stages/heights";
constexpr std::string_view chains = "no record: one H100, 2026-11-25, rounded-dq/chains-64";
constexpr std::string_view backward = "scenarios/measured/h100-2026-11-26-backward-kernels.jsonl";
constexpr std::string_view side_by_side = "no record: one H100, 2026-11-26, sequences/heads-in-turn";
constexpr std::string_view drawn = "no record: one H100, 2026-11-26, drawn/kernels-7";
constexpr std::string_view grouped = "scenarios/measured/h100-2026-11-26-backward-kernels.jsonl";
constexpr std::string_view heads_of_tile = "no record: one H100, 2026-11-26, grouped/walked";
constexpr std::string_view prepared = "no record: one H100, 2026-11-26, delta-in-call/kernels";
constexpr std::string_view beside = "no record: one H100, 2026-11-27, beside/kernels";
constexpr std::string_view cached = "no record: one H100, 2026-11-27, cached/kernels-short";
constexpr std::string_view portable_sizes = "no record: one H200, 2026-11-28, portable/fit-sizes";
constexpr std::string_view portable_softcap = "no record: one H200, 2026-11-28, portable/fit-softcap";
constexpr std::string_view compiled = "scenarios/compiled/full.json";
constexpr std::string_view masked = "scenarios/measured/h200-2026-11-23-dynamic-mask.json";
constexpr std::string_view none = "no record";
}  // namespace records

constexpr MeasuredConstant measured_constants[] = {
    // Forward kernel for Hopper: tile rows where there are tiles enough, and what tiles cost (tile_cuts.hpp).
    {"hopper_forward_64_rows", 192, "rows", records::heights},
    {"hopper_forward_128_rows", 128, "rows", records::heights},
    {"hopper_forward_64_cost_of_64_rows", 0.854, "us for 128 keys", records::heights},
    // What a tile takes while two thread blocks of 64 rows share a multiprocessor: 1.09 on an H100, where the
    // other heights take 1.02 times what they do here. And what tiles of any rows take at least, in the mean
    // over a launch: 256 x 64 and 128 x 128, less 3.2 us for the launch.
    {"hopper_forward_64_cost_of_64_rows_together", 1.07, "us for 128 keys", records::together},
    {"hopper_forward_64_tile", 3.3, "us a tile", records::each_height},
    {"hopper_forward_64_cost_of_128_rows", 1.124, "us for 128 keys", records::heights},
    // On an H100 1.334, where other heights take 1.02 times as long.
    {"hopper_forward_64_cost_of_192_rows", 1.308, "us for 128 keys", records::stages_heights},
    {"hopper_forward_128_cost_of_64_rows", 1.076, "us for 128 keys", records::heights},
    // 1.416 with two K on the way; with three 0.99 times that in the mean.
    {"hopper_forward_128_cost_of_128_rows", 1.40, "us for 128 keys", records::more_k},
    {"tile_cost_beyond_keys", 1.32, "blocks of 128 keys", records::tile_ends},
    {"tile_cost_of_masked_block", 0.41, "blocks of 128 keys", records::tile_ends},
    // What a tile of the other attention kernels costs (predicted_time.hpp): the
    // unit of all is us on an H200 or H100, so that kernels can be compared. Those that are two functions:
    // both together. The model of the backward is off by 4 to 10 % (root mean square). The costs in use are
    // within 5 % of the fitted ones: no choice takes more than 5 % longer than the fastest kernel of any
    // shape of the records on an H100, or 2 % on an H200 (tests/kernels/choice_record_test.cpp).
    {"hopper_fused_64_cost", 2.27, "us for 128 queries", records::backward},
    {"hopper_fused_128_cost", 3.98, "us for 128 queries", records::backward},
    {"hopper_fused_beyond", 1.7, "blocks of 128 queries, in any order and in turn", records::backward},
    // Half of what 8 x 2048 took with tiles of 64 keys over what it took with those of 128 (0.762), times the
    // cost of those; at 1 x 4096 0.77, at 2 x 8192 0.83. In the record of the costs above it is 0.67 to 0.81.
    {"hopper_fused_128_cost_of_64_keys", 0.762 * 3.98, "us for 128 queries", records::small_tiles},
    // By chains, fitted with tile_cost_beyond_keys and not since; but every tile has Q, dO and dq from
    // memory, dq twice (times less 47 us for row_dot). And what a launch takes more: the end of dq.
    {"hopper_chains_64_cost", 2.559, "us for 128 queries", records::chains},
    {"hopper_chains_memory", 2.75e12, "bytes/s", records::chains},
    {"hopper_chains_end", 12, "us a launch", records::chains},
    {"hopper_ordered_64_full_cost", 2.30, "us for 128 queries", records::backward},
    {"hopper_ordered_64_masked_cost", 2.33, "us for 128 queries", records::backward},
    {"hopper_ordered_128_full_cost", 4.08, "us for 128 queries", records::backward},
    {"hopper_ordered_128_masked_cost", 4.15, "us for 128 queries", records::backward},
    {"hopper_ordered_queue", 2.4, "us for each tile of a head but the first that begin together",
     records::backward},
    // Where sequences are no whole blocks: with 1 us choices cost least of 36 problems drawn from two seeds
    // (kernels-11.json is the other one's).
    {"hopper_fused_partial", 1, "us for the last block of a tile's queries, if it is partial",
     records::drawn},
    // Masked tiles that walk over several query heads, once their rows are more than the L2 cache holds. By
    // hand: four and eight heads, 4096 rows, 1.2 and 1.8 times in any order, of long sequences less and less.
    {"hopper_beyond_cache", 0.43, "of the cost, for as much more as the cache holds", records::heads_of_tile},
    {"hopper_beyond_cache_rows", 4096, "rows of a sequence; of twice as many half as much",
     records::heads_of_tile},
    {"hopper_ordered_128_held", 0.4, "of the cache, for tiles in turn", records::heads_of_tile},
    {"hopper_ordered_64_held", 0.75, "of the cache", records::heads_of_tile},
    // Query heads of a key head add to its dk and dv in turn too, in fp32, each some 2.5 us after the one
    // before. Those that run side by side are done at about the same time, so that a tile waits for those
    // before; a long tile less, because once they have waited they are no longer done at the same time. By
    // hand, to all calls of the record: most wait less and some longer (heads_that_take_turns()).
    {"hopper_ordered_dkv_turn", 5, "us for each query head before, at head size 128", records::grouped},
    {"hopper_ordered_dkv_hidden", 40, "us, a tile that waits for half of that", records::grouped},
    // Tiles of queries and tiles of keys in one launch, each loaded while the one before is computed.
    {"hopper_apart_64_cost", 3.1, "us for 128 queries", records::backward},
    {"hopper_apart_128_cost", 5.6, "us for 128 queries", records::backward},
    {"hopper_apart_64_tile", 5.3, "us a tile at least", records::chains},
    {"hopper_apart_beyond", 1.0, "blocks of 128 keys or queries", records::backward},
    // Results that are merged with what TMA has loaded, or added to it: what a tile takes longer, kernel by
    // kernel in three rings of short sequences, beside those that store (merged 1.9 to 3.8, added 0 to 2).
    // Then results that a tile of Hopper's kernels does not leave to TMA. From 26 rings of one and two GPUs,
    // of which the record is one. Merged: the second attend of two GPUs beside the first, at 16K and 32K
    // tokens 4 to 6. Added: least squares of the times of 17 rings; kernel by kernel 19 to 35. Stored: 4
    // kernels of 2 to 9.
    {"hopper_merged_tile", 2.5, "us a tile", records::tiles},
    {"hopper_added_tile", 1, "us a tile", records::tiles},
    {"hopper_merged_rows", 5, "us a tile", records::merge},
    {"hopper_stored_rows", 5, "us a tile", records::rings},
    {"hopper_added_rows", 16, "us a tile", records::rings},
    {"rowwise_memory", 4.2161e12, "bytes/s", records::hopper_tables},
    {"hopper_fill", 1.2, "us, zeros before the fused backward, beside their bytes", records::hopper_tables},
    // Where the call computes delta: how much less all zeros take in that launch than their bytes do, and the
    // kernel that sums dq in any order, by head size, because it loads its first blocks meanwhile and, since
    // the record named here, for the sums that the L2 cache keeps.
    {"hopper_zeros_beside_delta", 1.5, "us, less than their bytes", records::prepared},
    {"hopper_loads_beside_delta_64", 3.0, "us of a launch", records::cached},
    {"hopper_loads_beside_delta_128", 1.5, "us of a launch", records::cached},
    {"mma_forward_64_cost", 2.131, "us for 128 keys", records::mma_tables},
    {"mma_forward_128_cost", 3.222, "us for 128 keys", records::mma_tables},
    {"mma_backward_64_cost", 5.983, "us for 128 queries", records::mma_tables},
    {"mma_backward_128_cost", 11.672, "us for 128 queries", records::mma_tables},
    // General kernels (general_time.hpp): least squares of the logarithms of 30 forwards and backwards, off
    // by 4
    // and 9 % (root mean square); the backward then raised by 4 %, because rings on two GPUs came out too
    // short.
    // How many thread blocks a multiprocessor has of them the compiler decides.
    {"general_forward_depth", 0.199, "us for 128 keys, 32 rows and each number of a product's depth",
     records::portable_sizes},
    {"general_forward_rest", 21.4, "us for 128 keys and 32 rows", records::portable_sizes},
    {"general_backward_depth", 0.170, "us for 128 keys, 32 rows and each number of a product's depth",
     records::portable_sizes},
    {"general_backward_rest", 10.3, "us for 128 keys and 32 rows", records::portable_sizes},
    {"general_forward_blocks", 3, "thread blocks of a multiprocessor", records::compiled},
    {"general_backward_blocks", 4, "thread blocks of a multiprocessor", records::compiled},
    // Dynamic masks on tensor cores, at head size 128 (masked_time.hpp). Without a bias: 18 problems with a
    // softcap.
    // Keys and full: the products at density 1, of 8192 and 32768 keys, without the bytes of bias and mask.
    {"masked_forward_none", 3.67, "us for 128 keys and 64 rows", records::portable_softcap},
    {"masked_forward_keys", 6.05, "us for 128 keys and 64 rows", records::masked},
    {"masked_forward_full", 5.2, "us for 128 keys and 64 rows", records::masked},
    {"masked_backward_none", 9.15, "us for 128 keys and 64 rows", records::portable_softcap},
    {"masked_backward_keys", 12.2, "us for 128 keys and 64 rows", records::masked},
    {"masked_backward_full", 27.3, "us for 128 keys and 64 rows", records::masked},
    {"masked_blocks", 2, "thread blocks of a multiprocessor", records::compiled},
    {"launch", 3.2, "us, beside the tiles", records::heights},
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
    // Forward kernel for Hopper: how it is written. 0 and 1 are no and yes.
    {"hopper_forward_64_stages", 4, "blocks of K and V, tiles of 192 rows", records::stages},
    {"hopper_forward_128_more_k", 1, "blocks of K beside those of V, tiles of 128 rows", records::more_k},
    {"short_tile_blocks", 8, "blocks of keys", records::by_turns},
    {"rescale_threshold", 8, "log2", records::by_turns},
    {"softmax_before_pv_wait_64", 1, "", records::by_turns},
    {"softmax_before_pv_wait_128", 0, "", records::by_turns},
    {"ping_pong", 1, "", records::by_turns},
    // When warpgroups of tiles of 192 rows take no turns: there are many tiles, and many of their blocks are
    // not met by some warpgroup (idle_share()).
    {"out_of_turn_tiles", 16, "tiles of a multiprocessor", records::turns},
    {"out_of_turn_idle", 0.13, "share of blocks", records::turns},
    {"polynomial_every", 0, "column tiles, 0: none", records::by_turns},
    {"lanes_release_k_64", 32, "lanes", records::by_turns},
    {"lanes_release_k_128", 32, "lanes", records::by_turns},
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

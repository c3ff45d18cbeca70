// How fast the attention kernels are on one machine, as far as a choice among them and a prediction need to
// know. These numbers are data of a machine: they stand in sections [rates] of its hardware file
// (scenarios/hardware), whose keys are the names below.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace cplab::kernels::cuda {

// Where a name has "us" the unit is microseconds on one multiprocessor that is never idle; of a tile "for 128
// keys" (forward) or "128 queries" (backward). d64, d128: head size. Other head sizes are on the straight
// line through these two.
enum class Rate : std::uint8_t {
  // Of all kernels.
  launch_us,
  memory_bytes_s,
  rowwise_bytes_s,
  fill_us,
  // Of every tile of attention.
  tile_beyond_keys,
  tile_masked_block,
  // Of results of Hopper's kernels.
  merged_tile_us,
  added_tile_us,
  merged_rows_us,
  stored_rows_us,
  added_rows_us,
  // Families; each prefix is a section.
  hopper_forward_d64_rows64_us,
  hopper_forward_d64_rows64_together_us,
  hopper_forward_d64_rows128_us,
  hopper_forward_d64_rows192_us,
  hopper_forward_d64_least_us,
  hopper_forward_d128_rows64_us,
  hopper_forward_d128_rows128_us,
  hopper_backward_d64_us,
  hopper_backward_d128_us,
  hopper_backward_d128_keys64_us,
  hopper_backward_beyond,
  hopper_backward_partial_us,
  hopper_backward_beyond_cache,
  hopper_backward_beyond_cache_rows,
  hopper_backward_zeros_beside_delta_us,
  hopper_backward_d64_loads_beside_delta_us,
  hopper_backward_d128_loads_beside_delta_us,
  hopper_ordered_d64_full_us,
  hopper_ordered_d64_masked_us,
  hopper_ordered_d128_full_us,
  hopper_ordered_d128_masked_us,
  hopper_ordered_queue_us,
  hopper_ordered_d64_held,
  hopper_ordered_d128_held,
  hopper_ordered_dkv_turn_us,
  hopper_ordered_dkv_hidden_us,
  hopper_chains_d64_us,
  hopper_chains_memory_bytes_s,
  hopper_chains_end_us,
  hopper_apart_d64_us,
  hopper_apart_d128_us,
  hopper_apart_d64_tile_us,
  hopper_apart_beyond,
  decode_read_bytes_s,
  decode_rows16_us,
  decode_rows64_us,
  decode_piece_us,
  decode_merge_us,
  mma_forward_d64_us,
  mma_forward_d128_us,
  mma_backward_d64_us,
  mma_backward_d128_us,
  general_forward_depth_us,
  general_forward_rest_us,
  general_backward_depth_us,
  general_backward_rest_us,
  masked_forward_none_us,
  masked_forward_keys_us,
  masked_forward_full_us,
  masked_backward_none_us,
  masked_backward_keys_us,
  masked_backward_full_us,
  masked_hopper_forward_softcap,
  masked_hopper_backward_softcap,
  linear_scan_step_us,
};

struct RateName {
  Rate rate;
  std::string_view section;  // "hopper_forward" of [rates.hopper_forward]; empty: of [rates] itself
  std::string_view key;
  std::string_view meaning;
};

// Every rate once, in the order of the enumeration.
constexpr RateName rate_names[] = {
    {Rate::launch_us, "", "launch_us", "a launch, beside its tiles"},
    {Rate::memory_bytes_s, "", "memory_bytes_s", "what the GPU's memory delivers, by its data sheet"},
    {Rate::rowwise_bytes_s, "", "rowwise_bytes_s", "read plus written by row-wise kernels"},
    {Rate::fill_us, "", "fill_us", "zeros written before a kernel that adds, beside their bytes"},
    {Rate::tile_beyond_keys, "tile", "beyond_keys",
     "blocks of 128 keys that a tile takes beside its own: first product, epilogue"},
    {Rate::tile_masked_block, "tile", "masked_block",
     "blocks of 128 keys that a block takes longer if not all of its pairs are live"},
    {Rate::merged_tile_us, "results", "merged_tile_us", "a tile merged with what TMA has loaded"},
    {Rate::added_tile_us, "results", "added_tile_us", "a tile of keys added to dk and dv by TMA"},
    {Rate::merged_rows_us, "results", "merged_rows_us", "a tile merged row by row, without TMA"},
    {Rate::stored_rows_us, "results", "stored_rows_us", "a tile stored row by row"},
    {Rate::added_rows_us, "results", "added_rows_us", "a tile added row by row"},
    {Rate::hopper_forward_d64_rows64_us, "hopper_forward", "d64_rows64_us", "a tile of 64 queries"},
    {Rate::hopper_forward_d64_rows64_together_us, "hopper_forward", "d64_rows64_together_us",
     "the same while two thread blocks share a multiprocessor"},
    {Rate::hopper_forward_d64_rows128_us, "hopper_forward", "d64_rows128_us", "a tile of 128 queries"},
    {Rate::hopper_forward_d64_rows192_us, "hopper_forward", "d64_rows192_us", "a tile of 192 queries"},
    {Rate::hopper_forward_d64_least_us, "hopper_forward", "d64_least_us",
     "a tile of any rows at least, in the mean over a launch"},
    {Rate::hopper_forward_d128_rows64_us, "hopper_forward", "d128_rows64_us", "a tile of 64 queries"},
    {Rate::hopper_forward_d128_rows128_us, "hopper_forward", "d128_rows128_us", "a tile of 128 queries"},
    {Rate::hopper_backward_d64_us, "hopper_backward", "d64_us", "a tile of 128 keys"},
    {Rate::hopper_backward_d128_us, "hopper_backward", "d128_us", "a tile of 128 keys"},
    {Rate::hopper_backward_d128_keys64_us, "hopper_backward", "d128_keys64_us", "a tile of 64 keys"},
    {Rate::hopper_backward_beyond, "hopper_backward", "beyond",
     "blocks of 128 queries that a tile takes beside its own"},
    {Rate::hopper_backward_partial_us, "hopper_backward", "partial_us",
     "a tile's last block of queries, if it is partial"},
    {Rate::hopper_backward_beyond_cache, "hopper_backward", "beyond_cache",
     "of a tile's time, for as much more as the L2 cache holds"},
    {Rate::hopper_backward_beyond_cache_rows, "hopper_backward", "beyond_cache_rows",
     "rows of a sequence; of twice as many beyond_cache counts half"},
    {Rate::hopper_backward_zeros_beside_delta_us, "hopper_backward", "zeros_beside_delta_us",
     "by which zeros take less where the launch that computes delta writes them"},
    {Rate::hopper_backward_d64_loads_beside_delta_us, "hopper_backward", "d64_loads_beside_delta_us",
     "by which the kernel takes less because it loads while delta is computed"},
    {Rate::hopper_backward_d128_loads_beside_delta_us, "hopper_backward", "d128_loads_beside_delta_us",
     "the same at head size 128"},
    {Rate::hopper_ordered_d64_full_us, "hopper_ordered", "d64_full_us", "a tile of 128 keys, full masks"},
    {Rate::hopper_ordered_d64_masked_us, "hopper_ordered", "d64_masked_us", "a tile of 128 keys, others"},
    {Rate::hopper_ordered_d128_full_us, "hopper_ordered", "d128_full_us", "a tile of 128 keys, full masks"},
    {Rate::hopper_ordered_d128_masked_us, "hopper_ordered", "d128_masked_us", "a tile of 128 keys, others"},
    {Rate::hopper_ordered_queue_us, "hopper_ordered", "queue_us",
     "each tile of a head but the first that begin together"},
    {Rate::hopper_ordered_d64_held, "hopper_ordered", "d64_held", "of the cache that tiles in order can use"},
    {Rate::hopper_ordered_d128_held, "hopper_ordered", "d128_held", "the same at head size 128"},
    {Rate::hopper_ordered_dkv_turn_us, "hopper_ordered", "dkv_turn_us",
     "each query head of a key head that adds to dk and dv before, at head size 128"},
    {Rate::hopper_ordered_dkv_hidden_us, "hopper_ordered", "dkv_hidden_us",
     "a tile so long waits for half of that"},
    {Rate::hopper_chains_d64_us, "hopper_chains", "d64_us", "a tile of 128 keys"},
    {Rate::hopper_chains_memory_bytes_s, "hopper_chains", "memory_bytes_s",
     "of the rows that tiles walk over"},
    {Rate::hopper_chains_end_us, "hopper_chains", "end_us", "a launch, for the end of dq"},
    {Rate::hopper_apart_d64_us, "hopper_apart", "d64_us", "a tile of 128 keys and one of 128 queries"},
    {Rate::hopper_apart_d128_us, "hopper_apart", "d128_us", "a tile of 128 keys and one of 128 queries"},
    {Rate::hopper_apart_d64_tile_us, "hopper_apart", "d64_tile_us", "a tile at least"},
    {Rate::hopper_apart_beyond, "hopper_apart", "beyond",
     "blocks of 128 rows that a tile takes beside its own"},
    {Rate::decode_read_bytes_s, "decode", "read_bytes_s", "keys and values read by all multiprocessors"},
    {Rate::decode_rows16_us, "decode", "rows16_us", "a tile of 16 rows, head size 128"},
    {Rate::decode_rows64_us, "decode", "rows64_us", "a tile of 64 rows, head size 128"},
    {Rate::decode_piece_us, "decode", "piece_us", "pieces of the keys, beside their blocks"},
    {Rate::decode_merge_us, "decode", "merge_us",
     "each piece of a row that the launch behind merges, beside its bytes"},
    {Rate::mma_forward_d64_us, "mma", "forward_d64_us", "a tile of 128 queries"},
    {Rate::mma_forward_d128_us, "mma", "forward_d128_us", "a tile of 128 queries"},
    {Rate::mma_backward_d64_us, "mma", "backward_d64_us", "a tile of 128 keys and one of 128 queries"},
    {Rate::mma_backward_d128_us, "mma", "backward_d128_us", "a tile of 128 keys and one of 128 queries"},
    {Rate::general_forward_depth_us, "general", "forward_depth_us",
     "128 keys, 32 queries and each number of a product's depth"},
    {Rate::general_forward_rest_us, "general", "forward_rest_us", "128 keys and 32 queries beside that"},
    {Rate::general_backward_depth_us, "general", "backward_depth_us",
     "128 queries, 32 keys and each number of a product's depth"},
    {Rate::general_backward_rest_us, "general", "backward_rest_us", "128 queries and 32 keys beside that"},
    {Rate::masked_forward_none_us, "masked", "forward_none_us",
     "a tile of 64 queries, head size 128, no bias"},
    {Rate::masked_forward_keys_us, "masked", "forward_keys_us", "the same with a bias of keys"},
    {Rate::masked_forward_full_us, "masked", "forward_full_us", "the same with a bias of pairs"},
    {Rate::masked_backward_none_us, "masked", "backward_none_us",
     "a tile of 64 keys and one of 64 queries, head size 128, no bias"},
    {Rate::masked_backward_keys_us, "masked", "backward_keys_us", "the same with a bias of keys"},
    {Rate::masked_backward_full_us, "masked", "backward_full_us", "the same with a bias of pairs"},
    {Rate::masked_hopper_forward_softcap, "masked", "hopper_forward_softcap",
     "Hopper's own forward with a softcap, over that without"},
    {Rate::masked_hopper_backward_softcap, "masked", "hopper_backward_softcap",
     "Hopper's own backward with a softcap, over that without"},
    {Rate::linear_scan_step_us, "linear", "scan_step_us", "a state of a scan"},
};
constexpr std::size_t rate_count = std::size(rate_names);

struct Rates {
  std::string source;  // whose they are: "h200x4.toml"
  std::array<double, rate_count> values{};

  double operator[](Rate rate) const { return values[static_cast<std::size_t>(rate)]; }
  double& operator[](Rate rate) { return values[static_cast<std::size_t>(rate)]; }
};

// Rates of the shipped hardware files, compiled in (cmake/shipped_rates.cmake), for programs that run on a
// GPU without a hardware file: those of the file with that GPU and as many multiprocessors; else those of its
// compute capability; else of the GPU that most were measured on, of which then only the ratios mean
// something. The reference stays valid.
const Rates& shipped_rates(std::string_view gpu, int sms, int sm_major, int sm_minor);
// The same without the name of a GPU: of its compute capability.
const Rates& shipped_rates(int sm_major, int sm_minor);

}  // namespace cplab::kernels::cuda

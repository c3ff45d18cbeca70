// Kernels for few queries and many keys, of every architecture from SM 8.0 on: the keys of a tile go to
// several thread blocks, and a launch behind them merges what they came to (docs/14-kernels.md).
#include <algorithm>

#include "kernels/families/call_tables.hpp"
#include "kernels/families/compiled_head_sizes.hpp"
#include "kernels/families/decode/shape.hpp"
#include "kernels/families/family.hpp"
#include "kernels/families/names.hpp"
#include "kernels/families/tile_seconds.hpp"
#include "kernels/tiles/block_walks.hpp"
#include "kernels/tiles/measured_constants.hpp"

namespace cplab::kernels::cuda {

std::string decode_name(DType dtype, const HeadSizes& sizes, int rows) {
  const std::string name = "attend decode" + of_sizes(dtype, sizes);
  return rows == decode_rows[0] ? name : name + ", " + std::to_string(rows) + " rows";
}

namespace {

// Only the kernels of this family have these sizes, so they take any number of queries.
constexpr HeadSizes sizes_of_latents{576, 512};

class Decode final : public AttendFamily {
 public:
  std::string_view name() const override { return "decode"; }

  std::vector<AttendVariant> variants(const KernelBuild&) const override {
    std::vector<AttendVariant> all;
    for (const DType dtype : {DType::bf16, DType::fp16})
      for (const HeadSizes& sizes : decode_head_pairs)
        for (const std::int32_t rows : decode_rows) {
          if (!decode_has_rows(sizes, rows)) continue;
          all.push_back({.name = decode_name(dtype, sizes, rows),
                         .family = this,
                         .rank = Rank::architecture,
                         .dtype = dtype,
                         .head_size = sizes.key,
                         .value_size = sizes.value,
                         .sm_major = decode_claim(sizes, rows) == Claim::hopper ? 9 : 0,
                         .tile_rows = rows});
        }
    return all;
  }

  std::vector<KernelEntry> entries(const AttendVariant& variant) const override {
    const HeadSizes sizes = variant.sizes();
    KernelEntry entry = entry_of(variant, "attend", name());
    entry.claim = decode_claim(sizes, variant.tile_rows);
    entry.features = features_of_mma();
    entry.features.push_back("split_keys");
    entry.part = "pieces";
    entry.threads = 32 * decode_warps(sizes, variant.tile_rows);
    entry.tile_rows = variant.tile_rows;
    entry.tile_columns = decode_keys(sizes);
    entry.stages = decode_stages(sizes, variant.tile_rows);
    KernelEntry merge = entry_of(variant, "attend", name());
    merge.part = "merge";
    merge.threads = decode_merge_threads;
    return {entry, merge};
  }

  Unmet unmet(const AttendVariant& variant, const Attend& call) const override {
    if (const Unmet unmet = unmet_forward_mma(call, variant.dtype, variant.head_size, variant.value_size))
      return unmet;
    if (for_any_queries(variant)) return {};
    constexpr std::int64_t most = decode_rows[1];
    const std::int64_t group = call.q.heads / std::max<std::int64_t>(call.k.heads, 1);
    for (const Segment& segment : call.segments)
      if (segment.q_count > 1 && segment.q_count * group > most)
        return Misfit{"q", "has # rows for one key head in a segment, more than 64", segment.q_count * group};
    return {};
  }

  ChosenForward tiles(const AttendVariant& variant, const Attend& call,
                      const VariantOptions& options) const override {
    const CallRows rows(call, false);
    const PackedHeads packed = packed_of(variant, call);
    return {&variant,
            split_tiles(rows.live, rows.q, call.write == Write::store,
                        {.queries = packed.queries,
                         .keys = decode_keys(variant.sizes()),
                         .least_blocks = static_cast<std::int64_t>(measured("decode_least_blocks")),
                         .tile_blocks = tile_heads(variant, call),
                         .at_once = std::int64_t{options.sms} * together(variant)}),
            rows.spaces};
  }

  // Thread blocks read as fast as memory goes, or compute; where keys are split there is another launch.
  PredictedTime time(const ChosenForward& chosen, const Attend& call,
                     const VariantOptions& options) const override {
    const AttendVariant& variant = *chosen.variant;
    const Rates& rates = options.speeds();
    std::vector<double> times = walked_blocks(chosen.work, false, decode_keys(variant.sizes()));
    for (double& time : times) time *= block_us(variant, rates);
    const double computed =
        in_order_us(std::move(times), tile_heads(variant, call), together(variant), options.sms);
    const double memory = memory_us(call, rates);
    const double read = memory * rates[Rate::memory_bytes_s] / rates[Rate::decode_read_bytes_s];
    const double tiles =
        std::max(computed, read) + rates[Rate::decode_piece_us] + merge_us(chosen, call, rates);
    return {us * (rates[Rate::launch_us] + tiles), us * (rates[Rate::launch_us] + memory)};
  }

  double flop_us(const AttendVariant& variant, const Rates& rates) const override {
    return block_us(variant, rates) / (128 * variant.tile_rows) / forward_flops(variant.sizes());
  }

  bool for_any_queries(const AttendVariant& variant) const override {
    return variant.sizes() == sizes_of_latents;
  }

  std::int64_t tile_heads(const AttendVariant& variant, const Attend& call) const override {
    return packed_of(variant, call).parts * call.k.heads;
  }

  void set_parameters(AttendParams& params, CallTables& tables, const ChosenForward& chosen,
                      const Attend& call) const override {
    const std::vector<SplitRows> rows = split_rows(chosen.work);
    const std::int64_t blocks =
        static_cast<std::int64_t>(chosen.work.tiles.size()) * tile_heads(*chosen.variant, call);
    CallTables::require_int(blocks * decode_rows[1], "too many tiles for a GPU kernel");
    if (rows.empty() || call.q.heads == 0) return;
    params.split.count = static_cast<std::int32_t>(rows.size());
    tables.point<SplitRows>(params.split.rows, rows);
    const std::int64_t partial = blocks * chosen.variant->tile_rows;
    tables.place_scratch(params.split.out, static_cast<std::size_t>(partial * call.v.width));
    tables.place_scratch(params.split.lse, static_cast<std::size_t>(partial));
  }

 private:
  static PackedHeads packed_of(const AttendVariant& variant, const Attend& call) {
    return packed_heads(call.q.heads, call.k.heads, variant.tile_rows);
  }
  static int together(const AttendVariant& variant) {
    return decode_blocks_together(variant.sizes(), variant.tile_rows);
  }

  // us for 128 keys of a tile: by products from those at head size 128, and keys of 576 by what they took
  // beside that (docs/14-kernels.md), in tiles of 16 rows with half of the warps for the scores.
  static double block_us(const AttendVariant& variant, const Rates& rates) {
    const bool few_rows = variant.tile_rows == decode_rows[0];
    const double by_products = rates[few_rows ? Rate::decode_rows16_us : Rate::decode_rows64_us] *
                               forward_flops(variant.sizes()) / forward_flops({128, 128});
    if (variant.sizes() != sizes_of_latents) return by_products;
    return by_products * (few_rows ? 2.3 : 0.8);
  }

  // Partial results are written and read once; the threads of a row take its pieces one after the other.
  double merge_us(const ChosenForward& chosen, const Attend& call, const Rates& rates) const {
    double rows = 0;
    std::int32_t most = 0;
    for (const SplitRows& split : split_rows(chosen.work)) {
      rows += static_cast<double>(split.end - split.begin) * split.count;
      most = std::max(most, split.count);
    }
    const double bytes = 2.0 * 4 * rows * static_cast<double>(call.q.heads * (call.v.width + 1));
    return rates[Rate::decode_merge_us] * most + bytes / rates[Rate::rowwise_bytes_s] / us;
  }
};

}  // namespace

void add_decode(Families& families) {
  static const Decode family;
  families.forward.push_back(&family);
}

}  // namespace cplab::kernels::cuda

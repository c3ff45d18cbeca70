// Kernels on tensor cores of every architecture from SM 8.0 on: mma.sync, operands by cp.async
// (docs/14-kernels.md).
#include <algorithm>

#include "kernels/families/compiled_head_sizes.hpp"
#include "kernels/families/family.hpp"
#include "kernels/families/mma/tiles.hpp"
#include "kernels/families/names.hpp"
#include "kernels/families/tile_seconds.hpp"

namespace cplab::kernels::cuda {

std::string mma_forward_name(DType dtype, const HeadSizes& sizes) {
  return "attend mma" + of_sizes(dtype, sizes);
}

std::string mma_backward_name(DType dtype, const HeadSizes& sizes, bool small_tiles) {
  return "attend_backward mma" + of_sizes(dtype, sizes) + (small_tiles ? ", small tiles" : "");
}

double mma_flop_us(bool forward, const HeadSizes& sizes, const Rates& rates) {
  const double mean_size = (sizes.key + sizes.value) / 2.0;
  const double tile_us =
      forward ? at_head_size(mean_size, rates[Rate::mma_forward_d64_us], rates[Rate::mma_forward_d128_us])
              : at_head_size(mean_size, rates[Rate::mma_backward_d64_us], rates[Rate::mma_backward_d128_us]);
  return tile_us / (128 * 128) / (forward ? forward_flops(sizes) : backward_flops(sizes));
}

namespace {

std::vector<HeadSizes> sizes_of(const KernelBuild& build) {
  std::vector<HeadSizes> all;
  for (const int D : mma_head_sizes) all.push_back({D, D});
  if (!build.full) return all;
  for (const int D : full_head_sizes) all.push_back({D, D});
  all.insert(all.end(), full_head_pairs.begin(), full_head_pairs.end());
  return all;
}

class MmaForward final : public AttendFamily {
 public:
  std::string_view name() const override { return "mma"; }

  std::vector<AttendVariant> variants(const KernelBuild& build) const override {
    std::vector<AttendVariant> all;
    for (const DType dtype : {DType::bf16, DType::fp16})
      for (const HeadSizes& sizes : sizes_of(build))
        all.push_back({.name = mma_forward_name(dtype, sizes),
                       .family = this,
                       .rank = Rank::portable,
                       .dtype = dtype,
                       .head_size = sizes.key,
                       .value_size = sizes.value,
                       .tile_rows = mma_forward_rows(sizes.value)});
    return all;
  }

  std::vector<KernelEntry> entries(const AttendVariant& variant) const override {
    KernelEntry entry = entry_of(variant, "attend", name());
    entry.features = features_of_mma();
    entry.threads = 128;
    entry.tile_rows = variant.tile_rows;
    entry.tile_columns = 64;
    entry.stages = 1;
    return {entry};
  }

  Unmet unmet(const AttendVariant& variant, const Attend& call) const override {
    return unmet_forward_mma(call, variant.dtype, variant.head_size, variant.value_size);
  }

  ChosenForward tiles(const AttendVariant& variant, const Attend& call,
                      const VariantOptions&) const override {
    return even_tiles(variant, call);
  }

  PredictedTime time(const ChosenForward& chosen, const Attend& call,
                     const VariantOptions& options) const override {
    const AttendVariant& variant = *chosen.variant;
    const Rates& rates = options.speeds();
    const double cost = at_head_size((variant.head_size + variant.value_size) / 2.0,
                                     rates[Rate::mma_forward_d64_us], rates[Rate::mma_forward_d128_us]) *
                        variant.tile_rows / mma_tile_rows;
    const TileWalk walk{.heads = call.q.heads,
                        .heads_per_group = std::max<std::int64_t>(call.q.heads, 1),
                        .sms = options.sms};
    const double tiles =
        makespan_us(chosen.work, same_costs(rates, cost), walk, false, {.longest_first = true});
    return {us * (rates[Rate::launch_us] + tiles), us * (rates[Rate::launch_us] + memory_us(call, rates))};
  }

  double flop_us(const AttendVariant& variant, const Rates& rates) const override {
    return mma_flop_us(true, variant.sizes(), rates);
  }
};

class MmaBackward final : public AttendBackwardFamily {
 public:
  std::string_view name() const override { return "mma"; }

  std::vector<AttendBackwardVariant> variants(const KernelBuild& build) const override {
    std::vector<AttendBackwardVariant> all;
    for (const DType dtype : {DType::bf16, DType::fp16})
      for (const HeadSizes& sizes : sizes_of(build))
        for (const bool small_tiles : {false, true})
          if (!small_tiles || has_small_tiles(sizes))
            all.push_back({.name = mma_backward_name(dtype, sizes, small_tiles),
                           .family = this,
                           .rank = small_tiles ? Rank::fallback : Rank::portable,
                           .dtype = dtype,
                           .head_size = sizes.key,
                           .value_size = sizes.value,
                           .tile_rows = mma_backward_rows(sizes, small_tiles),
                           .small_tiles = small_tiles});
    return all;
  }

  std::vector<KernelEntry> entries(const AttendBackwardVariant& variant) const override {
    const HeadSizes sizes = variant.sizes();
    const int rows = variant.tile_rows;
    KernelEntry dkv = entry_of(variant, "attend_backward", name());
    dkv.features = features_of_mma();
    dkv.stages = 2;
    KernelEntry dq = dkv;
    dkv.part = "dk, dv";
    dkv.claim = mma_dkv_claim(sizes, variant.small_tiles);
    dkv.threads = mma_dkv_threads(sizes, variant.small_tiles);
    dkv.tile_rows = mma_backward_queries(sizes, variant.small_tiles);
    dkv.tile_columns = rows;
    dq.part = "dq";
    dq.claim = mma_dq_claim(sizes.key, rows);
    dq.threads = mma_dq_threads(sizes.key, rows);
    dq.tile_rows = rows;
    dq.tile_columns = mma_dq_keys(sizes.key);
    return {dkv, dq};
  }

  Unmet unmet(const AttendBackwardVariant& variant, const AttendBackward& call) const override {
    return unmet_backward_mma(call, variant.dtype, variant.head_size, variant.value_size);
  }

  ChosenBackward tiles(const AttendBackwardVariant& variant, const AttendBackward& call,
                       const VariantOptions& options) const override {
    const CallRows rows(call, false);
    return backward_cut(variant, rows, key_problem(rows, call), call, options);
  }

  PredictedTime time(const ChosenBackward& chosen, const AttendBackward& asked,
                     const VariantOptions& options) const override {
    const Rates& rates = options.speeds();
    const AttendBackward call = as_launched(asked, chosen);
    const Costs costs = costs_of(*chosen.variant, rates);
    const auto walk = [&](std::int64_t heads) {
      return TileWalk{
          .heads = heads, .heads_per_group = std::max<std::int64_t>(heads, 1), .sms = options.sms};
    };
    const TileExtras extras{.heads_walked = static_cast<double>(call.q.heads) /
                                            static_cast<double>(std::max<std::int64_t>(call.k.heads, 1)),
                            .longest_first = true};
    double tiles = makespan_us(chosen.by_k, same_costs(rates, costs.keys), walk(call.k.heads), true, extras);
    tiles += rates[Rate::launch_us] + makespan_us(chosen.by_q, same_costs(rates, costs.queries),
                                                  walk(call.q.heads), false, {.longest_first = true});
    tiles += casts_us(chosen, asked, call, rates);
    const double memory = memory_us(call, rates);
    return {us * (rates[Rate::launch_us] + tiles), us * (rates[Rate::launch_us] + memory)};
  }

  double flop_us(const AttendBackwardVariant& variant, const Rates& rates) const override {
    return mma_flop_us(false, variant.sizes(), rates);
  }

 private:
  struct Costs {
    double keys = 0, queries = 0;  // of a tile of keys, of a tile of queries, us for 128 rows
  };

  // Measured at head sizes 64 and 128: others are on the line through these, as their products need, which
  // for keys and values of two sizes are (for dk, dv) two of each, for dq two of keys and one of values: 4 of
  // 7 products and 3. Where two warps have the same keys (docs/14-kernels.md) one product is done twice. Half
  // a tile costs half.
  static Costs costs_of(const AttendBackwardVariant& variant, const Rates& rates) {
    const double D = variant.head_size, E = variant.value_size;
    const auto cost = [&](double head_size) {
      return at_head_size(head_size, rates[Rate::mma_backward_d64_us], rates[Rate::mma_backward_d128_us]);
    };
    const double share = static_cast<double>(variant.tile_rows) / mma_tile_rows;
    const double again = mma_shares_keys(variant.sizes()) ? 1.25 : 1;
    return {share * again * cost((D + E) / 2) * 4 / 7, share * cost((2 * D + E) / 3) * 3 / 7};
  }
};

}  // namespace

void add_mma(Families& families) {
  static const MmaForward forward;
  static const MmaBackward backward;
  families.forward.push_back(&forward);
  families.backward.push_back(&backward);
}

}  // namespace cplab::kernels::cuda

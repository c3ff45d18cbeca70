// Tiles of queries for dq and tiles of keys for dk and dv, one after the other in one persistent launch for
// Hopper: every result is stored once, with the same bits in every run, and S and dP are computed twice.
#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/families/compiled_head_sizes.hpp"
#include "kernels/families/family.hpp"
#include "kernels/families/hopper_backward_apart/shape.hpp"
#include "kernels/families/names.hpp"
#include "kernels/families/tile_seconds.hpp"

namespace cplab::kernels::cuda {

std::string hopper_backward_deterministic_name(DType dtype, int head_size) {
  return "attend_backward hopper" + of_sizes(dtype, hopper_backward_apart_sizes(head_size));
}

namespace {

// 4 of 7 products are those of tiles of keys.
constexpr double of_keys = 4.0 / 7, of_queries = 3.0 / 7;

double rows_us(Write write, bool by_tma, const Rates& rates) {
  if (write == Write::add) return rates[Rate::added_rows_us];
  return by_tma ? 0 : rates[Rate::stored_rows_us];
}

class HopperBackwardApart final : public AttendBackwardFamily {
 public:
  std::string_view name() const override { return "hopper"; }

  std::vector<AttendBackwardVariant> variants(const KernelBuild& build) const override {
    std::vector<AttendBackwardVariant> all;
    if (!build.hopper) return all;
    std::vector<int> sizes(std::begin(hopper_head_sizes), std::end(hopper_head_sizes));
    sizes.insert(sizes.end(), std::begin(hopper_wide_head_sizes), std::end(hopper_wide_head_sizes));
    for (const DType dtype : {DType::bf16, DType::fp16})
      for (const int D : sizes)
        all.push_back({.name = hopper_backward_deterministic_name(dtype, D),
                       .family = this,
                       .rank = Rank::architecture,
                       .dtype = dtype,
                       .head_size = D,
                       .value_size = hopper_backward_apart_sizes(D).value,
                       .sm_major = 9,
                       .tile_rows = hopper_backward_apart_tile_rows,
                       .counts_tiles = true,
                       .pads = true});
    return all;
  }

  std::vector<KernelEntry> entries(const AttendBackwardVariant& variant) const override {
    KernelEntry entry = entry_of(variant, "attend_backward", name());
    entry.claim = Claim::hopper;
    entry.features = features_of_hopper();
    entry.threads = 3 * 128;
    entry.tile_rows = hopper_backward_apart_columns(variant.head_size);
    entry.tile_columns = variant.tile_rows;
    entry.stages = hopper_backward_apart_stages(variant.head_size);
    return {entry};
  }

  Unmet unmet(const AttendBackwardVariant& variant, const AttendBackward& call) const override {
    return hopper::unmet_backward_deterministic_hopper(call, variant.dtype, variant.sizes());
  }

  ChosenBackward tiles(const AttendBackwardVariant& variant, const AttendBackward& call,
                       const VariantOptions& options) const override {
    const CallRows rows(call, true);
    return backward_cut(variant, rows, key_problem(rows, call), call, options);
  }

  PredictedTime time(const ChosenBackward& chosen, const AttendBackward& asked,
                     const VariantOptions& options) const override {
    const Rates& rates = options.speeds();
    const AttendBackward call = as_launched(asked, chosen);
    const AttendBackwardVariant& variant = *chosen.variant;
    const Costs costs = costs_of(variant, rates);
    const std::int64_t groups = std::max<std::int64_t>(call.k.heads, 1);
    // The list of a launch: tiles of keys and then of queries, here for each key head.
    TileExtras extras{.heads_walked = static_cast<double>(call.q.heads) / static_cast<double>(groups),
                      .beyond = rates[Rate::hopper_apart_beyond]};
    if (variant.head_size == 64) extras.least_us = rates[Rate::hopper_apart_d64_tile_us];
    extras.rows_us = rows_us(call.write_dk, call.dk.dtype == call.k.dtype, rates);
    std::vector<double> times = tiles_us(chosen.by_k, same_costs(rates, costs.keys), true, extras);
    if (costs.values > 0) {
      const std::vector<double> for_dv = tiles_us(chosen.by_k, same_costs(rates, costs.values), true, extras);
      times.insert(times.end(), for_dv.begin(), for_dv.end());
    }
    extras.heads_walked = 1;
    extras.rows_us = rows_us(call.write_dq, call.dq.dtype == call.q.dtype || call.q.width == 128, rates);
    const std::vector<double> for_dq = tiles_us(chosen.by_q, same_costs(rates, costs.queries), false, extras);
    for (std::int64_t head = 0; head < call.q.heads / groups; ++head)
      times.insert(times.end(), for_dq.begin(), for_dq.end());
    double tiles = 0;
    if (!times.empty() && call.k.heads > 0)
      tiles = makespan(times, {.heads = call.k.heads, .heads_per_group = call.k.heads, .sms = options.sms});
    tiles += casts_us(chosen, asked, call, rates);
    // Both kinds of tiles read q, k, v and dout.
    const double memory = memory_us(call, rates) + inputs_us(call, rates);
    return {us * (rates[Rate::launch_us] + tiles), us * (rates[Rate::launch_us] + memory)};
  }

  double flop_us(const AttendBackwardVariant& variant, const Rates& rates) const override {
    return hopper_backward_flop_us(variant.sizes(), rates);  // what is preferred there
  }

  // Tables of times are of the fused kernels.
  bool has_times_of_its_name() const override { return false; }

 private:
  // What tiles of keys (for dk alone, with those for dv beside), and of queries, take for 128 rows, us.
  // Beyond head size 128 by products, from those at 128: not measured.
  struct Costs {
    double keys = 0, values = 0, queries = 0;
  };
  static Costs costs_of(const AttendBackwardVariant& variant, const Rates& rates) {
    if (!hopper_backward_apart_splits_dkv(variant.head_size)) {
      const double cost = at_head_size(variant.head_size, rates[Rate::hopper_apart_d64_us],
                                       rates[Rate::hopper_apart_d128_us]);
      return {.keys = cost * of_keys, .queries = cost * of_queries};
    }
    const double D = variant.head_size, E = variant.value_size;
    const double column = rates[Rate::hopper_apart_d128_us] / (7 * 128);
    return {.keys = column * (2 * D + E), .values = column * (D + E), .queries = column * (2 * D + E)};
  }
};

}  // namespace

void add_hopper_backward_apart(Families& families) {
  static const HopperBackwardApart family;
  families.backward.push_back(&family);
}

}  // namespace cplab::kernels::cuda

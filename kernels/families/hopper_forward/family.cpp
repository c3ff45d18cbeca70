// The forward kernels for Hopper: persistent, tiles of 64 rows for each warpgroup, operands by TMA
// (docs/08-hopper.md).
#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/families/compiled_head_sizes.hpp"
#include "kernels/families/family.hpp"
#include "kernels/families/hopper_forward/shape.hpp"
#include "kernels/families/names.hpp"
#include "kernels/families/tile_seconds.hpp"
#include "kernels/tiles/heads_together.hpp"
#include "kernels/tiles/tile_order.hpp"

namespace cplab::kernels::cuda {

std::string hopper_forward_name(DType dtype, int head_size, int warpgroups) {
  const std::string name = "attend hopper" + of_sizes(dtype, hopper_forward_sizes(head_size));
  if (warpgroups == hopper_forward_warpgroups(head_size)) return name;
  return name + ", " + std::to_string(64 * warpgroups) + " rows";
}

namespace {

int warpgroups_of(const AttendVariant& variant) {
  return variant.tile_rows / 64;
}

int heads_together(const Attend& call, std::int32_t rows_together = 0, bool alike = false) {
  return hopper::heads_per_group(static_cast<int>(call.q.heads), static_cast<int>(call.k.heads),
                                 device_view(call.k, {}), rows_together, alike);
}

class HopperForward final : public AttendFamily {
 public:
  std::string_view name() const override { return "hopper"; }

  std::vector<AttendVariant> variants(const KernelBuild& build) const override {
    std::vector<AttendVariant> all;
    if (!build.hopper) return all;
    std::vector<int> sizes(std::begin(hopper_head_sizes), std::end(hopper_head_sizes));
    sizes.insert(sizes.end(), std::begin(hopper_wide_head_sizes), std::end(hopper_wide_head_sizes));
    for (const DType dtype : {DType::bf16, DType::fp16})
      for (const int D : sizes)
        for (int warpgroups = hopper_forward_warpgroups(D); warpgroups >= hopper_forward_least_warpgroups(D);
             --warpgroups)
          all.push_back({.name = hopper_forward_name(dtype, D, warpgroups),
                         .family = this,
                         .rank = Rank::architecture,
                         .dtype = dtype,
                         .head_size = D,
                         .value_size = hopper_forward_value_size(D),
                         .sm_major = 9,
                         .tile_rows = 64 * warpgroups,
                         .counts_tiles = true,
                         .pads = true});
    return all;
  }

  std::vector<KernelEntry> entries(const AttendVariant& variant) const override {
    const int rows = variant.tile_rows, warpgroups = warpgroups_of(variant);
    KernelEntry entry = entry_of(variant, "attend", name());
    entry.claim = Claim::hopper;
    entry.features = features_of_hopper();
    entry.threads = 128 * (1 + warpgroups);
    entry.tile_rows = rows;
    entry.tile_columns = hopper_forward_keys(variant.head_size);
    entry.stages = hopper_forward_stages(variant.head_size, warpgroups);
    if (!hopper_forward_goes_out_of_turn(variant.head_size, warpgroups)) return {entry};
    KernelEntry other = entry;
    entry.part = "in turns";
    other.part = "out of turn";
    return {entry, other};
  }

  Unmet unmet(const AttendVariant& variant, const Attend& call) const override {
    return hopper::unmet_forward_hopper(call, variant.dtype, variant.sizes());
  }

  ChosenForward tiles(const AttendVariant& variant, const Attend& call,
                      const VariantOptions& options) const override {
    const CallRows rows(call, true);
    if (call.q.heads == 0)
      return {&variant,
              query_tiles(rows.live, row_cuts(range_borders(rows.q_ranges, rows.q), variant.tile_rows),
                          call.write == Write::store, rows.q_ranges),
              rows.spaces};
    const TileProblem problem{
        .live = rows.live,
        .rows = rows.q,
        .keep_empty = call.write == Write::store,
        .ranges = rows.q_ranges,
        .in_turn = true,
        .may_go_out_of_turn = hopper_forward_goes_out_of_turn(variant.head_size, warpgroups_of(variant))};
    const TileCosts costs = costs_of(variant, options.speeds());
    TileWalk walk = walk_of(variant, call, options.sms);
    TilePlan plan = cheapest_tiles(problem, variant.tile_rows, costs, walk);
    WorkTables work = std::move(plan.work);
    const std::int32_t keys_together = walked_groups(rows.live).most_rows;
    const std::vector<double> times = tile_times(work, costs);
    work.alike = are_alike(work, times);
    walk.heads_per_group = heads_together(call, keys_together, work.alike);
    if (order_by_walked_rows(work, times, walk)) work.rows_together = keys_together;
    return {&variant, std::move(work), rows.spaces, plan.is_first};
  }

  PredictedTime time(const ChosenForward& chosen, const Attend& call,
                     const VariantOptions& options) const override {
    const AttendVariant& variant = *chosen.variant;
    const Rates& rates = options.speeds();
    const auto tiles = static_cast<std::int64_t>(chosen.work.tiles.size()) * call.q.heads;
    TileCosts costs = costs_of(variant, rates);
    // What is not the first candidate has a handicap, as in the search for tiles.
    const double slower = tiles > options.sms ? slower_together(variant, rates) : 1;
    const double handicap = slower > 1 || !chosen.even_cuts ? measured("other_tiles_handicap") : 1;
    for (double& cost : costs.of_rows) cost *= slower * handicap;
    const TileWalk walk = walk_of(variant, call, options.sms);
    const double least_us = variant.head_size == 64
                                ? rates[Rate::hopper_forward_d64_least_us] * static_cast<double>(tiles) /
                                      static_cast<double>(walk.sms)
                                : 0;
    const double of_tiles = makespan_us(chosen.work, costs, walk, false, {.rows_us = rows_us(call, rates)});
    return {us * (rates[Rate::launch_us] + std::max(of_tiles, least_us)),
            us * (rates[Rate::launch_us] + memory_us(call, rates))};
  }

  double flop_us(const AttendVariant& variant, const Rates& rates) const override {
    const HeadSizes sizes = variant.sizes();
    return under_load *
           (variant.head_size == 64 ? rates[Rate::hopper_forward_d64_rows128_us]
                                    : beyond_128(sizes) * rates[Rate::hopper_forward_d128_rows128_us]) /
           (128 * 128) / forward_flops(sizes);
  }

  int blocks_together(const AttendVariant& variant) const override {
    return hopper_forward_blocks_together(variant.head_size, warpgroups_of(variant));
  }

 private:
  static TileCosts costs_of(const AttendVariant& variant, const Rates& rates) {
    TileCosts costs = same_costs(rates, 0);
    if (variant.head_size == 64)
      costs.of_rows = {rates[Rate::hopper_forward_d64_rows64_us], rates[Rate::hopper_forward_d64_rows128_us],
                       rates[Rate::hopper_forward_d64_rows192_us]};
    else
      costs.of_rows = {beyond_128(variant.sizes()) * rates[Rate::hopper_forward_d128_rows64_us],
                       beyond_128(variant.sizes()) * rates[Rate::hopper_forward_d128_rows128_us], 0};
    return costs;
  }

  // What was not measured beyond head size 128: by products, from those at 128.
  static double beyond_128(const HeadSizes& sizes) {
    return forward_flops(sizes) / forward_flops({128, 128});
  }

  // By how much a tile takes longer while two thread blocks share a multiprocessor.
  double slower_together(const AttendVariant& variant, const Rates& rates) const {
    if (blocks_together(variant) == 1) return 1;
    return rates[Rate::hopper_forward_d64_rows64_together_us] / rates[Rate::hopper_forward_d64_rows64_us];
  }

  TileWalk walk_of(const AttendVariant& variant, const Attend& call, int sms) const {
    return {.heads = call.q.heads,
            .heads_per_group = std::max<std::int64_t>(call.q.heads > 0 ? heads_together(call) : 0, 1),
            .sms = std::int64_t{sms} * blocks_together(variant),
            .fixed_share = variant.counts_tiles};
  }

  // A warp of a kernel for Hopper has 16 rows of a tile's results. What has the dtype of q leaves through
  // TMA, which first loads what it is merged with. Else the warp takes its rows one after the other, with the
  // products at rest: one that is merged is read first, and the next waits for it.
  static double rows_us(const Attend& call, const Rates& rates) {
    const bool by_tma = call.out.dtype == call.q.dtype;
    if (call.write == Write::merge) return rates[by_tma ? Rate::merged_tile_us : Rate::merged_rows_us];
    return by_tma ? 0 : rates[Rate::stored_rows_us];
  }
};

}  // namespace

void add_hopper_forward(Families& families) {
  static const HopperForward family;
  families.forward.push_back(&family);
}

}  // namespace cplab::kernels::cuda

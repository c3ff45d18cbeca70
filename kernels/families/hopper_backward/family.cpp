// What the three ways to sum dq share; see family.hpp.
#include "kernels/families/hopper_backward/family.hpp"

#include <initializer_list>
#include <utility>

#include "kernels/families/hopper_backward/shape.hpp"
#include "kernels/families/hopper_backward/turns.hpp"
#include "kernels/tiles/heads_together.hpp"
#include "kernels/tiles/tile_order.hpp"

namespace cplab::kernels::cuda {

int fused_heads_together(const ChosenBackward& chosen, const AttendBackward& call, int sms) {
  if (call.q.heads == 0) return 0;
  const bool ordered = chosen.variant->dq == DqSum::ordered;
  const hopper::FusedOrder order = ordered ? hopper::order_of_turns(chosen.by_k.even, all_full(chosen.by_k))
                                           : hopper::any_order(chosen.by_k.alike);
  const std::int64_t heads = key_tile_heads(call, *chosen.variant);
  const std::int32_t rows = walked_groups(chosen.by_k.segments, true).most_rows;
  const int fitting = hopper::fused_heads_per_group(static_cast<int>(heads), static_cast<int>(call.q.heads),
                                                    device_view(call.q, {}), rows, order);
  if (!ordered || heads <= call.k.heads) return fitting;
  return heads_that_take_turns(fitting, call.k.heads, live_tiles(chosen.by_k),
                               queueing_tiles(all_full(chosen.by_k), rows, chosen.variant->tile_rows), sms);
}

TileWalk walk_of_keys(std::int64_t heads, int sms) {
  return {.heads = heads, .heads_per_group = std::max<std::int64_t>(heads, 1), .sms = sms};
}

AttendBackwardVariant HopperBackward::variant(std::string name, DType dtype, int head_size,
                                              std::int32_t tile_rows) const {
  return {.name = std::move(name),
          .family = this,
          .rank = Rank::architecture,
          .dtype = dtype,
          .head_size = head_size,
          .sm_major = 9,
          .tile_rows = tile_rows,
          .dq = dq_,
          .counts_tiles = true,
          .pads = true};
}

std::vector<KernelEntry> HopperBackward::entries(const AttendBackwardVariant& variant) const {
  KernelEntry stored = entry_of(variant, "attend_backward", name());
  stored.claim = Claim::hopper;
  stored.deterministic = variant.deterministic();
  stored.features = features_of_hopper();
  stored.features.emplace_back("reduce_add");
  if (dq_ == DqSum::ordered) stored.features.emplace_back("turns");
  if (dq_ == DqSum::in_chains) stored.features.emplace_back("chains");
  stored.threads = 128 * (1 + variant.tile_rows / 64);
  stored.tile_rows = variant.head_size == 64 ? 128 : 64;
  stored.tile_columns = variant.tile_rows;
  stored.stages = variant.tile_rows == 64 ? 3 : 2;
  KernelEntry added = stored;
  stored.part = "dk, dv stored";
  added.part = "dk, dv added";
  return {stored, added};
}

Unmet HopperBackward::unmet(const AttendBackwardVariant& variant, const AttendBackward& call) const {
  return hopper::unmet_backward_fused_hopper(call, variant.dtype, variant.head_size);
}

// Tiles that add to dq are to be of one sequence, so that those of a sequence can be neighbours (order()):
// 19 x 1464 causal, 20 heads on 5 of 128, had 0.68 of the predicted speed without.
ChosenBackward HopperBackward::tiles(const AttendBackwardVariant& variant, const AttendBackward& call,
                                     const VariantOptions& options) const {
  const CallRows rows(call, true);
  TileProblem by_k = key_problem(rows, call);
  by_k.pieces = pieces();
  return backward_cut(variant, rows, by_k, call, options);
}

// Tiles of keys that add to dq in the order that suits them: those of a sequence together, so that its q,
// dout and dq stay in the L2 cache. Even tiles are cut in that order; ordered sums have their heads side by
// side by it too. And for ordered sums the ending is for half of the multiprocessors, because tiles walked
// downward queue: with an ending for all of them 4 x 2048 causal fell from 0.94 to 0.83 of any order. It is,
// too, where a tile walks over several query heads, because few such tiles are a long ending, whose sequences
// are then in use all at once: 19 x 1464 causal, 20 heads on 5, gains a fifth.
void HopperBackward::order(ChosenBackward& chosen, const AttendBackward& call,
                           const VariantOptions& options) const {
  if (call.q.heads == 0) return;
  const bool ordered_sum = dq_ == DqSum::ordered;
  const std::int64_t heads = key_tile_heads(call, *chosen.variant);
  const bool short_ending = ordered_sum || heads < call.q.heads;
  const TileWalk walk{.heads = heads,
                      .heads_per_group = fused_heads_together(chosen, call, options.sms),
                      .sms = short_ending ? std::max(options.sms / 2, 1) : options.sms};
  const std::vector<double> times = tile_times(chosen.by_k, same_costs(options.speeds(), 1), true);
  const bool ordered = order_by_walked_rows(chosen.by_k, times, walk, true);
  if (ordered || ordered_sum) chosen.by_k.rows_together = walked_groups(chosen.by_k.segments, true).most_rows;
}

// With masks tiles of a head have unequal lengths. If each walks over several query heads, one after the
// other, they are soon at several of them, and rows of all of these are in use at once: q and dout, and dq in
// fp32. What the L2 cache does not hold comes from memory again and again; in an ordered sum whichever tile
// comes next waits for it. Of a long sequence the tiles that run at once differ less in length, and are in
// step for longer.
double HopperBackward::slower_beyond_cache(const ChosenBackward& chosen, const AttendBackward& call,
                                           const VariantOptions& options) const {
  const Rates& rates = options.speeds();
  const std::int64_t key_heads = key_tile_heads(call, *chosen.variant);
  if (key_heads == 0 || key_heads >= call.q.heads || all_full(chosen.by_k)) return 1;
  const std::int64_t rows =
      std::min(call.q.rows * key_heads, std::int64_t{options.sms} * chosen.variant->tile_rows);
  const auto row_bytes = static_cast<double>(call.q.width * (2 + 2 + 4));
  const double in_use = static_cast<double>(call.q.heads / key_heads * rows) * row_bytes;
  constexpr double cache = 1.5 * measured("heads_per_group_cache");  // nearly all of it
  const double walked = walked_groups(chosen.by_k.segments, true).most_rows;
  const double out_of_step = rows_out_of_step(rates) / std::max(walked, rows_out_of_step(rates));
  return 1 + rates[Rate::hopper_backward_beyond_cache] * out_of_step *
                 std::max(in_use / cache - held(call, rates), 0.0);
}

// A warp has 16 rows of a tile's results. Sums of gradients in fp32, and what has the dtype of k, leave
// through TMA, which first loads what they are added to. Else the warp takes its rows one after the other.
TileExtras HopperBackward::extras(const ChosenBackward& chosen, const AttendBackward& call,
                                  const Rates& rates) const {
  const bool splits = key_tile_heads(call, *chosen.variant) > call.k.heads;
  const auto groups = static_cast<double>(std::max<std::int64_t>(call.k.heads, 1));
  TileExtras extras{.block = dq_cell_rows(chosen.variant->head_size),
                    .heads_walked = splits ? 1 : static_cast<double>(call.q.heads) / groups,
                    .beyond = rates[Rate::hopper_backward_beyond],
                    .partial_us = rates[Rate::hopper_backward_partial_us]};
  const bool rounded = call.dk.dtype == call.k.dtype;
  if (call.dk.dtype != DType::fp32)
    extras.rows_us = call.write_dk == Write::add ? rates[rounded ? Rate::added_tile_us : Rate::added_rows_us]
                     : rounded                   ? 0
                                                 : rates[Rate::stored_rows_us];
  return extras;
}

double HopperBackward::all_tiles_us(const ChosenBackward& chosen, const AttendBackward& call,
                                    const TileExtras& extras, const VariantOptions& options) const {
  const Rates& rates = options.speeds();
  const double tile = tile_us(chosen, call, rates) * slower_beyond_cache(chosen, call, options);
  return makespan_us(chosen.by_k, same_costs(rates, tile),
                     walk_of_keys(key_tile_heads(call, *chosen.variant), options.sms), true, extras);
}

// The kernels add to zeros that another launch writes: to dq, unless the first piece can be stored, and to dk
// and dv where several thread blocks add to a tile or some tiles have none. Where the call computes delta it
// is that launch.
double HopperBackward::zeros_us(const ChosenBackward& chosen, const AttendBackward& call,
                                const Rates& rates) const {
  double time = 0;
  int fills = 0;
  const auto fill = [&](std::initializer_list<const View*> views) {
    time += rowwise_us(views, rates);
    ++fills;
  };
  if (dq_ != DqSum::in_chains && call.write_dq == Write::store && !stores_first_dq(chosen, call))
    fill({&call.dq});
  const bool splits = key_tile_heads(call, *chosen.variant) > call.k.heads;
  const bool some_dead = static_cast<std::size_t>(live_tiles(chosen.by_k)) < chosen.by_k.tiles.size();
  // dk and dv are planes of one buffer in plans: one launch for both, if whole.
  if (call.write_dk == Write::store && (splits || some_dead)) fill({&call.dk, &call.dv});
  return call.out ? std::max(0.0, time - rates[Rate::hopper_backward_zeros_beside_delta_us])
                  : time + fills * rates[Rate::fill_us];
}

PredictedTime HopperBackward::time(const ChosenBackward& chosen, const AttendBackward& asked,
                                   const VariantOptions& options) const {
  const Rates& rates = options.speeds();
  const AttendBackward call = as_launched(asked, chosen);
  double tiles = all_tiles_us(chosen, call, extras(chosen, call, rates), options);
  tiles += zeros_us(chosen, call, rates);
  if (call.out && dq_ == DqSum::any_order)  // it loads its first blocks beside delta
    tiles -= rates[chosen.variant->head_size == 64 ? Rate::hopper_backward_d64_loads_beside_delta_us
                                                   : Rate::hopper_backward_d128_loads_beside_delta_us];
  tiles += casts_us(chosen, asked, call, rates);
  const double memory = memory_us(call, rates);
  return {us * (rates[Rate::launch_us] + tiles), us * (rates[Rate::launch_us] + memory)};
}

double HopperBackward::flop_us(const AttendBackwardVariant& variant, const Rates& rates) const {
  return hopper_backward_flop_us(variant.sizes(), rates);
}

}  // namespace cplab::kernels::cuda

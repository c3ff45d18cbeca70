// The choice among the variants that take a call; see variants.hpp.
#include "kernels/work/variants.hpp"

#include <algorithm>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/work/candidates.hpp"
#include "kernels/work/fall_back.hpp"
#include "kernels/work/fits.hpp"
#include "kernels/work/general_time.hpp"
#include "kernels/work/kernel_entries.hpp"
#include "kernels/work/predicted_time.hpp"
#include "kernels/work/tile_order.hpp"
#include "kernels/work/turns.hpp"

namespace cplab::kernels::cuda {
namespace {

template <class Call>
bool has_fp64(const Call& call) {
  return any_fp64({&call.q, &call.k, &call.v});
}

bool has_chosen_bits(const AttendVariant&, KernelChoice) {
  return true;
}
bool has_chosen_bits(const AttendBackwardVariant& variant, KernelChoice choice) {
  if ((variant.takes_turns || variant.in_chains) && choice == KernelChoice::apart) return false;
  return variant.deterministic || !wants_same_bits(choice);
}

template <class Variant>
bool allows(const VariantOptions& options, const Variant& variant) {
  if (!options.only.empty() && variant.name != options.only) return false;
  if (!has_room(variant.name, options.sm_major, options.sm_minor)) return false;
  if constexpr (requires { variant.blocks_together; })
    if (variant.blocks_together > 1 && options.reserved_sms > 0 && options.only.empty()) return false;
  if (variant.sm_major != 0 &&
      (options.choice == KernelChoice::portable || variant.sm_major != options.sm_major))
    return false;
  return has_chosen_bits(variant, options.choice);
}

template <class Variant, class Call>
const Variant& first_that_fits(std::span<const Variant> variants, const VariantOptions& options,
                               const Call& call) {
  for (const Variant& variant : variants)
    if (allows(options, variant) && variant.fits(call)) return variant;
  throw std::invalid_argument(
      has_fp64(call) ? "this build has no attention kernels for fp64 on a GPU (-D CPLAB_KERNELS=full)"
                     : "no attention kernel of this build fits the call");
}

template <class Variant, class Call>
std::vector<const Variant*> all_that_fit(std::span<const Variant> variants, const VariantOptions& options,
                                         const Call& call) {
  std::vector<const Variant*> fitting;
  for (const Variant& variant : variants)
    if (allows(options, variant) && variant.fits(call)) fitting.push_back(&variant);
  return fitting;
}

template <class Call>
Unmet unmet_general(const Call& call, DType accumulator) {
  if (has_fp64(call) == (accumulator == DType::fp64)) return {};
  return Misfit{"", accumulator == DType::fp64 ? "nothing is fp64" : "an operand is fp64"};
}

// The variants on tensor cores that are allowed, for calls of that dtype; of wider ones, which have none,
// those for bf16.
template <class Variant>
std::vector<const Variant*> on_tensor_cores(std::span<const Variant> variants, const VariantOptions& options,
                                            DType dtype) {
  const DType of = dtype == DType::fp16 ? DType::fp16 : DType::bf16;
  std::vector<const Variant*> found;
  for (const Variant& variant : variants)
    if (variant.family != Variant::Family::general && variant.dtype == of && allows(options, variant))
      found.push_back(&variant);
  return found;
}

template <class Variant, class Call>
bool takes_general(std::span<const Variant> variants, const VariantOptions& options, const Call& call) {
  for (const Variant& variant : variants)
    if (allows(options, variant) && variant.fits(call)) return variant.family == Variant::Family::general;
  return false;
}

// The first variant with code for the dtype and the head sizes of the call is the one to fall back from.
template <class Variant, class Call>
std::optional<FallBack> fall_back_of(std::span<const Variant> variants, const VariantOptions& options,
                                     const Call& call) {
  constexpr bool forward = std::is_same_v<Variant, AttendVariant>;
  for (const Variant& variant : variants) {
    if (!allows(options, variant) || variant.dtype != call.q.dtype ||
        sizes_of(variant) != head_sizes(call.q, call.v))
      continue;
    const Unmet unmet = variant.unmet(call);
    if (!unmet) return {};
    FallBack found{.preferred = variant.name, .reason = *unmet};
    if (takes_general(variants, options, call))
      found.times_slower =
          general_flop_us(forward, head_sizes(call.q, call.v), call.q.dtype) / flop_us(variant);
    return found;
  }
  if (!options.only.empty() || !takes_general(variants, options, call)) return {};
  return without_tensor_cores<Variant>(forward, on_tensor_cores(variants, options, call.q.dtype), call.q,
                                       call.v);
}

// The rows of a call and its segments as a variant counts them: kernels for Hopper, which read by TMA, in row
// spaces, all others as compact rows.
template <class Call>
struct CallRows {
  template <class Variant>
  CallRows(const Call& call, const Variant& variant)
      : q(call.q.rows), k(call.k.rows), live(live_segments(call.segments)) {
    if (variant.sm_major == 0) return;
    spaces = row_spaces(call);
    const RowSpaces& in = spaces.value();  // a variant that fits the call has them
    q = in.q.rows;
    k = in.k.rows;
    q_ranges = in.q.ranges();
    k_ranges = in.k.ranges();
    live = in_space(live, in.q, in.k);
  }

  std::optional<RowSpaces> spaces;
  std::int64_t q, k;
  std::vector<RowRange> q_ranges, k_ranges;
  std::vector<DeviceSegment> live;
};

// Tiles of a backward kernel, in which a tile of fewer rows takes as long.
WorkTables backward_tiles(const TileProblem& problem, std::int64_t heads, std::int64_t height,
                          const VariantOptions& options) {
  const TileWalk walk{
      .heads = heads, .heads_per_group = std::max<std::int64_t>(heads, 1), .sms = options.sms};
  WorkTables work = cheapest_tiles(problem, height, {1, 1, 1}, walk).work;
  work.alike = are_alike(work, tile_times(work, {1, 1, 1}, problem.by_key));
  return work;
}

// Tiles of keys that add to dq in the order that suits them: those of a sequence together, so that its q,
// dout and dq stay in the L2 cache. Even tiles are cut in that order; in turn their heads are side by side by
// it too. And in turn the ending is for half of the multiprocessors, because tiles walked downward queue:
// with an ending for all of them 4 x 2048 causal fell from 0.94 to 0.83 of any order (ending.json). It is,
// too, where a tile walks over several query heads, because few such tiles are a long ending, whose sequences
// are then in use all at once: 19 x 1464 causal, 20 heads on 5, gains a fifth (grouped/downward.json).
void order_key_tiles(ChosenBackward& chosen, const AttendBackward& call, const VariantOptions& options) {
  const AttendBackwardVariant& variant = *chosen.variant;
  if (!sums_dq(variant) || variant.in_chains || call.q.heads == 0) return;
  const std::int64_t heads = key_tile_heads(call, variant);
  const bool short_ending = variant.takes_turns || heads < call.q.heads;
  const TileWalk walk{.heads = heads,
                      .heads_per_group = fused_heads_together(chosen, call, options.sms),
                      .sms = short_ending ? std::max(options.sms / 2, 1) : options.sms};
  const std::vector<double> times = tile_times(chosen.by_k, {1, 1, 1}, true);
  const bool ordered = order_by_walked_rows(chosen.by_k, times, walk, true);
  if (ordered || variant.takes_turns)
    chosen.by_k.rows_together = walked_groups(chosen.by_k.segments, true).most_rows;
}

}  // namespace

Unmet AttendVariant::unmet(const Attend& call) const {
  switch (family) {
    case Family::hopper: return hopper::unmet_forward_hopper(call, dtype, head_size);
    case Family::mma: return unmet_forward_mma(call, dtype, head_size, value_size);
    case Family::general: break;
  }
  return unmet_general(call, dtype);
}

Unmet AttendBackwardVariant::unmet(const AttendBackward& asked) const {
  const AttendBackward call = with_stored_dkv(asked);
  switch (family) {
    case Family::hopper_fused:
    case Family::hopper_ordered: return hopper::unmet_backward_fused_hopper(call, dtype, head_size);
    case Family::hopper_chains:
      if (const Unmet unmet = hopper::unmet_backward_chains_hopper(call, dtype, head_size)) return unmet;
      if (chain_tiles(call, tile_rows)) return {};
      return Misfit{"", "blocks of queries are not all whole, or sequences are too long"};
    case Family::hopper_deterministic:
      return hopper::unmet_backward_deterministic_hopper(call, dtype, head_size);
    case Family::mma: return unmet_backward_mma(call, dtype, head_size, value_size);
    case Family::general: break;
  }
  return unmet_general(call, dtype);
}

std::optional<FallBack> fall_back(const Attend& call, const VariantOptions& options) {
  return fall_back_of(attend_variants(options.build), options, call);
}

std::optional<FallBack> fall_back(const AttendBackward& call, const VariantOptions& options) {
  const std::span<const AttendBackwardVariant> variants = attend_backward_variants(options.build);
  const std::optional<FallBack> found = fall_back_of(variants, options, call);
  if (!found || std::string_view(found->reason.view) != "dq") return found;
  // The preferred kernels add to dq, in fp32. For short sequences those that store it once are taken whatever
  // its dtype: then nothing is lost.
  AttendBackward wide = call;
  wide.dq.dtype = DType::fp32;
  const bool taken_anyway = !fall_back_of(variants, options, wide) &&
                            choose_variant(wide, options).variant == choose_variant(call, options).variant;
  return taken_anyway ? std::optional<FallBack>() : found;
}

void require_launchable(const View& view) {
  require(view.rows < unbounded, "a view has 2^30 rows or more, too many for a GPU kernel");
  require(view.heads <= 65535, "a view has more than 65535 heads, too many for a GPU kernel");
}

std::vector<const AttendVariant*> variants_for(const Attend& call, const VariantOptions& options) {
  return all_that_fit(attend_variants(options.build), options, call);
}

std::vector<const AttendBackwardVariant*> variants_for(const AttendBackward& call,
                                                       const VariantOptions& options) {
  return all_that_fit(attend_backward_variants(options.build), options, call);
}

ChosenForward choose_variant(const Attend& call, const VariantOptions& options) {
  if (options.way != ChoiceWay::table) return choose_variant(call, decided(call, options));
  require_launchable(call.q);
  require_launchable(call.k);
  const std::span<const AttendVariant> variants = attend_variants(options.build);
  const bool keep_empty = call.write == Write::store;
  const AttendVariant* best = &first_that_fits(variants, options, call);
  const CallRows<Attend> rows(call, *best);
  if (best->tile_costs[0] == 0 || call.q.heads == 0)
    return {best,
            query_tiles(rows.live, row_cuts(range_borders(rows.q_ranges, rows.q), best->tile_rows),
                        keep_empty, rows.q_ranges),
            rows.spaces};
  TileProblem problem{.live = rows.live, .rows = rows.q, .keep_empty = keep_empty, .ranges = rows.q_ranges};
  const auto heads_together = [&](std::int32_t keys, bool alike = false) {
    return hopper::heads_per_group(static_cast<int>(call.q.heads), static_cast<int>(call.k.heads),
                                   device_view(call.k, {}), keys, alike);
  };
  const auto walk_of = [&](const AttendVariant& variant) {
    return TileWalk{.heads = call.q.heads,
                    .heads_per_group = heads_together(0),
                    .sms = variant.places(options.sms),
                    .fixed_share = variant.counts_tiles};
  };
  const auto plan_of = [&](const AttendVariant& variant) {
    const TileWalk walk = walk_of(variant);
    problem.in_turn = variant.family == AttendVariant::Family::hopper;
    problem.may_go_out_of_turn = variant.goes_out_of_turn;
    TilePlan plan = cheapest_tiles(problem, variant.tile_rows, variant.tile_costs, walk);
    const auto tiles = static_cast<std::int64_t>(plan.work.tiles.size()) * walk.heads;
    const double slower = variant.slower(tiles, options.sms);
    // With the handicap of what is not the first candidate.
    if (slower > 1) plan.cost *= slower * measured("other_tiles_handicap");
    plan.cost = std::max(plan.cost, variant.least_time(tiles, options.sms));
    return plan;
  };
  TilePlan plan = plan_of(*best);
  for (const AttendVariant& variant : variants) {
    if (&variant == best || variant.tile_costs[0] == 0 || !allows(options, variant) || !variant.fits(call))
      continue;
    TilePlan other = plan_of(variant);
    if (other.cost >= plan.cost) continue;
    best = &variant;
    plan = std::move(other);
  }
  const std::int32_t keys_together = walked_groups(rows.live).most_rows;
  const std::vector<double> times = tile_times(plan.work, best->tile_costs);
  plan.work.alike = are_alike(plan.work, times);
  TileWalk walk = walk_of(*best);
  walk.heads_per_group = heads_together(keys_together, plan.work.alike);
  if (order_by_walked_rows(plan.work, times, walk)) plan.work.rows_together = keys_together;
  return {best, std::move(plan.work), rows.spaces};
}

namespace {

// The variant, and its tiles as they were cut; order_key_tiles() sorts them. What is compared are times of
// lists as cut.
ChosenBackward predicted_choice(const AttendBackward& call, const VariantOptions& options) {
  const std::span<const AttendBackwardVariant> variants = attend_backward_variants(options.build);
  const AttendBackwardVariant& first = first_that_fits(variants, options, call);
  const CallRows<AttendBackward> rows(call, first);
  const TileProblem by_q{.live = rows.live,
                         .rows = rows.q,
                         .keep_empty = call.write_dq == Write::store,
                         .ranges = rows.q_ranges};
  const TileProblem by_k{.live = rows.live,
                         .rows = rows.k,
                         .by_key = true,
                         .keep_empty = call.write_dk == Write::store,
                         .ranges = rows.k_ranges};
  // Tiles that add to dq are to be of one sequence, so that those of a sequence can be neighbours
  // (order_key_tiles()): 19 x 1464 causal, 20 heads on 5 of 128, had 0.68 of the predicted speed without. In
  // turn a tile that adds to two keeps all tiles of one waiting while it walks over the other.
  const auto keys_for = [&](const AttendBackwardVariant& variant) {
    TileProblem problem = by_k;
    if (sums_dq(variant)) problem.pieces = Pieces::segments_then_ranges;
    if (variant.takes_turns) problem.pieces = Pieces::segments;
    return problem;
  };
  const auto by = [&](const AttendBackwardVariant& variant) {
    if (variant.in_chains) {
      ChainTiles made = chain_tiles(call, variant.tile_rows).value();
      return ChosenBackward{&variant, {}, std::move(made.by_k), rows.spaces, std::move(made.chains)};
    }
    return ChosenBackward{.variant = &variant,
                          .by_q = backward_tiles(by_q, call.q.heads, variant.tile_rows, options),
                          .by_k = backward_tiles(keys_for(variant), call.k.heads, variant.tile_rows, options),
                          .spaces = rows.spaces};
  };
  const ChosenBackward of_first = by(first);
  ChosenBackward chosen = of_first;
  // Small tiles cost more together: they pay only where the last wave of large ones leaves much idle. Tiles
  // of queries and of keys apart compute S and dP twice, but in twice as many tiles, and nobody fills dq
  // before or waits for a turn to add to it: that pays for short sequences. So do chains, for the shortest.
  // In turn nobody fills dq either, if all pieces are whole cells.
  const auto tiles = static_cast<std::int64_t>(chosen.by_k.tiles.size()) * call.q.heads;
  using Family = AttendBackwardVariant::Family;
  const bool few = tiles < static_cast<std::int64_t>(measured("last_wave_matters_below")) * options.sms;
  const bool in_turn = first.family == Family::hopper_ordered;
  if ((first.family != Family::hopper_fused && !in_turn) || tiles == 0) return chosen;
  const auto competes = [&](const AttendBackwardVariant& variant) {
    switch (variant.family) {
      case Family::hopper_fused: return few;
      case Family::hopper_ordered: return true;
      case Family::hopper_chains:
      case Family::hopper_deterministic: return few || in_turn || call.rounded_dq.has_value();
      case Family::mma:
      case Family::general: break;
    }
    return false;
  };
  double least_s = predicted_seconds(chosen, call, options);
  for (const AttendBackwardVariant& variant : variants) {
    if (&variant == &first || !competes(variant) || !allows(options, variant) || !variant.fits(call))
      continue;
    const bool same_tiles = variant.family == first.family && variant.tile_rows == first.tile_rows;
    ChosenBackward other = same_tiles ? of_first : by(variant);
    other.variant = &variant;
    const double other_s = predicted_seconds(other, call, options);
    if (other_s >= least_s) continue;
    chosen = std::move(other);
    least_s = other_s;
  }
  return chosen;
}

}  // namespace

ChosenBackward choose_variant(const AttendBackward& call, const VariantOptions& options) {
  if (options.way != ChoiceWay::table) return choose_variant(call, decided(call, options));
  require_launchable(call.q);
  require_launchable(call.k);
  ChosenBackward chosen = predicted_choice(with_stored_dkv(call), options);
  // Few key heads are few tiles, each of which is long: then sums and their casts cost less.
  const AttendBackward summed = with_summed_dkv(call);
  if (call.rounded_dk && options.sums_dkv.value_or(true) && can_split(summed) &&
      !variants_for(summed, options).empty()) {
    ChosenBackward other = predicted_choice(summed, options);
    other.sums_dkv = true;
    if (options.sums_dkv ||
        predicted_seconds(other, call, options) < predicted_seconds(chosen, call, options))
      chosen = std::move(other);
  }
  order_key_tiles(chosen, as_launched(call, chosen), options);
  return chosen;
}

}  // namespace cplab::kernels::cuda

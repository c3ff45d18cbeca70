// What a backward variant's own launch does of a call, and what is left to launches behind it; see
// variants.hpp.
#include <algorithm>
#include <optional>

#include "kernels/work/fits.hpp"
#include "kernels/work/measured_constants.hpp"
#include "kernels/work/tile_order.hpp"
#include "kernels/work/turns.hpp"
#include "kernels/work/variants.hpp"

namespace cplab::kernels::cuda {
namespace {

// Whether a row of dq is written once, and nothing that was there before is added to it.
bool stores_dq_once(const AttendBackward& call, const AttendBackwardVariant& variant) {
  return !sums_dq(variant) && call.write_dq == Write::store;
}

}  // namespace

AttendBackward as_launched(const AttendBackward& call, const ChosenBackward& chosen) {
  AttendBackward launched = chosen.sums_dkv ? call : with_stored_dkv(call);
  if (call.rounded_dq && stores_dq_once(call, *chosen.variant)) {
    launched.dq = *call.rounded_dq;
    launched.rounded_dq.reset();
  }
  return launched;
}

bool can_split(const AttendBackward& summed) {
  if (summed.q.heads <= summed.k.heads) return false;
  const std::optional<RowSpaces> spaces = row_spaces(summed);
  if (!spaces) return false;
  for (const View* view : {&summed.dk, &summed.dv}) {
    const SpacedView spaced = in_space(*view, spaces->k);
    if (!spaced.map.empty() || !hopper::has_tensor_map(spaced.device)) return false;
  }
  return true;
}

AttendBackward with_stored_dkv(const AttendBackward& call) {
  if (!call.rounded_dk) return call;
  AttendBackward stored = call;
  stored.dk = *call.rounded_dk;
  stored.dv = *call.rounded_dv;
  stored.rounded_dk.reset();
  stored.rounded_dv.reset();
  return stored;
}

AttendBackward with_summed_dkv(const AttendBackward& call) {
  AttendBackward summed = call;
  summed.rounded_dk.reset();
  summed.rounded_dv.reset();
  return summed;
}

bool sums_dq(const AttendBackwardVariant& variant) {
  using Family = AttendBackwardVariant::Family;
  return variant.family == Family::hopper_fused || variant.family == Family::hopper_ordered ||
         variant.in_chains;
}

std::int64_t key_tile_heads(const AttendBackward& call, const AttendBackwardVariant& variant) {
  const bool splits = sums_dq(variant) && call.dk.dtype == DType::fp32;
  return splits ? std::max(call.q.heads, call.k.heads) : call.k.heads;
}

int fused_heads_together(const ChosenBackward& chosen, const AttendBackward& call, int sms) {
  if (call.q.heads == 0) return 0;
  const bool in_turn = chosen.variant->takes_turns;
  const hopper::FusedOrder order = in_turn ? hopper::order_of_turns(chosen.by_k.even, all_full(chosen.by_k))
                                           : hopper::any_order(chosen.by_k.alike);
  const std::int64_t heads = key_tile_heads(call, *chosen.variant);
  const std::int32_t rows = walked_groups(chosen.by_k.segments, true).most_rows;
  const int fitting = hopper::fused_heads_per_group(static_cast<int>(heads), static_cast<int>(call.q.heads),
                                                    device_view(call.q, {}), rows, order);
  if (!in_turn || heads <= call.k.heads) return fitting;
  return heads_that_take_turns(fitting, call.k.heads, live_tiles(chosen.by_k),
                               queueing_tiles(all_full(chosen.by_k), rows, chosen.variant->tile_rows), sms);
}

bool stores_first_dq(const ChosenBackward& chosen, const AttendBackward& call) {
  if (!chosen.variant->takes_turns || call.write_dq != Write::store || call.dq.dtype != DType::fp32)
    return false;
  const SpacedView dq = in_space(call.dq, chosen.spaces->q);  // kernels that take turns have spaces
  return dq.map.empty() && hopper::has_tensor_map(dq.device) &&
         whole_pieces(chosen.by_k, chosen.spaces->q.rows, call.q.width);
}

bool rounds_dq(const ChosenBackward& chosen, const AttendBackward& call) {
  return call.rounded_dq && chosen.variant->in_chains;
}

bool casts_dq(const ChosenBackward& chosen, const AttendBackward& call) {
  return call.rounded_dq && !rounds_dq(chosen, call) && !stores_dq_once(call, *chosen.variant);
}

bool casts_dkv(const ChosenBackward& chosen, const AttendBackward& call) {
  return call.rounded_dk && chosen.sums_dkv;
}

}  // namespace cplab::kernels::cuda

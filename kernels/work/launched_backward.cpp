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
  return heads_that_take_turns(
      fitting, call.k.heads, live_tiles(chosen.by_k),
      queueing_tiles(all_full(chosen.by_k), chosen.by_k.ring, rows, chosen.variant->tile_rows), sms);
}

bool stores_first_dq(const ChosenBackward& chosen, const AttendBackward& call) {
  if (!chosen.variant->takes_turns || call.write_dq != Write::store || call.dq.dtype != DType::fp32)
    return false;
  const SpacedView dq = in_space(call.dq, chosen.spaces->q);  // kernels that take turns have spaces
  return dq.map.empty() && hopper::has_tensor_map(dq.device) &&
         whole_pieces(chosen.by_k, chosen.spaces->q.rows, call.q.width);
}

namespace {

// The view is that of all rows of q, which lie at one distance: whoever goes over rows of the space touches
// none of others.
bool has_whole_rows(const View& view, DType dtype, const RowSpace& space) {
  const SpacedView spaced = in_space(view, space);
  return view.dtype == dtype && spaced.map.empty() && spaced.device.listed == spaced.device.rows &&
         hopper::has_tensor_map(spaced.device);
}

bool rounds_in_any_order(const ChosenBackward& chosen, const AttendBackward& call) {
  const AttendBackwardVariant& variant = *chosen.variant;
  return call.rounded_dq && variant.family == AttendBackwardVariant::Family::hopper_fused &&
         variant.tile_rows != hopper_backward_small_tile_rows && live_tiles(chosen.by_k) > 0 &&
         has_whole_rows(call.dq, DType::fp32, chosen.spaces->q) &&
         has_whole_rows(*call.rounded_dq, call.q.dtype, chosen.spaces->q);
}

// Whether a thread block has as many query heads as key_tile_heads() says: sums of dk and dv are those of one
// alone only where TMA adds them (hopper::splits_query_heads()).
bool takes_those_heads(const ChosenBackward& chosen, const AttendBackward& call) {
  const auto is_mapped = [&](const View& view) {
    const SpacedView spaced = in_space(view, chosen.spaces->k);
    return spaced.map.empty() && hopper::has_tensor_map(spaced.device);
  };
  return key_tile_heads(call, *chosen.variant) <= call.k.heads ||
         (call.dk.dtype == call.dv.dtype && is_mapped(call.dk) && is_mapped(call.dv));
}

bool can_work_beside(const ChosenBackward& chosen, const AttendBackward& call) {
  return call.out && takes_those_heads(chosen, call) && call.write_dq == Write::store && call.q.heads > 0 &&
         rounds_in_any_order(chosen, call) && has_whole_rows(*call.out, call.q.dtype, chosen.spaces->q) &&
         has_whole_rows(call.dout, call.q.dtype, chosen.spaces->q);
}

}  // namespace

bool works_beside_tiles(const ChosenBackward& chosen, const AttendBackward& call) {
  return chosen.works_beside && can_work_beside(chosen, call);
}

bool pays_beside_tiles(const ChosenBackward& chosen, const AttendBackward& call, int sms) {
  if (!can_work_beside(chosen, call)) return false;
  double walked = 0;
  for (std::size_t n = 0; n < static_cast<std::size_t>(live_tiles(chosen.by_k)); ++n) {
    const WorkTile& tile = chosen.by_k.tiles[n];
    for (std::int32_t at = tile.first; at < tile.first + tile.count; ++at) {
      const RowRange rows = queries_of(tile, chosen.by_k.segments[static_cast<std::size_t>(at)]);
      walked += static_cast<double>(rows.end - rows.begin);
    }
  }
  walked *= static_cast<double>(call.q.heads);
  const std::int64_t rows = walked_groups(chosen.by_k.segments, true).most_rows;
  // Where tiles of unequal length walk over several query heads, it pays for longer sequences alone.
  const bool grouped = key_tile_heads(call, *chosen.variant) < call.q.heads && !chosen.by_k.alike;
  const double least = grouped
                           ? measured("beside_least_rows_grouped") * static_cast<double>(call.q.width) / 128
                           : measured("beside_least_rows");
  if (walked < measured("beside_least_walked") || static_cast<double>(rows) < least) return false;
  const DqSections sections = dq_sections(chosen.by_k, call.q.rows, dq_part_rows(call.q.width));
  const BesideSchedule schedule = beside_schedule(chosen, call, sections, sms);
  return schedule.heads < call.q.heads || schedule.parts < static_cast<std::int32_t>(sections.parts.size());
}

bool rounds_at_end(const ChosenBackward& chosen, const AttendBackward& call) {
  if (!rounds_in_any_order(chosen, call)) return false;
  const std::int64_t sums_bytes = call.dq.rows * call.dq.heads * call.dq.width * bytes_of(DType::fp32);
  return sums_bytes <= static_cast<std::int64_t>(measured("rounded_at_end_most")) ||
         works_beside_tiles(chosen, call);
}

BesideSchedule beside_schedule(const ChosenBackward& chosen, const AttendBackward& call,
                               const DqSections& sections, int sms) {
  const std::int64_t live = live_tiles(chosen.by_k), heads = key_tile_heads(call, *chosen.variant),
                     together = hopper::fused_heads_per_group(
                         static_cast<int>(heads), static_cast<int>(call.q.heads), device_view(call.q, {}),
                         chosen.by_k.rows_together, hopper::any_order(chosen.by_k.alike)),
                     heads_of_tile = call.q.heads / heads;
  const auto first = static_cast<std::int64_t>(measured("beside_ahead") * sms);
  const auto count = static_cast<std::int32_t>(sections.all.size());
  const auto parts_before = [&](std::int32_t section) {
    return section < count ? sections.all[static_cast<std::size_t>(section)].first_part
                           : static_cast<std::int32_t>(sections.parts.size());
  };
  // Of the first groups of heads all, or of the first group those sections that its first tiles are in.
  const std::int64_t groups = (std::max<std::int64_t>(first, 1) + live * together - 1) / (live * together);
  BesideSchedule schedule = {static_cast<std::int32_t>(together),
                             count,
                             0,
                             call.q.rows,
                             std::min(groups * together, heads) * heads_of_tile,
                             0};
  if (groups == 1) {
    std::int32_t last = 0;
    for (std::int64_t place = 0; place <= std::min((first - 1) / together, live - 1); ++place)
      last = std::max(last, sections.of_tile[static_cast<std::size_t>(place)]);
    std::int64_t rows = 0, end = 0;
    for (std::int32_t part = 0; part < parts_before(last + 1); ++part) {
      const DqPart& each = sections.parts[static_cast<std::size_t>(part)];
      rows += each.end - each.begin;
      end = std::max<std::int64_t>(end, each.end);
    }
    if (rows == end) schedule.sections = last + 1, schedule.rows = rows;
  }
  schedule.parts = parts_before(schedule.sections);
  // How many parts each group of heads has whose tiles come before that place in the list.
  const std::int64_t before_end = live * heads - sms;
  for (std::int64_t head = 0; head < heads; head += together) {
    const std::int64_t of_group = std::min(together, heads - head);
    std::int32_t complete = count;
    for (std::int64_t place = live - 1; place >= 0 && head * live + (place + 1) * of_group > before_end;
         --place)
      complete = std::min(complete, sections.of_tile[static_cast<std::size_t>(place)]);
    schedule.rounded_parts += parts_before(complete) * of_group * heads_of_tile;
    if (complete < count) break;
  }
  return schedule;
}

bool rounds_dq(const ChosenBackward& chosen, const AttendBackward& call) {
  if (!call.rounded_dq) return false;
  if (chosen.variant->in_chains || rounds_at_end(chosen, call)) return true;
  if (chosen.by_k.ring == 0 || !stores_first_dq(chosen, call)) return false;
  const SpacedView rounded = in_space(*call.rounded_dq, chosen.spaces->q);
  return rounded.map.empty() && rounded.device.dtype == call.q.dtype &&
         hopper::has_tensor_map(rounded.device);
}

bool casts_dq(const ChosenBackward& chosen, const AttendBackward& call) {
  return call.rounded_dq && !rounds_dq(chosen, call) && !stores_dq_once(call, *chosen.variant);
}

bool casts_dkv(const ChosenBackward& chosen, const AttendBackward& call) {
  return call.rounded_dk && chosen.sums_dkv;
}

}  // namespace cplab::kernels::cuda

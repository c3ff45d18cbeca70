// Tiles of keys add to the dQ accumulator in a fixed order, by semaphores (turns.hpp): the same bits in every
// run, and no zeros in dq before, where the first piece of each cell can be stored.
#include <cmath>

#include "kernels/families/call_tables.hpp"
#include "kernels/families/compiled_head_sizes.hpp"
#include "kernels/families/hopper_backward/family.hpp"
#include "kernels/families/hopper_backward/shape.hpp"
#include "kernels/families/hopper_backward/turns.hpp"
#include "kernels/families/names.hpp"
#include "kernels/tiles/tile_order.hpp"

namespace cplab::kernels::cuda {

std::string hopper_backward_ordered_name(DType dtype, int head_size) {
  return "attend_backward hopper ordered" + of_sizes(dtype, head_size);
}

namespace {

// With full masks the tiles of keys of a head all begin at the same queries and queue for their turn to add
// to dq; with others they begin in step (docs/lab/hopper-attention.md). How many queue behind the first: of
// those of a head that begin together.
double tiles_that_queue(const ChosenBackward& chosen, const AttendBackward& call, int sms) {
  std::int64_t keys = 0;
  for (const DeviceSegment& segment : chosen.by_k.segments)
    if (is_full(segment)) keys = std::max<std::int64_t>(keys, segment.k_end - segment.k_begin);
  if (keys == 0 || call.q.heads == 0) return 0;
  const int together = fused_heads_together(chosen, call, sms);
  const double tiles = std::ceil(static_cast<double>(keys) / chosen.variant->tile_rows);
  return std::min(tiles, std::ceil(static_cast<double>(sms) / std::max(together, 1))) - 1;
}

class Ordered final : public HopperBackward {
 public:
  Ordered() : HopperBackward(DqSum::ordered) {}

  std::vector<AttendBackwardVariant> variants(const KernelBuild& build) const override {
    std::vector<AttendBackwardVariant> all;
    if (!build.hopper) return all;
    for (const DType dtype : {DType::bf16, DType::fp16})
      for (const int D : hopper_head_sizes)
        all.push_back(variant(hopper_backward_ordered_name(dtype, D), dtype, D, hopper_backward_tile_rows));
    return all;
  }

  void set_parameters(AttendBackwardParams& params, CallTables& tables, const ChosenBackward& chosen,
                      const AttendBackward& launched) const override {
    const DqTurns turns = dq_turns(chosen.by_k, params.q.rows, chosen.variant->head_size);
    TurnList& into = params.turns;
    into.cells = turns.cells;
    into.even = turns.even;
    into.full = turns.full;
    into.whole = turns.whole;
    if (turns.runs.empty()) return;
    tables.point<std::int32_t>(into.unit_of_tile, turns.unit_of_tile);
    tables.point<TurnUnit>(into.units, turns.units);
    tables.point<TurnRun>(into.runs, turns.runs);
    tables.point<std::int32_t>(into.total, turns.total);
    tables.point<std::int32_t>(into.total_before_ending, turns.total_before_ending);
    tables.place_counters(into.counters, static_cast<std::size_t>(dq_counters(turns, launched.q.heads)));
    if (launched.q.heads > launched.k.heads)
      tables.place_counters(into.dkv_counters,
                            static_cast<std::size_t>(dkv_counters(turns, launched.k.heads)));
  }

  // Where all tiles run at once it took up to a tenth longer: they are drawn before, by thread blocks whose
  // multiprocessors have no part in computing delta.
  bool loads_beside_preparation(std::int64_t tiles, std::int64_t sms) const override { return tiles > sms; }

  bool stores_first_dq(const ChosenBackward& chosen, const AttendBackward& call) const override {
    if (call.write_dq != Write::store || call.dq.dtype != DType::fp32) return false;
    const SpacedView dq = in_space(call.dq, chosen.spaces->q);  // kernels for Hopper have spaces
    return dq.map.empty() && hopper::has_tensor_map(dq.device) &&
           whole_pieces(chosen.by_k, chosen.spaces->q.rows, chosen.variant->head_size);
  }

 protected:
  double tile_us(const ChosenBackward& chosen, const AttendBackward&, const Rates& rates) const override {
    const double width = chosen.variant->head_size;
    return all_full(chosen.by_k) ? at_head_size(width, rates[Rate::hopper_ordered_d64_full_us],
                                                rates[Rate::hopper_ordered_d128_full_us])
                                 : at_head_size(width, rates[Rate::hopper_ordered_d64_masked_us],
                                                rates[Rate::hopper_ordered_d128_masked_us]);
  }

  double all_tiles_us(const ChosenBackward& chosen, const AttendBackward& call, const TileExtras& extras,
                      const VariantOptions& options) const override {
    return HopperBackward::all_tiles_us(chosen, call, extras, options) +
           options.speeds()[Rate::hopper_ordered_queue_us] * tiles_that_queue(chosen, call, options.sms);
  }

  TileExtras extras(const ChosenBackward& chosen, const AttendBackward& call,
                    const Rates& rates) const override {
    TileExtras extras = HopperBackward::extras(chosen, call, rates);
    const std::int64_t groups = std::max<std::int64_t>(call.k.heads, 1);
    if (key_tile_heads(call, *chosen.variant) > call.k.heads) {
      extras.dkv_turns_us = rates[Rate::hopper_ordered_dkv_turn_us] * static_cast<double>(call.q.width) /
                            128 * static_cast<double>(call.q.heads / groups - 1);
      extras.dkv_hidden_us = rates[Rate::hopper_ordered_dkv_hidden_us];
    }
    return extras;
  }

  double held(const AttendBackward& call, const Rates& rates) const override {
    return at_head_size(static_cast<double>(call.q.width), rates[Rate::hopper_ordered_d64_held],
                        rates[Rate::hopper_ordered_d128_held]);
  }

  // It is twice as long before a long sequence helps, since a tile that is late keeps others.
  double rows_out_of_step(const Rates& rates) const override {
    return 2 * rates[Rate::hopper_backward_beyond_cache_rows];
  }

  // A tile that adds to two sequences keeps all tiles of one waiting while it walks over the other.
  Pieces pieces() const override { return Pieces::segments; }
};

}  // namespace

const AttendBackwardFamily& hopper_backward_ordered() {
  static const Ordered family;
  return family;
}

}  // namespace cplab::kernels::cuda

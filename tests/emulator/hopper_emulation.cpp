// See hopper_emulation.hpp.
#include "tests/emulator/hopper_emulation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <random>

#include "kernels/families/fits.hpp"
#include "kernels/families/hopper_backward/shape.hpp"
#include "kernels/families/hopper_backward/turns.hpp"
#include "kernels/families/tile_seconds.hpp"
#include "kernels/tiles/tile_cuts.hpp"
#include "kernels/tiles/tile_order.hpp"
#include "kernels/tiles/work_list.hpp"
#include "tests/kernels/oracle.hpp"
#include "tests/kernels/random_tile.hpp"

namespace cplab::emulator {

using kernels::DType;
using kernels::View;
using kernels::Write;
using namespace kernels::cuda;

namespace {

// A view in the rows of a space, with the map that it may need.
struct HostView {
  HostView(const View& view, const RowSpace& space) : spaced(in_space(view, space)), device(spaced.device) {
    if (!spaced.map.empty()) device.map = spaced.map.data();
  }
  HostView(const HostView&) = delete;
  SpacedView spaced;
  DeviceView device;
};

// The views of a backward call, but for a rounded dq.
struct BackwardOperands {
  BackwardOperands(const kernels::AttendBackward& call, const RowSpace& of_q, const RowSpace& of_k)
      : q(call.q, of_q),
        k(call.k, of_k),
        v(call.v, of_k),
        dout(call.dout, of_q),
        lse(call.lse, of_q),
        delta(call.delta, of_q),
        dq(call.dq, of_q),
        dk(call.dk, of_k),
        dv(call.dv, of_k) {}
  AttendBackwardParams params(const kernels::AttendBackward& call) const {
    return {.q = q.device,
            .k = k.device,
            .v = v.device,
            .dout = dout.device,
            .lse = lse.device,
            .delta = delta.device,
            .dq = dq.device,
            .dk = dk.device,
            .dv = dv.device,
            .by_q = {},
            .by_k = {},
            .scale = call.scale,
            .write_dq = call.write_dq,
            .write_dk = call.write_dk,
            .turns = {}};
  }
  HostView q, k, v, dout, lse, delta, dq, dk, dv;
};

WorkList list_of(const WorkTables& tables) {
  return {.tiles = tables.tiles.data(),
          .segments = tables.segments.data(),
          .count = static_cast<std::int32_t>(tables.tiles.size()),
          .live = live_tiles(tables),
          .ending = tables.ending};
}

// Of the kernels that take these heads, or would: the sizes, and of the fused backward kernels the one size.
HeadSizes kernel_sizes(const View& q, const View& v) {
  for (const HeadSizes& sizes : padded_sizes)
    if (are_padded_to(sizes, head_sizes(q, v))) return sizes;
  return {128, 128};
}
std::int64_t kernel_width(const View& q, const View& v) {
  return std::min(kernel_sizes(q, v).key, 128);
}

}  // namespace

EmulatedKernels kernels_for(DType dtype, std::int64_t width) {
  if (dtype == DType::bf16) switch (width) {
      case 64: return emulated_kernels<DType::bf16, 64>();
      case 192: return emulated_kernels<DType::bf16, 192>();
      case 256: return emulated_kernels<DType::bf16, 256>();
      default: return emulated_kernels<DType::bf16, 128>();
    }
#if CPLAB_NIGHTLY
  if (width == 128) return emulated_kernels<DType::fp16, 128>();
#endif
  return emulated_kernels<DType::fp16, 64>();
}

namespace {

bool is_emulated(const View& q, std::int64_t width) {
  return q.dtype != DType::fp16 || width == 64 || (every_kernel && width == 128);
}

std::string name_of(const char* operation, const View& q, std::int64_t width) {
  return std::string(operation) + " hopper " + (q.dtype == DType::bf16 ? "bf16 " : "fp16 ") +
         std::to_string(width);
}

}  // namespace

testing::TileRunner Emulation::runner() {
  testing::TileRunner runner;
  runner.attend = [this](testing::TileRunner::Tensors tensors, std::int64_t, const kernels::Attend& call) {
    return attend(tensors, call);
  };
  runner.attend_backward = [this](testing::TileRunner::Tensors tensors, std::int64_t,
                                  const kernels::AttendBackward& call) {
    return attend_backward(tensors, testing::with_delta(call));
  };
  runner.tensor_cores_only = true;
  runner.computes_delta = false;
  return runner;
}

Launch Emulation::launch() {
  ++seed_;
  return {.seed = seed_,
          .late_copies = seed_ % 2 == 0,
          .heads_per_group = static_cast<int>(1 + seed_ % 3),
          .multiprocessors = static_cast<int>(1 + seed_ % 5),
          .takes_by_counter = seed_ / 2 % 2 == 0,
          .resident = static_cast<int>(1 + seed_ % 4)};
}

// Every `height`, or also where segments end, or anywhere; always where pieces of the space do.
Cuts Emulation::some_cuts(const std::vector<DeviceSegment>& live, const RowSpace& space,
                          std::int64_t height) {
  const std::vector<RowRange> ranges = space.ranges();
  switch (++cuts_ % 3) {
    case 0: return row_cuts(range_borders(ranges, space.rows), height);
    case 1: return row_cuts(segment_borders(live, space.rows, height, ranges), height);
    default: {
      std::mt19937 generator(static_cast<unsigned>(seed_ + cuts_));
      Cuts cuts = testing::random_tile_cuts(generator, space.rows, height), both;
      const Cuts borders = range_borders(ranges, space.rows);
      std::set_union(cuts.begin(), cuts.end(), borders.begin(), borders.end(), std::back_inserter(both));
      return both;
    }
  }
}

// Runs it in one order of threads and copies and again, from the same state, in others: are all bits equal?
bool Emulation::same_in_all_orders(testing::TileRunner::Tensors tensors,
                                   const std::function<void()>& run) const {
  const auto memories = [&] {
    std::vector<std::vector<std::byte>> all;
    for (const testing::Tensor* tensor : tensors) all.push_back(tensor->memory());
    return all;
  };
  const auto before = memories();
  run();
  const auto first = memories();
  bool same = true;
  for (int order = 1; order < orders_; ++order) {
    for (std::size_t n = 0; n < tensors.size(); ++n) tensors[n]->set_memory(before[n]);
    run();
    same = same && memories() == first;
  }
  return same;
}

testing::TileRun Emulation::attend(testing::TileRunner::Tensors tensors, const kernels::Attend& call) {
  const HeadSizes sizes = kernel_sizes(call.q, call.v);
  const std::int64_t width = sizes.key;
  if (!hopper::fits_forward_hopper(call, call.q.dtype, sizes) || !is_emulated(call.q, width)) {
    forward_calls_ += !is_emulated(call.q, width);
    kernels::cpu_tiles().attend(call);
    return {"(cpu tiles)", true};
  }
  const EmulatedKernels with = kernels_for(call.q.dtype, width);
  const EmulatedKernels::Forward& forward = with.attend[forward_calls_++ % with.attend.size()];
  const auto [of_q, of_k] = row_spaces(call).value();
  const HostView q(call.q, of_q), k(call.k, of_k), v(call.v, of_k), out(call.out, of_q), lse(call.lse, of_q);
  const auto live = in_space(live_segments(call.segments), of_q, of_k);
  const WorkTables work =
      query_tiles(live, some_cuts(live, of_q, forward.rows), call.write == Write::store, of_q.ranges());
  AttendParams params{.q = q.device,
                      .k = k.device,
                      .v = v.device,
                      .out = out.device,
                      .lse = lse.device,
                      .work = list_of(work),
                      .scale = call.scale,
                      .write = call.write};
  set_numbers_of_heads(params, call);
  const bool same = same_in_all_orders(tensors, [&] { forward.run(params, launch()); });
  const std::string height =
      (forward.out_of_turn ? ", out of turn, " : ", ") + std::to_string(forward.rows) + " rows";
  const char* const tiles = call.write == Write::merge ? "attend, tiles merged," : "attend, tiles stored,";
  return {name_of(hopper::writes_out_by_tma(params) ? tiles : "attend", call.q, width) + height, same};
}

testing::TileRun Emulation::attend_backward(testing::TileRunner::Tensors tensors,
                                            const kernels::AttendBackward& call) {
  if (call.rounded_dk) {  // stored, or summed and rounded afterwards
    const bool sums = call.q.heads > call.k.heads && rounded_dkv_calls_++ % 2 == 0;
    const testing::TileRun run =
        attend_backward(tensors, sums ? with_summed_dkv(call) : with_stored_dkv(call));
    if (!sums) return run;
    kernels::cpu_tiles().copy(call.dk, *call.rounded_dk);
    kernels::cpu_tiles().copy(call.dv, *call.rounded_dv);
    return {run.variant + " dk, dv summed", run.repeatable};
  }
  if (call.rounded_dq) return attend_backward_rounded(tensors, call);
  const HeadSizes sizes = kernel_sizes(call.q, call.v);
  const std::int64_t width = sizes.key;
  const bool takes_apart = hopper::fits_backward_deterministic_hopper(call, call.q.dtype, sizes),
             takes_fused = width <= 128 && hopper::fits_backward_fused_hopper(call, call.q.dtype, width);
  if (!takes_apart || !is_emulated(call.q, width)) {
    backward_calls_ += !is_emulated(call.q, width);
    kernels::cpu_tiles().attend_backward(call);
    return {"(cpu tiles)", true};
  }
  const EmulatedKernels with = kernels_for(call.q.dtype, width);
  Backward kind = only_.value_or(static_cast<Backward>(++backward_calls_ % 4));
  if (!takes_fused) kind = apart;
  const bool small = kind == fused_64_keys && with.attend_backward_64_keys != nullptr;
  const int key_rows = small ? hopper_backward_small_tile_rows : with.backward_rows;
  const auto [of_q, of_k] = row_spaces(call).value();
  const BackwardOperands operands(call, of_q, of_k);
  const auto live = in_space(live_segments(call.segments), of_q, of_k);
  std::vector<DeviceSegment> bands;
  for (const DeviceSegment& segment : live) bands.push_back(transposed(segment));
  const WorkTables by_q = query_tiles(live, some_cuts(live, of_q, with.backward_rows),
                                      call.write_dq == Write::store, of_q.ranges());
  WorkTables by_k =
      key_tiles(live, some_cuts(bands, of_k, key_rows), call.write_dk == Write::store, of_k.ranges());
  if (kind != apart && seed_ / 3 % 2 != 0)  // by sequences; one multiprocessor: the ending is short
    order_by_walked_rows(by_k, tile_times(by_k, same_costs(shipped_rates(9, 0), 1), true), {.sms = 1}, true);
  AttendBackwardParams params = operands.params(call);
  params.by_q = list_of(by_q);
  params.by_k = list_of(by_k);
  if (kind != apart) {
    const int together = static_cast<int>(1 + seed_ % 3);
    const auto run = [&] {
      if (call.write_dq == Write::store)  // where the first piece is stored, what was there is not read
        kernels::cpu_tiles().fill(call.dq, kind == ordered && hopper::stores_first_dq(params)
                                               ? std::numeric_limits<double>::quiet_NaN()
                                               : 0.0);
      if (hopper::needs_zeroed_dkv(params)) {
        kernels::cpu_tiles().fill(call.dk, 0);
        kernels::cpu_tiles().fill(call.dv, 0);
      }
      Launch as = launch();
      // The order depends on it, and a call determines it.
      if (kind == ordered) as.heads_per_group = together;
      (kind == ordered ? with.attend_backward_ordered
       : small         ? with.attend_backward_64_keys
                       : with.attend_backward_fused)(params, as);
    };
    if (kind != ordered) {
      run();  // its bits may differ
      std::string name = "attend_backward fused,";
      if (hopper::loads_lse_delta_by_tma(params)) name += " lse by TMA,";
      if (hopper::writes_dkv_by_tma(params))
        name += call.write_dk == Write::add ? " tiles added," : " tiles stored,";
      return {name_of(name.c_str(), call.q, width) + (small ? ", 64 keys" : ""), true};
    }
    const DqTurns turns = dq_turns(by_k, of_q.rows, width);
    const auto count = static_cast<std::size_t>(dq_counters(turns, call.q.heads));
    std::vector<std::int32_t> counters(count);
    const auto dkv_count = static_cast<std::size_t>(dkv_counters(turns, call.k.heads));
    std::vector<std::int32_t> of_dkv(dkv_count);
    params.turns = {turns.unit_of_tile.data(),
                    turns.units.data(),
                    turns.runs.data(),
                    turns.total.data(),
                    turns.total_before_ending.data(),
                    turns.even,
                    turns.full,
                    turns.whole,
                    counters.data(),
                    turns.cells,
                    of_dkv.data()};
    const bool same = same_in_all_orders(tensors, [&] {
      run();
      REQUIRE(counters == std::vector<std::int32_t>(count));  // ready for the next launch
      REQUIRE(of_dkv == std::vector<std::int32_t>(dkv_count));
    });
    std::string name = "attend_backward ordered";
    if (hopper::stores_first_dq(params)) name += ", first stored,";
    return {name_of(name.c_str(), call.q, width), same};
  }
  const bool same =
      same_in_all_orders(tensors, [&] { with.attend_backward_deterministic(params, launch()); });
  std::string name = "attend_backward";
  if (hopper::stores_dq_tiles(params))
    name += call.dq.dtype == DType::fp32 ? ", sums of dq stored," : ", dq stored,";
  if (hopper::stores_dkv_tiles(params)) name += " dk, dv stored,";
  return {name_of(name.c_str(), call.q, width), same};
}

testing::TileRun Emulation::attend_backward_rounded(testing::TileRunner::Tensors tensors,
                                                    const kernels::AttendBackward& call) {
  const std::int64_t width = kernel_width(call.q, call.v);
  if (!only_ && hopper::fits_backward_chains_hopper(call, call.q.dtype, width) &&
      kernels_for(call.q.dtype, width).attend_backward_chains != nullptr)
    if (const auto made = chain_tiles(call, hopper_backward_tile_rows))
      return attend_backward_by_chains(tensors, call, *made);
  kernels::AttendBackward launched = call;
  launched.rounded_dq.reset();
  const bool stores = !only_ && call.write_dq == Write::store && rounded_calls_++ % 2 == 0;
  if (stores) launched.dq = *call.rounded_dq;
  testing::TileRun run = attend_backward(tensors, launched);
  if (!stores) kernels::cpu_tiles().copy(call.dq, *call.rounded_dq);
  return run;
}

testing::TileRun Emulation::attend_backward_by_chains(testing::TileRunner::Tensors tensors,
                                                      const kernels::AttendBackward& call,
                                                      const ChainTiles& made) {
  const EmulatedKernels with = kernels_for(call.q.dtype, 64);
  const auto [of_q, of_k] = row_spaces(call).value();
  const BackwardOperands operands(call, of_q, of_k);
  const HostView rounded(*call.rounded_dq, of_q);
  AttendBackwardParams params = operands.params(call);
  params.by_k = list_of(made.by_k);
  params.chains = {made.chains.chains.data(), made.chains.pieces.data(),
                   static_cast<std::int32_t>(made.chains.chains.size())};
  params.rounded_dq = rounded.device;
  const bool same = same_in_all_orders(tensors, [&] {
    if (hopper::needs_zeroed_dkv(params)) {
      kernels::cpu_tiles().fill(call.dk, 0);
      kernels::cpu_tiles().fill(call.dv, 0);
    }
    with.attend_backward_chains(params, launch());
  });
  return {name_of("attend_backward chains", call.q, 64), same};
}

}  // namespace cplab::emulator

// CudaCalls: from the calls of linear.hpp to parameters of kernels and tables in device memory.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/cuda/calls_state.hpp"
#include "kernels/cuda/linear_table.hpp"
#include "kernels/families/elementwise/elementwise.hpp"
#include "kernels/families/linear/variants.hpp"
#include "kernels/linear_checks.hpp"
#include "kernels/tiles/linear_cuts.hpp"

namespace cplab::kernels {

using namespace cuda;

namespace {

// A call being added: its parameters, and what becomes 0 before its kernel runs.
struct LinearCall {
  LinearParams params;
  // Of a variant of the family gated: what `params` has not, and then its views too.
  GatedParams gated = {};
  GatedCombineParams combine = {};
  std::vector<DeviceView> zeroed;  // does not grow once a pointer into it was given away
};

// The physical rows of compact rows of a view.
std::vector<RowRun> physical_runs(const View& view, std::span<const RowRun> compact) {
  if (view.runs.empty()) return {compact.begin(), compact.end()};
  const RowMap map = row_map(view);
  std::vector<RowRun> runs;
  for (const RowRun& run : compact)
    for (std::int64_t row = run.begin; row < run.begin + run.count; ++row)
      runs.push_back(
          {map.rows.empty() ? map.begin + row * map.step : map.rows[static_cast<std::size_t>(row)], 1, 1});
  return runs;
}

template <class State>
void zero_rows(State& state, std::vector<DeviceView>& zeroed, const View& view,
               std::span<const RowRun> compact) {
  if (compact.empty()) return;
  const std::vector<RowRun> runs = physical_runs(view, compact);
  View part = view;
  part.rows = 0;
  for (const RowRun& run : runs) part.rows += run.count;
  part.runs = runs;
  state.set(zeroed.emplace_back(), part);
}

// Stored rows that are in no chunk.
template <class State>
void zero_other_rows(State& state, std::vector<DeviceView>& zeroed, const View& view, const Chunks& chunks,
                     Write write) {
  if (write == Write::store) zero_rows(state, zeroed, view, rows_in_no_chunk(chunks.list, view.rows));
}

// States of final_state that no chunk names: nothing leaves there.
template <class State>
void zero_other_states(State& state, std::vector<DeviceView>& zeroed, const std::optional<View>& view,
                       std::int64_t D, const Chunks& chunks, std::int32_t Chunk::*edge) {
  if (!view || view->rows == 0) return;
  std::vector<bool> named(static_cast<std::size_t>(view->rows / D));
  for (const Chunk& chunk : chunks.list)
    if (chunk.*edge >= 0) named[static_cast<std::size_t>(chunk.*edge)] = true;
  std::vector<RowRun> others;
  for (std::size_t n = 0; n < named.size(); ++n)
    if (!named[n]) others.push_back({static_cast<std::int64_t>(n) * D, D, 1});
  zero_rows(state, zeroed, *view, others);
}

template <class State>
void set(State& state, DeviceView& into, const std::optional<View>& view) {
  if (view && view->rows * view->heads * view->width > 0) state.set(into, *view);
}

template <class State>
std::shared_ptr<LinearCall> begin(State& state, const ChosenLinear& chosen, const Chunks& chunks) {
  auto call = state.template begin<LinearCall>();
  call->zeroed.reserve(8);
  LinearParams& p = call->params;
  p.cut = chosen.cut;
  p.chunks.count = static_cast<std::int32_t>(chosen.chunks.size());
  p.chunks.group_count = std::max(static_cast<std::int32_t>(chosen.groups.size()) - 1, 0);
  if (!chosen.chunks.empty()) state.template point<DeviceChunk>(p.chunks.list, chosen.chunks);
  if (!chosen.groups.empty()) state.template point<std::int32_t>(p.chunks.groups, chosen.groups);
  if (!chunks.slopes.empty()) state.template point<double>(p.chunks.slopes, chunks.slopes);
  if (chosen.cut.counters > 0)
    state.place_counters(p.counters, static_cast<std::size_t>(chosen.cut.counters));
  return call;
}

bool is_gated(const ChosenLinear& chosen) {
  return chosen.variant->family == LinearVariant::Family::gated;
}

// What all calls of the family gated over tokens have beside views of LinearParams.
template <class State, class Call>
void set_gated(State& state, const ChosenLinear& chosen, const std::shared_ptr<LinearCall>& added,
               const Call& call) {
  if (!is_gated(chosen)) return;
  GatedParams& p = added->gated;
  p.cut = chosen.gated;
  p.chunk_count = static_cast<std::int32_t>(chosen.chunks.size());
  if (!chosen.chunks.empty()) state.template point<DeviceChunk>(p.chunks, chosen.chunks);
  if (!chosen.blocks.empty()) state.template point<DeviceChunk>(p.blocks, chosen.blocks);
  state.template point<std::int32_t>(p.first_block, chosen.first_blocks);
  state.place_scratch(p.scratch, static_cast<std::size_t>(chosen.gated.scratch.bytes));
  p.heads = static_cast<std::int32_t>(call.log_decay->heads);
  set(state, p.log_decay, call.log_decay);
  set(state, p.beta, call.beta);
}

// The views of a call over tokens as the family gated names them.
void take_views(LinearCall& call) {
  const LinearParams& from = call.params;
  GatedParams& into = call.gated;
  into.write = from.write;
  into.leaving_by_state = from.rows.data != nullptr;
  if (into.leaving_by_state) {
    (from.reverse ? into.q : into.k) = from.rows;
    (from.reverse ? into.dout : into.v) = from.columns;
    into.leaving = from.state;
    return;
  }
  into.q = from.q, into.k = from.k, into.v = from.v, into.dout = from.dout;
  into.state = from.state, into.carry = from.carry;
  into.dstate = from.dstate, into.dcarry = from.dcarry;
  into.out = from.out, into.dq = from.dq, into.dk = from.dk, into.dv = from.dv;
  into.leaving = from.final_state;
}

void take_combined(LinearCall& call) {
  const LinearParams& from = call.params;
  call.combine.from = from.from, call.combine.into = from.into;
  call.combine.chunks = from.chunks.list;
  call.combine.chunk_count = from.chunks.count;
  call.combine.state_rows = from.state_rows;
  call.combine.write = from.write;
  call.combine.reverse = from.reverse;
}

// Pointers to tables are there when it runs.
Launch launch_of(const LinearKernel& kernel, const std::shared_ptr<LinearCall>& call) {
  if (kernel.bind != nullptr) return kernel.bind(call->params);
  const bool combines = kernel.bind_combine != nullptr;
  const Launch launch = combines ? kernel.bind_combine(call->combine) : kernel.bind_gated(call->gated);
  return [call, launch, combines](CudaStream stream) {
    combines ? take_combined(*call) : take_views(*call);
    launch(stream);
  };
}

template <class State>
std::size_t push(State& state, const ChosenLinear& chosen, const std::shared_ptr<LinearCall>& call) {
  Launch launch = [](CudaStream) {};
  if (chosen.cut.thread_blocks > 0) launch = launch_of(kernel_of(*chosen.variant), call);
  const std::size_t number = state.push(chosen.variant->name, [call, launch](CudaStream stream) {
    for (const DeviceView& view : call->zeroed) launch_fill(view, 0, stream);
    launch(stream);
  });
  state.calls[number].deterministic = chosen.variant->deterministic;
  return number;
}

}  // namespace

std::size_t CudaCalls::add(const LinearLocal& call) {
  check_call(call);
  State& state = *state_;
  const ChosenLinear chosen = choose_variant(call, state.options);
  const auto added = begin(state, chosen, call.chunks);
  LinearParams& p = added->params;
  state.set(p.q, call.q);
  state.set(p.k, call.k);
  state.set(p.v, call.v);
  state.set(p.out, call.out);
  set(state, p.state, call.state);
  set(state, p.carry, call.carry);
  set(state, p.final_state, call.final_state);
  p.write = call.write;
  set_gated(state, chosen, added, call);
  zero_other_rows(state, added->zeroed, call.out, call.chunks, call.write);
  zero_other_states(state, added->zeroed, call.final_state, call.q.width, call.chunks, &Chunk::right);
  return state.note(push(state, chosen, added), cuda::fall_back(call, state.options));
}

std::size_t CudaCalls::add(const LinearLocalBackward& call) {
  check_call(call);
  State& state = *state_;
  const ChosenLinear chosen = choose_variant(call, state.options);
  const auto added = begin(state, chosen, call.chunks);
  LinearParams& p = added->params;
  state.set(p.q, call.q);
  state.set(p.k, call.k);
  state.set(p.v, call.v);
  state.set(p.dout, call.dout);
  state.set(p.dq, call.dq);
  state.set(p.dk, call.dk);
  state.set(p.dv, call.dv);
  set(state, p.state, call.state);
  set(state, p.carry, call.carry);
  set(state, p.dstate, call.dstate);
  set(state, p.dcarry, call.dcarry);
  set(state, p.final_state, call.final_state);
  p.write = call.write;
  set_gated(state, chosen, added, call);
  set(state, added->gated.dlog_decay, call.dlog_decay);
  set(state, added->gated.dbeta, call.dbeta);
  for (const View* view : {&call.dq, &call.dk, &call.dv})
    zero_other_rows(state, added->zeroed, *view, call.chunks, call.write);
  for (const std::optional<View>* view : {&call.dlog_decay, &call.dbeta})
    if (*view) zero_other_rows(state, added->zeroed, **view, call.chunks, Write::store);
  zero_other_states(state, added->zeroed, call.final_state, call.q.width, call.chunks, &Chunk::left);
  return state.note(push(state, chosen, added), cuda::fall_back(call, state.options));
}

std::size_t CudaCalls::add(const LinearState& call) {
  check_call(call);
  State& state = *state_;
  const ChosenLinear chosen = choose_variant(call, state.options);
  const auto added = begin(state, chosen, call.chunks);
  LinearParams& p = added->params;
  state.set(p.rows, call.rows);
  state.set(p.columns, call.columns);
  state.set(p.state, call.state);
  p.reverse = call.reverse;
  set_gated(state, chosen, added, call);
  if (call.reverse) set(state, added->gated.k, call.k);
  set(state, added->gated.transition, call.transition);
  return state.note(push(state, chosen, added), cuda::fall_back(call, state.options));
}

std::size_t CudaCalls::add(const LinearScan& call) {
  check_call(call);
  State& state = *state_;
  const ChosenLinear chosen = choose_variant(call, state.options);
  const auto added = begin(state, chosen, call.chunks);
  LinearParams& p = added->params;
  state.set(p.state, call.state);
  set(state, p.final_state, call.final_state);
  p.reverse = call.reverse;
  p.sums_only = call.sums_only;
  if (state_count(call) > 0) p.state_rows = static_cast<std::int32_t>(call.state.rows / state_count(call));
  if (call.final_state && p.state_rows > 0)
    zero_other_states(state, added->zeroed, call.final_state, p.state_rows, call.chunks,
                      call.reverse ? &Chunk::left : &Chunk::right);
  return push(state, chosen, added);
}

std::size_t CudaCalls::add(const LinearCombine& call) {
  check_call(call);
  State& state = *state_;
  const ChosenLinear chosen = choose_variant(call, state.options);
  const auto added = begin(state, chosen, call.chunks);
  LinearParams& p = added->params;
  state.set(p.from, call.from);
  state.set(p.into, call.into);
  p.write = call.write;
  p.reverse = call.reverse;
  set(state, added->combine.transition, call.transition);
  if (state_count(call) > 0) p.state_rows = static_cast<std::int32_t>(call.into.rows / state_count(call));
  return push(state, chosen, added);
}

std::size_t CudaCalls::add(const LinearInter& call) {
  check_call(call);
  State& state = *state_;
  const ChosenLinear chosen = choose_variant(call, state.options);
  const auto added = begin(state, chosen, call.chunks);
  LinearParams& p = added->params;
  set(state, p.q, call.q);
  set(state, p.k, call.k);
  set(state, p.v, call.v);
  set(state, p.dout, call.dout);
  set(state, p.state, call.state);
  set(state, p.carry, call.carry);
  set(state, p.dstate, call.dstate);
  set(state, p.dcarry, call.dcarry);
  set(state, p.out, call.out);
  set(state, p.dq, call.dq);
  set(state, p.dk, call.dk);
  set(state, p.dv, call.dv);
  p.write = call.write;
  for (const std::optional<View>* view : {&call.out, &call.dq, &call.dk, &call.dv})
    if (*view) zero_other_rows(state, added->zeroed, **view, call.chunks, call.write);
  return push(state, chosen, added);
}

namespace {

// A convolution being added, or a filter's gradient.
template <class Params>
struct ConvolutionCall {
  Params params;
  std::vector<DeviceView> zeroed;
};

template <class Params, class State, class Call>
std::shared_ptr<ConvolutionCall<Params>> begin_convolution(State& state, const Call& call,
                                                           std::int64_t factors) {
  const std::int64_t taps = factors / std::max<std::int64_t>(call.from.width, 1);
  if (taps > most_taps)
    throw std::invalid_argument("a convolution over " + std::to_string(taps) +
                                " tokens has no kernel on GPUs; " + std::to_string(most_taps) +
                                " is the most");
  auto added = state.template begin<ConvolutionCall<Params>>();
  added->zeroed.reserve(1);
  Params& p = added->params;
  const std::vector<DeviceChunk> tiles = short_chunks(call.chunks.list);
  p.count = static_cast<std::int32_t>(tiles.size());
  p.taps = static_cast<std::int32_t>(taps);
  if (!tiles.empty()) state.template point<DeviceChunk>(p.tiles, tiles);
  state.set(p.from, call.from);
  set(state, p.halo, call.halo);
  return added;
}

}  // namespace

std::size_t CudaCalls::add(const Convolve& call) {
  check_call(call);
  State& state = *state_;
  const auto added = begin_convolution<ConvolveParams>(state, call, call.filter.width);
  state.set(added->params.filter, call.filter);
  state.set(added->params.into, call.into);
  added->params.reverse = call.reverse;
  zero_other_rows(state, added->zeroed, call.into, call.chunks, Write::store);
  return state.push("convolve", [added](CudaStream stream) {
    for (const DeviceView& view : added->zeroed) launch_fill(view, 0, stream);
    launch_convolve(added->params, stream);
  });
}

std::size_t CudaCalls::add(const FilterGradient& call) {
  check_call(call);
  State& state = *state_;
  const auto added = begin_convolution<FilterGradientParams>(state, call, call.dfilter.width);
  state.set(added->params.dout, call.dout);
  state.set(added->params.dfilter, call.dfilter);
  return state.push("filter_gradient",
                    [added](CudaStream stream) { launch_filter_gradient(added->params, stream); });
}

}  // namespace cplab::kernels

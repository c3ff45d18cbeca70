// CudaCalls of attention that changes logits: from calls of masked.hpp to parameters, tables and launches.
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/cuda/calls_state.hpp"
#include "kernels/families/elementwise/elementwise.hpp"
#include "kernels/families/masked/masked.hpp"

namespace cplab::kernels {

using namespace cuda;

namespace {

// The columns of a full mask: one run at distance 1 needs no table.
template <class State>
void set_columns(State& state, DevicePairMask& into, std::span<const RowRun> runs) {
  into.full = !runs.empty();
  std::vector<std::int32_t> columns;
  bool consecutive = true;
  for (const RowRun& run : runs)
    for (std::int64_t i = 0; i < run.count; ++i) {
      const std::int64_t column = run.begin + i * run.step;
      State::require_int(column, "a bias or keep mask has 2^31 columns or more, too many for a GPU kernel");
      columns.push_back(static_cast<std::int32_t>(column));
      consecutive = consecutive && columns.back() - columns.front() == std::ssize(columns) - 1;
    }
  if (columns.empty()) return;
  if (consecutive)
    into.first_column = columns.front();
  else
    state.template point<std::int32_t>(into.columns, columns);
}

// A bias of positions.
template <class State>
void set_positions(State& state, DevicePairMask& into, const PairMask& mask) {
  if (const std::vector<std::int32_t> positions = positions_of(mask); !positions.empty())
    state.template point<std::int32_t>(into.positions, positions);
  if (!mask.slopes.empty()) state.template point<double>(into.slopes, mask.slopes);
  if (!mask.table) return;
  state.set(into.table, *mask.table);
  const std::vector<std::int32_t> buckets = buckets_of_distances(mask);
  state.template point<std::int32_t>(into.bucket_of, buckets);
  into.last_distance = static_cast<std::int32_t>(std::ssize(buckets) - 1);
  if (mask.both_ways) into.later_buckets = static_cast<std::int32_t>(mask.starts.size()) + 1;
}

// `parts` of the cells: by query for both directions, by key for the backward.
template <class State>
void set_mask(State& state, DevicePairMask& into, const PairMask& mask, const View& q, const View& k,
              std::span<const Segment> segments, bool skips, bool backward) {
  into.softcap = mask.softcap;
  into.q_rows = static_cast<std::int32_t>(q.rows);
  into.k_rows = static_cast<std::int32_t>(k.rows);
  if (mask.placed()) return set_positions(state, into, mask);
  if (mask.bias) state.set(into.bias, *mask.bias);
  if (mask.keep) state.set(into.keep, *mask.keep);
  set_columns(state, into, mask.columns);
  if (!mask.keep || !skips) return;
  const std::int32_t q_cells = cells_of(into.q_rows), k_cells = cells_of(into.k_rows);
  into.by_q = {.rows = q_cells, .row_words = words_of(k_cells)};
  state.place_cells(into.by_q, mask.keep->heads);
  if (backward) {
    into.by_k = {.rows = k_cells, .row_words = words_of(q_cells)};
    state.place_cells(into.by_k, mask.keep->heads);
  }
  if (const std::vector<KeyReach> reach = key_reaches(segments, q.rows); !reach.empty())
    state.template point<KeyReach>(into.reach, reach);
}

// Both parts of a call, one after the other, and apart.
template <class State, class Scan, class Products>
std::size_t push(State& state, const std::string& name, Scan scan, Products products) {
  const std::size_t number = state.push(name, [scan, products](CudaStream stream) {
    scan(stream);
    products(stream);
  });
  state.calls[number].scan = scan;
  state.calls[number].products = products;
  return number;
}

// Of Hopper's own kernels.
template <class State>
void set_scores(State& state, ScoreParams& into, const ScoreTables& tables) {
  into = tables.numbers;
  if (tables.slopes.empty()) return;
  state.template point<float>(into.slopes, tables.slopes);
  if (!tables.shifts.empty()) state.template point<std::int32_t>(into.shifts, tables.shifts);
}

template <class State>
void set_changed(State& state, MaskedParams& p, const ChangedTiles<ChosenForward>& changed,
                 const Attend& call) {
  AttendParams& tile = p.tile;
  const RowSpaces& spaces = changed.chosen.spaces.value();
  state.set(tile.q, call.q, &spaces.q);
  state.set(tile.k, call.k, &spaces.k);
  state.set(tile.v, call.v, &spaces.k);
  state.set(tile.out, call.out, &spaces.q);
  state.set(tile.lse, call.lse, &spaces.q);
  state.set(tile.work, changed.chosen.work);
  tile.multiprocessors = state.options.sms;
  if (!changed.chosen.work.even) state.place_counters(tile.tile_counter, 1);
  set_scores(state, p.scores, changed.scores);
}

template <class State>
void set_changed(State& state, MaskedBackwardParams& p, const ChangedTiles<ChosenBackward>& changed,
                 const AttendBackward& call) {
  AttendBackwardParams& tile = p.tile;
  const RowSpaces& spaces = changed.chosen.spaces.value();
  const std::pair<DeviceView*, const View*> of_queries[] = {{&tile.q, &call.q},
                                                            {&tile.dout, &call.dout},
                                                            {&tile.lse, &call.lse},
                                                            {&tile.delta, &call.delta},
                                                            {&tile.dq, &call.dq}},
                                            of_keys[] = {{&tile.k, &call.k},
                                                         {&tile.v, &call.v},
                                                         {&tile.dk, &call.dk},
                                                         {&tile.dv, &call.dv}};
  for (const auto& [into, view] : of_queries) state.set(*into, *view, &spaces.q);
  for (const auto& [into, view] : of_keys) state.set(*into, *view, &spaces.k);
  if (call.write_dk == Write::store) {
    state.set(tile.zeroed_dk, call.dk);
    state.set(tile.zeroed_dv, call.dv);
  }
  state.set(tile.by_q, changed.chosen.by_q);
  state.set(tile.by_k, changed.chosen.by_k);
  tile.multiprocessors = state.options.sms;
  state.place_counters(tile.tile_counter, 1);
  set_scores(state, p.scores, changed.scores);
}

template <class State>
void set_masked(State& state, MaskedBackwardParams& p, const ChosenMaskedBackward& chosen,
                const MaskedAttendBackward& call, bool skips) {
  AttendBackwardParams& tile = p.tile;
  const AttendBackward& host = call.tile;
  const std::pair<DeviceView*, const View*> views[] = {
      {&tile.q, &host.q},       {&tile.k, &host.k},     {&tile.v, &host.v},
      {&tile.dout, &host.dout}, {&tile.lse, &host.lse}, {&tile.delta, &host.delta},
      {&tile.dq, &host.dq},     {&tile.dk, &host.dk},   {&tile.dv, &host.dv}};
  for (const auto& [into, view] : views) state.set(*into, *view);
  state.set(tile.by_q, chosen.by_q);
  state.set(tile.by_k, chosen.by_k);
  set_mask(state, p.mask, call.mask, host.q, host.k, host.segments, skips, true);
}

}  // namespace

std::size_t CudaCalls::add(const MaskedAttend& call, bool skips) {
  check_call(call);
  State& state = *state_;
  const ChosenMasked chosen = choose_variant(call, state.options);
  const auto p = state.begin<MaskedParams>();
  AttendParams& tile = p->tile;
  if (chosen.changed) {
    set_changed(state, *p, *chosen.changed, call.tile);
  } else {
    state.set(tile.q, call.tile.q);
    state.set(tile.k, call.tile.k);
    state.set(tile.v, call.tile.v);
    state.set(tile.out, call.tile.out);
    state.set(tile.lse, call.tile.lse);
    state.set(tile.work, chosen.work);
    set_mask(state, p->mask, call.mask, call.tile.q, call.tile.k, call.tile.segments, skips, false);
  }
  tile.scale = call.tile.scale;
  tile.write = call.tile.write;
  set_numbers_of_heads(tile, call.tile);
  const std::size_t number = push(
      state, chosen.variant->name, [p](CudaStream stream) { launch_mask_scan(p->mask, stream); },
      [p, launch = kernel_of(*chosen.variant).bind(*p)](CudaStream stream) { launch(stream); });
  return state.note(number, cuda::fall_back(call, state.options));
}

std::size_t CudaCalls::add(const MaskedAttendBackward& call, bool skips) {
  check_call(call);
  State& state = *state_;
  const ChosenMaskedBackward chosen = choose_variant(call, state.options);
  const auto p = state.begin<MaskedBackwardParams>();
  AttendBackwardParams& tile = p->tile;
  const AttendBackward& host = call.tile;
  tile.scale = host.scale;
  tile.write_dq = host.write_dq;
  tile.write_dk = host.write_dk;
  if (chosen.changed)
    set_changed(state, *p, *chosen.changed, host);
  else
    set_masked(state, *p, chosen, call, skips);
  if (call.dbias) state.set(p->dbias, *call.dbias);
  if (call.dtable) state.set(p->dtable, *call.dtable);
  p->write_dbias = call.write_dbias;
  const auto zeroed_dq = std::make_shared<DeviceView>();
  const bool sums_dq = chosen.changed && host.write_dq == Write::store;
  if (sums_dq) state.set(*zeroed_dq, host.dq);
  const bool no_queries = host.q.heads == 0;  // then nothing reads the keys
  const bool zeroes_dbias = call.dbias && call.write_dbias == Write::store && (p->mask.full || no_queries);
  // A bind() reads shapes: of a call without heads there are none.
  const auto launch = no_queries ? Launch() : kernel_of(*chosen.variant).bind(*p);
  const auto products = [p, launch, zeroes_dbias, zeroed_dq, sums_dq, no_queries](CudaStream stream) {
    if (zeroes_dbias) launch_fill(p->dbias, 0, stream);
    if (sums_dq && !no_queries) launch_fill(*zeroed_dq, 0, stream);
    if (!no_queries) return launch(stream);
    if (p->tile.write_dk == Write::add) return;
    launch_fill(p->tile.dk, 0, stream);
    launch_fill(p->tile.dv, 0, stream);
  };
  const std::size_t number = push(
      state, chosen.variant->name, [p](CudaStream stream) { launch_mask_scan(p->mask, stream); }, products);
  state.calls[number].deterministic = !call.dtable && !chosen.changed;
  return state.note(number, cuda::fall_back(call, state.options));
}

std::size_t CudaCalls::add(const SelectKeys& call) {
  check_call(call);
  State& state = *state_;
  const auto p = state.begin<SelectParams>();
  *p = select_params(call, {}, {});
  state.set(p->bias, call.bias);
  state.set(p->keep, call.keep);
  return state.push("select_keys", [p](CudaStream stream) { launch_select_keys(*p, stream); });
}

std::size_t CudaCalls::add_scan_of(std::size_t call) {
  const State::Call& whole = state_->calls.at(call);
  if (!whole.scan) throw std::logic_error("CudaCalls: no call of dynamic mask attention");
  state_->begin_call();
  return state_->push("mask_scan", whole.scan);
}

std::size_t CudaCalls::add_products_of(std::size_t call) {
  const State::Call& whole = state_->calls.at(call);
  if (!whole.products) throw std::logic_error("CudaCalls: no call of dynamic mask attention");
  state_->begin_call();
  return state_->push(whole.variant + ", products", whole.products);
}

}  // namespace cplab::kernels

// Sizes and cuts; see linear_work.hpp.
#include "sim/linear_work.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "kernels/choice/fall_back.hpp"
#include "kernels/families/linear/variants.hpp"
#include "plan/chunk_flops.hpp"

namespace cplab {
namespace {

constexpr std::int64_t step_tokens = 64;

double parts(std::int64_t width, std::int64_t columns) {
  return static_cast<double>(std::max<std::int64_t>(1, (width + columns - 1) / columns));
}

double steps_of(std::int64_t tokens) {
  return parts(tokens, step_tokens);
}

// Of calls that have a transition of every token, where no kernel of that GPU takes them.
struct CutOf {
  using Cut = kernels::cuda::LinearCut;
  Cut operator()(const kernels::LinearLocal& call) const { return kernels::cuda::cut_of(call); }
  Cut operator()(const kernels::LinearLocalBackward& call) const { return kernels::cuda::cut_of(call); }
  Cut operator()(const kernels::LinearState& call) const { return kernels::cuda::cut_of(call); }
  Cut operator()(const kernels::LinearCombine& call) const { return kernels::cuda::cut_of(call); }
  Cut operator()(const kernels::LinearScan& call) const {
    const auto scan =
        kernels::cuda::scan_chunks(call.chunks.list, call.final_state.has_value(), call.reverse);
    return kernels::cuda::cut_of(call, static_cast<std::int64_t>(scan.groups.size()) - 1);
  }
  Cut operator()(const kernels::LinearInter& call) const {
    const auto count = call.chunks.work == kernels::ChunkWork::blocked
                           ? kernels::cuda::short_chunks(call.chunks.list).size()
                           : call.chunks.list.size();
    return kernels::cuda::cut_of(call, static_cast<std::int64_t>(count));
  }
  template <class Other>
  Cut operator()(const Other&) const {
    return {};
  }
};

kernels::cuda::VariantOptions options_on(const GpuSpec& gpu) {
  return {.sm_major = gpu.sm_major, .sms = gpu.sms, .build = {.hopper = true, .full = true}};
}

struct Choose {
  const GpuSpec& gpu;
  bool full = true;
  template <class Call>
  kernels::cuda::ChosenLinear operator()(const Call& call) const {
    if constexpr (requires { kernels::cuda::choose_variant(call, kernels::cuda::VariantOptions{}).groups; }) {
      kernels::cuda::VariantOptions options = options_on(gpu);
      options.build.full = full;
      return kernels::cuda::choose_variant(call, options);
    }
    throw std::invalid_argument("not an operation of linear attention");
  }
};

struct WhyNotPreferred {
  const GpuSpec& gpu;
  template <class Call>
  std::optional<kernels::cuda::FallBack> operator()(const Call& call) const {
    if constexpr (requires {
                    call.chunks;
                    kernels::cuda::fall_back(call, kernels::cuda::VariantOptions{});
                  })
      return kernels::cuda::fall_back(call, options_on(gpu));
    return {};
  }
};

bool has_token_transition(const RankPlan& rank, const Operation& op) {
  using enum Operand;
  const auto operands = {log_decay, beta, transition};
  return std::any_of(operands.begin(), operands.end(),
                     [&](Operand o) { return rank.find(op, o) != nullptr; });
}

std::optional<kernels::cuda::ChosenLinear> chosen_gated(const KernelCall& call, const GpuSpec& gpu) {
  try {
    return std::visit(Choose{gpu}, call);
  } catch (const std::invalid_argument&) {  // as of a GPU that has no such kernels
    return {};
  }
}

void take_chosen(LinearWork& work, const kernels::cuda::ChosenLinear& chosen) {
  work.variant = chosen.variant->name;
  work.blocks = chosen.cut;
  work.persistent = chosen.cut.multiprocessors > 0;
  if (chosen.gated.tokens > 0 && !chosen.first_blocks.empty()) work.gated = chosen.gated;
}

}  // namespace

std::string linear_refusal(const CallConverter& calls, const Operation& op, const GpuSpec& gpu) {
  if (has_token_transition(calls.plan(), op)) return {};
  try {
    (void)std::visit(Choose{gpu, false}, calls.calls(op).front().call);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return {};
}

LinearWork linear_work(const CallConverter& calls, const Operation& op, DType nominal, const GpuSpec& gpu) {
  using enum Operand;
  const RankPlan& rank = calls.plan();
  LinearWork work;
  work.kind = op.kind;
  work.cut = op.chunk_work;
  work.dtype = nominal;
  const auto width = [&](std::initializer_list<Operand> operands) {
    for (const Operand o : operands)
      if (const Access* a = rank.find(op, o)) {
        const View& view = rank.views[a->view];
        work.heads = view.head_end - view.head_begin;
        return static_cast<std::int64_t>(view.width_end - view.width_begin);
      }
    return std::int64_t{0};
  };
  work.D = width({q, k, dq, dk});
  work.E = width({v, dout, out, dv, state, dstate, into});
  std::int64_t run = 0, states = 1;
  for (const Chunk& chunk : rank.chunks_of(op)) {
    states = std::max<std::int64_t>(states, chunk.state + 1);
    run = chunk.resets ? 1 : run + 1;
    work.longest_run = std::max(work.longest_run, run);
    work.tokens += chunk.count;
    work.longest = std::max(work.longest, chunk.count);
    ++work.chunks;
  }
  for (const Operand o : {state, dstate})
    if (const Access* a = rank.find(op, o); a && op.kind == OpKind::scan)
      work.D = row_count(rank.rows_of(rank.views[a->view])) / states;
  for (const Access& access : rank.reads(op))
    work.bytes += static_cast<double>(view_bytes(rank, rank.views[access.view], nominal));
  for (const Access& access : rank.writes(op)) {
    const auto bytes = static_cast<double>(view_bytes(rank, rank.views[access.view], nominal));
    work.bytes += access.mode == WriteMode::store ? bytes : 2 * bytes;
    work.of_values += access.operand == out || access.operand == dv;
    work.of_keys += access.operand == dq || access.operand == dk;
  }
  work.flops = chunk_flops(rank, op);
  PlacedCall placed = calls.calls(op).front();
  const std::vector<kernels::View*> views = views_of(placed.call);
  // Kernels ask how operands are aligned; whoever allocates buffers aligns them for all.
  for (std::size_t i = 0; i < views.size(); ++i)
    views[i]->data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(placed.places[i].byte));
  try {
    if (has_token_transition(rank, op)) {
      work.gate_columns = width({log_decay}) > 1;
      work.blocks = std::visit(CutOf{}, placed.call);
      if (const auto chosen = chosen_gated(placed.call, gpu)) take_chosen(work, *chosen);
    } else {
      const kernels::cuda::ChosenLinear chosen = std::visit(Choose{gpu}, placed.call);
      take_chosen(work, chosen);
      work.fall_back = std::visit(WhyNotPreferred{gpu}, placed.call);
      for (std::size_t g = 1; g < chosen.groups.size(); ++g)
        work.longest_group =
            std::max<std::int64_t>(work.longest_group, chosen.groups[g] - chosen.groups[g - 1]);
    }
  } catch (const std::invalid_argument& error) {
    throw HardwareError("kernel", "class=" + std::string(name(op.kind)), error.what());
  }
  return work;
}

namespace {

// hopper/linear/launch.cuh: one walk; backward one for dq, which reads dout, v and k, and one for dk and dv,
// which reads everything.
LinearLaunch of_hopper(const LinearWork& work, LinearLaunch launch, double keys, double values) {
  const double steps = launch.steps;
  const bool backward = work.kind == OpKind::local_backward;
  const std::int64_t width = work.kind == OpKind::local ? work.E : work.D;
  launch.steps = backward ? steps : 0;
  const bool paired = kernels::cuda::hopper_walk_blocks(static_cast<int>(width)) == 2;
  (paired ? launch.paired_steps : launch.steps) += steps;
  if (backward) launch.bytes += keys + 2 * values;
  return launch;
}

// Every array between the kernels is written once and read once or twice.
LinearLaunch of_gated(const LinearWork& work, LinearLaunch launch) {
  const kernels::cuda::GatedCut& cut = *work.gated;
  const kernels::cuda::GatedScratch& scratch = cut.scratch;
  const bool local = work.kind == OpKind::local, backward = work.kind == OpKind::local_backward;
  GatedLaunch gated{.blocks = static_cast<double>(cut.blocks * work.heads),
                    .size = static_cast<double>(cut.D + cut.E) / 256,
                    .columns = work.gate_columns,
                    .strengths = scratch.erase >= 0,
                    .forward = scratch.values >= 0,
                    .reverse = backward || scratch.values < 0,
                    .reads = local,
                    .differentiates = backward};
  gated.walks = static_cast<double>(work.chunks * work.heads * (cut.value_slices + cut.transition_slices));
  gated.steps = std::ceil(static_cast<double>(work.longest) / cut.tokens);
  launch.steps = 0;
  launch.bytes += 2 * static_cast<double>(scratch.bytes);
  launch.gated = gated;
  return launch;
}

}  // namespace

LinearLaunch linear_launch(const LinearWork& work) {
  const auto heads = static_cast<double>(work.heads);
  const auto element = static_cast<double>(element_bytes(work.dtype));
  // Of all tokens and heads: one operand with the width of q, or of v.
  const double keys = static_cast<double>(work.tokens * work.D) * heads * element;
  const double values = static_cast<double>(work.tokens * work.E) * heads * element;
  const bool sliced = work.cut == ChunkWork::sliced;
  const kernels::cuda::LinearCut& cut = work.blocks;
  const double of_chunk = cut.parts, key_parts = cut.key_parts, value_parts = cut.value_parts;
  LinearLaunch launch{.dtype = work.dtype,
                      .blocks = static_cast<double>(cut.thread_blocks),
                      .steps = steps_of(work.longest),
                      .bytes = work.bytes,
                      .flops = work.flops,
                      .persistent = work.persistent};
  if (work.persistent) return of_hopper(work, launch, keys, values);
  if (work.gated) return of_gated(work, launch);
  switch (work.kind) {
    case OpKind::local:
      if (sliced)  // q and k for every part of E; v, and out, which is added to, for every part of D
        launch.bytes += (value_parts - 1) * 2 * keys + (key_parts - 1) * (values + 2 * values);
      else
        launch.bytes += (of_chunk - 1) * 2 * keys;
      break;
    case OpKind::local_backward:
      launch.steps *= 2;  // forwards for dq, backwards for dk and dv
      if (sliced)
        launch.bytes += (value_parts - 1) * (2 * keys + 2 * 2 * keys) +  // q, k; dq, dk
                        (key_parts - 1) * (2 * values + 2 * values);     // v, dout; dv
      else
        launch.bytes += (of_chunk - 1) * 2 * (keys + values);  // q, k, v, dout
      break;
    case OpKind::state: launch.bytes += (value_parts - 1) * keys + (key_parts - 1) * values; break;
    case OpKind::inter: {
      // A result with the width of v multiplies rows with that of q, and the other way round.
      double parts_of_values = of_chunk, parts_of_keys = of_chunk;
      if (work.cut == ChunkWork::blocked) {
        launch.steps = 1;
        parts_of_values = parts(work.E, cut.columns);
        parts_of_keys = parts(work.D, cut.columns);
      }
      launch.bytes +=
          work.of_values * (parts_of_values - 1) * keys + work.of_keys * (parts_of_keys - 1) * values;
      break;
    }
    default:  // scan, combine
      launch.steps = 0;
      launch.scan_steps = static_cast<double>(work.longest_group);
  }
  return launch;
}

namespace {

constexpr std::array inter_results{Operand::out, Operand::dq, Operand::dk, Operand::dv};

}  // namespace

std::vector<Operand> results_of(const RankPlan& rank, const Operation& op) {
  std::vector<Operand> results;
  if (op.kind != OpKind::inter) return results;
  std::copy_if(inter_results.begin(), inter_results.end(), std::back_inserter(results),
               [&](Operand o) { return rank.find(op, o) != nullptr; });
  return results;
}

std::vector<Operand> results_of(const KernelTable& table) {
  using enum Operand;
  if (table.kind != OpKind::inter || !table.results.empty()) return table.results;
  const bool backward = std::any_of(table.states.begin(), table.states.end(),
                                    [](Operand o) { return o == dstate || o == dcarry; });
  return backward ? std::vector{dq, dk, dv} : std::vector{out};
}

RankPlan linear_point(const KernelTable& table, const KernelPoint& point) {
  using enum Operand;
  RankPlan rank;
  const std::int64_t pieces = table.sequences, length = point.sequence / pieces;
  const std::int64_t chunk = table.chunk > 0 ? table.chunk : length;
  for (std::int64_t piece = 0; piece < pieces; ++piece)
    for (std::int64_t at = 0; at < length; at += chunk) {
      const auto number = static_cast<std::int32_t>(rank.chunks.size()),
                 edge = static_cast<std::int32_t>(piece);
      const std::int64_t count = std::min(chunk, length - at);
      rank.chunks.push_back(
          {piece * length + at, count, number, edge, edge, at, length - at - count, at == 0});
    }
  const auto access = [&](Operand operand, WriteMode mode) {
    const bool is_state = std::find(table.states.begin(), table.states.end(), operand) != table.states.end();
    const bool per_chunk = operand == state || operand == dstate;
    const bool keys = operand == q || operand == k || operand == dq || operand == dk;
    Buffer buffer;
    buffer.name = name(operand);
    buffer.role = is_state ? Role::wide : Role::nominal;
    buffer.rows = !is_state   ? point.sequence
                  : per_chunk ? static_cast<std::int64_t>(rank.chunks.size()) * table.head_size
                              : pieces * table.head_size;
    buffer.heads = point.heads;
    buffer.width = keys ? table.head_size : table.value_size;
    View view;
    view.buffer = static_cast<std::uint32_t>(rank.buffers.size());
    view.ranges = {static_cast<std::uint32_t>(rank.row_ranges.size()), 1};
    view.head_end = static_cast<std::int32_t>(buffer.heads);
    view.width_end = static_cast<std::int32_t>(buffer.width);
    rank.buffers.push_back(buffer);
    rank.row_ranges.push_back({0, buffer.rows, 1});
    rank.views.push_back(view);
    rank.accesses.push_back({static_cast<std::uint32_t>(rank.views.size() - 1), mode, operand});
  };
  const auto has = [&](Operand operand) {
    return std::find(table.states.begin(), table.states.end(), operand) != table.states.end();
  };
  std::vector<Operand> reads, writes;
  switch (table.kind) {
    case OpKind::local: reads = {q, k, v}, writes = {out}; break;
    case OpKind::local_backward: reads = {q, k, v, dout}, writes = {dq, dk, dv}; break;
    case OpKind::state: reads = has(dstate) ? std::vector{q, dout} : std::vector{k, v}; break;
    case OpKind::scan: break;
    default:  // each result from rows of its own
      writes = results_of(table);
      for (const auto& [result, rows] : {std::pair{out, q}, {dv, k}, {dk, v}, {dq, dout}})
        if (std::find(writes.begin(), writes.end(), result) != writes.end()) reads.push_back(rows);
  }
  const bool in_place = table.kind == OpKind::scan;
  for (const Operand operand : table.states)
    (table.kind == OpKind::state || in_place || operand == final_state ? writes : reads).push_back(operand);
  for (const Operand operand : reads) access(operand, WriteMode::store);
  const bool adds = table.kind == OpKind::inter || in_place;
  for (const Operand operand : writes)
    access(operand, adds && operand != final_state ? WriteMode::add : WriteMode::store);
  Operation op;
  op.kind = table.kind;
  op.chunk_work = table.cut;
  op.reads = {0, static_cast<std::uint32_t>(reads.size())};
  op.writes = {op.reads.count, static_cast<std::uint32_t>(writes.size())};
  op.chunks = {0, static_cast<std::uint32_t>(rank.chunks.size())};
  op.head_end = static_cast<std::int32_t>(point.heads);
  rank.operations.push_back(op);
  return rank;
}

}  // namespace cplab

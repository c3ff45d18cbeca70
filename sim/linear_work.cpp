// Sizes and cuts; see linear_work.hpp.
#include "sim/linear_work.hpp"

#include <algorithm>
#include <initializer_list>

#include "plan/chunk_flops.hpp"

namespace cplab {
namespace {

constexpr std::int64_t step_tokens = 64, part_columns = 64, serial_columns = 32;
constexpr std::int64_t scan_elements = 1024;  // of a thread block, four of a thread

double parts(std::int64_t width, std::int64_t columns) {
  return static_cast<double>(std::max<std::int64_t>(1, (width + columns - 1) / columns));
}

double steps_of(std::int64_t tokens) {
  return parts(tokens, step_tokens);
}

}  // namespace

LinearWork linear_work(const RankPlan& rank, const Operation& op, DType nominal) {
  using enum Operand;
  LinearWork work{.kind = op.kind, .cut = op.chunk_work, .dtype = nominal};
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
  std::int64_t run = 0;
  for (const Chunk& chunk : rank.chunks_of(op)) {
    run = chunk.resets ? 1 : run + 1;
    work.longest_run = std::max(work.longest_run, run);
    work.tokens += chunk.count;
    work.longest = std::max(work.longest, chunk.count);
    ++work.chunks;
  }
  for (const Access& access : rank.reads(op))
    work.bytes += static_cast<double>(view_bytes(rank, rank.views[access.view], nominal));
  for (const Access& access : rank.writes(op)) {
    const auto bytes = static_cast<double>(view_bytes(rank, rank.views[access.view], nominal));
    work.bytes += access.mode == WriteMode::store ? bytes : 2 * bytes;
    work.of_values += access.operand == out || access.operand == dv;
    work.of_keys += access.operand == dq || access.operand == dk;
  }
  // A scan or combine has states alone: all of their rows together stand for D.
  if (op.kind == OpKind::scan || op.kind == OpKind::combine) {
    const Access* states = rank.find(op, op.kind == OpKind::combine ? into : state);
    if (!states) states = rank.find(op, dstate);
    const std::int64_t rows = row_count(rank.rows_of(rank.views[states->view]));
    work.D = rows / std::max<std::int64_t>(1, work.chunks);
  }
  work.flops = chunk_flops(rank, op);
  return work;
}

LinearLaunch linear_launch(const LinearWork& work) {
  const auto heads = static_cast<double>(work.heads), chunks = static_cast<double>(work.chunks);
  const auto element = static_cast<double>(element_bytes(work.dtype));
  // Of all tokens and heads: one operand with the width of q, or of v.
  const double keys = static_cast<double>(work.tokens * work.D) * heads * element;
  const double values = static_cast<double>(work.tokens * work.E) * heads * element;
  const bool serial = work.cut == ChunkWork::serial, sliced = work.cut == ChunkWork::sliced;
  const double key_parts = parts(work.D, part_columns);
  const double value_parts = parts(work.E, serial ? serial_columns : part_columns);
  LinearLaunch launch{.dtype = work.dtype, .blocks = 1, .steps = 0, .bytes = work.bytes, .flops = work.flops};
  double blocks_of_chunk = 1;
  switch (work.kind) {
    case OpKind::local:
      blocks_of_chunk = value_parts * (sliced ? key_parts : 1);
      launch.steps = steps_of(work.longest);
      launch.bytes += (value_parts - 1) * 2 * keys;  // q and k, for every part of E
      if (sliced)
        launch.bytes += (key_parts - 1) * (values + 2 * values);  // v; partial out, read and written
      break;
    case OpKind::local_backward: {
      launch.steps = 2 * steps_of(work.longest);  // forwards for dq, backwards for dk and dv
      if (sliced) {
        blocks_of_chunk = value_parts * key_parts;
        launch.bytes += (value_parts - 1) * (2 * keys + 2 * 2 * keys) +  // q, k; partial dq, dk
                        (key_parts - 1) * (2 * values + 2 * values);     // v, dout; partial dv
      } else {
        blocks_of_chunk = serial ? value_parts : value_parts * work.of_values + key_parts * work.of_keys;
        launch.bytes += (blocks_of_chunk - 1) * 2 * (keys + values);  // q, k, v, dout
      }
      break;
    }
    case OpKind::state:
      blocks_of_chunk = value_parts * (serial ? 1 : key_parts);
      launch.steps = steps_of(work.longest);
      launch.bytes += (value_parts - 1) * keys + (serial ? 0 : (key_parts - 1) * values);
      break;
    case OpKind::inter: {
      const double of_values = value_parts * work.of_values, of_keys = key_parts * work.of_keys;
      if (work.cut == ChunkWork::blocked) {
        blocks_of_chunk = (of_values + of_keys) * steps_of(work.longest);
        launch.steps = 1;
      } else {
        blocks_of_chunk = value_parts;
        launch.steps = steps_of(work.longest);
      }
      // A result with the width of v multiplies rows with that of q, and the other way round.
      launch.bytes += (of_values - work.of_values) * keys + (of_keys - work.of_keys) * values;
      break;
    }
    case OpKind::scan:
      launch.blocks = chunks / static_cast<double>(std::max<std::int64_t>(1, work.longest_run)) * heads *
                      parts(work.D * work.E, scan_elements);
      return launch;
    default:  // combine
      launch.blocks = chunks * heads * parts(work.D * work.E, scan_elements);
      return launch;
  }
  launch.blocks = chunks * heads * blocks_of_chunk;
  return launch;
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
  const bool backward = table.kind == OpKind::local_backward || has(dstate) || has(dcarry);
  std::vector<Operand> reads, writes;
  switch (table.kind) {
    case OpKind::local: reads = {q, k, v}, writes = {out}; break;
    case OpKind::local_backward: reads = {q, k, v, dout}, writes = {dq, dk, dv}; break;
    case OpKind::state: reads = backward ? std::vector{q, dout} : std::vector{k, v}; break;
    default:
      reads = backward ? std::vector{k, v, dout} : std::vector{q};
      writes = backward ? std::vector{dq, dk, dv} : std::vector{out};
  }
  for (const Operand operand : table.states)
    (table.kind == OpKind::state || operand == final_state ? writes : reads).push_back(operand);
  for (const Operand operand : reads) access(operand, WriteMode::store);
  const bool adds = table.kind == OpKind::inter;
  for (const Operand operand : writes) access(operand, adds ? WriteMode::add : WriteMode::store);
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

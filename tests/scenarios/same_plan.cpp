// See same_plan.hpp.
#include "tests/scenarios/same_plan.hpp"

#include <algorithm>
#include <span>

namespace cplab::testing {
namespace {

bool same_view(const RankPlan& a, std::uint32_t va, const RankPlan& b, std::uint32_t vb) {
  View x = a.views[va], y = b.views[vb];
  const auto rows_a = a.rows_of(x), rows_b = b.rows_of(y);
  x.ranges = y.ranges = {};
  return x == y && std::ranges::equal(rows_a, rows_b);
}

bool same_accesses(const RankPlan& a, std::span<const Access> x, const RankPlan& b,
                   std::span<const Access> y) {
  return std::ranges::equal(x, y, [&](const Access& m, const Access& n) {
    return m.mode == n.mode && m.operand == n.operand && same_view(a, m.view, b, n.view);
  });
}

bool same_parts(const RankPlan& a, std::span<const Part> x, const RankPlan& b, std::span<const Part> y) {
  return std::ranges::equal(x, y, [&](const Part& m, const Part& n) {
    return m.peer == n.peer && m.send == n.send && same_view(a, m.view, b, n.view);
  });
}

std::string difference(const Buffer& x, const Buffer& y) {
  if (x.name != y.name || x.role != y.role || x.category != y.category || x.layout != y.layout)
    return "name, role, category or layout";
  if (x.slots != y.slots || x.rows != y.rows || x.heads != y.heads || x.width != y.width) return "extents";
  if (x.planes != y.planes || x.bytes != y.bytes || x.offset != y.offset || x.slab != y.slab)
    return "planes, bytes, offset or slab";
  return {};
}

std::string difference(const RankPlan& a, const Operation& x, const RankPlan& b, const Operation& y) {
  if (x.kind != y.kind || x.phase != y.phase || !(x.lane == y.lane) || x.transport != y.transport ||
      x.channels != y.channels)
    return "kind, phase, lane, transport or channels";
  if (x.reduction != y.reduction || x.step != y.step || x.ordinal != y.ordinal)
    return "reduction, step or ordinal";
  if (is_communication(x.kind) && x.group != y.group) return "group";
  if (x.head_begin != y.head_begin || x.head_end != y.head_end) return "heads";
  if (x.value != y.value || x.flops != y.flops || x.bytes != y.bytes) return "value, flops or bytes";
  if (!same_accesses(a, a.reads(x), b, b.reads(y))) return "reads";
  if (!same_accesses(a, a.writes(x), b, b.writes(y))) return "writes";
  if (!same_parts(a, a.parts_of(x), b, b.parts_of(y))) return "parts";
  if (!std::ranges::equal(a.segments_of(x), b.segments_of(y))) return "segments";
  if (x.softcap != y.softcap || x.bias != y.bias || !std::ranges::equal(a.columns_of(x), b.columns_of(y)))
    return "softcap, bias or columns";
  if (!std::ranges::equal(a.after(x), b.after(y))) return "after";
  if (!std::ranges::equal(a.after_started(x), b.after_started(y))) return "after_started";
  return {};
}

std::string difference(const Problem& p, const Problem& q) {
  if (p.attention != q.attention || p.format != q.format || p.dtype != q.dtype || p.direction != q.direction)
    return "attention, format, dtype or direction";
  if (p.batch != q.batch || p.sequence != q.sequence || p.packed != q.packed || p.lengths != q.lengths ||
      p.padded_lengths != q.padded_lengths)
    return "lengths";
  if (p.causal != q.causal || !(p.window == q.window)) return "mask";
  if (p.heads != q.heads || p.kv_heads != q.kv_heads || p.head_size != q.head_size ||
      p.value_size != q.value_size || p.scale != q.scale || p.max_logit != q.max_logit)
    return "heads, sizes, scale or max_logit";
  if (p.bias != q.bias || p.softcap != q.softcap || p.sink != q.sink || p.slopes != q.slopes ||
      p.buckets != q.buckets || p.max_distance != q.max_distance || p.keep != q.keep || p.top_k != q.top_k ||
      p.block != q.block)
    return "bias, softcap, sink or keep";
  return {};
}

}  // namespace

std::string difference(const RankPlan& a, const RankPlan& b) {
  if (a.rank != b.rank || a.replica != b.replica || a.position != b.position) return "place in the groups";
  if (a.arena_bytes != b.arena_bytes) return "arena_bytes";
  if (a.between_layers != b.between_layers) return "between_layers";
  if (a.buffers.size() != b.buffers.size()) return "number of buffers";
  for (std::size_t i = 0; i < a.buffers.size(); ++i)
    if (const std::string what = difference(a.buffers[i], b.buffers[i]); !what.empty())
      return "buffer " + a.buffers[i].name + ": " + what;
  if (a.operations.size() != b.operations.size()) return "number of operations";
  for (std::size_t i = 0; i < a.operations.size(); ++i)
    if (const std::string what = difference(a, a.operations[i], b, b.operations[i]); !what.empty())
      return "operation " + operation_id(a, a.operations[i]) + ": " + what;
  return {};
}

std::string difference(const Plan& a, const Plan& b) {
  if (const std::string what = difference(a.scenario.problem, b.scenario.problem); !what.empty())
    return "problem: " + what;
  const Parallel &p = a.scenario.parallel, &q = b.scenario.parallel;
  if (p.ranks != q.ranks || p.replicas != q.replicas || p.groups != q.groups) return "parallel";
  if (a.scenario.algorithm != b.scenario.algorithm || a.scenario.placement != b.scenario.placement)
    return "algorithm or placement";
  if (a.scenario.schedule.options != b.scenario.schedule.options) return "schedule";
  if (a.placement_padding_tokens != b.placement_padding_tokens) return "placement_padding_tokens";
  const auto same_group = [](const Group& x, const Group& y) {
    return x.name == y.name && x.ranks == y.ranks;
  };
  if (!std::ranges::equal(a.groups, b.groups, same_group)) return "groups";
  if (a.ranks.size() != b.ranks.size()) return "number of ranks";
  for (std::size_t r = 0; r < a.ranks.size(); ++r)
    if (const std::string what = difference(a.ranks[r], b.ranks[r]); !what.empty())
      return "rank " + std::to_string(r) + ": " + what;
  return {};
}

}  // namespace cplab::testing

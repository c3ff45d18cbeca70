// See beside_attention.hpp.
#include "sim/beside_attention.hpp"

#include <utility>

#include "sim/attention_traffic.hpp"

namespace cplab {

BesideAttention::BesideAttention(const Hardware& hardware, RowwiseCost rowwise)
    : hardware_(hardware), rowwise_(std::move(rowwise)) {}

void BesideAttention::add_launches(const Plan& plan, const CallConverter& calls, const Operation& op,
                                   const AttentionVariant& variant, KernelCost& cost) const {
  using enum Operand;
  if (variant.casts_dq) add_rowwise(plan, calls, op, OpKind::cast, {dq, rounded_dq}, cost);
  if (variant.casts_dkv) add_rowwise(plan, calls, op, OpKind::cast, {dk, dv, rounded_dk, rounded_dv}, cost);
  if (variant.computes_delta) add_rowwise(plan, calls, op, OpKind::row_dot, {dout, out, delta}, cost);
}

void BesideAttention::add_updates(const Plan& plan, const RankPlan& rank, const Operation& op,
                                  KernelCost& cost) const {
  std::int64_t bytes = 0;
  for (const Access& access : rank.writes(op))
    if (access.mode == WriteMode::add || access.mode == WriteMode::merge)
      bytes += view_bytes(rank, rank.views[access.view], plan.scenario.problem.dtype);
  if (bytes == 0) return;
  const double seconds = static_cast<double>(bytes) / hardware_.gpu.copy_bytes_s;
  cost.seconds += seconds;
  cost.parts.add(worst(hardware_.gpu.provenance.origin, Origin::interpolated), seconds);
}

void BesideAttention::add_apart(const Plan& plan, const RankPlan& rank, const Operation& op,
                                KernelCost& cost) const {
  for (const Access& access : rank.writes(op)) {
    if (access.mode != WriteMode::add && access.mode != WriteMode::merge) continue;
    const OpKind kind = access.mode == WriteMode::add ? OpKind::add : OpKind::merge;
    const std::int64_t bytes = view_bytes(rank, rank.views[access.view], plan.scenario.problem.dtype);
    add_rowwise(plan, kind, 3 * bytes, cost);
  }
}

void BesideAttention::add_gathers(const Plan& plan, const RankPlan& rank, const Operation& op,
                                  KernelCost& cost) const {
  const double bytes = attention_bytes(plan, rank, op, {.read = 2, .written = 3}, true);
  add_rowwise(plan, OpKind::copy, static_cast<std::int64_t>(bytes), cost);
}

void BesideAttention::add_rowwise(const Plan& plan, const CallConverter& calls, const Operation& op,
                                  OpKind kind, std::initializer_list<Operand> operands,
                                  KernelCost& cost) const {
  std::int64_t bytes = 0;
  for (const Operand each : operands)
    bytes += view_bytes(calls.plan(), calls.plan().view_of(op, each), plan.scenario.problem.dtype);
  add_rowwise(plan, kind, bytes, cost);
}

void BesideAttention::add_rowwise(const Plan& plan, OpKind kind, std::int64_t bytes, KernelCost& cost) const {
  const KernelCost more = rowwise_(plan, kind, bytes);
  cost.seconds += more.seconds;
  cost.parts.add(more.origin, more.seconds);
}

}  // namespace cplab

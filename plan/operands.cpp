// The kinds of operations: their names and operands, and the questions asked of those.
#include "plan/operands.hpp"

#include <algorithm>
#include <array>

namespace cplab {
namespace {
// In the order of OpKind.
constexpr std::array<std::string_view, 28> kind_names{"attend",
                                                      "attend_backward",
                                                      "row_dot",
                                                      "sink_gradient",
                                                      "project",
                                                      "project_backward",
                                                      "weight_gradient",
                                                      "merge",
                                                      "copy",
                                                      "cast",
                                                      "add",
                                                      "maximum",
                                                      "fill",
                                                      "local",
                                                      "local_backward",
                                                      "state",
                                                      "scan",
                                                      "combine",
                                                      "inter",
                                                      "convolve",
                                                      "filter_gradient",
                                                      "exchange",
                                                      "all_gather",
                                                      "reduce_scatter",
                                                      "all_to_all",
                                                      "all_reduce",
                                                      "barrier",
                                                      "host_sync"};
}  // namespace

std::string_view name(OpKind value) {
  return kind_names.at(static_cast<std::size_t>(value));
}

std::span<const Signature> signatures() {
  using enum Operand;
  static const std::vector<Signature> table{
      {OpKind::attend, {q, k, v}, {out, lse}, {bias, keep, bias_table, sink}},
      {OpKind::attend, {q, k, v}, {out, lse, max_logit}, {sink}},
      {OpKind::attend_backward,
       {q, k, v, dout, lse, delta},
       {dq, dk, dv},
       {bias, keep, bias_table},
       {dbias, dbias_table}},
      {OpKind::attend_backward, {q, k, v, dout, lse, out}, {dq, dk, dv, delta}, {}, {rounded_dq}},
      {OpKind::attend_backward,
       {q, k, v, dout, lse, out},
       {dq, dk, dv, delta, rounded_dk, rounded_dv},
       {},
       {rounded_dq}},
      {OpKind::attend_backward, {q, k, v, dout, lse, delta}, {dq, dk, dv, rounded_dq}},
      {OpKind::attend_backward, {q, k, v, dout, lse, delta}, {dq, dk, dv, rounded_dk, rounded_dv}},
      {OpKind::attend_backward,
       {q, k, v, dout, lse, delta},
       {dq, dk, dv, rounded_dk, rounded_dv, rounded_dq}},
      {OpKind::row_dot, {dout, out}, {delta}},
      {OpKind::sink_gradient, {sink, lse, delta}, {dsink}},
      {OpKind::project, {latent, rope_key, key_weights, value_weights}, {k, v}},
      {OpKind::project_backward, {dk, dv, key_weights, value_weights}, {dlatent, drope_key}},
      {OpKind::weight_gradient, {latent, dk, dv}, {dkey_weights, dvalue_weights}},
      {OpKind::merge, {part_out, part_lse}, {out, lse}},
      {OpKind::merge, {part_lse}, {lse}},
      {OpKind::merge, {part_out, part_lse, lse}, {out}},
      {OpKind::copy, {from}, {into}},
      {OpKind::cast, {from}, {into}},
      {OpKind::add, {from}, {into}},
      {OpKind::maximum, {from}, {into}},
      {OpKind::fill, {}, {into}},
      {OpKind::local, {q, k, v}, {out}, {log_decay, beta, state, carry}, {final_state}},
      {OpKind::local_backward,
       {q, k, v, dout},
       {dq, dk, dv},
       {log_decay, beta, state, carry, dstate, dcarry},
       {dlog_decay, dbeta, final_state}},
      {OpKind::state, {k, v}, {state}, {log_decay, beta}, {transition}},
      {OpKind::state, {q, dout}, {dstate}, {k, log_decay, beta}},
      {OpKind::scan, {}, {state}, {}, {final_state}},
      {OpKind::scan, {}, {dstate}, {}, {final_state}},
      {OpKind::scan, {state}, {final_state}},
      {OpKind::scan, {dstate}, {final_state}},
      {OpKind::combine, {from}, {into}, {transition}},
      {OpKind::inter, {q}, {out}, {state, carry}},
      {OpKind::inter, {dout}, {dq}, {state, carry}},
      {OpKind::inter, {v}, {dk}, {dstate, dcarry}},
      {OpKind::inter, {k}, {dv}, {dstate, dcarry}},
      {OpKind::inter, {k, v, dout}, {dq, dk, dv}, {state, carry, dstate, dcarry}},
      {OpKind::convolve, {from, filter}, {into}, {halo}},
      {OpKind::filter_gradient, {from, dout}, {dfilter}, {halo}},
      {OpKind::all_reduce, {from}, {into}},
      {OpKind::exchange, {}, {}},
      {OpKind::all_gather, {}, {}},
      {OpKind::reduce_scatter, {}, {}},
      {OpKind::all_to_all, {}, {}},
      {OpKind::barrier, {}, {}},
      {OpKind::host_sync, {}, {}},
  };
  return table;
}

const Signature* find_signature(OpKind kind, std::span<const Access> reads, std::span<const Access> writes) {
  const auto has = [](const std::vector<Operand>& names, const std::vector<Operand>& more,
                      std::span<const Access> accesses) {
    const auto times = [&](Operand operand) {
      return std::ranges::count(accesses, operand, &Access::operand);
    };
    std::ptrdiff_t known = 0;
    for (const Operand operand : more) known += times(operand) == 1;
    return std::ranges::all_of(names, [&](Operand operand) { return times(operand) == 1; }) &&
           std::ssize(names) + known == std::ssize(accesses);
  };
  for (const Signature& s : signatures())
    if (s.kind == kind && has(s.reads, s.more_reads, reads) && has(s.writes, s.more_writes, writes))
      return &s;
  return nullptr;
}

bool changes_logits(const RankPlan& plan, const Operation& op) {
  return op.softcap != 0 || op.bias != BiasForm::none || plan.find(op, Operand::bias) != nullptr ||
         plan.find(op, Operand::keep) != nullptr;
}

void name_by_position(OpKind kind, std::span<Access> reads, std::span<Access> writes) {
  for (const Signature& s : signatures()) {
    if (s.kind != kind || s.reads.size() != reads.size() || s.writes.size() != writes.size()) continue;
    for (std::size_t i = 0; i < reads.size(); ++i) reads[i].operand = s.reads[i];
    for (std::size_t i = 0; i < writes.size(); ++i) writes[i].operand = s.writes[i];
  }
}

}  // namespace cplab

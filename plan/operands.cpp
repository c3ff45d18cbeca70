// The kinds of operations: their names and operands, and the questions asked of those.
#include "plan/operands.hpp"

#include <algorithm>
#include <array>

namespace cplab {
namespace {
// In the order of OpKind.
constexpr std::array<std::string_view, 16> kind_names{
    "attend",     "attend_backward", "row_dot", "merge",    "copy",       "cast",
    "add",        "maximum",         "fill",    "exchange", "all_gather", "reduce_scatter",
    "all_to_all", "all_reduce",      "barrier", "host_sync"};
}  // namespace

std::string_view name(OpKind value) {
  return kind_names.at(static_cast<std::size_t>(value));
}

std::span<const Signature> signatures() {
  using enum Operand;
  static const std::vector<Signature> table{
      {OpKind::attend, {q, k, v}, {out, lse}},
      {OpKind::attend, {q, k, v}, {out, lse, max_logit}},
      {OpKind::attend_backward, {q, k, v, dout, lse, delta}, {dq, dk, dv}},
      {OpKind::row_dot, {dout, out}, {delta}},
      {OpKind::merge, {part_out, part_lse}, {out, lse}},
      {OpKind::merge, {part_lse}, {lse}},
      {OpKind::merge, {part_out, part_lse, lse}, {out}},
      {OpKind::copy, {from}, {into}},
      {OpKind::cast, {from}, {into}},
      {OpKind::add, {from}, {into}},
      {OpKind::maximum, {from}, {into}},
      {OpKind::fill, {}, {into}},
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
  const auto has = [](const std::vector<Operand>& names, std::span<const Access> accesses) {
    return names.size() == accesses.size() && std::ranges::all_of(names, [&](Operand operand) {
             return std::ranges::count(accesses, operand, &Access::operand) == 1;
           });
  };
  for (const Signature& s : signatures())
    if (s.kind == kind && has(s.reads, reads) && has(s.writes, writes)) return &s;
  return nullptr;
}

void name_by_position(OpKind kind, std::span<Access> reads, std::span<Access> writes) {
  for (const Signature& s : signatures()) {
    if (s.kind != kind || s.reads.size() != reads.size() || s.writes.size() != writes.size()) continue;
    for (std::size_t i = 0; i < reads.size(); ++i) reads[i].operand = s.reads[i];
    for (std::size_t i = 0; i < writes.size(); ++i) writes[i].operand = s.writes[i];
  }
}

}  // namespace cplab

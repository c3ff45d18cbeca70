// Which operands each kind of operation has, as the only table of them.
#pragma once

#include <span>
#include <vector>

#include "plan/plan.hpp"

namespace cplab {

// One form of an operation. attend has two and merge three, told apart by their operands.
struct Signature {
  OpKind kind;
  std::vector<Operand> reads, writes;  // in the order of cplab.plan.1, which files without names keep
  std::vector<Operand> more_reads = {}, more_writes = {};  // may be absent; files must name them
};

std::span<const Signature> signatures();

// The form that has these operands, in any order; null if none has.
const Signature* find_signature(OpKind, std::span<const Access> reads, std::span<const Access> writes);

// Of attend and attend_backward: whether logits are more than scale q.k (a bias, a softcap), or not all of
// them count (a keep mask).
bool changes_logits(const RankPlan&, const Operation&);

// Names accesses by their position; if no form has that many, they stay unnamed.
void name_by_position(OpKind, std::span<Access> reads, std::span<Access> writes);

}  // namespace cplab

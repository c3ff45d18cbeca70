// require_executable: a plan from a file, or a mutated one, passes the validator that the checker begins with
// before it is executed. Whether what it computes is right is the checker's question.
#include <string>

#include "exec/bind.hpp"
#include "plan/structure.hpp"

namespace cplab {

namespace {

[[noreturn]] void refuse(const RankPlan& rank, const StructureFault& fault) {
  std::string operation, buffer = fault.missing;
  if (fault.operation != no_index) {
    operation = operation_label(rank, rank.operations[fault.operation]);
    operation.erase(0, operation.find(' ') + 1);
  }
  if (fault.buffer != no_index) buffer = rank.buffers[fault.buffer].name;
  throw BadPlan(fault.kind, rank.rank, operation, buffer,
                "rank " + std::to_string(rank.rank) + ": " + fault.message);
}

}  // namespace

void require_executable(const Plan& plan) {
  if (const std::string wrong = wrong_groups(plan); !wrong.empty())
    throw BadPlan(FindingKind::unmatched, -1, "", "", wrong);
  const GroupIndex groups(plan);
  for (const RankPlan& rank : plan.ranks)
    inspect(plan, rank, groups, [&](const StructureFault& fault) { refuse(rank, fault); });
}

void require_tensors(const Plan& plan) {
  inspect_tensors(plan, refuse);
}

}  // namespace cplab

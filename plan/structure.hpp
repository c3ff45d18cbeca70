// The form of a plan: what must hold before anybody follows its references. One validator for the checker,
// which reports everything that it finds, and for the executors, which refuse a plan at the first. It looks
// at indices, extents, shapes, roles and modes; what the operations compute is the checker's question.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plan/finding.hpp"
#include "plan/plan.hpp"

namespace cplab {

inline constexpr std::int64_t most_extent = std::int64_t{1} << 40;  // of any axis; also of a view's rows
inline constexpr std::uint32_t no_index = std::numeric_limits<std::uint32_t>::max();

// broken: it refers outside the pools, nothing of it can be read. malformed: its operands do not fit each
// other or its kind.
enum class Form : std::uint8_t { broken, malformed, good };

struct RankForm {
  std::vector<std::uint8_t> buffers;  // by buffer: its extents make sense
  std::vector<std::uint8_t> views;    // by view: it lies within a buffer that makes sense
  std::vector<Form> operations;       // by operation
};

struct StructureFault {
  FindingKind kind = FindingKind::coverage;
  std::uint32_t operation = no_index;  // of the rank, or no_index
  std::uint32_t buffer = no_index;     // of the rank, or no_index
  std::string message;
  std::string missing = {};  // the name of a buffer that the rank lacks
};
using FaultSink = std::function<void(StructureFault)>;

// Positions of ranks in groups. Groups whose members are no ranks of the plan, or come twice, have none.
class GroupIndex {
 public:
  explicit GroupIndex(const Plan&);
  // -1: not a member, or no such group.
  std::int32_t position(std::size_t group, std::int64_t rank) const;
  std::size_t size() const { return members_.size(); }
  std::size_t members(std::size_t group) const { return members_[group].size(); }

 private:
  std::vector<std::vector<std::pair<int, std::int32_t>>> members_;  // by group: (rank, position), sorted
};

// What is wrong with the ranks' numbers and the groups; empty if nothing is.
std::string wrong_groups(const Plan&);

// Tests every buffer, view and operation of one rank.
RankForm inspect(const Plan&, const RankPlan&, const GroupIndex&, const FaultSink&);

// Tests that every rank has the problem's inputs and outputs, in its shape and dtype role.
using RankFaultSink = std::function<void(const RankPlan&, StructureFault)>;
void inspect_tensors(const Plan&, const RankFaultSink&);

// "attend 1/forward/3", also where kind or phase is no valid value.
std::string operation_label(const RankPlan&, const Operation&);

// Parts of one reduce_scatter, all_gather or all_to_all that a rank sends to itself and that stay where they
// are: part i is true if it is one side of such a pair (the k-th own send meets the k-th own receive).
std::vector<std::uint8_t> parts_in_place(const RankPlan&, const Operation&);

// A view without elements. It uses nothing: it begins no buffer's life, waits for nothing and keeps nothing.
bool is_empty(const RankPlan&, const View&);

// Both views name the same elements in the same order, however their rows are cut into ranges.
bool same_elements(const RankPlan&, const View&, const View&);

// The column at which the border between the buffer's planes cuts the view, counted from the view's first; 0:
// it does not.
std::int32_t plane_cut(const Buffer&, const View&);

// Rows of a view, sorted, neighbouring runs joined.
struct RowSet {
  std::vector<RowRange> sorted;
  bool strided = false;   // some range has a step other than 1
  bool distinct = false;  // no row twice
};
// Throws PlanTooLarge for very many rows in very many strided ranges.
RowSet row_set(std::span<const RowRange>);
// Two non-empty runs share a row.
bool runs_meet(const RowRange&, const RowRange&);

}  // namespace cplab

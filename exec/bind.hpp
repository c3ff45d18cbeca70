// From operations of a plan to kernel calls: the only place where buffers, boxes, planes and row ranges
// become pointers and strides. Every device shares it; nothing here knows where memory lies or how a call is
// launched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/kernels.hpp"
#include "plan/finding.hpp"
#include "plan/plan.hpp"

namespace cplab {

// The plan cannot be executed as written: an index out of range, a box outside its buffer, operands that do
// not fit each other, two ends of a message that differ. `kind` is what `verify` reports it as.
struct BadPlan : std::runtime_error {
  BadPlan(FindingKind kind_, int rank_, std::string operation_, std::string buffer_, const std::string& what)
      : std::runtime_error(what),
        kind(kind_),
        rank(rank_),
        operation(std::move(operation_)),
        buffer(std::move(buffer_)) {}
  FindingKind kind;
  int rank;
  std::string operation;  // id, or empty
  std::string buffer;     // name, or empty
};

struct RowDotCall {
  kernels::View a, b, into;
};
struct CopyCall {  // also casts
  kernels::View from, into;
};
struct AddCall {
  kernels::View from, into;
};
struct FillCall {
  kernels::View into;
  double value = 0;
};
using KernelCall = std::variant<kernels::Attend, kernels::AttendBackward, RowDotCall, kernels::Merge,
                                kernels::MergeLse, kernels::Rescale, CopyCall, AddCall, FillCall>;

// One use of memory by an operation: the bytes [offset, offset + bytes) of its rank's arena, the smallest
// range that holds the whole view.
struct MemoryUse {
  std::uint32_t operation = 0;  // index into RankPlan::operations
  std::uint32_t buffer = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  Lane lane;
  bool written = false;
  bool operator==(const MemoryUse&) const = default;
};

kernels::DType kernel_dtype(Role role, DType nominal);  // integer has none: BadPlan without a place

// Throws BadPlan at the first fault of the plan's form (plan/structure.hpp): indices, extents, arenas,
// groups, operands. Whoever walks or binds a plan that may have been mutated calls this first; afterwards
// nothing can reach outside an arena. What the checker accepts passes.
void require_executable(const Plan& plan);

// Binds the operations of one rank. The plan and the memory at `base` (byte 0 of the rank's arena) outlive
// the binder; calls point into both and into the binder.
class Binder {
 public:
  Binder(const RankPlan& plan, DType nominal, std::byte* base);
  // Every buffer at an address of its own.
  Binder(const RankPlan& plan, DType nominal, std::vector<std::byte*> addresses);

  // The kernel calls of one operation from attend to fill, to be launched in this order. Throws BadPlan if
  // the operands do not fit.
  std::vector<KernelCall> bind(const Operation& operation) const;

  // The view as one tensor, for every slot and, where the box covers both planes or `cuts` (columns counted
  // from the box's first) lie inside it, for every piece of the width: slot by slot, columns ascending.
  std::vector<kernels::View> pieces(const Operation& operation, const View& view,
                                    const std::vector<std::int32_t>& cuts = {}) const;

  // The column at which the planes of the view's buffer part, counted from the box's first; 0 if none does.
  std::int32_t plane_cut(const View& view) const;

  // Everything the operation reads or writes, its parts included, in operand order.
  std::vector<MemoryUse> uses(const Operation& operation) const;

  const RankPlan& plan() const { return plan_; }

 private:
  kernels::View operand(const Operation&, Operand) const;
  kernels::View piece(const View&, std::int64_t slot, std::int64_t begin, std::int64_t end) const;
  [[noreturn]] void fail(const Operation&, const std::string& message) const;
  void require(bool holds, const Operation&, std::string_view message) const;
  void require_fit(const Operation&, const kernels::View& q, const kernels::View& k,
                   const kernels::View& v) const;
  KernelCall bind_attend(const Operation&) const;
  KernelCall bind_attend_backward(const Operation&) const;
  KernelCall bind_merge(const Operation&) const;
  void bind_pairs(const Operation&, std::vector<KernelCall>&) const;
  std::span<const kernels::Segment> segments(const Operation&, std::int64_t q_rows,
                                             std::int64_t k_rows) const;

  const RankPlan& plan_;
  DType nominal_;
  std::vector<std::byte*> addresses_;       // by buffer
  std::vector<kernels::RowRun> runs_;       // RankPlan::row_ranges, in the kernels' terms
  std::vector<kernels::Segment> segments_;  // RankPlan::segments, likewise
};

// The pieces of two views of equal shape and dtype, cut so that piece i of one fits piece i of the other.
// They may belong to different ranks: the two ends of a message. Throws BadPlan for `operation` of `into`.
std::vector<std::pair<kernels::View, kernels::View>> matching_pieces(
    const Binder& from_binder, const Operation& from_operation, const View& from, const Binder& into_binder,
    const Operation& into_operation, const View& into);

// Calls the entry of `tiles` that the call is for.
void launch(const kernels::Tiles& tiles, const KernelCall& call);

}  // namespace cplab

// Binding: the kernel calls of a plan (calls/) with the addresses that its buffers have in memory. Every
// device shares it; nothing here knows what memory it is or how a call is launched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "calls/converter.hpp"
#include "calls/kernel_call.hpp"
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

// Of the elements of a buffer. Throws BadPlan, without a place, for role integer: no kernel takes that.
kernels::DType kernel_dtype(Role role, DType nominal);

// Throws BadPlan at the first fault of the plan's form (plan/structure.hpp): indices, extents, arenas,
// groups, operands. Whoever walks or binds a plan that may have been mutated calls this first; afterwards
// nothing can reach outside an arena. What the checker accepts passes.
void require_executable(const Plan& plan);
// The same of the problem's inputs and outputs (inspect_tensors): who loads and reads them counts on them.
// Plans that compute no attention have none, and can be executed all the same.
void require_tensors(const Plan& plan);

// Where a buffer lies.
struct BufferMemory {
  std::byte* data = nullptr;
  std::byte* second_plane =
      nullptr;  // of a buffer of one slot whose planes lie apart; null: behind the first
  BufferStrides strides;
};

// Binds the operations of one rank of a plan that require_executable has passed. The plan and the memory at
// `base` (byte 0 of the rank's arena) outlive the binder; calls point into both and into the binder.
class Binder {
 public:
  Binder(const RankPlan& plan, DType nominal, std::byte* base, ProblemNumbers numbers = {});
  // Every buffer at an address of its own.
  Binder(const RankPlan& plan, DType nominal, std::vector<BufferMemory> memory, ProblemNumbers numbers = {});

  // The kernel calls of a compute operation (attend to inter), to be launched in this order.
  std::vector<KernelCall> bind(const Operation& operation) const;

  // The view as one tensor for each slot, plane and piece of the width: CallConverter::pieces.
  std::vector<kernels::View> pieces(const View& view, std::initializer_list<std::int32_t> cuts = {}) const;

  // Everything the operation reads or writes, its parts included, in operand order.
  std::vector<MemoryUse> uses(const Operation& operation) const;

  std::byte* address(const Place& place) const;

  const RankPlan& plan() const { return converter_.plan(); }

 private:
  CallConverter converter_;
  DType nominal_;
  std::vector<BufferMemory> memory_;  // by buffer
};

// One end of a message, or what a member gives to or takes from a reduction.
struct MessageEnd {
  const RankPlan& plan;
  const Operation& operation;
  const View& view;
};
// Throws BadPlan for the operation of `into` unless both have one shape, role, order of elements and planes
// that part at the same column (plan.hpp).
void require_fitting(const MessageEnd& from, const MessageEnd& into);

// The pieces of two views of equal shape and dtype, cut so that piece i of one fits piece i of the other.
// They may belong to different ranks: the two ends of a message. Throws BadPlan for `operation` of `into`.
std::vector<std::pair<kernels::View, kernels::View>> matching_pieces(
    const Binder& from_binder, const Operation& from_operation, const View& from, const Binder& into_binder,
    const Operation& into_operation, const View& into);

}  // namespace cplab

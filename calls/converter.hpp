// From operations of a plan to kernel calls: the only place where boxes, planes and row ranges become shapes
// and strides, for prediction and execution alike. Addresses are added by whoever has memory (exec/bind).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "calls/kernel_call.hpp"
#include "kernels/kernels.hpp"
#include "plan/plan.hpp"

namespace cplab {

kernels::DType kernel_dtype(DType);

// What calls need of the problem that no operation says: slopes, one for each of its heads where a linear
// attention decays or a bias is alibi, else none; where buckets of a bias begin (bucket_starts()), and
// whether later keys have buckets of their own.
struct ProblemNumbers {
  ProblemNumbers(std::vector<double> slopes_ = {}) : slopes(std::move(slopes_)) {}
  explicit ProblemNumbers(const Problem&);
  std::vector<double> slopes;
  std::vector<std::int64_t> bucket_starts;
  bool both_ways = false;
};

// How far apart rows, and heads, of a buffer of one slot and one plane lie in memory, in elements; 0: as its
// layout has them. A framework's tensor may lie otherwise than a plan's buffer.
struct BufferStrides {
  std::int64_t row = 0, head = 0;
};

// Converts operations of one rank whose form is good (plan/structure.hpp). The plan outlives the converter;
// row runs, segments, chunks and numbers of calls are spans into the converter.
class CallConverter {
 public:
  // Operations that need numbers and find none make calls that every kernel refuses.
  // `strides`: by buffer, or none of any.
  CallConverter(const RankPlan& plan, DType nominal, ProblemNumbers numbers = {},
                std::vector<BufferStrides> strides = {});

  // The calls that make up a compute operation (attend to inter), to be launched in this order: one, or for
  // copy, cast, add, maximum and fill one for each piece. None for communication and host_sync. Throws
  // std::invalid_argument if an operand is missing.
  std::vector<PlacedCall> calls(const Operation&) const;

  // The view as one tensor for every slot and, where the box covers both planes or `cuts` (columns counted
  // from the box's first) lie inside it, for every piece of the width: slot by slot, columns ascending. Views
  // of role integer have none: std::invalid_argument.
  std::vector<PlacedView> pieces(const View&, std::initializer_list<std::int32_t> cuts = {}) const;

  const RankPlan& plan() const { return plan_; }
  // Of this converter and its copies alone, of all that this process makes: what was found about an operation
  // is known by it and by what the operation says.
  std::uint64_t id() const { return id_; }

 private:
  const View& view_of(const Operation&, Operand) const;
  PlacedView piece(const View&, std::int64_t slot, std::int64_t begin, std::int64_t end) const;
  PlacedCall place(const Operation&, KernelCall, std::span<const Operand>) const;
  PlacedCall place(const Operation& op, KernelCall call, std::initializer_list<Operand> operands) const {
    return place(op, std::move(call), std::span(operands.begin(), operands.size()));
  }
  PlacedCall attend(const Operation&) const;
  PlacedCall attend_backward(const Operation&) const;
  PlacedCall masked_attend(const Operation&) const;
  PlacedCall masked_attend_backward(const Operation&) const;
  void add_pair_mask(const Operation&, kernels::PairMask&, std::vector<Operand>&) const;
  PlacedCall merge(const Operation&) const;
  PlacedCall projection(const Operation&) const;
  std::vector<PlacedCall> element_by_element(const Operation&) const;
  std::span<const kernels::Segment> segments(const Operation&) const;
  // Linear attention: linear_calls.cpp.
  PlacedCall linear(const Operation&) const;
  PlacedCall local(const Operation&) const;
  PlacedCall local_backward(const Operation&) const;
  PlacedCall state(const Operation&) const;
  PlacedCall scan(const Operation&) const;
  PlacedCall combine(const Operation&) const;
  PlacedCall inter(const Operation&) const;
  PlacedCall convolution(const Operation&) const;
  kernels::Chunks chunks(const Operation&) const;
  std::span<const double> slopes(const Operation&) const;  // of its heads
  kernels::Write write_of(const Operation&, Operand) const;

  const RankPlan& plan_;
  std::uint64_t id_;
  DType nominal_;
  std::vector<kernels::RowRun> runs_;       // RankPlan::row_ranges, in the kernels' terms
  std::vector<kernels::Segment> segments_;  // RankPlan::segments, likewise
  std::vector<kernels::Chunk> chunks_;      // RankPlan::chunks, likewise
  ProblemNumbers numbers_;
  std::vector<BufferStrides> strides_;
};

}  // namespace cplab

// What an operation of attention costs beside its kernel: other launches, and what it reads back. Internal to
// sim/.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "sim/attention_cost.hpp"
#include "sim/attention_variant.hpp"

namespace cplab {

// Each adds to `cost`. `hardware` must outlive it.
class BesideAttention {
 public:
  BesideAttention(const Hardware& hardware, RowwiseCost rowwise);

  // Launches of ours beside the kernel's own.
  void add_launches(const Plan&, const CallConverter&, const Operation&, const AttentionVariant&,
                    KernelCost& cost) const;
  // What add and merge read back is traffic that the tables do not contain; max raises a few numbers only.
  void add_updates(const Plan&, const RankPlan&, const Operation&, KernelCost& cost) const;
  // A kernel that only stores, and one for each result that is to be added or merged.
  void add_apart(const Plan&, const RankPlan&, const Operation&, KernelCost& cost) const;
  // Kernels that gather what it reads and scatter what it writes into zeros.
  void add_gathers(const Plan&, const RankPlan&, const Operation&, KernelCost& cost) const;

 private:
  // A launch beside the tiles' own, which reads and writes those operands.
  void add_rowwise(const Plan&, const CallConverter&, const Operation&, OpKind kind,
                   std::initializer_list<Operand> operands, KernelCost& cost) const;
  // Another kernel before or behind the operation's own.
  void add_rowwise(const Plan&, OpKind kind, std::int64_t bytes, KernelCost& cost) const;

  const Hardware& hardware_;
  RowwiseCost rowwise_;
};

}  // namespace cplab

// Results that somebody else computed, as if the ranks of a plan had.
#pragma once

#include "cli/verify/tensors.hpp"
#include "exec/executor.hpp"
#include "plan/plan.hpp"

namespace cplab {

// Can be read alone, of the outputs of the problem. The plan and the outputs outlive it.
class GivenResults final : public Executor {
 public:
  GivenResults(const Plan& plan, const Outputs& outputs) : plan_(plan), outputs_(outputs) {}

  bool has(int rank, std::string_view buffer) const override;
  void write(int rank, std::string_view buffer, std::span<const double> values) override;
  std::vector<double> read(int rank, std::string_view buffer) const override;
  ExecutionResult run() override;

 private:
  const Plan& plan_;
  const Outputs& outputs_;
};

}  // namespace cplab

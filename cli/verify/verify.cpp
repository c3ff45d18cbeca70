// Checking, executing and comparing; see verify.hpp.
#include "cli/verify/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "cli/verify/selection.hpp"
#include "report/variants.hpp"

namespace cplab {

namespace {

// Results that somebody else computed, as if the ranks of a plan had: they can be read alone, of the outputs
// of the problem. The plan and the outputs outlive it.
class GivenResults final : public Executor {
 public:
  GivenResults(const Plan& plan, const Outputs& outputs) : plan_(plan), outputs_(outputs) {}

  bool has(int, std::string_view buffer) const override {
    return std::ranges::any_of(tensors_of(plan_.scenario.problem, Category::output),
                               [&](const ProblemTensor& tensor) { return tensor.buffer == buffer; });
  }
  std::vector<double> read(int rank, std::string_view buffer) const override {
    const RankPlan& of = plan_.ranks.at(static_cast<std::size_t>(rank));
    return local_values(plan_.scenario, of, buffer, Category::output, outputs_);
  }
  void write(int, std::string_view, std::span<const double>) override {
    throw std::logic_error("given results are read alone");
  }
  ExecutionResult run() override { throw std::logic_error("given results are read alone"); }

 private:
  const Plan& plan_;
  const Outputs& outputs_;
};

Finding finding_of(const BadPlan& bad) {
  return {bad.kind, bad.rank, bad.operation, bad.buffer, bad.what()};
}

Finding finding_of(const ExecutionHang& hang) {
  Finding finding;
  finding.kind = FindingKind::deadlock;
  if (!hang.ranks.empty()) {
    finding.rank = hang.ranks.front();
    finding.operation = hang.operations.front();
  }
  finding.message = fmt::format("execution hangs: {} of its ranks are unfinished; {}", hang.ranks.size(),
                                one_sentence(hang));
  return finding;
}

}  // namespace

std::string one_sentence(const std::exception& hang) {
  std::istringstream lines(hang.what());
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    if (!text.empty()) text += text.back() == ':' ? " " : "; ";
    text += line;
  }
  return text;
}

VerifyResult verify(const Plan& plan, const Inputs& inputs, const VerifyOptions& options) {
  VerifyResult result;
  const auto stage = [&](const char* what, std::int64_t all = 0, const char* unit = "") {
    if (options.progress) options.progress->stage(what, all, unit);
  };
  stage("checking");
  result.findings = check(plan, options.max_findings).findings;
  try {
    std::unique_ptr<Executor> executor;
    GpuExecutor* gpu = nullptr;
    if (options.gpu) {
      auto made = std::make_unique<GpuExecutor>(plan, *options.gpu);
      gpu = made.get();
      executor = std::move(made);
    } else {
      CpuOptions execution = options.execution;
      if (options.progress) execution.progress = options.progress->counter();
      executor = std::make_unique<CpuExecutor>(plan, execution);
    }
    stage("loading the inputs");
    scatter(plan, inputs, *executor);
    if (gpu != nullptr) select_keys_on_gpus(plan, &inputs, 0, *gpu);
    stage("executing", gpu ? 0 : operation_count(plan), "operations");
    const ExecutionResult execution = executor->run();
    result.notes = fall_back_notes(plan, execution.timeline);
    if (gpu != nullptr) {
      result.gpu = gpu->facts();
      if (!result.gpu->allocation_log_equals_plan) {
        result.findings.push_back(
            {FindingKind::lifetime, -1, "", "", "the execution's allocation log is not what was predicted"});
      }
    }
    const bool compares =
        !options.gpu || options.gpu->rendezvous == nullptr || options.gpu->rendezvous->rank() == 0;
    if (!compares) return result;
    for (const int rank : execution.overrun_ranks) {
      result.findings.push_back({FindingKind::lifetime, rank, "", "",
                                 "a tile wrote outside the arena of rank " + std::to_string(rank)});
    }
    result.outputs = gather(plan, *executor);
    if (options.reference) result.reference.emplace();
    compare_with_reference(plan, inputs, *executor, result,
                           {.reference = options.reference ? &*result.reference : nullptr,
                            .progress = options.progress,
                            .sample = options.sample,
                            .on_gpu = gpu != nullptr});
  } catch (const BadPlan& bad) {
    // What the validator refuses, the checker has reported.
    const auto same = [&](const Finding& f) {
      return f.kind == bad.kind && f.rank == bad.rank && f.operation == bad.operation &&
             f.buffer == bad.buffer;
    };
    if (std::ranges::none_of(result.findings, same)) result.findings.push_back(finding_of(bad));
  } catch (const ExecutionHang& hang) {
    // On the CPU it is known that nothing can move any more; a clock, or a rank that is gone, proves nothing.
    if (options.gpu || hang.timed_out) {
      result.gave_up = one_sentence(hang);
    } else {
      result.findings.push_back(finding_of(hang));
    }
  }
  return result;
}

VerifyResult verify_given(const Plan& plan, const Inputs& inputs, Outputs given, Progress* progress,
                          const SampledRows* sample, const DeclaredSums& sums) {
  VerifyResult result;
  const GivenResults results(plan, given);
  compare_with_reference(plan, inputs, results, result,
                         {.given = &given, .progress = progress, .sample = sample, .sums = sums});
  result.outputs = std::move(given);
  return result;
}

}  // namespace cplab

// --choose and --choices: how run, verify, simulate and tune choose among kernels of attention.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "calls/converter.hpp"
#include "cli/arguments.hpp"
#include "cli/execution.hpp"
#include "cli/files/choices_file.hpp"
#include "cli/session.hpp"
#include "kernels/tune/tuner.hpp"

namespace cplab {

kernels::ChoiceWay choice_way(const Arguments&, kernels::ChoiceWay otherwise);
// --choices, or the default. Empty: there is no place for one.
std::string choices_path(const Arguments&);

using Say = std::function<void(const std::string&)>;

// Every call of softmax attention of a plan, of all ranks, without addresses: between kernels of other
// attention nothing is chosen. Says so where there is no call.
struct AttentionCalls {
  AttentionCalls(const Plan&, const Say&);
  std::vector<std::unique_ptr<CallConverter>> converters;  // own what the calls' spans point to
  std::vector<kernels::tune::Call> calls;
};

// A cache that is kept in a file: what it holds for this machine, or why that is not used. A file that is
// damaged or of another machine or build is not used and not written to.
struct Cache {
  std::string path;  // empty: none
  ChoicesFile file;
  std::string unusable;  // a sentence; empty: it is fine, or not there yet
};
Cache open_cache(const std::string& path, const kernels::tune::Machine& here);

// The choices of a launch, for all its ranks: read and, where classes of the plan's calls are missing,
// measured by the process of rank 0, which sends them to the others. Nothing is measured where there is no
// usable cache: then kernels are chosen by the table. What is worth saying goes to `say`.
struct KernelChoosing {
  kernels::ChoiceWay way = kernels::ChoiceWay::table;
  kernels::cuda::MeasuredChoices choices;
  std::optional<kernels::cuda::Rates> rates;  // of --hardware; empty: of the GPU

  const kernels::cuda::Rates* rates_asked() const { return rates ? &*rates : nullptr; }
  void apply(GpuOptions& options) const {  // outlives the executor
    options.way = way;
    options.choices = &choices;
    options.rates = rates_asked();
  }
};
// `here`, `bench`: of this process's GPU; asked for only where something is to be measured.
struct TuningMachine {
  std::function<kernels::tune::Machine()> here;
  std::function<kernels::cuda::VariantOptions()> variants;
  std::function<std::unique_ptr<kernels::tune::Bench>(const kernels::cuda::VariantOptions&)> bench;
};
TuningMachine gpu_machine(bool deterministic, bool shared_gpu, int reserved_sms_of(const Schedule&, int),
                          const Schedule&, const kernels::cuda::Rates* rates);
// [rates] of --hardware, by which kernels are chosen; empty without the option.
std::optional<kernels::cuda::Rates> rates_of(const Arguments&, const ScenarioFile&);
kernels::cuda::MeasuredChoices measured_choices(const Plan&, const std::string& path, kernels::ChoiceWay,
                                                const TuningMachine&, const Say&);
// What the process of rank 0 decides, in all processes; alone, what this one decides. Throws what
// Rendezvous::all_gather throws; where rank 0 fails the others learn of it.
kernels::cuda::MeasuredChoices decided_by_rank_0(
    Rendezvous*, double timeout_s, const std::function<kernels::cuda::MeasuredChoices()>& decide);
// All of it. Throws EnvironmentError.
KernelChoosing choose_kernels(const Arguments&, const ScenarioFile&, const Participation&, const Plan&,
                              const Say&);

// Of simulate: choices measured on a GPU like that of the hardware file; a note where there are none.
VariantChoice choice_of_simulation(const Arguments&, const Hardware&, std::vector<std::string>& notes);

}  // namespace cplab

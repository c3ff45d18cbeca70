// Faults by name, into plans and tiles.
#include "cli/injection.hpp"

#include <string>
#include <vector>

#include "cli/console.hpp"
#include "cli/vocabulary.hpp"
#include "kernels/linear.hpp"

namespace cplab {

const Fault* fault_of(const Arguments& arguments) {
  if (!arguments.has("inject")) return nullptr;
  const std::string wanted = arguments.text("inject", "");
  if (const Fault* fault = find_fault(wanted)) return fault;
  std::vector<std::string> names;
  for (const Fault& fault : faults()) names.emplace_back(fault.name);
  throw InputError("--inject " + wanted + ": no such fault" +
                   clause(meant_value("inject", wanted, names, Quotes::no)) +
                   " `cplab list faults` names them all");
}

void inject(const Fault& fault, const ScenarioFile& file, Plan& plan) {
  if (fault.form == FaultForm::substitute)
    throw InputError("--inject " + std::string(fault.name) +
                     ": a tile of the CPU, which verify executes; here only bugs of plans can be seen");
  try {
    if (fault.mutate) fault.mutate(plan);
  } catch (const ScenarioError& error) {
    file.fail(error);
  }
}

void inject(const Fault& fault, const ScenarioFile& file, Plan& plan, CpuOptions& options) {
  if (fault.form != FaultForm::substitute) return inject(fault, file, plan);
  const std::string name(fault.name);
  options.tiles = kernels::faulty_cpu_tiles(name.c_str());
  options.linear_tiles = kernels::faulty_cpu_linear_tiles(name.c_str());
  if (!options.tiles && !options.linear_tiles) throw InputError("--inject " + name + ": not for this device");
  const bool linear = file.scenario.problem.attention == Attention::linear;
  if (linear != (options.linear_tiles != nullptr))
    throw InputError("--inject " + name + ": a bug in tiles of " + (linear ? "softmax" : "linear") +
                     " attention, of which this scenario executes none; an example is " +
                     std::string(fault.scenario));
}

void require_links(const Fault& fault, const Plan& plan, int ranks_per_gpu) {
  if (ranks_per_gpu <= 1) return;
  for (const RankPlan& rank : plan.ranks)
    for (const Operation& op : rank.operations)
      if (is_communication(op.kind) && op.transport == Transport::nccl)
        throw InputError("--inject " + std::string(fault.name) + " with --ranks-per-gpu " +
                         std::to_string(ranks_per_gpu) +
                         ": the plan with this bug sends over NCCL, which takes one rank a GPU; leave "
                         "--ranks-per-gpu out where there are " +
                         std::to_string(plan.ranks.size()) +
                         " GPUs, or take --device cpu (or check), where it is found without any");
}

std::string injected_text(const Fault& fault) {
  return "injected: " + std::string(fault.name) + ", " + std::string(fault.help);
}

void note_injected(const Fault* fault, std::vector<std::string>& notes) {
  if (fault) notes.push_back(injected_text(*fault));
}

}  // namespace cplab

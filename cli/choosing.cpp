// Choosing kernels of attention from the command line; see choosing.hpp.
#include "cli/choosing.hpp"

#include <filesystem>
#include <span>
#include <utility>

#include "cli/execution.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/files/toml_table.hpp"
#include "kernels/tune/gpu_bench.hpp"
#include "report/json_reader.hpp"
#include "report/output_file.hpp"

namespace cplab {

namespace cuda = kernels::cuda;
namespace tune = kernels::tune;
using kernels::ChoiceWay;
using tune::Machine;

ChoiceWay choice_way(const Arguments& arguments, ChoiceWay otherwise) {
  const std::string word = arguments.word("choose", name_of(otherwise));
  for (std::size_t n = 0; n < std::size(kernels::choice_way_names); ++n)
    if (word == kernels::choice_way_names[n]) return static_cast<ChoiceWay>(n);
  return otherwise;
}

std::string choices_path(const Arguments& arguments) {
  return arguments.has("choices") ? arguments.text("choices", "") : default_choices_path();
}

AttentionCalls::AttentionCalls(const Plan& plan, const Say& say) {
  for (const RankPlan& rank : plan.ranks) {
    const CallConverter& converter = *converters.emplace_back(std::make_unique<CallConverter>(
        rank, plan.scenario.problem.dtype, ProblemNumbers(plan.scenario.problem)));
    for (const Operation& op : rank.operations) {
      if (op.kind != OpKind::attend && op.kind != OpKind::attend_backward) continue;
      PlacedCall placed = converter.calls(op).front();
      const std::vector<kernels::View*> views = views_of(placed.call);
      // Kernels ask how operands are aligned; whoever allocates buffers aligns them for all.
      for (std::size_t i = 0; i < views.size(); ++i)
        views[i]->data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(placed.places[i].byte));
      if (const auto* forward = std::get_if<kernels::Attend>(&placed.call))
        calls.emplace_back(*forward);
      else if (const auto* backward = std::get_if<kernels::AttendBackward>(&placed.call))
        calls.emplace_back(*backward);
    }
  }
  if (calls.empty()) say("note: the plan has no softmax attention: nothing to choose");
}

Cache open_cache(const std::string& path, const Machine& here) {
  Cache cache{.path = path, .file = {.machine = here, .decisions = {}}, .unusable = {}};
  if (path.empty()) {
    cache.unusable = "there is no place for measured choices (HOME is not set); --choices FILE names one";
    return cache;
  }
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return cache;
  try {
    ChoicesFile file = read_choices(path);
    const std::string foreign = tune::difference(file.machine, here);
    if (foreign.empty())
      cache.file = std::move(file);
    else
      cache.unusable =
          path + ": not used: measured elsewhere, " + foreign + " (cplab tune --fresh replaces it)";
  } catch (const std::runtime_error& damaged) {  // InputError, JsonFileError
    cache.unusable = std::string(damaged.what()) + "; not used (cplab tune --fresh replaces it)";
  }
  return cache;
}

TuningMachine gpu_machine(bool deterministic, bool shared_gpu, int reserved_sms_of(const Schedule&, int),
                          const Schedule& schedule, const cuda::Rates* rates) {
  const auto options = [=] {
    kernels::CallOptions of{.choice = deterministic ? kernels::KernelChoice::deterministic
                                                    : kernels::KernelChoice::best};
    of.reserved_sms = reserved_sms_of(schedule, tune::machine_of_gpu().sms);
    of.shared_gpu = shared_gpu;
    of.rates = rates;
    return tune::variants_of_gpu(of);
  };
  return {.here = tune::machine_of_gpu, .variants = options, .bench = tune::gpu_bench};
}

cuda::MeasuredChoices measured_choices(const Plan& plan, const std::string& path, ChoiceWay way,
                                       const TuningMachine& machine, const Say& say) {
  Cache cache = open_cache(path, machine.here());
  if (!cache.unusable.empty()) {
    say("note: " + cache.unusable + "; kernels are chosen by the table");
    return {};
  }
  cuda::MeasuredChoices choices = cache.file.choices();
  const tune::TuneOptions options{.way = way, .variants = machine.variants()};
  const AttentionCalls attention(plan, say);
  // A GPU's memory is for the execution: the bench is gone before that.
  const std::unique_ptr<tune::Bench> bench = machine.bench(options.variants);
  const std::vector<tune::Decision> decisions =
      tune::tune_all(attention.calls, options, *bench, choices,
                     [&](const std::string& which) { say("measuring kernels for " + which); });
  cache.file.add(decisions);
  for (const tune::Decision& decision : decisions)
    for (const tune::Tried& tried : decision.tried)
      if (tried.standing == tune::Standing::wrong)
        say("note: " + std::string(tried.candidate.variant) + " is wrong for " + decision.call + ": " +
            tried.reason + "; it is not taken");
  if (decisions.empty()) return choices;
  try {
    write_choices(path, cache.file);
  } catch (const OutputError& error) {
    say("note: what was measured is not kept: " + std::string(error.what()));
  }
  return choices;
}

cuda::MeasuredChoices decided_by_rank_0(Rendezvous* rendezvous, double timeout_s,
                                        const std::function<cuda::MeasuredChoices()>& decide) {
  if (rendezvous == nullptr) return decide();
  std::string text;
  if (rendezvous->rank() == 0) {
    try {
      text = decide().text();
    } catch (const std::exception& error) {
      rendezvous->announce_failure(error.what());
      throw;
    }
  }
  const auto gathered = rendezvous->all_gather(std::as_bytes(std::span(text)), timeout_s);
  const auto* first = reinterpret_cast<const char*>(gathered.front().data());
  return cuda::MeasuredChoices::from_text({first, gathered.front().size()});
}

std::optional<cuda::Rates> rates_of(const Arguments& arguments, const ScenarioFile& file) {
  if (!arguments.has("hardware")) return {};
  return machine_of(file).rates;
}

KernelChoosing choose_kernels(const Arguments& arguments, const ScenarioFile& file, const Participation& with,
                              const Plan& plan, const Say& say) {
  KernelChoosing choosing{
      .way = choice_way(arguments, ChoiceWay::table), .choices = {}, .rates = rates_of(arguments, file)};
  if (!wants_measurements(choosing.way)) {
    if (arguments.has("choices")) throw InputError("--choices: for --choose autotune or hybrid only");
    return choosing;
  }
  try {
    choosing.choices = decided_by_rank_0(with.rendezvous.get(), timeout_of(arguments), [&] {
      return measured_choices(plan, choices_path(arguments), choosing.way,
                              gpu_machine(arguments.has("deterministic"), ranks_per_gpu(arguments) > 1,
                                          reserved_sms, plan.scenario.schedule, choosing.rates_asked()),
                              say);
    });
  } catch (const MeetingError&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw EnvironmentError(error.what());
  }
  return choosing;
}

VariantChoice choice_of_simulation(const Arguments& arguments, const Hardware& hardware,
                                   std::vector<std::string>& notes) {
  VariantChoice choice{.way = choice_way(arguments, ChoiceWay::table), .measured = {}};
  if (!wants_measurements(choice.way)) {
    if (arguments.has("choices")) throw InputError("--choices: for --choose autotune or hybrid only");
    return choice;
  }
  const std::string named = "--choose " + std::string(name_of(choice.way)) + ": ";
  if (!arguments.has("choices")) {
    notes.push_back(named + "kernels are chosen by the table: --choices FILE has what was measured");
    return choice;
  }
  const std::string path = arguments.text("choices", "");
  const ChoicesFile file = read_choices(path);
  if (file.machine.gpu != hardware.gpu.name || file.machine.sms != hardware.gpu.sms) {
    notes.push_back(named + path + " was measured on " + file.machine.gpu + " with " +
                    std::to_string(file.machine.sms) + " multiprocessors, not on the " + hardware.gpu.name +
                    " with " + std::to_string(hardware.gpu.sms) +
                    " of the hardware file: kernels are chosen by the table");
    return choice;
  }
  choice.measured = std::make_shared<const cuda::MeasuredChoices>(file.choices());
  return choice;
}

}  // namespace cplab

// The common beginnings and ends of the commands.
#include "cli/session.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>

#include <ostream>

#include "algorithms/core/build.hpp"
#include "cli/console.hpp"
#include "cli/files/changes.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/memory_need.hpp"
#include "cli/subject.hpp"
#include "plan/tensors.hpp"
#include "report/folding.hpp"
#include "report/printable.hpp"

namespace cplab {

namespace {

// Who executes and sets a rate means the choice of kernels: without effect it would be a wrong measurement.
void require_rates(const std::string& option, bool on_gpu, bool by_option) {
  if (!on_gpu)
    throw InputError(option +
                     ": rates choose kernels on a GPU, and the CPU has none to choose; legal with "
                     "--device gpu and --hardware NAME");
  if (!by_option)
    throw InputError(option +
                     ": changes a rate of the machine that --hardware NAME names, and there is none");
}

// Most scenarios name a machine, also for commands that need none: only what was set on the command line is
// worth a note.
void note_unused(ScenarioFile& file, const std::string& command, Reads reads, bool by_option) {
  const auto note = [&](const std::string& what, const std::string& why) {
    file.notes.push_back(what + ": not used by " + command + ", " + why);
  };
  if (!reads.hardware) {
    const char* why = "which knows no machine; simulate and show do";
    if (!file.hardware.empty() && !file.hardware_overrides.empty()) {
      (void)machine_of(file);  // errors in it are reported even where it is not used
    }
    if (file.table.is_set("hardware.file") && !(by_option && reads.rates))
      note(by_option ? "--hardware" : "--set hardware.file", why);
    for (const auto& [key, value] : file.hardware_overrides) {
      if (reads.executes && key.starts_with("rates."))
        require_rates(hardware_option(key, value), reads.rates, by_option);
      else
        note(hardware_option(key, value), why);
    }
  }
  const bool set = file.table.is_set("simulate");
  // A plan's file repeats the settings of the scenario that it was built from.
  if (!reads.simulate && file.table.has("simulate") && (set || !file.plan)) {
    note(set ? "--set simulate.*" : "[simulate] of " + file.path,
         "which has no clock to set; simulate and show do");
  }
  if (file.scenario.problem.format == Format::sbhd) {
    file.notes.push_back(
        "problem.format = \"sbhd\" changes nothing: tensors are rows of tokens inside, and "
        "[B, S, heads, size] in .npy files");
  }
}

}  // namespace

ScenarioFile scenario_of(const Arguments& arguments, const char* command, Reads reads) {
  ScenarioFile file = read_subject(arguments, {reads.plan, reads.hardware, reads.form});
  note_unused(file, command, reads, arguments.has("hardware"));
  file.read_notes = file.notes;
  return file;
}

void say_notes(Console& console, const ScenarioFile& file) {
  for (const std::string& note : file.notes) console.say("note: " + note);
}

Scenario on_machine(const ScenarioFile& file) {
  Scenario scenario = file.scenario;
  std::vector<int>& islands = scenario.parallel.islands;
  if (islands.empty() && !file.hardware.empty())
    islands = islands_of(machine_of(file), static_cast<int>(scenario.parallel.world()));
  return scenario;
}

Plan plan_of(const ScenarioFile& file, PlanUse use) {
  if (file.plan) return std::move(*file.plan);
  try {
    require_plan_memory(file, use);
    return build_plan(on_machine(file));
  } catch (const ScenarioError& error) {
    file.fail(error);
  }
}

void fail_environment(const ScenarioFile& file, const std::string& key, const std::string& message) {
  try {
    file.fail(key, message);
  } catch (const InputError& error) {
    throw EnvironmentError(error.what());
  }
}

double physical_memory_bytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
}

std::vector<MemoryPlan> memory_of(const Plan& plan) {
  std::vector<MemoryPlan> memory;
  memory.reserve(plan.ranks.size());
  for (const RankPlan& rank : plan.ranks) memory.push_back(plan_memory(rank));
  return memory;
}

std::vector<ScenarioSection> sections_of(const ScenarioFile& file) {
  ScenarioSection simulate{"simulate", {}};
  simulate.settings.emplace_back("collective_model", file.simulate.stepwise ? "stepwise" : "curve");
  simulate.settings.emplace_back("cuda_graph", file.simulate.cuda_graph);
  if (file.simulate.run_ahead > 0) simulate.settings.emplace_back("run_ahead", file.simulate.run_ahead);
  if (file.simulate.engine != FlowEngineChoice::automatic)
    simulate.settings.emplace_back("engine",
                                   file.simulate.engine == FlowEngineChoice::simgrid ? "simgrid" : "native");
  if (file.simulate.iteration > 0) simulate.settings.emplace_back("iteration", file.simulate.iteration);
  add_disturbance(file.simulate.disturbance, simulate);
  std::vector<ScenarioSection> sections{std::move(simulate)};
  if (!file.hardware_given.empty()) {
    ScenarioSection hardware{"hardware", {{"file", file.hardware_given}}};
    for (const auto& [key, value] : file.hardware_overrides) {  // of one key the last counts
      std::erase_if(hardware.settings, [&key = key](const auto& earlier) { return earlier.first == key; });
      if (value != no_value) hardware.settings.emplace_back(key, value);
    }
    sections.push_back(std::move(hardware));
  }
  return sections;
}

ResultHeader header_of(const ScenarioFile& file) {
  return {versions_of_build(), file.scenario, sections_of(file), file.notes, given_of(file)};
}

std::string describe(const Scenario& scenario, std::span<const std::int64_t> ranks) {
  std::string text = fmt::format("{}, {}", printable(scenario.algorithm), printable(scenario.placement));
  if (const std::vector<int>& homes = scenario.parallel.homes; !homes.empty())
    text += fmt::format(" ({} of {} sequences whole)", std::ssize(homes) - std::ranges::count(homes, -1),
                        homes.size());
  return text + ", " + describe_problem(scenario, ranks);
}

PageTitle page_title(const Scenario& scenario) {
  return {fmt::format("{}, {}", scenario.algorithm, scenario.placement), describe_problem(scenario)};
}

std::string describe_problem(const Scenario& scenario, std::span<const std::int64_t> ranks) {
  const Problem& problem = scenario.problem;
  const std::string counts =
      ranks.empty() ? std::to_string(scenario.parallel.ranks) : fmt::format("{}", fmt::join(ranks, ", "));
  std::string text = fmt::format("{} ranks", counts);
  if (scenario.parallel.replicas > 1) text += fmt::format(" x {} replicas", scenario.parallel.replicas);
  if (problem.packed) {
    std::int64_t tokens = 0;
    for (const std::int64_t length : problem.padded_lengths) tokens += length;
    text += fmt::format(", {} packed sequences of {} tokens in all", problem.lengths.size(), tokens);
  } else {
    text += fmt::format(", {} x {} tokens", problem.batch, problem.sequence);
  }
  if (problem.is_cross()) {
    const std::int64_t keys = problem.packed ? total_tokens(problem, Side::keys) : problem.kv_sequence;
    text += fmt::format(" on {} keys", keys);
  }
  text += fmt::format(", {}/{} heads of {}", problem.heads, problem.kv_heads, problem.head_size);
  if (problem.value_size != problem.head_size) text += fmt::format("/{}", problem.value_size);
  text += fmt::format(", {}, {}", name(problem.dtype),
                      problem.only_rectangles ? "no mask"
                      : problem.causal        ? "causal"
                                              : "full");
  if (problem.chunk > 0) text += fmt::format(", chunks of {}", problem.chunk);
  if (problem.prefix > 0) text += fmt::format(", prefix {}", problem.prefix);
  if (!problem.groups.empty()) text += fmt::format(", {} groups", problem.groups.size());
  if (!problem.rectangles.empty()) text += fmt::format(", {} rectangles", problem.rectangles.size());
  if (!(problem.window == Window{})) {
    text += fmt::format(" window [{}, {}]", problem.window.left, problem.window.right);
  }
  if (problem.attention == Attention::linear) {
    text += fmt::format(", linear attention ({}{})", name(problem.transition),
                        problem.gate == Gate::head ? ", one gate a head" : "");
  }
  if (problem.softcap > 0) text += fmt::format(", softcap {:.6g}", problem.softcap);
  if (problem.sink) text += ", a sink a head";
  if (problem.attention == Attention::softmax && problem.bias != BiasForm::none)
    text += fmt::format(", bias {}", name(problem.bias));
  if (problem.attention == Attention::dynamic_mask) {
    text += fmt::format(", dynamic mask (bias {}, keep {}{})", name(problem.bias), name(problem.keep),
                        problem.keep == Keep::top_k ? fmt::format(" {}", problem.top_k) : "");
  }
  return text + fmt::format(", {}", name(problem.direction));
}

void write_findings(std::ostream& out, std::span<const Finding> findings, const TextStyle& style) {
  for (const Finding& finding : findings) {
    const std::string_view kind = name(finding.kind);
    std::string place;
    if (finding.rank >= 0) place += "  rank " + std::to_string(finding.rank);
    if (!finding.operation.empty()) place += "  operation " + printable(finding.operation);
    if (!finding.buffer.empty()) place += "  buffer " + printable(finding.buffer);
    if (style.color) write_control(out, "\033[1;31m");
    out << kind;
    if (style.color) write_control(out, "\033[0m");
    // As much of the message as its place leaves room for, the rest beneath.
    const std::string message = printable(finding.message);
    const std::size_t used = kind.size() + width_of(place) + 2;
    const std::string first = folded(message, style.width > used + 16 ? style.width - used : 16).front();
    out << place << "  " << first << '\n';
    const std::size_t rest = message.find_first_not_of(' ', first.size());
    if (rest == std::string::npos) continue;
    for (const std::string& line : folded(message.substr(rest), style.width - 2)) out << "  " << line << '\n';
  }
}

}  // namespace cplab

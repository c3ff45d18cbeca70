// cplab simulate SCENARIO | --plan FILE | --rerun RESULT.json: predicted time and memory on the machine of
// [hardware].
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <ostream>

#include "cli/choosing.hpp"
#include "cli/commands/algorithm_table.hpp"
#include "cli/commands/command.hpp"
#include "cli/commands/rerun.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/files/scenario_dynamic_mask.hpp"
#include "cli/injection.hpp"
#include "cli/memory_need.hpp"
#include "cli/outputs.hpp"
#include "cli/prediction.hpp"
#include "cli/result_text.hpp"
#include "cli/session.hpp"
#include "report/html/pages.hpp"
#include "report/json.hpp"
#include "report/printable.hpp"

namespace cplab {

namespace {

bool has_collective(const Plan& plan) {
  for (const RankPlan& rank : plan.ranks) {
    for (const Operation& op : rank.operations) {
      if (is_communication(op.kind) && op.kind != OpKind::exchange && op.kind != OpKind::barrier) return true;
    }
  }
  return false;
}

int simulate_file(const Arguments& arguments, ScenarioFile file, Console& console) {
  require_machine(file);
  file.choice = choice_of_simulation(arguments, machine_of(file), file.notes);
  const Fault* fault = fault_of(arguments);
  file.simulate.keep_multiprocessors = arguments.has("trace");
  Progress progress(console, "building the plan");
  Plan plan = plan_of(file, PlanUse::simulate);
  if (fault) inject(*fault, file, plan);
  note_injected(fault, file.notes);
  const Prediction prediction = predict(file, plan, &progress);
  progress.end();
  file.notes.insert(file.notes.end(), prediction.notes.begin(), prediction.notes.end());
  if (file.table.is_set("simulate.collective_model") && !has_collective(plan)) {
    file.notes.push_back("--set simulate.collective_model: not used, the plan has no collectives");
  }
  note_selection(plan.scenario.problem, file.notes);
  say_notes(console, file);
  const Figures& figures = prediction.figures;

  std::ostream& out = console.text();
  const auto line = [&](const std::string& text) { write_folded(out, text, console.style().width, "  "); };
  line(describe(file.scenario));
  const TimeUnit unit = time_unit(figures.time_s);
  line(fmt::format("on {}: {} {} (between {} and {})", printable(file.hardware_given),
                   format_time(figures.time_s, unit), unit.name, format_time(prediction.low_s, unit),
                   format_time(prediction.high_s, unit)));
  line(fit_text(prediction.fit));
  line("of the busy time: " + describe(figures.origins));
  line("critical path (back from the end): " + describe(prediction.chain));
  line("of it " + chain_text(prediction.chain_parts, prediction.chain_s));
  const std::vector<VariantFigures> variants = variant_figures(plan, prediction.timeline);
  write_variants(out, variants, console.style());
  write_figures(out, figures, prediction.fit, console.style(), arguments.has("ranks"));

  SimulateReport report;
  report.placement_padding_tokens = plan.placement_padding_tokens;
  report.header = header_of(file);
  report.machine = prediction.machine;
  report.gpu = prediction.gpu;
  report.figures = figures;
  report.fit = prediction.fit;
  report.low_s = prediction.low_s;
  report.high_s = prediction.high_s;
  report.chain = prediction.chain;
  report.chain_parts = prediction.chain_parts;
  report.chain_s = prediction.chain_s;
  report.variants = variants;
  if (arguments.has("operations")) report.operations = OperationTimes{&plan, &prediction.timeline};
  write_page_output(arguments, console, [&](std::ostream& stream) {
    PageTitle title = page_title(file.scenario);
    title.lead += ", on " + prediction.machine;
    write_page(stream, title, report, {plan, prediction.timeline, prediction.memory, figures},
               prediction.chain_steps);
  });
  console.write_json_to_option([&](std::ostream& stream) { write_json(stream, report); });
  const Totals totals{figures.time_s, std::pair(prediction.low_s, prediction.high_s), prediction.fit};
  console.write_csv_to_option(
      [&](std::ostream& stream) { rank_table_for_files(figures, totals).write_csv(stream); });
  write_timeline_outputs(arguments, console, {plan, prediction.timeline, prediction.memory, figures});
  const double unknown = figures.origins.extrapolated + figures.origins.assumed;
  const bool strict = arguments.has("strict");
  if (strict && unknown > 0)
    console.say(
        fmt::format("--strict: {} % of the busy time is extrapolated or assumed", format_percent(unknown)));
  if (strict && !prediction.fit.fits) console.say("--strict: " + fit_text(prediction.fit));
  return strict && (unknown > 0 || !prediction.fit.fits) ? exit_wrong : exit_fine;
}

}  // namespace

int command_simulate(const Arguments& arguments, Console& console) {
  if (arguments.has("algorithms")) return simulate_algorithms(arguments, console);
  if (arguments.has("rerun")) {
    Rerun again = read_rerun(arguments);
    return simulate_file(again.arguments, std::move(again.file), console);
  }
  if (arguments.has("anyway")) throw InputError("--anyway: goes with --rerun");
  return simulate_file(
      arguments,
      scenario_of(arguments, "simulate", {.hardware = true, .simulate = true, .plan = true, .form = true}),
      console);
}

}  // namespace cplab

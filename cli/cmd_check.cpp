// cplab check SCENARIO | --plan FILE: the proof without a clock.
#include "check/check.hpp"

#include <fmt/format.h>

#include <ostream>

#include "cli/command.hpp"
#include "cli/memory_need.hpp"
#include "cli/progress.hpp"
#include "cli/session.hpp"
#include "report/json.hpp"

namespace cplab {

int command_check(const Arguments& arguments, Console& console) {
  CheckReport report;
  Plan plan;
  Progress progress(console, "reading the plan");
  if (arguments.has("plan")) {
    plan = read_plan(arguments);
    report.header = {versions_of_build(), plan.scenario, {}, {}};
  } else {
    const ScenarioFile file = scenario_of(arguments, "check", {});
    say_notes(console, file);
    progress.stage("building the plan");
    plan = plan_of(file, PlanUse::check);
    report.header = header_of(file);
  }
  report.placement_padding_tokens = plan.placement_padding_tokens;
  progress.stage("checking");
  report.result = check(plan);
  progress.end();
  const CheckResult& result = report.result;

  std::ostream& out = console.text();
  out << describe(plan.scenario) << '\n';
  write_findings(out, result.findings, console.color());
  out << fmt::format("{}: {} rounds, {} messages\n", result.ok() ? "right" : "wrong", result.rounds,
                     result.messages);
  TextTable table({{"rank", ""}, {"work", "FLOP"}, {"sent", "bytes"}});
  for (std::size_t r = 0; r < result.flops.size(); ++r) {
    table.add_row(
        {std::to_string(r), fmt::format("{:.0f}", result.flops[r]), std::to_string(result.sent_bytes.at(r))});
  }
  constexpr std::size_t most_rows_for_people = 64;
  if (table.rows() <= most_rows_for_people) table.write(out, console.color());
  console.write_json_to_option([&](std::ostream& stream) { write_json(stream, report); });
  console.write_csv_to_option([&](std::ostream& stream) { table.write_csv(stream); });
  return result.ok() ? exit_fine : exit_wrong;
}

}  // namespace cplab

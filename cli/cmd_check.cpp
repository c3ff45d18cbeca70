// cplab check SCENARIO | --plan FILE: the proof without a clock.
#include "check/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <stdexcept>

#include "cli/command.hpp"
#include "cli/memory_need.hpp"
#include "cli/progress.hpp"
#include "cli/result_text.hpp"
#include "cli/session.hpp"
#include "derive/arena.hpp"
#include "report/json.hpp"

namespace cplab {

namespace {

// What each value of schedule.reuse costs in bytes, and in waits that no data asks for: of the rank where it
// is most, among so many ranks that it takes no longer than the proof.
std::vector<std::string> reuse_notes(const Plan& plan) {
  constexpr std::size_t most_ranks = 16;
  const std::size_t ranks = std::min(plan.ranks.size(), most_ranks);
  std::vector<std::string> notes;
  for (const Reuse reuse : {Reuse::time, Reuse::peak}) {
    ArenaCost most;
    for (std::size_t r = 0; r < ranks; ++r) {
      ArenaCost cost;
      try {
        cost = arena_cost(plan.ranks[r], reuse);
      } catch (const std::length_error&) {
        return {};  // more lanes than edges are derived for: the file's own edges were proved
      }
      most = {std::max(most.arena_bytes, cost.arena_bytes), std::max(most.waits, cost.waits)};
    }
    notes.push_back(
        fmt::format("reuse={}: an arena of {} bytes ({}), and {} waits across lanes for memory alone{}",
                    reuse == Reuse::time ? "time" : "peak", most.arena_bytes,
                    bytes_text(static_cast<double>(most.arena_bytes)), most.waits,
                    ranks < plan.ranks.size() ? fmt::format(", on ranks 0 to {}", ranks - 1) : ""));
  }
  return notes;
}

}  // namespace

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
  const CheckResult& result = report.result;
  std::vector<std::string> costs;
  if (result.ok()) costs = reuse_notes(plan);
  progress.end();
  report.header.notes.insert(report.header.notes.end(), costs.begin(), costs.end());

  std::ostream& out = console.text();
  out << describe(plan.scenario) << '\n';
  write_findings(out, result.findings, console.color());
  out << fmt::format("{}: {} rounds, {} messages\n", result.ok() ? "right" : "wrong", result.rounds,
                     result.messages);
  for (const std::string& cost : costs) out << cost << '\n';
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

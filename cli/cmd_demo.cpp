// cplab demo: ring attention on the 8-GPU node of scenarios/ring.toml, buffers and placements compared. Each
// row is simulated at the scenario's size and verified in this very run at a small one.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <ostream>
#include <set>

#include "cli/changes.hpp"
#include "cli/command.hpp"
#include "cli/memory_need.hpp"
#include "cli/prediction.hpp"
#include "cli/session.hpp"
#include "cli/verify/verify.hpp"
#include "report/json_parts.hpp"
#include "report/json_writer.hpp"

namespace cplab {

namespace {

constexpr const char* scenario_name = "ring.toml";
// The small size: an odd length, so that the last chunks are padded; more query than key/value heads.
const std::vector<std::string> small_size{"problem.batch=1", "problem.sequence=203", "problem.heads=4",
                                          "problem.kv_heads=2", "problem.head_size=16"};

struct DemoRow {
  std::string kv_slots, placement;
  Prediction prediction;
  double exposed_s = 0;
  bool verified = false;
};

std::vector<std::string> with(std::vector<std::string> sets, const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

bool verify_small(const std::vector<std::string>& sets, std::uint64_t seed) {
  const ScenarioFile file = read_scenario(scenario_name, with(sets, small_size));
  const Plan plan = plan_of(file, PlanUse::check);
  VerifyOptions options;
  options.execution.order = {true, seed};
  return verify(plan, random_inputs(file.scenario.problem, seed), options).ok();
}

DemoRow demo_row(const std::vector<std::string>& sets, std::uint64_t seed) {
  DemoRow row;
  const ScenarioFile file = read_scenario(scenario_name, sets);
  const Plan plan = plan_of(file, PlanUse::check);
  row.prediction = predict(file, plan);
  for (const RankFigures& rank : row.prediction.figures.ranks) {
    row.exposed_s = std::max(row.exposed_s, rank.exposed_communication_s);
  }
  row.verified = check(plan).ok() && verify_small(sets, seed);
  return row;
}

// Of the rows that fit and are right, and are as fast as the fastest within what the model can tell apart,
// the one with the least memory.
constexpr double indistinguishable = 0.01;
std::optional<std::size_t> best_row(const std::vector<DemoRow>& rows) {
  const auto eligible = [](const DemoRow& row) { return row.verified && row.prediction.fit.fits; };
  double fastest = std::numeric_limits<double>::infinity();
  for (const DemoRow& row : rows) {
    if (eligible(row)) fastest = std::min(fastest, row.prediction.figures.time_s);
  }
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Figures& figures = rows[i].prediction.figures;
    if (!eligible(rows[i]) || figures.time_s > fastest * (1 + indistinguishable)) continue;
    if (!best || figures.peak_bytes < rows[*best].prediction.figures.peak_bytes) best = i;
  }
  return best;
}

TextTable demo_table(const std::vector<DemoRow>& rows) {
  TextTable table({{"kv_slots", ""},
                   {"placement", "", Align::left},
                   {"time", "ms"},
                   {"low", "ms"},
                   {"high", "ms"},
                   {"exposed communication", "ms"},
                   {"peak memory", "GiB"},
                   {"fits", "", Align::left},
                   {"verified", "", Align::left}});
  for (const DemoRow& row : rows) {
    const Prediction& p = row.prediction;
    table.add_row({row.kv_slots, row.placement, format_ms(p.figures.time_s), format_ms(p.low_s),
                   format_ms(p.high_s), format_ms(row.exposed_s), format_gib(p.figures.peak_bytes, 3),
                   p.fit.fits ? "yes" : "NO", row.verified ? "yes" : "NO"});
  }
  return table;
}

void write_demo_json(std::ostream& out, const ScenarioFile& file, const std::vector<DemoRow>& rows,
                     std::optional<std::size_t> best) {
  JsonWriter json(out);
  begin_result(json, "demo", "demo", header_of(file));
  json.key("rows");
  json.begin_array();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Prediction& p = rows[i].prediction;
    json.begin_object(JsonWriter::Style::line);
    json.field("kv_slots", rows[i].kv_slots);
    json.field("placement", rows[i].placement);
    json.field("time_s", p.figures.time_s);
    json.field("low_s", p.low_s);
    json.field("high_s", p.high_s);
    json.field("exposed_communication_s", rows[i].exposed_s);
    json.field("peak_bytes", p.figures.peak_bytes);
    json.field("fits", p.fit.fits);
    json.field("headroom_bytes", p.fit.headroom_bytes);
    json.field("verified", rows[i].verified);
    json.field("best", best == i);
    json.end_object();
  }
  json.end_array();
  json.end_object();
}

}  // namespace

int command_demo(const Arguments& arguments, Console& console) {
  const std::vector<std::string> sets = changes_of(arguments);
  for (const std::string& set : sets) {
    if (set.starts_with("schedule.kv_slots=") || set.starts_with("parallel.placement=")) {
      throw InputError(option_text(set) + ": the demo goes over all of them; see `cplab simulate`");
    }
  }
  const auto seed = static_cast<std::uint64_t>(arguments.integer("seed", 1, 0, INT64_MAX));
  require_scenarios_folder();
  const ScenarioFile file = read_scenario(scenario_name, sets);
  say_notes(console, file);
  std::vector<DemoRow> rows;
  Progress progress(console, "simulating and verifying");
  for (const char* kv_slots : {"2", "3", "all"}) {
    for (const char* placement : {"contiguous", "zigzag", "striped"}) {
      progress.stage(fmt::format("kv_slots {}, {}: row {} of 9", kv_slots, placement, rows.size() + 1));
      rows.push_back(demo_row(with(sets, {std::string("schedule.kv_slots=") + kv_slots,
                                          std::string("parallel.placement=") + placement}),
                              seed));
      rows.back().kv_slots = kv_slots;
      rows.back().placement = placement;
    }
  }
  progress.end();
  std::set<std::string> said;
  for (const DemoRow& row : rows) {
    for (const std::string& note : row.prediction.notes) {
      if (said.insert(note).second) console.say("note: " + note);
    }
  }
  const auto best = best_row(rows);
  TextTable table = demo_table(rows);
  if (best) table.mark_best(*best);

  std::ostream& out = console.text();
  out << describe(file.scenario) << "\non " << file.hardware_given << ", over kv_slots and placements\n\n";
  table.write(out, console.color());
  if (best) {
    const DemoRow& row = rows[*best];
    out << fmt::format("\n* best: kv_slots {}, {}: {} ms, {} GiB of each GPU left\n", row.kv_slots,
                       row.placement, format_ms(row.prediction.figures.time_s),
                       format_gib(row.prediction.fit.headroom_bytes, 1));
    out << "Times are simulated; low and high are the band of the model. Busy time of the best row: "
        << describe(row.prediction.figures.origins) << ".\n";
  }
  out << "verified: in this run, the plan of this size was proved right without a clock, and the plan with "
         "the "
         "same options\nat a small size (203 tokens, 4/2 heads of 16, same ranks) was checked, executed on "
         "the "
         "CPU in a random order,\nand compared with the dense double-precision reference.\n";
  console.write_json_to_option([&](std::ostream& stream) { write_demo_json(stream, file, rows, best); });
  console.write_csv_to_option([&](std::ostream& stream) { table.write_csv(stream); });
  const bool all_verified =
      std::all_of(rows.begin(), rows.end(), [](const DemoRow& row) { return row.verified; });
  return all_verified ? exit_fine : exit_wrong;
}

}  // namespace cplab

// cplab demo: ring attention on the 8-GPU node of scenarios/ring.toml, buffers and placements compared. Each
// row is simulated at the scenario's size and verified in this very run at a small one.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <ostream>
#include <set>
#include <utility>

#include "algorithms/core/list.hpp"
#include "cli/commands/command.hpp"
#include "cli/files/changes.hpp"
#include "cli/memory_need.hpp"
#include "cli/prediction.hpp"
#include "cli/session.hpp"
#include "cli/subject.hpp"
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

bool verify_small(const ScenarioFile& whole, const std::vector<std::string>& sets, std::uint64_t seed) {
  const ScenarioFile file = reread(whole, with(sets, small_size));
  const Plan plan = plan_of(file, PlanUse::check);
  VerifyOptions options;
  options.execution.order = {true, seed};
  return verify(plan, random_inputs(file.scenario.problem, seed), options).ok();
}

DemoRow demo_row(const ScenarioFile& whole, const std::vector<std::string>& sets, std::uint64_t seed) {
  DemoRow row;
  const ScenarioFile file = reread(whole, sets);
  const Plan plan = plan_of(file, PlanUse::check);
  row.prediction = predict(file, plan);
  for (const RankFigures& rank : row.prediction.figures.ranks) {
    row.exposed_s = std::max(row.exposed_s, rank.exposed_communication_s);
  }
  row.verified = check(plan).ok() && verify_small(whole, sets, seed);
  return row;
}

bool eligible(const DemoRow& row) {
  return row.verified && row.prediction.fit.fits;
}

// Of the rows that fit and are right the fastest; of equally fast ones that with the least memory.
std::optional<std::size_t> best_row(const std::vector<DemoRow>& rows) {
  const auto cost = [](const DemoRow& row) {
    return std::pair(row.prediction.figures.time_s, row.prediction.figures.peak_bytes);
  };
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (eligible(rows[i]) && (!best || cost(rows[i]) < cost(rows[*best]))) best = i;
  return best;
}

// Of those as fast as the best within what the model can tell apart, the one with the least memory.
std::size_t smallest_row(const std::vector<DemoRow>& rows, std::size_t best) {
  constexpr double indistinguishable = 0.01;
  const double limit_s = rows[best].prediction.figures.time_s * (1 + indistinguishable);
  std::size_t smallest = best;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Figures& figures = rows[i].prediction.figures;
    if (eligible(rows[i]) && figures.time_s <= limit_s &&
        figures.peak_bytes < rows[smallest].prediction.figures.peak_bytes)
      smallest = i;
  }
  return smallest;
}

TextTable demo_table(const std::vector<DemoRow>& rows) {
  double longest_s = 0;
  for (const DemoRow& row : rows) longest_s = std::max(longest_s, row.prediction.figures.time_s);
  const TimeUnit unit = time_unit(longest_s);
  TextTable table({{"kv_slots", ""},
                   {"placement", "", Align::left},
                   {"time", unit.name},
                   {"low", unit.name},
                   {"high", unit.name},
                   {"exposed communication", unit.name},
                   {"peak memory", "GiB"},
                   {"fits", "", Align::left},
                   {"verified", "", Align::left}});
  for (const DemoRow& row : rows) {
    const Prediction& p = row.prediction;
    table.add_row({row.kv_slots, row.placement, format_time(p.figures.time_s, unit),
                   format_time(p.low_s, unit), format_time(p.high_s, unit), format_time(row.exposed_s, unit),
                   format_gib(p.figures.peak_bytes, 3), p.fit.fits ? "yes" : "NO",
                   row.verified ? "yes" : "NO"});
  }
  return table;
}

TextTable demo_table_for_files(const std::vector<DemoRow>& rows, std::optional<std::size_t> best) {
  TextTable table({{"kv_slots", ""},
                   {"placement", "", Align::left},
                   {"time", "s"},
                   {"low", "s"},
                   {"high", "s"},
                   {"exposed_communication", "s"},
                   {"peak", "bytes"},
                   {"fits", "", Align::left},
                   {"headroom", "bytes"},
                   {"verified", "", Align::left},
                   {"best", "", Align::left}});
  const auto word = [](bool flag) { return std::string(flag ? "true" : "false"); };
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Prediction& p = rows[i].prediction;
    table.add_row({rows[i].kv_slots, rows[i].placement, fmt::format("{}", p.figures.time_s),
                   fmt::format("{}", p.low_s), fmt::format("{}", p.high_s),
                   fmt::format("{}", rows[i].exposed_s), std::to_string(p.figures.peak_bytes),
                   word(p.fit.fits), std::to_string(p.fit.headroom_bytes), word(rows[i].verified),
                   word(best == i)});
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
  const Algorithm* algorithm = find_algorithm(file.scenario.algorithm);
  if (!algorithm || !find_option(*algorithm, "kv_slots"))
    throw InputError(
        "the demo goes over kv_slots, which " + file.scenario.algorithm +
        " has not; see `cplab simulate ring --set parallel.algorithm=" + file.scenario.algorithm + "`");
  say_notes(console, file);
  std::vector<DemoRow> rows;
  Progress progress(console, "simulating and verifying");
  for (const char* kv_slots : {"2", "3", "all"}) {
    for (const char* placement : {"contiguous", "zigzag", "striped"}) {
      progress.stage(fmt::format("kv_slots {}, {}: row {} of 9", kv_slots, placement, rows.size() + 1));
      rows.push_back(demo_row(file,
                              with(sets, {std::string("schedule.kv_slots=") + kv_slots,
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
  const auto line = [&](const std::string& text) { write_folded(out, text, console.style().width); };
  line(describe(file.scenario));
  out << "on " << file.hardware_given << ", over kv_slots and placements\n\n";
  table.write(out, console.style());
  if (best) {
    const DemoRow& row = rows[*best];
    out << "\n";
    line(fmt::format("* the fastest that fits: kv_slots {}, {}: {}, {} GiB of each GPU left", row.kv_slots,
                     row.placement, time_text(row.prediction.figures.time_s),
                     format_gib(row.prediction.fit.headroom_bytes, 1)));
    if (const DemoRow& small = rows[smallest_row(rows, *best)]; &small != &row)
      line(fmt::format(
          "as fast within 1 %, which the model cannot tell apart, with the least memory: kv_slots "
          "{}, {}: {}, {} GiB left",
          small.kv_slots, small.placement, time_text(small.prediction.figures.time_s),
          format_gib(small.prediction.fit.headroom_bytes, 1)));
    line("Times are simulated; low and high are the band of the model. Busy time of the fastest row: " +
         describe(row.prediction.figures.origins) + ".");
  }
  line("fits: one attention call, weights, optimizer and other layers not counted.");
  line(
      "verified: in this run, the plan of this size was proved right without a clock, and the plan with the "
      "same options at a small size (203 tokens, 4/2 heads of 16, same ranks) was checked, executed on the "
      "CPU in a random order, and compared with the dense double-precision reference.");
  console.write_json_to_option([&](std::ostream& stream) { write_demo_json(stream, file, rows, best); });
  console.write_csv_to_option(
      [&](std::ostream& stream) { demo_table_for_files(rows, best).write_csv(stream); });
  const bool all_verified =
      std::all_of(rows.begin(), rows.end(), [](const DemoRow& row) { return row.verified; });
  return all_verified ? exit_fine : exit_wrong;
}

}  // namespace cplab

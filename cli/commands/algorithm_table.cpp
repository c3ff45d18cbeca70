// The rows, their simulation and the table; see algorithm_table.hpp.
#include "cli/commands/algorithm_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <utility>
#include <vector>

#include "algorithms/core/list.hpp"
#include "cli/choosing.hpp"
#include "cli/files/changes.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/memory_need.hpp"
#include "cli/prediction.hpp"
#include "cli/reasons.hpp"
#include "cli/session.hpp"
#include "cli/subject.hpp"
#include "cli/vocabulary.hpp"
#include "report/json_parts.hpp"
#include "report/printable.hpp"

namespace cplab {

namespace {

using Choices = std::vector<std::pair<std::string, std::string>>;  // of [schedule]

struct AlgorithmRow {
  std::string algorithm, placement;
  Choices choices;
  double time_s = 0, low_s = 0, high_s = 0;
  RankFigures worst;  // the rank that has most exposed communication
  std::int64_t sent_bytes = 0, peak_bytes = 0;
  double imbalance = 1;  // the longest compute of a rank over the mean
  OriginShares origins;
  ChainShares chain;
  Fit fit;
  bool may_be_fastest = false;
};

struct RefusedRow {
  std::string algorithm, placement;
  Choices choices;
  std::string reason;
};

std::vector<const Algorithm*> wanted_algorithms(const std::string& words) {
  std::vector<const Algorithm*> wanted;
  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms()) {
    names.emplace_back(algorithm.name);
    if (words == "all") wanted.push_back(&algorithm);
  }
  if (words == "all") return wanted;
  for (std::size_t at = 0; at <= words.size();) {
    const std::size_t end = std::min(words.find(',', at), words.size());
    const std::string name = words.substr(at, end - at);
    const Algorithm* algorithm = find_algorithm(name);
    if (!algorithm)
      throw InputError("--algorithms " + words + ": no algorithm \"" + name + "\"; " +
                       meant_value("algorithm", name, names, Quotes::no) + " Legal: all, or between commas " +
                       quoted_list(names));
    if (std::find(wanted.begin(), wanted.end(), algorithm) == wanted.end()) wanted.push_back(algorithm);
    at = end + 1;
  }
  return wanted;
}

// The choices of one algorithm that have rows of their own, unless --set makes them.
std::vector<Choices> choices_of(const Algorithm& algorithm, const ScenarioFile& file) {
  const auto open = [&](const char* key) {
    return find_option(algorithm, key) && !file.table.is_set(std::string("schedule.") + key);
  };
  std::vector<Choices> all;
  if (open("head_stride")) {
    for (const char* stride : {"1", "2"}) all.push_back({{"head_stride", stride}});
  }
  for (const char* inner_ranks : {"inner_ranks", "node_ranks", "query_ranks"}) {
    if (!open(inner_ranks)) continue;
    std::vector<std::string> orders;
    if (open("inner_order"))
      for (const OptionValue& order : find_option(algorithm, "inner_order")->legal)
        orders.push_back(to_string(order));
    const std::int64_t ranks = file.scenario.parallel.ranks;
    for (std::int64_t inner = 2; inner < ranks; ++inner) {
      if (ranks % inner != 0) continue;
      const std::pair<std::string, std::string> size{inner_ranks, std::to_string(inner)};
      if (orders.empty()) all.push_back({size});
      for (const std::string& order : orders) all.push_back({size, {"inner_order", order}});
    }
  }
  if (all.empty()) all.emplace_back();
  return all;
}

std::string choices_text(const Choices& choices) {
  std::string text;
  for (const auto& [key, value] : choices) text += (text.empty() ? "" : " ") + key + "=" + value;
  return text;
}

AlgorithmRow row_of(const ScenarioFile& file, const Prediction& prediction) {
  AlgorithmRow row;
  const Figures& figures = prediction.figures;
  row.algorithm = file.scenario.algorithm;
  row.placement = file.scenario.placement;
  row.time_s = figures.time_s;
  row.low_s = prediction.low_s;
  row.high_s = prediction.high_s;
  double total_s = 0, most_s = 0;
  for (const RankFigures& rank : figures.ranks) {
    if (&rank == &figures.ranks.front() || rank.exposed_communication_s > row.worst.exposed_communication_s)
      row.worst = rank;
    row.sent_bytes = std::max(row.sent_bytes, rank.sent_bytes);
    total_s += rank.compute_s;
    most_s = std::max(most_s, rank.compute_s);
  }
  if (total_s > 0) row.imbalance = most_s * static_cast<double>(figures.ranks.size()) / total_s;
  row.peak_bytes = figures.peak_bytes;
  row.origins = figures.origins;
  row.chain = prediction.chain;
  row.fit = prediction.fit;
  return row;
}

class AlgorithmTable {
 public:
  AlgorithmTable(const Arguments& arguments, ScenarioFile file)
      : file_(std::move(file)), hardware_(machine_of(file_)) {
    hardware_.choice = choice_of_simulation(arguments, hardware_, file_.notes);
    for (std::string& note : machine_notes(file_.scenario.problem, hardware_))
      file_.notes.push_back(std::move(note));
    for (const Algorithm* algorithm : wanted_algorithms(arguments.text("algorithms", "")))
      for (const std::string_view placement : algorithm->placements)
        if (!file_.table.is_set("parallel.placement") || placement == file_.scenario.placement)
          for (Choices& choices : choices_of(*algorithm, file_))
            planned_.push_back(
                {std::string(algorithm->name), std::string(placement), std::move(choices), ""});
  }

  void simulate(Progress& progress) {
    for (std::size_t i = 0; i < planned_.size(); ++i) {
      progress.stage(fmt::format("{}, {}: row {} of {}", planned_[i].algorithm, planned_[i].placement, i + 1,
                                 planned_.size()));
      try {
        add(planned_[i]);
      } catch (const InputError& error) {
        refuse(planned_[i], error.what());
      } catch (const EnvironmentError& error) {
        refuse(planned_[i], error.what());
      }
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [](const auto& a, const auto& b) { return a.time_s < b.time_s; });
    for (AlgorithmRow& row : rows) row.may_be_fastest = row.low_s <= rows.front().high_s;
  }

  const ScenarioFile& file() const { return file_; }
  std::vector<AlgorithmRow> rows;
  std::vector<RefusedRow> refused;

 private:
  std::vector<std::string> sets_of(const RefusedRow& row) const {
    std::vector<std::string> sets{"parallel.algorithm=" + row.algorithm,
                                  "parallel.placement=" + row.placement};
    for (const auto& [key, value] : row.choices) sets.push_back("schedule." + key + "=" + value);
    return sets;
  }
  std::vector<std::string> changes_of(const RefusedRow& row) const {
    std::vector<std::string> changes = file_.sets;
    for (std::string& set : sets_of(row)) changes.push_back(std::move(set));
    return changes;
  }
  void add(const RefusedRow& planned) {
    const ScenarioFile file = reread(file_, changes_of(planned));
    const Plan plan = plan_of(file, PlanUse::simulate);
    rows.push_back(row_of(file, predict(file, plan, hardware_)));
    rows.back().choices = planned.choices;
  }
  void refuse(RefusedRow row, const std::string& message) {
    row.reason = reason_of(message, changes_of(row), sets_of(row), file_.path);
    refused.push_back(std::move(row));
  }

  ScenarioFile file_;
  Hardware hardware_;
  std::vector<RefusedRow> planned_;
};

std::string chain_text(const ChainShares& chain) {
  std::vector<std::pair<double, const char*>> shares{{chain.attention, "attention"},
                                                     {chain.other_kernels, "other kernels"},
                                                     {chain.communication, "communication"},
                                                     {chain.host, "host"}};
  std::stable_sort(shares.begin(), shares.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  constexpr double worth_naming = 0.05;
  std::string text;
  for (const auto& [share, name] : shares)
    if (share >= worth_naming)
      text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", name, 100 * share);
  return text;
}

TextTable table_for_people(const std::vector<AlgorithmRow>& rows) {
  double longest_s = 0;
  for (const AlgorithmRow& row : rows) longest_s = std::max(longest_s, row.time_s);
  const TimeUnit unit = time_unit(longest_s);
  TextTable table({{"algorithm", "", Align::left},
                   {"placement", "", Align::left},
                   {"time", unit.name},
                   {"low", unit.name},
                   {"high", unit.name},
                   {"exposed", unit.name},
                   {"peak", "GiB"},
                   {"fits", "", Align::left},
                   {"bound by", "", Align::left}});
  for (const AlgorithmRow& row : rows) {
    const std::string choices = choices_text(row.choices);
    table.add_row({row.algorithm + (choices.empty() ? "" : " " + choices), row.placement,
                   format_time(row.time_s, unit), format_time(row.low_s, unit), format_time(row.high_s, unit),
                   format_time(row.worst.exposed_communication_s, unit), format_gib(row.peak_bytes),
                   row.fit.fits ? "yes" : "NO", chain_text(row.chain)});
    if (row.may_be_fastest) table.mark_best(table.rows() - 1);
  }
  return table;
}

// Bars and the front of time against memory, for a terminal.
void write_pictures(std::ostream& out, const std::vector<AlgorithmRow>& rows, const PictureStyle& style) {
  if (style.glyphs == Glyphs::none || rows.empty()) return;
  std::vector<PicturePoint> points;
  for (const AlgorithmRow& row : rows) {
    const std::string choices = choices_text(row.choices);
    points.push_back({row.algorithm + ", " + row.placement + (choices.empty() ? "" : ", " + choices),
                      row.time_s, row.low_s, row.high_s, row.peak_bytes, row.may_be_fastest});
  }
  out << "\ntime, and on to the upper end of its band\n";
  write_time_bars(out, points, style);
  if (points.size() < 2) return;
  out << "\ntime against peak memory; letters: nothing else is both faster and smaller\n";
  write_pareto(out, points, style);
}

TextTable table_for_files(const AlgorithmTable& all) {
  TextTable table({{"algorithm", ""},
                   {"placement", ""},
                   {"options", ""},
                   {"time", "s"},
                   {"low", "s"},
                   {"high", "s"},
                   {"may be fastest", ""},
                   {"exposed wait", "s"},
                   {"exposed transfer", "s"},
                   {"sent", "bytes"},
                   {"peak", "bytes"},
                   {"imbalance", ""},
                   {"fits", ""},
                   {"refused", ""}});
  for (const AlgorithmRow& row : all.rows)
    table.add_row({row.algorithm, row.placement, choices_text(row.choices), fmt::format("{}", row.time_s),
                   fmt::format("{}", row.low_s), fmt::format("{}", row.high_s),
                   row.may_be_fastest ? "true" : "false", fmt::format("{}", row.worst.exposed_wait_s),
                   fmt::format("{}", row.worst.exposed_transfer_s), std::to_string(row.sent_bytes),
                   std::to_string(row.peak_bytes), fmt::format("{}", row.imbalance),
                   row.fit.fits ? "true" : "false", ""});
  for (const RefusedRow& row : all.refused)
    table.add_row({row.algorithm, row.placement, choices_text(row.choices), "", "", "", "", "", "", "", "",
                   "", "", row.reason});
  return table;
}

// One line an algorithm and reason; where it has no other rows, without their placements and choices.
void write_refused(std::ostream& out, const AlgorithmTable& all, std::size_t width) {
  std::vector<std::pair<std::string, std::string>> keys;  // algorithm, reason
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> rows;
  std::map<std::string, std::size_t> counts;  // of all rows of an algorithm
  for (const AlgorithmRow& row : all.rows) ++counts[row.algorithm];
  for (const RefusedRow& row : all.refused) {
    ++counts[row.algorithm];
    std::vector<std::string>& of_reason = rows[{row.algorithm, row.reason}];
    if (of_reason.empty()) keys.emplace_back(row.algorithm, row.reason);
    const std::string choices = choices_text(row.choices);
    of_reason.push_back(row.placement + (choices.empty() ? "" : " " + choices));
  }
  if (!keys.empty()) out << "\nrefused:\n";
  for (const auto& key : keys) {
    const std::vector<std::string>& some = rows[key];
    const std::string which =
        some.size() < counts[key.first] ? fmt::format(" ({})", fmt::join(some, ", ")) : std::string();
    write_beside(out, "  ", key.first + which + ": " + printable(key.second), width);
  }
}

void write_choices(JsonWriter& json, const Choices& choices) {
  json.key("options");
  json.begin_object();
  for (const auto& [key, value] : choices) json.field(key, value);
  json.end_object();
}

void write_algorithms_json(std::ostream& out, const AlgorithmTable& all) {
  JsonWriter json(out);
  const ResultHeader header = header_of(all.file());
  begin_result(json, "algorithms", "simulate", header);
  json.objects("rows", all.rows, [&](const AlgorithmRow& row) {
    json.field("algorithm", row.algorithm);
    json.field("placement", row.placement);
    write_choices(json, row.choices);
    json.field("time_s", row.time_s);
    json.field("low_s", row.low_s);
    json.field("high_s", row.high_s);
    json.field("may_be_fastest", row.may_be_fastest);
    json.field("exposed_wait_s", row.worst.exposed_wait_s);
    json.field("exposed_transfer_s", row.worst.exposed_transfer_s);
    json.field("sent_bytes", row.sent_bytes);
    json.field("peak_bytes", row.peak_bytes);
    json.field("imbalance", row.imbalance);
    json.field("fits", row.fit.fits);
    json.field("headroom_bytes", row.fit.headroom_bytes);
    write_chain(json, row.chain);
    write_origins(json, row.origins);
  });
  json.objects("refused", all.refused, [&](const RefusedRow& row) {
    json.field("algorithm", row.algorithm);
    json.field("placement", row.placement);
    write_choices(json, row.choices);
    json.field("reason", row.reason);
  });
  json.list("notes", header.notes);
  json.end_object();
}

}  // namespace

FastestAlgorithm fastest_algorithm(const ScenarioFile& file, Progress& progress) {
  AlgorithmTable all(Arguments({"--algorithms", "all"}, {{"algorithms", "all|A,B", ""}}, 0), file);
  all.simulate(progress);
  if (all.rows.empty()) throw InputError("no algorithm takes this scenario; " + all.refused.front().reason);
  const auto fitting =
      std::find_if(all.rows.begin(), all.rows.end(), [](const auto& row) { return row.fit.fits; });
  const AlgorithmRow& row = fitting == all.rows.end() ? all.rows.front() : *fitting;
  return {row.algorithm, row.placement, row.choices, all.rows.size(), row.fit.fits};
}

int simulate_algorithms(const Arguments& arguments, Console& console) {
  for (const char* option : {"plan", "rerun", "anyway", "inject", "operations", "strict", "html", "trace"})
    if (arguments.has(option))
      throw InputError("--" + std::string(option) + ": of one algorithm; --algorithms compares several");
  ScenarioFile file = scenario_of(arguments, "simulate", {.hardware = true, .simulate = true});
  if (file.table.is_set("parallel.algorithm"))
    throw InputError(
        "--set parallel.algorithm: --algorithms goes over all of them, or over those that it names");
  require_machine(file);
  AlgorithmTable all(arguments, std::move(file));
  Progress progress(console, "simulating");
  all.simulate(progress);
  progress.end();
  say_notes(console, all.file());
  if (all.rows.empty() && !all.refused.empty())
    throw InputError("--algorithms " + arguments.text("algorithms", "") + ": none takes this scenario; " +
                     all.refused.front().algorithm + ": " + all.refused.front().reason);

  std::ostream& out = console.text();
  const std::size_t width = console.style().width;
  write_folded(out, describe_problem(all.file().scenario), width, "  ");
  write_folded(
      out,
      fmt::format("on {}, {} rows, the fastest first; exposed: communication that no computation hides",
                  printable(all.file().hardware_given), all.rows.size()),
      width, "  ");
  out << '\n';
  table_for_people(all.rows).write(out, console.style());
  out << "\n* may be the fastest: its band reaches down into the band of the first row\n"
         "fits: one attention call, weights, optimizer and other layers not counted\n";
  write_pictures(out, all.rows, console.picture());
  write_refused(out, all, width);
  console.write_json_to_option([&](std::ostream& stream) { write_algorithms_json(stream, all); });
  console.write_csv_to_option([&](std::ostream& stream) { table_for_files(all).write_csv(stream); });
  return exit_fine;
}

}  // namespace cplab

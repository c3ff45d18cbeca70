// cplab reproduce [NAME]: published figures beside ours; without a name, what there is.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <ostream>
#include <utility>

#include "cli/commands/command.hpp"
#include "cli/files/changes.hpp"
#include "cli/session.hpp"
#include "cli/studies/reproduce.hpp"
#include "cli/vocabulary.hpp"
#include "report/json.hpp"

namespace cplab {

const std::vector<Published>& published() {
  static const std::vector<Published> all{
      {"lasp-errors",
       "\"plan\": from our plan, executed on the CPU with the defects of the published code as faults.",
       false, reproduce_lasp_errors},
      {"lasp-throughput",
       "\"plan\": from our simulation of our plans with the benchmark's own operations around them.", true,
       reproduce_lasp_throughput},
      {"llama-strides",
       "\"plan\": named buffers of our plan, or from our simulation of it. Published: the source's formula.",
       true, reproduce_llama_strides},
      {"magi-cluster",
       "\"plan\": from our simulation of our plan, with constants fitted to the times of 8 ranks. "
       "\"empirical\": a fitted constant, or a figure over the times of 8 ranks.",
       true, reproduce_magi_cluster},
      {"magi-cp8",
       "\"plan\": from our simulation of our plan. \"empirical\": FLOPs over the published kernel rate "
       "alone.",
       true, reproduce_magi_cp8},
      {"te-p2p-memory",
       "\"plan\": named buffers of our plan at its peak. \"empirical\": a term of the source that no plan "
       "explains, or a sum with one.",
       false, reproduce_te_p2p_memory}};
  return all;
}

ReproduceRow reproduced(std::string label, std::optional<double> published, double ours, bool derived,
                        std::string unit) {
  ReproduceRow row{std::move(label), published, ours, std::nullopt, derived, std::move(unit)};
  if (published) row.error = ours / *published - 1;
  return row;
}

namespace {

// A part of another row's figure: its label goes on where that one's ends.
bool is_detail(const ReproduceRow& row, const std::vector<ReproduceRow>& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const ReproduceRow& other) { return row.label.starts_with(other.label + "/"); });
}

std::vector<ReproduceRow> without_details(const std::vector<ReproduceRow>& rows) {
  std::vector<ReproduceRow> figures;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(figures),
               [&](const ReproduceRow& row) { return !is_detail(row, rows); });
  return figures;
}

// With the unit in the header where all rows have one, else in a column of its own. All digits: for files.
TextTable figure_table(const std::vector<ReproduceRow>& rows, bool all_digits) {
  const bool one_unit = std::all_of(rows.begin(), rows.end(),
                                    [&](const ReproduceRow& row) { return row.unit == rows.front().unit; });
  const std::string unit = one_unit && !rows.empty() ? rows.front().unit : "";
  std::vector<Column> columns{{"figure", "", Align::left}, {"published", unit}, {"ours", unit}};
  if (!one_unit) columns.push_back({"unit", "", Align::left});
  columns.push_back({"error", "%"});
  columns.push_back({"origin", "", Align::left});
  TextTable table(columns);
  for (const ReproduceRow& row : rows) {
    const int decimals = row.unit == "MiB" ? 0 : row.unit == difference_unit ? 3 : 2;  // as published
    const auto text = [&](double value, int places) {
      return all_digits ? fmt::format("{}", value) : format_fixed(value, places);
    };
    std::vector<std::string> cells{row.label, row.published ? text(*row.published, decimals) : "",
                                   text(row.ours, std::max(decimals, 2))};
    if (!one_unit) cells.push_back(row.unit);
    cells.push_back(!row.error   ? ""
                    : all_digits ? fmt::format("{}", 100 * *row.error)
                                 : format_signed_percent(*row.error, 2));
    cells.emplace_back(row.derived ? "plan" : "empirical");
    table.add_row(std::move(cells));
  }
  return table;
}

// In seconds and bytes, as all files are.
std::vector<ReproduceRow> in_plain_units(std::vector<ReproduceRow> rows) {
  const std::map<std::string, std::pair<const char*, double>> units{
      {"ms", {"s", 1e-3}}, {"MiB", {"bytes", 1 << 20}}, {"GiB", {"bytes", 1 << 30}}};
  for (ReproduceRow& row : rows) {
    const auto unit = units.find(row.unit);
    if (unit == units.end()) continue;
    row.unit = unit->second.first;
    row.ours *= unit->second.second;
    if (row.published) *row.published *= unit->second.second;
  }
  return rows;
}

// --set of what a reproduction does not use.
void say_unused(Console& console, const Published& each, const std::vector<std::string>& sets) {
  for (const std::string& set : sets) {
    if (each.has_clock || (!is_of_section(set, "simulate.") && !is_of_section(set, "hardware."))) continue;
    console.say("note: " + option_text(set) + ": not used by reproduce " + std::string(each.name) +
                ", which has no clock and knows no machine");
  }
}

}  // namespace

int command_reproduce(const Arguments& arguments, Console& console) {
  std::ostream& out = console.text();
  std::vector<std::string> names;
  for (const Published& each : published()) names.emplace_back(each.name);
  if (arguments.positional().empty()) {
    if (arguments.has("json") || arguments.has("csv")) {
      throw InputError("reproduce: needs a NAME for --json and --csv; `list published --json` lists them");
    }
    for (const std::string& each : names) out << each << '\n';
    return exit_fine;
  }
  const std::string wanted = arguments.positional().front();
  for (const Published& each : published()) {
    if (each.name != wanted) continue;
    require_scenarios_folder();
    say_unused(console, each, changes_of(arguments));
    Progress progress(console, "reading " + wanted);
    const ReproduceReport report =
        each.reproduce("published/" + wanted + ".toml", changes_of(arguments), progress);
    progress.end();
    for (const std::string& note : report.header.notes) console.say("note: " + note);
    const bool detail = arguments.has("detail");
    const auto line = [&](const std::string& text) { write_folded(out, text, console.style().width, "  "); };
    line(wanted + ": " +
         (report.about.empty() ? describe(report.header.scenario, report.ranks) : report.about));
    out << '\n';
    figure_table(detail ? report.rows : without_details(report.rows), false).write(out, console.style());
    out << '\n';
    if (detail) {
      line(std::string(each.origins));
      for (const std::string& note : report.notes) line("- " + note);
    } else {
      line("--detail adds the parts of each figure, where ours come from, and what is not alike.");
    }
    console.write_json_to_option([&](std::ostream& stream) { write_json(stream, report); });
    console.write_csv_to_option(
        [&](std::ostream& stream) { figure_table(in_plain_units(report.rows), true).write_csv(stream); });
    return exit_fine;
  }
  throw InputError("reproduce " + wanted + ": not known" +
                   clause(meant_value("reproduce", wanted, names, Quotes::no)) +
                   " Legal: " + quoted_list(names));
}

}  // namespace cplab

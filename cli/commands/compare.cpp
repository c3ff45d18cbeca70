// cplab compare PREDICTED.json MEASURED.json: where a prediction and a measurement of one plan differ.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

#include "cli/commands/command.hpp"
#include "cli/files/text_file.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/memory_need.hpp"
#include "cli/progress.hpp"
#include "cli/result_text.hpp"
#include "cli/session.hpp"
#include "report/compare.hpp"
#include "report/json.hpp"

namespace cplab {

namespace {

ResultFile read_result(const std::string& path) {
  const std::string text = read_text_file(path, most_result_bytes);
  require_json_memory(text, path);
  return read_result_json(text, path);
}

double difference_s(const CompareSegment& segment) {
  return segment.predicted_s - segment.measured_s;
}

bool is_kind(const CompareSegment& segment) {
  return segment.name.find('/') != std::string::npos;
}

// "forward/exchange/wait" of "forward/exchange".
bool is_part(const CompareSegment& segment) {
  return std::count(segment.name.begin(), segment.name.end(), '/') > 1;
}

// Two predictions are neither predicted beside measured.
struct SideNames {
  const char *first, *second;
};
SideNames names_of(const CompareReport& report) {
  if (report.predicted.command == report.measured.command) return {"first", "second"};
  return {"predicted", "measured"};
}

// What is of the whole plan in its order, then the kinds of operations with the largest differences first.
std::vector<CompareSegment> by_difference(const CompareReport& report) {
  std::vector<CompareSegment> segments = report.segments;
  const auto kinds = std::stable_partition(segments.begin(), segments.end(),
                                           [](const CompareSegment& each) { return !is_kind(each); });
  std::stable_sort(kinds, segments.end(), [](const CompareSegment& a, const CompareSegment& b) {
    return std::abs(difference_s(a)) > std::abs(difference_s(b));
  });
  return segments;
}

TextTable table_for_people(const CompareReport& report) {
  const TimeUnit unit = time_unit(std::max(report.predicted.time_s, report.measured.time_s));
  const SideNames sides = names_of(report);
  TextTable table({{"segment", "", Align::left},
                   {sides.first, unit.name},
                   {sides.second, unit.name},
                   {"error", "%"},
                   {"absolute", "%"},
                   {"difference", unit.name},
                   {"of total", "%"}});
  for (const CompareSegment& segment : by_difference(report)) {
    table.add_row(
        {segment.name, format_time(segment.predicted_s, unit), format_time(segment.measured_s, unit),
         format_signed_percent(segment.error),
         segment.measured_s > 0 ? format_fixed(100 * segment.absolute_s / segment.measured_s, 1) : "",
         format_time(difference_s(segment), unit),
         format_signed_percent(difference_s(segment) / report.measured.time_s)});
  }
  return table;
}

// What the last rank's time is made of, the largest differences first, and their sum.
TextTable table_of_terms(const CompareReport& report) {
  const TimeUnit unit = time_unit(std::max(report.predicted.operations_s, report.measured.operations_s));
  const SideNames sides = names_of(report);
  TextTable table({{"term", "", Align::left},
                   {sides.first, unit.name},
                   {sides.second, unit.name},
                   {"difference", unit.name}});
  std::vector<CompareTerm> terms = report.terms;
  std::stable_sort(terms.begin(), terms.end(), [](const CompareTerm& a, const CompareTerm& b) {
    return std::abs(a.predicted_s - a.measured_s) > std::abs(b.predicted_s - b.measured_s);
  });
  CompareTerm sum{"sum", 0, 0};
  for (const CompareTerm& term : terms) {
    sum.predicted_s += term.predicted_s;
    sum.measured_s += term.measured_s;
  }
  terms.push_back(sum);
  for (const CompareTerm& term : terms)
    table.add_row({term.name, format_time(term.predicted_s, unit), format_time(term.measured_s, unit),
                   format_time(term.predicted_s - term.measured_s, unit)});
  return table;
}

TextTable table_for_files(const CompareReport& report) {
  TextTable table({{"segment", "", Align::left}, {"predicted", "s"}, {"measured", "s"}, {"error", ""}});
  for (const CompareSegment& segment : by_difference(report)) {
    table.add_row({segment.name, fmt::format("{}", segment.predicted_s),
                   fmt::format("{}", segment.measured_s),
                   std::isfinite(segment.error) ? fmt::format("{}", segment.error) : ""});
  }
  return table;
}

void write_side(std::ostream& out, const char* what, const CompareSide& side) {
  out << fmt::format("{:<10}{} ({}{}): {}, peak memory {}\n", what, side.file, side.command,
                     side.machine.empty() ? "" : ", " + side.machine, time_text(side.time_s),
                     bytes_text(static_cast<double>(side.peak_bytes)));
}

// "backward/attend_backward -1.20 ms (-8.1 % of the measured time), ..."
void write_largest(std::ostream& out, const CompareReport& report) {
  constexpr int most_named = 3;
  constexpr double worth_naming = 0.0005;  // of the measured time: less is printed as 0.0 %
  int named = 0;
  for (const CompareSegment& segment : by_difference(report)) {
    const bool small = std::abs(difference_s(segment)) < worth_naming * report.measured.time_s;
    if (!is_kind(segment) || is_part(segment) || small || named == most_named) continue;
    out << (named++ == 0 ? "most of the difference, mean of the ranks: " : ", ");
    out << fmt::format("{} {} ({} % of the measured time)", segment.name, time_text(difference_s(segment)),
                       format_signed_percent(difference_s(segment) / report.measured.time_s));
  }
  if (named > 0) out << '\n';
}

void write_text(std::ostream& out, const CompareReport& report, const TextStyle& style) {
  out << describe(report.scenario) << '\n';
  const SideNames sides = names_of(report);
  write_side(out, sides.first, report.predicted);
  write_side(out, sides.second, report.measured);
  out << fmt::format("time {} %, peak memory {} bytes", format_signed_percent(report.time_error),
                     format_count(report.memory_error_bytes));
  if (report.rank_memory_error_bytes != report.memory_error_bytes) {
    out << fmt::format("; on the rank where it differs most {} bytes",
                       format_count(report.rank_memory_error_bytes));
  }
  out << fmt::format("\ncompute alone, without launches, messages and waiting: {}, {} %\n",
                     time_text(report.compute_alone_s), format_signed_percent(report.compute_alone_error));
  std::string phases;
  for (const CompareSegment& segment : report.segments) {
    if (!segment.null_s || segment.name == "total") continue;
    phases += fmt::format("{}{} {} %, alone {} %", phases.empty() ? "" : "; ", segment.name,
                          format_signed_percent(segment.error), format_signed_percent(segment.null_error));
  }
  if (!phases.empty()) out << "phases: " << phases << '\n';
  write_largest(out, report);
  for (const std::string& note : report.notes) out << "note: " << note << '\n';
  out << '\n';
  table_for_people(report).write(out, style);
  out << fmt::format(
      "\nthe time of the rank that ends last ({} {}, {} {}), by what runs on it at each moment\n\n",
      sides.first, report.predicted.last_rank, sides.second, report.measured.last_rank);
  table_of_terms(report).write(out, style);
}

}  // namespace

int command_compare(const Arguments& arguments, Console& console) {
  if (arguments.positional().size() != 2) {
    throw InputError("two results are needed: cplab compare PREDICTED.json MEASURED.json; see --help");
  }
  for (const char* option : {"set", "unset"}) {
    if (arguments.has(option))
      throw InputError("--" + std::string(option) +
                       ": the results are compared as they are; change what simulate is given");
  }
  Progress progress(console, "reading " + arguments.positional()[0]);
  const ResultFile predicted = read_result(arguments.positional()[0]);
  progress.stage("reading " + arguments.positional()[1]);
  const ResultFile measured = read_result(arguments.positional()[1]);
  progress.end();
  CompareReport report = compare_results(predicted, measured);
  report.versions = versions_of_build();
  write_text(console.text(), report, console.style());
  console.write_json_to_option([&](std::ostream& stream) { write_json(stream, report); });
  console.write_csv_to_option([&](std::ostream& stream) { table_for_files(report).write_csv(stream); });
  return exit_fine;
}

}  // namespace cplab

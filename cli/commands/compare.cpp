// cplab compare PREDICTED.json MEASURED.json: where a prediction and a measurement of one plan differ, or two
// predictions; or ours and what another program's profiler saw.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

#include "cli/commands/command.hpp"
#include "cli/files/text_file.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/memory_need.hpp"
#include "cli/outputs.hpp"
#include "cli/progress.hpp"
#include "cli/result_text.hpp"
#include "cli/session.hpp"
#include "report/compare.hpp"
#include "report/compare_spans.hpp"
#include "report/html/pages.hpp"
#include "report/json.hpp"

namespace cplab {

namespace {

std::string read_json_text(const std::string& path) {
  std::string text = read_text_file(path, most_result_bytes);
  require_json_memory(text, path);
  return text;
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

void write_side(std::ostream& out, const char* what, const CompareSide& side, const TextStyle& style) {
  write_beside(out, fmt::format("{:<10}", what),
               fmt::format("{} ({}{}): {}, peak memory {}", side.file, side.command,
                           side.machine.empty() ? "" : ", " + side.machine, time_text(side.time_s),
                           bytes_text(static_cast<double>(side.peak_bytes))),
               style.width);
}

// "backward/attend_backward -1.20 ms (-8.1 % of the measured time), ..."
void write_largest(std::ostream& out, const CompareReport& report, const TextStyle& style) {
  constexpr int most_named = 3;
  constexpr double worth_naming = 0.0005;  // of the measured time: less is printed as 0.0 %
  int named = 0;
  std::string text;
  for (const CompareSegment& segment : by_difference(report)) {
    const bool small = std::abs(difference_s(segment)) < worth_naming * report.measured.time_s;
    if (!is_kind(segment) || is_part(segment) || small || named == most_named) continue;
    text += named++ == 0 ? "most of the difference, mean of the ranks: " : ", ";
    text += fmt::format("{} {} ({} % of the {} time)", segment.name, time_text(difference_s(segment)),
                        format_signed_percent(difference_s(segment) / report.measured.time_s),
                        names_of(report).second);
  }
  if (named > 0) write_folded(out, text, style.width, "  ");
}

void write_text(std::ostream& out, const CompareReport& report, const TextStyle& style) {
  const auto fold = [&](const std::string& text) { write_folded(out, text, style.width, "  "); };
  fold(describe(report.scenario));
  const SideNames sides = names_of(report);
  write_side(out, sides.first, report.predicted, style);
  write_side(out, sides.second, report.measured, style);
  std::string errors =
      fmt::format("time {} %, peak memory {} bytes", format_signed_percent(report.time_error),
                  format_count(report.memory_error_bytes));
  if (report.rank_memory_error_bytes != report.memory_error_bytes)
    errors += fmt::format("; on the rank where it differs most {} bytes",
                          format_count(report.rank_memory_error_bytes));
  fold(errors);
  fold(fmt::format("compute alone, without launches, messages and waiting: {}, {} %",
                   time_text(report.compute_alone_s), format_signed_percent(report.compute_alone_error)));
  std::string phases;
  for (const CompareSegment& segment : report.segments) {
    if (!segment.null_s || segment.name == "total") continue;
    phases += fmt::format("{}{} {} %, alone {} %", phases.empty() ? "" : "; ", segment.name,
                          format_signed_percent(segment.error), format_signed_percent(segment.null_error));
  }
  if (!phases.empty()) fold("phases: " + phases);
  write_largest(out, report, style);
  for (const std::string& note : report.notes) fold("note: " + note);
  out << '\n';
  table_for_people(report).write(out, style);
  out << '\n';
  fold(fmt::format("the time of the rank that ends last ({} {}, {} {}), by what runs on it at each moment",
                   sides.first, report.predicted.last_rank, sides.second, report.measured.last_rank));
  out << '\n';
  table_of_terms(report).write(out, style);
}

// ---- beside another program's trace -----------------------------------------------------------------

TextTable table_of_classes(const SpanComparison& comparison, bool for_files) {
  const TimeUnit unit = time_unit(std::max(comparison.predicted_s, comparison.measured_s));
  const char* const in = for_files ? "s" : unit.name;
  TextTable table({{"class", "", Align::left},
                   {"ours", ""},
                   {"theirs", ""},
                   {"matched", ""},
                   {"predicted", in},
                   {"measured", in},
                   {"error", for_files ? "" : "%"},
                   {"absolute", in}});
  const auto time = [&](double seconds) {
    return for_files ? fmt::format("{}", seconds) : format_time(seconds, unit);
  };
  const auto count = [&](std::int64_t of) { return for_files ? std::to_string(of) : format_count(of); };
  for (const SpanComparison::Class& each : comparison.classes)
    table.add_row({std::string(name(each.of)), count(each.ours), count(each.theirs), count(each.matched),
                   time(each.predicted_s), time(each.measured_s),
                   !for_files                  ? format_signed_percent(each.error)
                   : std::isfinite(each.error) ? fmt::format("{}", each.error)
                                               : "",
                   time(each.absolute_s)});
  return table;
}

void write_text(std::ostream& out, const SpanComparison& comparison, const TextStyle& style) {
  constexpr std::size_t most_listed = 20, longest_name = 60;
  const TimeUnit unit = time_unit(std::max(comparison.predicted_s, comparison.measured_s));
  const auto fold = [&](const std::string& text) { write_folded(out, text, style.width, "  "); };
  fold(describe(comparison.scenario));
  write_side(out, "predicted", comparison.predicted, style);
  write_beside(out, "measured  ", comparison.file + " (" + comparison.tool + ")", style.width);
  fold(fmt::format("rank {}, first start to last end: {} and {}, {} %; compute alone {}, {} %",
                   comparison.rank, time_text(comparison.predicted_s), time_text(comparison.measured_s),
                   format_signed_percent(comparison.error), time_text(comparison.compute_alone_s),
                   format_signed_percent(comparison.compute_alone_error)));
  for (const std::string& note : comparison.notes) fold("note: " + note);
  out << '\n';
  TextTable segments({{"time under way", "", Align::left},
                      {"predicted", unit.name},
                      {"measured", unit.name},
                      {"error", "%"}});
  for (const SpanComparison::Segment& each : comparison.segments)
    segments.add_row({each.name, format_time(each.predicted_s, unit), format_time(each.measured_s, unit),
                      format_signed_percent(each.error)});
  segments.write(out, style);
  if (comparison.streams.size() > 1) {
    out << '\n';
    TextTable streams(
        {{"their stream", ""}, {"spans", ""}, {"compute", unit.name}, {"communication", unit.name}});
    for (const SpanComparison::Stream& each : comparison.streams)
      streams.add_row({std::to_string(each.number), format_count(each.spans),
                       format_time(each.compute_s, unit), format_time(each.communication_s, unit)});
    streams.write(out, style);
  }
  out << "\nspans of a class, the n-th of ours with the n-th of theirs\n\n";
  table_of_classes(comparison, false).write(out, style);
  if (comparison.unmatched.empty()) return;
  out << "\nnot matched\n\n";
  TextTable table({{"side", "", Align::left},
                   {"class", "", Align::left},
                   {"name", "", Align::left},
                   {"count", ""},
                   {"time", unit.name}});
  for (std::size_t i = 0; i < std::min(comparison.unmatched.size(), most_listed); ++i) {
    const SpanComparison::Unmatched& each = comparison.unmatched[i];
    table.add_row({each.ours ? "ours" : "theirs", std::string(name(each.of)),
                   each.name.substr(0, longest_name), format_count(each.count),
                   format_time(each.seconds, unit)});
  }
  table.write(out, style);
  if (comparison.unmatched.size() > most_listed)
    out << fmt::format("and {} names more (--json has all)\n", comparison.unmatched.size() - most_listed);
}

int beside_trace(const ResultFile& predicted, const SpanFile& trace, const Arguments& arguments,
                 Console& console) {
  SpanComparison comparison = compare_spans(predicted, trace);
  comparison.versions = versions_of_build();
  write_text(console.text(), comparison, console.style());
  write_page_output(arguments, console, [&](std::ostream& stream) {
    write_page(stream, page_title(comparison.scenario), comparison, predicted, trace);
  });
  console.write_json_to_option([&](std::ostream& stream) { write_json(stream, comparison); });
  console.write_csv_to_option(
      [&](std::ostream& stream) { table_of_classes(comparison, true).write_csv(stream); });
  return exit_fine;
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
  const std::string &first = arguments.positional()[0], &second = arguments.positional()[1];
  Progress progress(console, "reading " + first);
  const std::string first_text = read_json_text(first);
  if (is_span_file(first_text))
    throw InputError(first + ": is a trace; the prediction comes first: cplab compare PREDICTED.json TRACE");
  const ResultFile predicted = read_result_json(first_text, first);
  progress.stage("reading " + second);
  const std::string text = read_json_text(second);
  if (is_span_file(text)) {
    const SpanFile trace = read_spans(text, second);
    progress.end();
    return beside_trace(predicted, trace, arguments, console);
  }
  const ResultFile measured = read_result_json(text, second);
  progress.end();
  CompareReport report = compare_results(predicted, measured);
  report.versions = versions_of_build();
  write_text(console.text(), report, console.style());
  write_page_output(arguments, console, [&](std::ostream& stream) {
    write_page(stream, page_title(report.scenario), report, predicted, measured);
  });
  console.write_json_to_option([&](std::ostream& stream) { write_json(stream, report); });
  console.write_csv_to_option([&](std::ostream& stream) { table_for_files(report).write_csv(stream); });
  return exit_fine;
}

}  // namespace cplab

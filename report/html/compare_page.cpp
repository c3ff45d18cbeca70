// Pages of compare: two results of ours, or one beside another program's trace; see pages.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <ostream>

#include "report/html/charts.hpp"
#include "report/html/page.hpp"
#include "report/html/pages.hpp"
#include "report/json.hpp"
#include "report/table.hpp"
#include "report/units.hpp"

namespace cplab {
namespace {

BoxUse use_of_kind(std::string_view kind) {
  for (int i = 0; i <= static_cast<int>(OpKind::host_sync); ++i)
    if (name(static_cast<OpKind>(i)) == kind) return use_of(static_cast<OpKind>(i));
  return BoxUse::kernel;
}

// "3/forward/12" in parts.
struct IdParts {
  std::string_view phase;
  std::uint32_t ordinal = 0;
};
IdParts parts_of(const std::string& id) {
  const std::size_t first = id.find('/'), second = id.find('/', first + 1);
  return {std::string_view(id).substr(first + 1, second - first - 1),
          static_cast<std::uint32_t>(std::strtoul(id.c_str() + second + 1, nullptr, 10))};
}

TimelineBox box_of(const ResultFile::Operation& op) {
  const IdParts id = parts_of(op.id);
  return {op.lane,    op.kind,
          op.variant, id.phase,
          op.origin,  use_of_kind(op.kind),
          id.ordinal, 0,
          op.start_s, op.start_s + op.seconds,
          op.wait_s,  op.bytes,
          op.flops};
}

// Operations of each rank, in the file's order.
std::vector<std::vector<const ResultFile::Operation*>> by_rank(const ResultFile& file) {
  std::vector<std::vector<const ResultFile::Operation*>> ranks(file.ranks.size());
  for (const ResultFile::Operation& op : file.operations)
    if (static_cast<std::size_t>(op.rank) < ranks.size())
      ranks[static_cast<std::size_t>(op.rank)].push_back(&op);
  return ranks;
}

// Of a result without times of whole ranks: their last ends.
std::vector<RankFigures> ends_of(const std::vector<std::vector<const ResultFile::Operation*>>& ranks,
                                 const ResultFile& file) {
  std::vector<RankFigures> figures(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (const auto* op : ranks[r])
      figures[r].time_s = std::max(figures[r].time_s, op->start_s + op->seconds);
    figures[r].exposed_communication_s = file.ranks[r].exposed_communication_s;
  }
  return figures;
}

Shown error_shown(double error, std::string key) {
  Shown cell = shown(format_signed_percent(error), error, std::move(key));
  if (!std::isfinite(error)) cell = {"-"};
  return cell;
}

Shown error_bar(double error, double most) {
  Shown bar{.text = {}, .value = fmt::format("{}", error), .css = "bars"};
  bar.markup = bar_markup(most > 0 ? error / most : 0, true, "c1");
  return bar;
}

struct SideWords {
  std::string first, second;
};

void write_segments(HtmlPage& page, const CompareReport& report, const SideWords& sides) {
  const TimeUnit unit = time_unit(std::max(report.predicted.time_s, report.measured.time_s));
  HtmlTable table({{"segment", "", false},
                   {sides.first, unit.name},
                   {sides.second, unit.name},
                   {"error", "%"},
                   {"difference", unit.name},
                   {"", "", false, "the difference, as a share of the largest"}});
  double most = 0;
  for (const CompareSegment& segment : report.segments)
    most = std::max(most, std::abs(segment.predicted_s - segment.measured_s));
  for (std::size_t i = 0; i < report.segments.size(); ++i) {
    const CompareSegment& segment = report.segments[i];
    const auto key = [&](const char* member) { return fmt::format("/segments/{}/{}", i, member); };
    const double difference_s = segment.predicted_s - segment.measured_s;
    table.add_row({{segment.name},
                   shown(format_time(segment.predicted_s, unit), segment.predicted_s, key("predicted_s")),
                   shown(format_time(segment.measured_s, unit), segment.measured_s, key("measured_s")),
                   error_shown(segment.error, key("error")),
                   sorted_as(format_time(difference_s, unit), difference_s),
                   error_bar(difference_s, most)});
  }
  page.begin_section("segments", "Where they differ");
  page.html().element(
      "p",
      "Whole times and phases; then means over ranks of the time in which something is under way, and of the "
      "operations of each kind.",
      {{"class", "quiet"}});
  table.write(page.html(), "segment-table", "");
  page.end_section();
}

void write_terms(HtmlPage& page, const CompareReport& report, const SideWords& sides) {
  if (report.terms.empty()) return;
  const TimeUnit unit = time_unit(std::max(report.predicted.operations_s, report.measured.operations_s));
  HtmlTable table({{"term", "", false},
                   {sides.first, unit.name},
                   {sides.second, unit.name},
                   {"difference", unit.name},
                   {"", "", false}});
  double most = 0;
  for (const CompareTerm& term : report.terms)
    most = std::max(most, std::abs(term.predicted_s - term.measured_s));
  for (std::size_t i = 0; i < report.terms.size(); ++i) {
    const CompareTerm& term = report.terms[i];
    const auto key = [&](const char* member) { return fmt::format("/terms/{}/{}", i, member); };
    const double difference_s = term.predicted_s - term.measured_s;
    table.add_row({{term.name},
                   shown(format_time(term.predicted_s, unit), term.predicted_s, key("predicted_s")),
                   shown(format_time(term.measured_s, unit), term.measured_s, key("measured_s")),
                   shown(format_time(difference_s, unit), difference_s, key("difference_s")),
                   error_bar(difference_s, most)});
  }
  page.begin_section("terms", "The rank that ends last, moment by moment");
  page.html().element(
      "p",
      fmt::format("What runs on rank {} and on rank {} at each moment; the terms of a side sum to its time.",
                  report.predicted.last_rank, report.measured.last_rank),
      {{"class", "quiet"}});
  table.write(page.html(), "term-table", "");
  page.end_section();
}

// Without its folder, which the JSON result has.
std::string file_name(const std::string& file) {
  return std::filesystem::path(file).filename().string();
}

std::string side_note(const CompareSide& side) {
  std::string note = file_name(side.file);
  if (!side.machine.empty()) note += ", " + side.machine;
  return note;
}

}  // namespace

void write_page(std::ostream& out, const PageTitle& title, const CompareReport& report,
                const ResultFile& predicted, const ResultFile& measured) {
  const bool alike = report.predicted.command == report.measured.command;
  const SideWords sides = alike ? SideWords{"first", "second"} : SideWords{"predicted", "measured"};
  HtmlPage page(out, "compare", title.title, title.lead);
  page.facts(
      {{sides.first, shown(time_text(report.predicted.time_s), report.predicted.time_s, "/predicted/time_s"),
        side_note(report.predicted)},
       {sides.second, shown(time_text(report.measured.time_s), report.measured.time_s, "/measured/time_s"),
        side_note(report.measured)},
       {"error of the time",
        shown(format_signed_percent(report.time_error) + " %", report.time_error, "/time_error"),
        fmt::format("compute alone would be {} % off", format_signed_percent(report.compute_alone_error))},
       {"peak memory",
        shown(bytes_text(static_cast<double>(report.predicted.peak_bytes)), report.predicted.peak_bytes,
              "/predicted/peak_bytes"),
        report.memory_error_bytes == 0
            ? "the same on both sides"
            : fmt::format("{} {} more than {}", bytes_text(static_cast<double>(report.memory_error_bytes)),
                          sides.first, sides.second)}});
  const auto first = by_rank(predicted), second = by_rank(measured);
  constexpr std::size_t few = 8;  // ranks whose lanes are all open
  const std::vector<NotableRank> chosen = notable_ranks(ends_of(second, measured));
  TimelineDrawing drawing;
  drawing.sides = {sides.first, sides.second};
  drawing.steps = false;  // results do not say them
  const std::size_t ranks = std::min(first.size(), second.size());
  drawing.row_count = 2 * ranks;
  drawing.is_open = [&](std::size_t row) {
    return ranks <= few || std::ranges::find(chosen, row / 2, &NotableRank::rank) != chosen.end();
  };
  drawing.make_row = [&](std::size_t index) {
    TimelineRow row;
    row.rank = static_cast<int>(index / 2);
    row.side = index % 2;
    row.label = fmt::format("rank {}", row.rank);
    row.open = drawing.is_open(index);
    for (const auto* op : (row.side == 0 ? first : second)[index / 2]) row.boxes.push_back(box_of(*op));
    return row;
  };
  drawing.no_chain =
      "Memory over time and the critical path are on the page of simulate: results hold neither.";
  if (ranks > 0 && !predicted.operations.empty() && !measured.operations.empty()) page.timeline(drawing);
  write_segments(page, report, sides);
  write_terms(page, report, sides);
  page.words("notes", "What a reader must know", report.notes);
  page.finish(report.versions, std::nullopt, [&](std::ostream& stream) { write_json(stream, report); });
}

namespace {

constexpr std::size_t most_listed = 40;

void write_classes(HtmlPage& page, const SpanComparison& comparison, const TimeUnit& unit) {
  HtmlTable table({{"class", "", false},
                   {"ours"},
                   {"theirs"},
                   {"matched"},
                   {"predicted", unit.name},
                   {"measured", unit.name},
                   {"error", "%"},
                   {"", "", false}});
  for (std::size_t i = 0; i < comparison.classes.size(); ++i) {
    const SpanComparison::Class& each = comparison.classes[i];
    const auto key = [&](const char* member) { return fmt::format("/classes/{}/{}", i, member); };
    table.add_row({{std::string(name(each.of))},
                   shown(format_count(each.ours), each.ours, key("ours")),
                   shown(format_count(each.theirs), each.theirs, key("theirs")),
                   shown(format_count(each.matched), each.matched, key("matched")),
                   shown(format_time(each.predicted_s, unit), each.predicted_s, key("predicted_s")),
                   shown(format_time(each.measured_s, unit), each.measured_s, key("measured_s")),
                   error_shown(each.error, key("error")),
                   error_bar(each.error, 1)});
  }
  page.begin_section("classes", "By class: the n-th of ours with the n-th of theirs");
  table.write(page.html(), "class-table", "");
  page.end_section();
}

void write_unmatched(HtmlPage& page, const SpanComparison& comparison, const TimeUnit& unit) {
  if (comparison.unmatched.empty()) return;
  HtmlTable table(
      {{"side", "", false}, {"class", "", false}, {"name", "", false}, {"count"}, {"time", unit.name}});
  for (std::size_t i = 0; i < std::min(most_listed, comparison.unmatched.size()); ++i) {
    const SpanComparison::Unmatched& each = comparison.unmatched[i];
    const auto key = [&](const char* member) { return fmt::format("/unmatched/{}/{}", i, member); };
    table.add_row({{each.ours ? "ours" : "theirs"},
                   {std::string(name(each.of))},
                   {each.name, {}, {}, "wide"},
                   shown(format_count(each.count), each.count, key("count")),
                   shown(format_time(each.seconds, unit), each.seconds, key("seconds"))});
  }
  page.begin_section("unmatched", "Matched with nothing");
  table.write(page.html(), "unmatched-table",
              comparison.unmatched.size() > most_listed
                  ? fmt::format("The longest {} of {} names", most_listed, comparison.unmatched.size())
                  : "");
  page.end_section();
}

// Our rank above what their profiler saw, both from their first start.
TimelineDrawing drawing_of_spans(const SpanComparison& comparison, const ResultFile& predicted,
                                 const SpanFile& trace) {
  TimelineDrawing drawing;
  drawing.sides = {"predicted", trace.tool};
  drawing.steps = false;
  drawing.row_count = 2;
  drawing.is_open = [](std::size_t) { return true; };
  drawing.make_row = [&comparison, &predicted, &trace](std::size_t index) {
    TimelineRow row;
    row.rank = comparison.rank;
    row.side = index;
    row.open = true;
    row.label = fmt::format("rank {}", comparison.rank);
    if (index == 0) {
      for (const ResultFile::Operation& op : predicted.operations)
        if (op.rank == comparison.rank) row.boxes.push_back(box_of(op));
      return row;
    }
    const double begin_s = trace.spans.front().start_s;
    std::uint32_t ordinal = 0;
    for (const TraceSpan& span : trace.spans) {
      const bool attention = span.of == SpanClass::attend || span.of == SpanClass::attend_backward;
      row.boxes.push_back({fmt::format("stream {}", span.stream), span.name, name(span.of), "", "measured",
                           communicates(span) ? BoxUse::communication
                           : attention        ? BoxUse::attention
                                              : BoxUse::kernel,
                           ordinal++, 0, span.start_s - begin_s, span.end_s - begin_s, 0, 0, 0});
    }
    return row;
  };
  return drawing;
}

}  // namespace

void write_page(std::ostream& out, const PageTitle& title, const SpanComparison& comparison,
                const ResultFile& predicted, const SpanFile& trace) {
  HtmlPage page(out, "compare", title.title, title.lead);
  const TimeUnit unit = time_unit(std::max(comparison.predicted_s, comparison.measured_s));
  page.facts({{"predicted, first start to last end",
               shown(time_text(comparison.predicted_s), comparison.predicted_s, "/predicted_s"),
               fmt::format("{}, rank {}", file_name(predicted.side.file), comparison.rank)},
              {"measured, first start to last end",
               shown(time_text(comparison.measured_s), comparison.measured_s, "/measured_s"),
               fmt::format("{} ({})", file_name(comparison.file), comparison.tool)},
              {"error", shown(format_signed_percent(comparison.error) + " %", comparison.error, "/error"),
               fmt::format("compute alone would be {} % off",
                           format_signed_percent(comparison.compute_alone_error))}});
  page.timeline(drawing_of_spans(comparison, predicted, trace));
  HtmlTable segments({{"time under way", "", false},
                      {"predicted", unit.name},
                      {"measured", unit.name},
                      {"error", "%"},
                      {"", "", false}});
  for (std::size_t i = 0; i < comparison.segments.size(); ++i) {
    const SpanComparison::Segment& each = comparison.segments[i];
    const auto key = [&](const char* member) { return fmt::format("/segments/{}/{}", i, member); };
    segments.add_row({{each.name},
                      shown(format_time(each.predicted_s, unit), each.predicted_s, key("predicted_s")),
                      shown(format_time(each.measured_s, unit), each.measured_s, key("measured_s")),
                      error_shown(each.error, key("error")),
                      error_bar(each.error, 1)});
  }
  page.begin_section("segments", "Totals");
  segments.write(page.html(), "segment-table", "");
  page.end_section();
  write_classes(page, comparison, unit);
  write_unmatched(page, comparison, unit);
  page.words("notes", "What is compared, and what is not", comparison.notes);
  page.finish(comparison.versions, comparison.predicted.given,
              [&](std::ostream& stream) { write_json(stream, comparison); });
}

}  // namespace cplab

// Tables of a sweep in the width of a page; see summary.hpp.
#include "cli/sweep/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <set>
#include <tuple>

#include "report/folding.hpp"
#include "report/printable.hpp"
#include "report/sweep_keys.hpp"

namespace cplab {

namespace {

constexpr std::size_t most_rows = 10, most_reasons = 12, most_notes = 8;

std::string counted(std::int64_t count, const std::string& what) {
  return format_count(count) + " " + what + (count == 1 ? "" : "s");
}

class Tables {
 public:
  Tables(std::ostream& out, const SweepReport& report, const TextStyle& style)
      : out_(out), report_(report), style_(style) {
    for (const SweepPoint& point : report.points) by_number_[point.number] = &point;
    columns_ = varying_keys(report.points);
  }

  // Points of one problem are compared with one another, of several problems each has its own fastest.
  void write() {
    if (report_.points.empty()) return;
    const bool one = report_.fastest.size() == 1;
    std::vector<std::int64_t> fastest = report_.fastest;
    if (one) fastest = by_time();
    title(one ? "fastest" : "fastest of each problem", fastest.size(), one);
    table(fastest, one);
    if (one) out_ << "* may be the fastest: its band reaches down into the band of the first row\n";
    title("front of time against memory: nothing else that fits is both faster and smaller",
          report_.pareto.size(), false);
    table(report_.pareto, false);
  }

 private:
  std::vector<std::int64_t> by_time() const {
    const bool some_fit = std::ranges::any_of(report_.points, [](const SweepPoint& p) { return p.fit.fits; });
    std::vector<const SweepPoint*> points;
    for (const SweepPoint& point : report_.points)
      if (point.fit.fits || !some_fit) points.push_back(&point);
    std::ranges::stable_sort(points, [](const SweepPoint* a, const SweepPoint* b) {
      return std::tie(a->time_s, a->peak_bytes) < std::tie(b->time_s, b->peak_bytes);
    });
    std::vector<std::int64_t> numbers;
    for (const SweepPoint* point : points) numbers.push_back(point->number);
    return numbers;
  }

  void title(const std::string& what, std::size_t rows, bool of_all) {
    std::string text = what;
    if (rows > most_rows) text += fmt::format(" ({} of {}{})", most_rows, rows, of_all ? " that fit" : "");
    out_ << '\n';
    write_folded(out_, text + ":", style_.width);
  }

  void table(const std::vector<std::int64_t>& numbers, bool mark) {
    const std::size_t rows = std::min(numbers.size(), most_rows);
    double longest_s = 0;
    for (std::size_t r = 0; r < rows; ++r) longest_s = std::max(longest_s, by_number_.at(numbers[r])->time_s);
    const TimeUnit unit = time_unit(longest_s);
    std::vector<Column> columns{{"point", ""}};
    for (const auto& [key, shown] : columns_) columns.push_back({shown, "", Align::left});
    for (const char* time : {"time", "low", "high", "exposed"}) columns.push_back({time, unit.name});
    columns.push_back({"peak", "GiB"});
    columns.push_back({"fits", "", Align::left});
    TextTable table(columns);
    const double first_high_s = by_number_.at(numbers.front())->high_s;
    for (std::size_t r = 0; r < rows; ++r) {
      const SweepPoint& p = *by_number_.at(numbers[r]);
      std::vector<std::string> cells{std::to_string(p.number)};
      for (const auto& [key, shown] : columns_)
        for (const auto& [name, value] : p.set)
          if (name == key) cells.push_back(printable(value_text(value)));
      for (const double seconds : {p.time_s, p.low_s, p.high_s, p.exposed_wait_s + p.exposed_transfer_s})
        cells.push_back(format_time(seconds, unit));
      cells.push_back(format_gib(p.peak_bytes));
      cells.emplace_back(p.fit.fits ? "yes" : "NO");
      table.add_row(std::move(cells));
      if (mark && p.low_s <= first_high_s) table.mark_best(r);
    }
    table.write(out_, style_);
  }

  std::ostream& out_;
  const SweepReport& report_;
  TextStyle style_;
  std::map<std::int64_t, const SweepPoint*> by_number_;
  std::vector<std::pair<std::string, std::string>> columns_;
};

void write_refused(std::ostream& out, const SweepReport& report, const TextStyle& style) {
  const std::vector<RefusedGroup> groups = grouped(report.refused);
  if (groups.empty()) return;
  out << "\nrefused:\n";
  for (std::size_t i = 0; i < std::min(groups.size(), most_reasons); ++i) {
    const RefusedGroup& group = groups[i];
    std::string text = printable(group.reason);
    if (group.nearest) text += "; nearest legal: " + printable(*group.nearest);
    text += (group.count == 1 ? " (" : " (such as ") + printable(keys_text(group.example.set)) + ")";
    write_beside(out, fmt::format("  {}  ", format_count(group.count)), text, style.width);
  }
  if (groups.size() > most_reasons)
    out << fmt::format("  and for {} other reasons: --json\n", groups.size() - most_reasons);
}

// Notes of points, the same words once.
void write_notes(std::ostream& out, const SweepReport& report, const TextStyle& style) {
  std::vector<std::pair<std::string, std::int64_t>> notes;
  std::map<std::string, std::size_t> known;
  for (const SweepPoint& point : report.points)
    for (const std::string& note : point.notes) {
      const auto [at, fresh] = known.emplace(note, notes.size());
      if (fresh) notes.emplace_back(note, 0);
      ++notes[at->second].second;
    }
  if (notes.empty()) return;
  out << "\nnotes, and how many points have them:\n";
  for (std::size_t i = 0; i < std::min(notes.size(), most_notes); ++i)
    write_beside(out, fmt::format("  {}  ", format_count(notes[i].second)), printable(notes[i].first),
                 style.width);
  if (notes.size() > most_notes) out << fmt::format("  and {} others: --json\n", notes.size() - most_notes);
}

}  // namespace

void write_pictures(std::ostream& out, const SweepReport& report, const PictureStyle& style) {
  if (style.glyphs == Glyphs::none || report.points.empty()) return;
  std::vector<const SweepPoint*> all;
  for (const SweepPoint& point : report.points) all.push_back(&point);
  std::ranges::stable_sort(all, {}, &SweepPoint::time_s);
  const auto columns = varying_keys(report.points);
  std::vector<PicturePoint> points;
  for (const SweepPoint* point : all) {
    std::string name = std::to_string(point->number);
    for (const auto& [key, shown] : columns)
      for (const auto& [set, value] : point->set)
        if (set == key) name += " " + printable(value_text(value));
    const bool fastest = std::ranges::find(report.fastest, point->number) != report.fastest.end();
    points.push_back({name, point->time_s, point->low_s, point->high_s, point->peak_bytes, fastest});
  }
  out << "\ntime, and on to the upper end of its band; *: fastest of its problem\n";
  write_time_bars(out, points, style);
  if (points.size() < 2) return;
  out << "\ntime against peak memory; letters: nothing else is both faster and smaller\n";
  write_pareto(out, points, style);
}

void write_summary(std::ostream& out, const SweepReport& report, const TextStyle& style) {
  const SweepStudy& study = report.header.study;
  std::string text = fmt::format("{} of {}", counted(study.points, "point"), printable(study.name));
  if (!study.scenario.empty()) text += ", scenario " + printable(study.scenario);
  if (!report.header.shard.empty()) text += ", shard " + report.header.shard;
  text += fmt::format(": {} simulated, {} refused", format_count(std::ssize(report.points)),
                      format_count(std::ssize(report.refused)));
  if (report.missing > 0) text += ", " + format_count(report.missing) + " missing";
  write_folded(out, text, style.width, "  ");
  for (const auto& [where, count] : study.excluded)
    write_folded(out, fmt::format("  left out: {} where not {}", counted(count, "point"), printable(where)),
                 style.width, "    ");
  Tables(out, report, style).write();
  if (!report.points.empty())
    out << "fits: one attention call, weights, optimizer and other layers not counted\n";
  write_refused(out, report, style);
  write_notes(out, report, style);
}

}  // namespace cplab

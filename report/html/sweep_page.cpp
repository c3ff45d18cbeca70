// The page of sweep; see pages.hpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>
#include <set>

#include "report/html/charts.hpp"
#include "report/html/page.hpp"
#include "report/html/pages.hpp"
#include "report/html/sweep_curves.hpp"
#include "report/sweep_keys.hpp"
#include "report/table.hpp"
#include "report/units.hpp"

namespace cplab {
namespace {

constexpr std::size_t colours = 10;

std::string colour(std::size_t n) {
  return fmt::format("c{}", n % colours);
}

// "128K", "0.5"
std::string size_text(double value) {
  for (const auto& [letter, size] :
       {std::pair{"G", 1024.0 * 1024 * 1024}, {"M", 1024.0 * 1024}, {"K", 1024.0}})
    if (value >= size && std::fmod(value, size) == 0) return fmt::format("{:.0f}{}", value / size, letter);
  return fmt::format("{:.4g}", value);
}

class SweepPage {
 public:
  SweepPage(HtmlPage& page, const SweepReport& report)
      : page_(page), report_(report), columns_(varying_keys(report.points)) {
    for (std::size_t i = 0; i < report.points.size(); ++i) index_[report.points[i].number] = i;
    for (const SweepPoint& point : report.points) longest_s_ = std::max(longest_s_, point.time_s);
  }

  void write() {
    write_facts();
    if (!report_.points.empty()) {
      write_front();
      write_curves();
      write_table();
    }
    write_refused();
    write_notes();
  }

 private:
  const SweepPoint& point(std::int64_t number) const { return report_.points[index_.at(number)]; }
  Shown of_point(std::size_t index, std::string text, double value, const char* member) const {
    return shown(std::move(text), value, fmt::format("/points/{}/{}", index, member));
  }
  std::string settings(const SweepPoint& of) const {
    std::string text;
    for (const auto& [key, name] : columns_)
      if (const SweepValue* value = find_value(of, key))
        text += (text.empty() ? "" : ", ") + name + " " + value_text(*value);
    return text.empty() ? of.algorithm : text;
  }

  void write_facts() {
    const SweepStudy& study = report_.header.study;
    std::vector<PageFact> facts{
        {"points", shown(format_count(study.points), study.points, "/study/points"),
         fmt::format("{} simulated, {} refused{}", format_count(std::ssize(report_.points)),
                     format_count(std::ssize(report_.refused)),
                     report_.missing > 0 ? fmt::format(", {} missing", format_count(report_.missing)) : "")}};
    if (report_.fastest.size() == 1) {
      const SweepPoint& best = point(report_.fastest.front());
      facts.push_back({"the fastest",
                       of_point(index_.at(best.number), time_text(best.time_s), best.time_s, "time_s"),
                       settings(best), best.fit.fits ? "good" : "bad"});
    } else if (!report_.fastest.empty()) {
      facts.push_back(
          {"problems", {format_count(std::ssize(report_.fastest))}, "each has its own fastest point"});
    }
    if (!report_.pareto.empty())
      facts.push_back({"on the front of time and memory",
                       {format_count(std::ssize(report_.pareto))},
                       "nothing that fits is both faster and smaller"});
    const auto fit = std::ranges::count_if(report_.points, [](const SweepPoint& p) { return p.fit.fits; });
    facts.push_back({"fit on a GPU",
                     {fmt::format("{} of {}", format_count(fit), format_count(std::ssize(report_.points)))},
                     "one attention call; weights and optimizer not counted"});
    page_.facts(facts);
  }

  // Time against memory, an algorithm a colour, the front on top.
  void write_front() {
    const TimeUnit unit = time_unit(longest_s_);
    const std::set<std::int64_t> front(report_.pareto.begin(), report_.pareto.end());
    std::map<std::string, ChartSeries> by_algorithm;
    ChartSeries joined{"front", "c6", true, true, {}};
    for (const SweepPoint& each : report_.points) {
      ChartSeries& series = by_algorithm[each.algorithm];
      series.name = each.algorithm;
      series.points.push_back({each.time_s, static_cast<double>(each.peak_bytes), 0, 0,
                               fmt::format("point {}: {}; {} {}, {}{}", each.number, settings(each),
                                           format_time(each.time_s, unit), unit.name,
                                           bytes_text(static_cast<double>(each.peak_bytes)),
                                           each.fit.fits ? "" : ", does not fit"),
                               front.contains(each.number)});
      if (report_.fastest.size() == 1 && front.contains(each.number))
        joined.points.push_back(series.points.back());
    }
    std::ranges::sort(joined.points, {}, &ChartPoint::x);
    std::vector<ChartSeries> all;
    if (joined.points.size() > 1) all.push_back(joined);
    for (auto& [name, series] : by_algorithm) {
      series.css = colour(all.size() - (joined.points.size() > 1 ? 1 : 0));
      all.push_back(std::move(series));
    }
    page_.begin_section("front", "Time against memory");
    write_chart(page_.html(), "front-chart",
                "every point; ringed: on the front, where nothing that fits is both faster and smaller",
                {fmt::format("time ({})", unit.name), true,
                 [unit](double s) { return fmt::format("{:.4g}", s / unit.size_s); }},
                {"peak memory of a rank", true,
                 [](double bytes) {
                   const Unit of = byte_unit(bytes);
                   return fmt::format("{:.3g} {}", bytes / of.size, of.name);
                 },
                 true},
                all);
    page_.end_section();
  }

  // Only keys along which something is compared.
  void write_curves() {
    constexpr std::size_t most_charts = 3;
    std::size_t charts = 0;
    for (const auto& [key, name] : columns_) {
      const std::vector<SweepCurve> curves = curves_over(report_, key);
      const bool several =
          std::ranges::any_of(curves, [](const SweepCurve& c) { return c.points.size() > 1; });
      if (!several || curves.size() < 2 || charts == most_charts) continue;
      if (charts++ == 0) page_.begin_section("curves", "Break-even");
      write_curve_chart(key, name, curves);
    }
    if (charts > 0) page_.end_section();
  }

  // Over the fastest at each value, so that a curve at 1 is the fastest and a crossing is seen.
  void write_curve_chart(const std::string& key, const std::string& name,
                         const std::vector<SweepCurve>& curves) {
    const TimeUnit unit = time_unit(longest_s_);
    std::vector<std::string> algorithms, questions;
    const auto number = [](std::vector<std::string>& all, const std::string& one) {
      const auto place = static_cast<std::size_t>(std::ranges::find(all, one) - all.begin());
      if (place == all.size()) all.push_back(one);
      return place;
    };
    std::vector<ChartSeries> series;
    for (const SweepCurve& curve : curves) {
      const std::size_t dash = number(questions, curve.question);
      if (dash >= most_questions) continue;
      const std::string css = colour(number(algorithms, curve.algorithm)) + fmt::format(" d{}", dash);
      ChartSeries one{
          curve.algorithm + (curve.question.empty() ? "" : ", " + curve.question), css, true, false, {}};
      for (const auto& [x, best] : curve.points)
        one.points.push_back({x, best->time_s / fastest_at(curves, curve.question, x)->time_s, 0, 0,
                              fmt::format("point {}: {}; {} {} (between {} and {})", best->number,
                                          settings(*best), format_time(best->time_s, unit), unit.name,
                                          format_time(best->low_s, unit), format_time(best->high_s, unit))});
      series.push_back(std::move(one));
    }
    const std::vector<BreakEvenPlace> places = break_even(curves);
    std::vector<ChartMark> marks;
    for (const BreakEvenPlace& place : places) marks.push_back({place.at, ""});
    write_chart(
        page_.html(), "curve-" + name,
        fmt::format(
            "time over {}, as a multiple of the fastest algorithm's there; of each the best choice of "
            "everything else that varies",
            key),
        {key, true, size_text, true},
        {"times the fastest", false, [](double times) { return fmt::format("{:.3g}", times); }}, series,
        marks);
    for (const BreakEvenPlace& place : places)
      page_.html().element(
          "p",
          fmt::format("From about {} {} on {} is faster than {}{}.", name, approximate(place.at), place.after,
                      place.before, place.question.empty() ? "" : " (" + place.question + ")"),
          {{"class", "break-even"}});
    if (questions.size() > most_questions)
      page_.html().element("p",
                           fmt::format("Left out: the curves of {} other values of what else varies.",
                                       questions.size() - most_questions),
                           {{"class", "quiet"}});
  }
  static constexpr std::size_t most_questions = 4;  // each has dashes of its own
  static std::string approximate(double value) {
    constexpr double small = 2048;
    return value >= small ? fmt::format("{:.0f}K", value / 1024) : fmt::format("{:.3g}", value);
  }

  void write_table() {
    const TimeUnit unit = time_unit(longest_s_);
    std::vector<HtmlTable::Column> columns{{"point"}};
    for (const auto& [key, name] : columns_) columns.push_back({name, "", false, key});
    for (const char* time : {"time", "low", "high", "exposed"}) columns.push_back({time, unit.name});
    columns.push_back({"peak", "GiB"});
    columns.push_back({"fits", "", false});
    columns.push_back({"", "", false, "fastest of its problem; on the front of time and memory"});
    HtmlTable table(columns);
    for (std::size_t i = 0; i < report_.points.size(); ++i) table.add_row(cells_of(i, unit), row_css(i));
    page_.begin_section("points", "Every point");
    page_.filter("point-table");
    table.write(page_.html(), "point-table", "");
    page_.end_section();
  }
  bool is_fastest(std::int64_t number) const {
    return std::ranges::find(report_.fastest, number) != report_.fastest.end();
  }
  std::string row_css(std::size_t index) const {
    return is_fastest(report_.points[index].number) ? "best" : "";
  }
  std::vector<Shown> cells_of(std::size_t i, const TimeUnit& unit) const {
    const SweepPoint& p = report_.points[i];
    std::vector<Shown> cells{shown(std::to_string(p.number), p.number, fmt::format("/points/{}/number", i))};
    for (const auto& [key, name] : columns_) {
      const SweepValue* value = find_value(p, key);
      Shown cell{value == nullptr ? "" : value_text(*value)};
      if (const auto number = value == nullptr ? std::nullopt : number_of(key, *value))
        cell.value = fmt::format("{}", *number);
      cells.push_back(std::move(cell));
    }
    for (const auto& [seconds, member] :
         {std::pair{p.time_s, "time_s"}, {p.low_s, "low_s"}, {p.high_s, "high_s"}})
      cells.push_back(of_point(i, format_time(seconds, unit), seconds, member));
    const double exposed_s = p.exposed_wait_s + p.exposed_transfer_s;
    cells.push_back(sorted_as(format_time(exposed_s, unit), exposed_s));
    cells.push_back(of_point(i, format_gib(p.peak_bytes), static_cast<double>(p.peak_bytes), "peak_bytes"));
    cells.push_back({p.fit.fits ? "yes" : "NO", {}, {}, p.fit.fits ? "" : "worse"});
    const bool front = std::ranges::find(report_.pareto, p.number) != report_.pareto.end();
    cells.push_back({is_fastest(p.number) ? "fastest" : front ? "front" : ""});
    return cells;
  }

  void write_refused() {
    const std::vector<RefusedGroup> groups = grouped(report_.refused);
    if (groups.empty()) return;
    HtmlTable table({{"points"}, {"why", "", false}, {"nearest legal", "", false}, {"such as", "", false}});
    for (std::size_t i = 0; i < groups.size(); ++i)
      table.add_row(
          {shown(format_count(groups[i].count), groups[i].count, fmt::format("/refused/{}/count", i)),
           {groups[i].reason, {}, {}, "wide"},
           {groups[i].nearest.value_or("")},
           {keys_text(groups[i].example.set), {}, {}, "wide"}});
    page_.begin_section("refused", "Refused");
    table.write(page_.html(), "refused-table", "");
    page_.end_section();
  }

  void write_notes() {
    std::map<std::string, std::int64_t> counts;
    std::vector<std::string> notes = report_.notes;
    for (const SweepPoint& each : report_.points)
      for (const std::string& note : each.notes) ++counts[note];
    for (const auto& [note, count] : counts)
      notes.push_back(fmt::format("{} ({} point{})", note, format_count(count), count == 1 ? "" : "s"));
    page_.words("notes", "What a reader must know", notes);
  }

  HtmlPage& page_;
  const SweepReport& report_;
  std::vector<std::pair<std::string, std::string>> columns_;
  std::map<std::int64_t, std::size_t> index_;
  double longest_s_ = 0;
};

}  // namespace

void write_page(std::ostream& out, const PageTitle& title, const SweepReport& report) {
  HtmlPage page(out, "sweep", title.title, title.lead);
  SweepPage(page, report).write();
  page.finish(report.header.versions, std::nullopt,
              [&](std::ostream& stream) { write_json(stream, report); });
}

}  // namespace cplab

// See picture.hpp.
#include "cli/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <ostream>
#include <string_view>
#include <utility>

#include "report/folding.hpp"
#include "report/printable.hpp"
#include "report/table.hpp"

namespace cplab {

namespace {

constexpr std::size_t most_bars = 24, most_letters = 26;
constexpr std::string_view green = "\033[1;32m", plain_again = "\033[0m";

// As much of the text as `width` code points show; what is cut ends in "..".
std::string shortened(const std::string& text, std::size_t width) {
  if (width_of(text) <= width) return text;
  return text.substr(0, width - 2) + "..";
}

std::string padded(std::string text, std::size_t width) {
  const std::size_t length = width_of(text);
  return length < width ? text + std::string(width - length, ' ') : text;
}

void paint(std::ostream& out, const std::string& text, bool bright, const PictureStyle& style) {
  if (bright && style.color) write_control(out, green);
  out << text;
  if (bright && style.color) write_control(out, plain_again);
}

// `eighths` of a column wide: whole blocks, then a part of one.
std::string block_bar(std::size_t eighths) {
  constexpr std::array<std::string_view, 8> parts{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  std::string bar;
  for (std::size_t i = 0; i < eighths / 8; ++i) bar += "█";
  return bar + std::string(parts[eighths % 8]);
}

// From 0 to `time`, on to `high`; both in columns.
std::string bar(double time, double high, Glyphs glyphs) {
  const auto to = static_cast<std::size_t>(std::lround(high));
  std::string text = glyphs == Glyphs::blocks ? block_bar(static_cast<std::size_t>(std::lround(time * 8)))
                                              : std::string(static_cast<std::size_t>(std::lround(time)), '#');
  for (std::size_t at = width_of(text); at < to; ++at) text += glyphs == Glyphs::blocks ? "░" : "-";
  return text;
}

double longest_of(const std::vector<PicturePoint>& points) {
  double longest_s = 0;
  for (const PicturePoint& point : points) longest_s = std::max(longest_s, point.time_s);
  return longest_s;
}

// A range of values over so many cells.
struct Axis {
  double low = 0, high = 0;
  std::size_t cells = 1;
  std::size_t cell(double value) const {
    const double part = high > low ? (value - low) / (high - low) : 0.5;
    return std::min(cells - 1, static_cast<std::size_t>(std::lround(part * static_cast<double>(cells - 1))));
  }
};

// Cells of one code point each, the top row first.
struct Cell {
  std::string glyph = " ";
  bool bright = false;
};
using Canvas = std::vector<std::vector<Cell>>;

void write_row(std::ostream& out, const std::vector<Cell>& row, const PictureStyle& style) {
  std::size_t end = row.size();
  while (end > 0 && row[end - 1].glyph == " ") --end;
  for (std::size_t i = 0; i < end; ++i) paint(out, row[i].glyph, row[i].bright, style);
  out << '\n';
}

void write_axis(std::ostream& out, const Axis& time, const TimeUnit& unit, std::size_t indent,
                Glyphs glyphs) {
  out << std::string(indent, ' ') << (glyphs == Glyphs::blocks ? "└" : "+");
  for (std::size_t i = 0; i < time.cells; ++i) out << (glyphs == Glyphs::blocks ? "─" : "-");
  const std::string low = format_time(time.low, unit), high = format_time(time.high, unit) + " " + unit.name;
  const std::size_t gap = time.cells > low.size() + high.size() ? time.cells - low.size() - high.size() : 1;
  out << '\n' << std::string(indent + 1, ' ') << low << std::string(gap, ' ') << high << '\n';
}

}  // namespace

Glyphs glyphs_of_environment() {
  const char* const term = std::getenv("TERM");
  if (term && std::string_view(term) == "dumb") return Glyphs::plain;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* const value = std::getenv(name);
    if (!value || !*value) continue;
    std::string locale(value);
    std::erase(locale, '-');
    std::transform(locale.begin(), locale.end(), locale.begin(),
                   [](unsigned char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); });
    return locale.find("utf8") != std::string::npos ? Glyphs::blocks : Glyphs::plain;
  }
  return Glyphs::plain;
}

std::vector<std::size_t> pareto_front(const std::vector<PicturePoint>& points) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(points[a].time_s, points[a].peak_bytes) <
           std::pair(points[b].time_s, points[b].peak_bytes);
  });
  std::vector<std::size_t> front;
  for (const std::size_t each : order)
    if (front.empty() || points[each].peak_bytes < points[front.back()].peak_bytes) front.push_back(each);
  return front;
}

void write_time_bars(std::ostream& out, const std::vector<PicturePoint>& points, const PictureStyle& style) {
  if (points.empty()) return;
  const std::size_t rows = std::min(points.size(), most_bars);
  const TimeUnit unit = time_unit(longest_of(points));
  std::size_t names = 0, numbers = 0;
  double longest_s = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    names = std::max(names, width_of(points[i].name));
    numbers = std::max(numbers, format_time(points[i].time_s, unit).size());
    longest_s = std::max(longest_s, points[i].high_s);
  }
  names = std::min(names, style.width / 2);
  const std::size_t beside = names + numbers + std::string_view(unit.name).size() + 7;  // and blanks
  const double columns = static_cast<double>(style.width > beside + 8 ? style.width - beside : 8);
  const auto wide = [&](double seconds) { return longest_s > 0 ? columns * seconds / longest_s : 0; };
  for (std::size_t i = 0; i < rows; ++i) {
    const PicturePoint& point = points[i];
    out << fmt::format("{} {}  {:>{}} {}  ", point.may_be_fastest ? '*' : ' ',
                       padded(shortened(point.name, names), names), format_time(point.time_s, unit), numbers,
                       unit.name);
    paint(out, bar(wide(point.time_s), wide(point.high_s), style.glyphs), point.may_be_fastest, style);
    out << '\n';
  }
  if (rows < points.size()) out << fmt::format("  and {} slower ones\n", points.size() - rows);
}

void write_pareto(std::ostream& out, const std::vector<PicturePoint>& points, const PictureStyle& style) {
  if (points.size() < 2) return;
  constexpr std::size_t most_columns = 72, lines = 14, indent = 10;
  const TimeUnit unit = time_unit(longest_of(points));
  Axis time{points.front().time_s, points.front().time_s,
            std::min(most_columns, style.width > indent + 12 ? style.width - indent - 2 : std::size_t{10})};
  Axis memory{static_cast<double>(points.front().peak_bytes), static_cast<double>(points.front().peak_bytes),
              lines};
  for (const PicturePoint& point : points) {
    const auto bytes = static_cast<double>(point.peak_bytes);
    time.low = std::min(time.low, point.time_s), time.high = std::max(time.high, point.time_s);
    memory.low = std::min(memory.low, bytes), memory.high = std::max(memory.high, bytes);
  }
  Canvas canvas(lines, std::vector<Cell>(time.cells));
  const auto place = [&](const PicturePoint& point) -> Cell& {
    return canvas[lines - 1 - memory.cell(static_cast<double>(point.peak_bytes))][time.cell(point.time_s)];
  };
  for (const PicturePoint& point : points) place(point).glyph = style.glyphs == Glyphs::blocks ? "·" : ".";
  const std::vector<std::size_t> front = pareto_front(points);
  const std::size_t letters = std::min(front.size(), most_letters);
  for (std::size_t i = letters; i-- > 0;)  // of several in one place the faster
    place(points[front[i]]) = {std::string(1, static_cast<char>('a' + i)), true};
  for (std::size_t line = 0; line < lines; ++line) {
    std::string label;
    if (line == 0 || line + 1 == lines)
      label = format_gib(static_cast<std::int64_t>(line == 0 ? memory.high : memory.low)) + " GiB";
    out << fmt::format("{:>{}}", label, indent - 1) << ' ' << (style.glyphs == Glyphs::blocks ? "│" : "|");
    write_row(out, canvas[line], style);
  }
  write_axis(out, time, unit, indent, style.glyphs);
  for (std::size_t i = 0; i < letters; ++i) {
    const PicturePoint& point = points[front[i]];
    write_beside(out, fmt::format("  {}  ", static_cast<char>('a' + i)),
                 fmt::format("{}: {} {}, {} GiB", point.name, format_time(point.time_s, unit), unit.name,
                             format_gib(point.peak_bytes)),
                 style.width);
  }
}

}  // namespace cplab

// Aligned tables, CSV, colour and number formats.
#include "report/table.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <ostream>
#include <stdexcept>
#include <utility>

#include "report/printable.hpp"

namespace cplab {
namespace {

constexpr std::string_view bold = "\x1b[1m";
constexpr std::string_view bold_green = "\x1b[1;32m";
constexpr std::string_view plain = "\x1b[0m";

// Code points of UTF-8 text: every byte that does not continue a sequence.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string title(const Column& column) {
  return column.unit.empty() ? column.header : column.header + " (" + column.unit + ")";
}

// "exposed comm", "ms" -> "exposed_comm_ms"; "GB/s" -> "gb_s"; "%" -> "percent".
std::string snake_case(const Column& column) {
  std::string name;
  bool gap = false;
  for (const char c : column.header + " " + (column.unit == "%" ? "percent" : column.unit)) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) {
      gap = true;
      continue;
    }
    if (gap && !name.empty()) name += '_';
    gap = false;
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return name;
}

}  // namespace

std::optional<ColorMode> parse_color_mode(std::string_view word) {
  if (word == "auto") return ColorMode::automatic;
  if (word == "always") return ColorMode::always;
  if (word == "never") return ColorMode::never;
  return std::nullopt;
}

ColorEnvironment color_environment(int file_descriptor) {
  return {isatty(file_descriptor) == 1, std::getenv("NO_COLOR"), std::getenv("CLICOLOR_FORCE"),
          std::getenv("TERM")};
}

bool use_color(ColorMode mode, const ColorEnvironment& environment) {
  if (mode != ColorMode::automatic) return mode == ColorMode::always;
  const auto text = [](const char* value) { return std::string_view(value ? value : ""); };
  if (!text(environment.no_color).empty()) return false;
  const std::string_view force = text(environment.clicolor_force);
  if (!force.empty() && force != "0") return true;
  return text(environment.term) != "dumb" && environment.terminal;
}

std::string format_fixed(double value, int decimals) {
  if (!std::isfinite(value)) return "-";
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.find_first_not_of("-0.") == std::string::npos && text.front() == '-') text.erase(0, 1);  // no -0.0
  return text;
}

std::string format_ms(double seconds, int decimals) {
  return format_fixed(seconds * 1e3, decimals);
}
std::string format_gib(std::int64_t bytes, int decimals) {
  return format_fixed(static_cast<double>(bytes) / (1 << 30), decimals);
}
std::string format_mib(std::int64_t bytes, int decimals) {
  return format_fixed(static_cast<double>(bytes) / (1 << 20), decimals);
}
std::string format_gb_s(double bytes_per_s, int decimals) {
  return format_fixed(bytes_per_s / 1e9, decimals);
}
std::string format_percent(double fraction, int decimals) {
  return format_fixed(fraction * 100, decimals);
}
std::string format_signed_percent(double fraction, int decimals) {
  const std::string text = format_percent(fraction, decimals);
  return text.front() == '-' ? text : fmt::format("+{}", text);
}

std::string format_count(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::ptrdiff_t first = value < 0 ? 1 : 0;
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > first; i -= 3)
    digits.insert(digits.begin() + i, ' ');
  return digits;
}

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

void TextTable::add_row(std::vector<std::string> cells) {
  if (cells.size() != columns_.size())
    throw std::invalid_argument(
        fmt::format("a row of {} cells in a table of {} columns", cells.size(), columns_.size()));
  rows_.push_back(std::move(cells));
}

void TextTable::mark_best(std::size_t row) {
  best_.push_back(row);
}

void TextTable::write(std::ostream& out, bool color) const {
  std::vector<std::vector<std::string>> rows;  // as they are shown
  for (const auto& row : rows_) {
    auto& shown = rows.emplace_back();
    for (const std::string& cell : row) shown.push_back(printable(cell));
  }
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(width_of(title(columns_[c])));
    for (const auto& row : rows) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  const auto line = [&](const auto& cell_of, bool best) {
    std::string text = best_.empty() ? "" : best ? "* " : "  ";
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) text += "  ";
      const std::string& cell = cell_of(c);
      const std::string blanks(widths[c] - width_of(cell), ' ');
      text += columns_[c].align == Align::right ? blanks + cell : cell + blanks;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  const auto paint = [&](const std::string& text, std::string_view style) {
    if (color && !style.empty()) {
      write_control(out, style);
      out << text;
      write_control(out, plain);
      out << '\n';
    } else {
      out << text << '\n';
    }
  };
  paint(line([&](std::size_t c) { return title(columns_[c]); }, false), bold);
  out << line([&](std::size_t c) { return std::string(widths[c], '-'); }, false) << '\n';
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const bool best = std::find(best_.begin(), best_.end(), r) != best_.end();
    const std::string text = line([&](std::size_t c) { return rows[r][c]; }, best);
    paint(text, best ? bold_green : std::string_view());
  }
}

void TextTable::write_csv(std::ostream& out) const {
  std::vector<std::string> names;
  for (const Column& column : columns_) names.push_back(snake_case(column));
  write_csv_row(out, names);
  for (const auto& row : rows_) write_csv_row(out, row);
}

void write_csv_row(std::ostream& out, const std::vector<std::string>& cells) {
  bool first = true;
  for (const std::string& cell : cells) {
    if (!first) out << ',';
    first = false;
    if (cell.find_first_of(",\"\r\n") == std::string::npos) {
      out << cell;
      continue;
    }
    out << '"';
    for (const char c : cell) out << (c == '"' ? "\"\"" : std::string(1, c));
    out << '"';
  }
  out << "\r\n";
}

}  // namespace cplab

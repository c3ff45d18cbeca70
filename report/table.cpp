// Aligned tables, CSV, colour and number formats.
#include "report/table.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <ostream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "report/printable.hpp"

namespace cplab {
namespace {

constexpr std::string_view bold = "\x1b[1m";
constexpr std::string_view bold_green = "\x1b[1;32m";
constexpr std::string_view plain = "\x1b[0m";
constexpr std::size_t least_width = 20;  // of a page; less is a mistake of whoever says it

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

std::size_t width_of_output(int file_descriptor) {
  if (const char* given = std::getenv("COLUMNS")) {
    std::size_t columns = 0;
    const std::string_view text(given);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), columns);
    if (error == std::errc() && end == text.data() + text.size() && columns >= least_width) return columns;
  }
  winsize size{};
  const bool terminal = isatty(file_descriptor) == 1 && ioctl(file_descriptor, TIOCGWINSZ, &size) == 0;
  return terminal && size.ws_col >= least_width ? size.ws_col : page_width;
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
TimeUnit time_unit(double largest_s) {
  const double s = std::abs(largest_s);
  constexpr double minute = 60, hour = 3600;
  if (!(s >= 10)) return {"ms", 1e-3};
  if (s < 10 * minute) return {"s", 1};
  return s < 10 * hour ? TimeUnit{"min", minute} : TimeUnit{"h", hour};
}

std::string format_time(double seconds, const TimeUnit& unit) {
  return format_fixed(seconds / unit.size_s, 3);
}

std::string time_text(double seconds) {
  const TimeUnit unit = time_unit(seconds);
  return format_time(seconds, unit) + " " + unit.name;
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

void TextTable::write(std::ostream& out, TextStyle style) const {
  std::vector<std::vector<std::string>> rows;  // as they are shown
  for (const auto& row : rows_) {
    auto& shown = rows.emplace_back();
    for (const std::string& cell : row) shown.push_back(printable(cell));
  }
  std::vector<ColumnNeed> needs;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    const std::string header = title(columns_[c]);
    ColumnNeed need{width_of(header), unbroken_width(header), unbroken_width(header)};
    for (const auto& row : rows) {
      need.natural = std::max(need.natural, width_of(row[c]));
      need.cells = std::max(need.cells, width_of(row[c]));
      // Numbers stay in one line ("1 234 567").
      const bool whole = columns_[c].align == Align::right;
      need.least = std::max(need.least, whole ? width_of(row[c]) : unbroken_width(row[c]));
    }
    needs.push_back(need);
  }
  const std::size_t mark = best_.empty() ? 0 : 2;
  const std::size_t width = std::max(style.width, mark + 1) - mark;
  std::vector<ColumnBlock> blocks = fitted_columns(needs, width);
  const bool folds =
      blocks.size() > 1 || std::any_of(needs.begin(), needs.end(), [&](const ColumnNeed& need) {
        return need.cells > blocks.front().widths[static_cast<std::size_t>(&need - needs.data())];
      });
  const bool beneath = folds && columns_.size() > 1 && columns_.back().align == Align::beneath;
  if (beneath) {
    needs.pop_back();
    blocks = fitted_columns(needs, width);
  }
  for (const ColumnBlock& block : blocks) {
    if (&block != &blocks.front()) out << '\n';
    write_block(out, rows, block, style, beneath && &block == &blocks.back());
  }
}

void TextTable::write_block(std::ostream& out, const std::vector<std::vector<std::string>>& rows,
                            const ColumnBlock& block, TextStyle style, bool has_beneath) const {
  const auto line = [&](const auto& cell_of, bool best) {
    std::string text = best_.empty() ? "" : best ? "* " : "  ";
    for (std::size_t i = 0; i < block.columns.size(); ++i) {
      if (i > 0) text += std::string(block.gap, ' ');
      const std::string cell = cell_of(i);
      const std::string blanks(block.widths[i] - std::min(width_of(cell), block.widths[i]), ' ');
      text += columns_[block.columns[i]].align == Align::right ? blanks + cell : cell + blanks;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  const auto paint = [&](const std::string& text, std::string_view look) {
    if (style.color && !look.empty()) {
      write_control(out, look);
      out << text;
      write_control(out, plain);
      out << '\n';
    } else {
      out << text << '\n';
    }
  };
  // A row of several lines, as its cells are folded.
  const auto write_row = [&](const auto& cell_of, std::string_view look, bool best) {
    std::vector<std::vector<std::string>> cells;
    std::size_t lines = 1;
    for (std::size_t i = 0; i < block.columns.size(); ++i) {
      cells.push_back(folded(cell_of(block.columns[i]), block.widths[i]));
      lines = std::max(lines, cells.back().size());
    }
    for (std::size_t n = 0; n < lines; ++n)
      paint(line([&](std::size_t i) { return n < cells[i].size() ? cells[i][n] : std::string(); },
                 best && n == 0),
            look);
    if (const std::string under = has_beneath ? cell_of(columns_.size() - 1) : std::string(); !under.empty())
      write_beside(out, "    ", under, style.width);
  };
  write_row([&](std::size_t c) { return title(columns_[c]); }, bold, false);
  out << line([&](std::size_t i) { return std::string(block.widths[i], '-'); }, false) << '\n';
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const bool best = std::find(best_.begin(), best_.end(), r) != best_.end();
    write_row([&](std::size_t c) { return rows[r][c]; }, best ? bold_green : std::string_view(), best);
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
  out << '\n';
}

}  // namespace cplab

// Text tables and CSV for people and spreadsheets, when to colour, and how numbers are printed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/folding.hpp"

namespace cplab {

// ---- colour --------------------------------------------------------------------------------------

enum class ColorMode : std::uint8_t { automatic, always, never };  // --color auto|always|never

// "auto", "always" or "never"; nothing for another word.
std::optional<ColorMode> parse_color_mode(std::string_view word);

// What `auto` looks at. A variable that is not set is a null pointer.
struct ColorEnvironment {
  bool terminal = false;
  const char* no_color = nullptr;        // NO_COLOR
  const char* clicolor_force = nullptr;  // CLICOLOR_FORCE
  const char* term = nullptr;            // TERM
};

// Of this process, for a stream such as 1 (stdout) or 2 (stderr).
ColorEnvironment color_environment(int file_descriptor);

// always and never are obeyed. automatic, the first that applies: a NO_COLOR that is not empty is no; a
// CLICOLOR_FORCE other than empty and "0" is yes; TERM=dumb is no; else whether it is a terminal.
bool use_color(ColorMode mode, const ColorEnvironment& environment);

// ---- width ---------------------------------------------------------------------------------------

// Of a stream such as 1 (stdout): what COLUMNS says, else of a terminal its width, else page_width.
std::size_t width_of_output(int file_descriptor);

// How text is shown.
struct TextStyle {
  TextStyle(bool in_color, std::size_t columns = page_width) : color(in_color), width(columns) {}
  bool color;
  std::size_t width;
};

// ---- numbers -------------------------------------------------------------------------------------

// Without their unit, which is in the header. What is not finite is "-".
std::string format_fixed(double value, int decimals);
std::string format_ms(double seconds, int decimals = 3);  // 0.0123456 -> "12.346"
// The unit in which times of that size are legible: ms to 10 s, s to 10 min, min to 10 h, h.
struct TimeUnit {
  const char* name;
  double size_s;
};
TimeUnit time_unit(double largest_s);
std::string format_time(double seconds, const TimeUnit&);              // three decimals
std::string time_text(double seconds);                                 // with its unit: "13.455 s"
std::string format_gib(std::int64_t bytes, int decimals = 2);          // 2^30 -> "1.00"
std::string format_mib(std::int64_t bytes, int decimals = 1);          // 2^20 -> "1.0"
std::string format_gb_s(double bytes_per_s, int decimals = 1);         // 1e9 -> "1.0"
std::string format_percent(double fraction, int decimals = 1);         // 0.123 -> "12.3"
std::string format_signed_percent(double fraction, int decimals = 1);  // 0.123 -> "+12.3"
std::string format_count(std::int64_t value);                          // 1234567 -> "1 234 567"

// ---- tables --------------------------------------------------------------------------------------

// beneath: to the left, and where the table is too wide in lines of its own beneath each row; for the last
// column alone.
enum class Align : std::uint8_t { left, right, beneath };

struct Column {
  std::string header;
  std::string unit;  // "" has none; shown as "header (unit)" and in CSV as "header_unit"
  Align align = Align::right;
};

class TextTable {
 public:
  explicit TextTable(std::vector<Column> columns);

  // One cell a column, else std::invalid_argument.
  void add_row(std::vector<std::string> cells);
  std::size_t rows() const { return rows_.size(); }
  // The row is marked with "*" before it, and bold green when in colour.
  void mark_best(std::size_t row);

  // Header, a rule, rows; columns two blanks apart, as wide as their widest cell in code points. What is
  // wider than the style says is folded by words within its column (numbers are not), and where columns do
  // not fit beside each other so, they follow in a further block that begins with the first column again.
  void write(std::ostream& out, TextStyle style) const;
  // The same cells as CSV, the mark left out; headers in snake_case.
  void write_csv(std::ostream& out) const;

 private:
  void write_block(std::ostream& out, const std::vector<std::vector<std::string>>& rows,
                   const ColumnBlock& block, TextStyle style, bool has_beneath) const;
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<std::size_t> best_;
};

// One record of RFC 4180: fields with a comma, a quote or a line break are quoted; ends with LF.
void write_csv_row(std::ostream& out, const std::vector<std::string>& cells);

}  // namespace cplab

// Text folded by words to a width, and how wide the columns of a table are then.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace cplab {

// Of a page, where nothing says how wide it is (a pipe, a file).
inline constexpr std::size_t page_width = 100;

// Code points of UTF-8 text.
std::size_t width_of(std::string_view text);

// Lines of at most `width` code points, broken at blanks; a word that is longer is broken after one of ,/=_+-
// if it has one there, else where the line ends. Never empty; nothing but blanks is left out.
std::vector<std::string> folded(std::string_view text, std::size_t width);

// The text and a line break, folded; lines after the first begin with the indent.
void write_folded(std::ostream& out, std::string_view text, std::size_t width, std::string_view indent = "");

// `left` as it is, and the text folded in what is left of the width beside it.
void write_beside(std::ostream& out, std::string_view left, std::string_view text, std::size_t width);

// What is known of one column: the width of its longest cell, title included; the same with the title folded;
// and of the longest part that stays in one line.
struct ColumnNeed {
  std::size_t natural = 0;
  std::size_t cells = 0;
  std::size_t least = 0;
};

// The longest part of the text that folding leaves whole: the longest word, of long words their parts.
std::size_t unbroken_width(std::string_view text);

// Columns of one block of a table: their numbers and widths.
struct ColumnBlock {
  std::vector<std::size_t> columns;
  std::vector<std::size_t> widths;
  std::size_t gap = 2;
};

// Widths of columns that take at most `width` together, with two blanks between if that fits, else one: what
// they need, else titles are folded, else the widest cells. Where they do not fit so either, the table is
// several blocks, each beginning with the first column.
std::vector<ColumnBlock> fitted_columns(const std::vector<ColumnNeed>& needs, std::size_t width);

}  // namespace cplab

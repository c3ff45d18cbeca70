// Pictures made of characters, for terminals: bars of times with their bands, and times against memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace cplab {

// none: no terminal. plain: ASCII. blocks: Unicode's, where the locale is one of UTF-8.
enum class Glyphs : std::uint8_t { none, plain, blocks };
// For a terminal, by the first of LC_ALL, LC_CTYPE and LANG that says something, and TERM.
Glyphs glyphs_of_environment();

struct PictureStyle {
  Glyphs glyphs = Glyphs::plain;
  bool color = false;
  std::size_t width = 100;  // columns
};

// One prediction, or one point of a sweep.
struct PicturePoint {
  std::string name;
  double time_s = 0, low_s = 0, high_s = 0;
  std::int64_t peak_bytes = 0;
  bool may_be_fastest = false;
};

// A bar for each, in their order, to its time, and on to the upper end of its band in another character; all
// from 0.
void write_time_bars(std::ostream&, const std::vector<PicturePoint>&, const PictureStyle&);

// Time to the right, peak memory upwards. Points that no other beats in both have letters, with a line each
// beneath; the others are dots. Nothing for fewer than two points.
void write_pareto(std::ostream&, const std::vector<PicturePoint>&, const PictureStyle&);

// The places of those that no other beats in both, by time.
std::vector<std::size_t> pareto_front(const std::vector<PicturePoint>&);

}  // namespace cplab

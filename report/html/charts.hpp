// Charts of a page, as SVG inside the HTML. Colours are classes (c0, c1, ...) of the page's style sheet.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "report/html/writer.hpp"

namespace cplab {

// Parts of a whole, one bar and its legend. Values are of one unit; parts of nothing are left out.
struct BarPart {
  std::string name;
  double value = 0;
  Shown shown;      // in the legend
  std::string css;  // "attention", "c3"
};
// `whole`: what the full width stands for; below the sum of the parts it is that sum.
void write_stacked_bar(HtmlWriter&, std::string_view label, const std::vector<BarPart>&, double whole);

// A small bar for a table's cell, from the left or, of values that may be negative, from the middle; -1 .. 1.
std::string bar_markup(double share, bool both_ways, std::string_view css);

struct ChartAxis {
  std::string label;
  bool logarithmic = false;
  std::function<std::string(double)> text;  // of a tick
  bool binary = false;  // ticks of a logarithmic axis are powers of 2, not 1, 2, 5, 10, ...
};

struct ChartPoint {
  double x = 0, y = 0;
  double low_y = 0, high_y = 0;  // a band; both 0: none
  std::string text = {};         // when pointed at
  bool emphasized = false;
};

struct ChartSeries {
  std::string name;
  std::string css;
  bool line = false;   // points joined in their order
  bool steps = false;  // joined by a staircase
  std::vector<ChartPoint> points;
};

// A dashed line across at x, with a word.
struct ChartMark {
  double x = 0;
  std::string text;
};

// Series in one frame with a legend (unless there is but one). Points that a logarithmic axis cannot show are
// left out. Nothing is written without a point.
void write_chart(HtmlWriter&, std::string_view id, std::string_view title, const ChartAxis& x,
                 const ChartAxis& y, const std::vector<ChartSeries>&, const std::vector<ChartMark>& = {});

}  // namespace cplab

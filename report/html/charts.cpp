// See charts.hpp.
#include "report/html/charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace cplab {
namespace {

// Where values lie along a side of the frame, and which of them have a tick.
class Scale {
 public:
  Scale(const ChartAxis& axis, double from_pixel, double to_pixel)
      : axis_(axis), from_pixel_(from_pixel), to_pixel_(to_pixel) {}

  bool takes(double value) const { return std::isfinite(value) && (!axis_.logarithmic || value > 0); }
  void see(double value) {
    if (!takes(value)) return;
    low_ = std::min(low_, value);
    high_ = std::max(high_, value);
  }
  bool empty() const { return low_ > high_; }

  // A little room on both sides; a linear axis of values from 0 on begins with 0.
  void settle() {
    if (axis_.logarithmic) {
      const double room = std::max(1.02, std::pow(high_ / low_, 0.04));
      low_ /= room;
      high_ *= room;
      return;
    }
    if (low_ > 0 && low_ < 0.5 * high_) low_ = 0;
    const double room = high_ > low_ ? 0.05 * (high_ - low_) : std::max(1.0, std::abs(high_));
    if (low_ != 0) low_ -= room;
    high_ += room;
  }
  double pixel(double value) const {
    const double share =
        axis_.logarithmic ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
    return from_pixel_ + share * (to_pixel_ - from_pixel_);
  }

  std::vector<double> ticks() const {
    constexpr std::size_t enough = 3, many = 9;
    if (!axis_.logarithmic) return linear_ticks();
    if (axis_.binary) return thinned(powers(2, {1}));
    std::vector<double> all = powers(10, {1, 2, 5});
    if (all.size() > many) all = powers(10, {1});
    return all.size() < enough ? linear_ticks() : thinned(all);
  }

 private:
  // Of the range those that are a power times one of the factors, which are below the base.
  std::vector<double> powers(double base, const std::vector<double>& factors) const {
    constexpr double rounding = 1e-9;
    std::vector<double> all;
    for (double power = std::floor(std::log(low_) / std::log(base));; ++power)
      for (const double factor : factors) {
        const double value = factor * std::pow(base, power);
        if (value > high_ * (1 + rounding)) return all;
        if (value >= low_ * (1 - rounding)) all.push_back(value);
      }
  }
  static std::vector<double> thinned(const std::vector<double>& all) {
    constexpr std::size_t most = 9;
    const std::size_t every = (all.size() + most - 1) / most;
    std::vector<double> kept;
    for (std::size_t i = 0; i < all.size(); i += every) kept.push_back(all[i]);
    return kept;
  }
  std::vector<double> linear_ticks() const {
    constexpr double wanted = 5;
    const double rough = (high_ - low_) / wanted, power = std::pow(10, std::floor(std::log10(rough)));
    double step = 10 * power;
    for (const double nice : {1.0, 2.0, 5.0})
      if (nice * power >= rough) {
        step = nice * power;
        break;
      }
    std::vector<double> all;
    for (double n = std::ceil(low_ / step - 1e-9); n * step <= high_ * (1 + 1e-12); ++n)
      all.push_back(n * step);
    return all;
  }

  const ChartAxis& axis_;
  double from_pixel_, to_pixel_;
  double low_ = std::numeric_limits<double>::infinity(), high_ = -low_;
};

constexpr double width = 760, height = 340, left = 82, right = 18, top = 16, bottom = 46;

std::string place(const Scale& x, const Scale& y, const ChartPoint& point) {
  return fmt::format("{:.1f} {:.1f}", x.pixel(point.x), y.pixel(point.y));
}

std::string path_of(const ChartSeries& series, const Scale& x, const Scale& y) {
  std::string path;
  for (std::size_t i = 0; i < series.points.size(); ++i) {
    const ChartPoint& point = series.points[i];
    if (!path.empty() && series.steps)
      path += fmt::format("L{:.1f} {:.1f}", x.pixel(point.x), y.pixel(series.points[i - 1].y));
    path += (path.empty() ? "M" : "L") + place(x, y, point);
  }
  return path;
}

void write_axes(HtmlWriter& html, const ChartAxis& x_axis, const ChartAxis& y_axis, const Scale& x,
                const Scale& y) {
  for (const double tick : x.ticks()) {
    const double at = x.pixel(tick);
    html.raw(
        fmt::format("<path class=\"grid\" d=\"M{0:.1f} {1}V{2}\"/><text class=\"tick\" x=\"{0:.1f}\" "
                    "y=\"{3}\" text-anchor=\"middle\">{4}</text>",
                    at, top, height - bottom, height - bottom + 17, html_escaped(x_axis.text(tick))));
  }
  for (const double tick : y.ticks()) {
    const double at = y.pixel(tick);
    html.raw(
        fmt::format("<path class=\"grid\" d=\"M{0} {1:.1f}H{2}\"/><text class=\"tick\" x=\"{3}\" "
                    "y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
                    left, at, width - right, left - 8, at + 4, html_escaped(y_axis.text(tick))));
  }
  html.raw(
      fmt::format("<path class=\"frame\" d=\"M{} {}V{}H{}\"/>", left, top, height - bottom, width - right));
  html.raw(fmt::format("<text class=\"label\" x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>",
                       (left + width - right) / 2, height - 8, html_escaped(x_axis.label)));
  html.raw(
      fmt::format("<text class=\"label\" transform=\"translate(15 {:.0f}) rotate(-90)\" "
                  "text-anchor=\"middle\">{}</text>\n",
                  (top + height - bottom) / 2, html_escaped(y_axis.label)));
}

void write_series(HtmlWriter& html, const ChartSeries& series, const Scale& x, const Scale& y) {
  html.open("g", {{"class", "series " + series.css}});
  if (series.line) html.raw("<path class=\"curve\" d=\"" + path_of(series, x, y) + "\"/>");
  for (const ChartPoint& point : series.points) {
    if (point.high_y > point.low_y && y.takes(point.low_y))
      html.raw(fmt::format("<path class=\"band\" d=\"M{0:.1f} {1:.1f}V{2:.1f}\"/>", x.pixel(point.x),
                           y.pixel(point.low_y), y.pixel(point.high_y)));
    html.raw(fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"{}><title>{}</title></circle>",
                         x.pixel(point.x), y.pixel(point.y), point.emphasized ? 5.5 : 3.5,
                         point.emphasized ? " class=\"best\"" : "", html_escaped(point.text)));
  }
  html.close();
}

void write_legend(HtmlWriter& html, const std::vector<ChartSeries>& all) {
  if (all.size() < 2) return;
  html.open("ul", {{"class", "legend"}});
  for (const ChartSeries& series : all) {
    html.raw("<li>");
    html.open("i", {{"class", "swatch " + series.css}});
    html.close();
    html.text(series.name);
    html.raw("</li>");
  }
  html.close();
}

}  // namespace

void write_stacked_bar(HtmlWriter& html, std::string_view label, const std::vector<BarPart>& parts,
                       double whole) {
  constexpr double full = 1000;
  double sum = 0;
  for (const BarPart& part : parts) sum += part.value;
  if (sum <= 0) return;
  const double scale = full / std::max(sum, whole);
  html.open("figure", {{"class", "stack"}});
  html.raw(
      fmt::format("<svg viewBox=\"0 0 1000 26\" preserveAspectRatio=\"none\" role=\"img\" "
                  "aria-label=\"{}\"><rect class=\"empty\" width=\"1000\" height=\"26\"/>",
                  html_escaped(label)));
  double at = 0;
  for (const BarPart& part : parts) {
    if (part.value <= 0) continue;
    html.raw(fmt::format(
        "<rect class=\"{}\" x=\"{:.2f}\" width=\"{:.2f}\" height=\"26\"><title>{}: {}</title></rect>",
        part.css, at, part.value * scale, html_escaped(part.name), html_escaped(part.shown.text)));
    at += part.value * scale;
  }
  html.raw("</svg>");
  html.open("ul", {{"class", "legend"}});
  for (const BarPart& part : parts) {
    if (part.value <= 0) continue;
    html.raw("<li>");
    html.open("i", {{"class", "swatch " + part.css}});
    html.close();
    html.text(part.name + " ");
    html.value(part.shown);
    html.raw("</li>");
  }
  html.close();
  html.close();
}

std::string bar_markup(double share, bool both_ways, std::string_view css) {
  if (!std::isfinite(share)) return "";
  share = std::clamp(share, -1.0, 1.0);
  const double middle = both_ways ? 50 : 0, length = std::abs(share) * (both_ways ? 50 : 100);
  return fmt::format(
      "<svg class=\"bar\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">{}"
      "<rect class=\"{}\" x=\"{:.2f}\" width=\"{:.2f}\" height=\"10\"/></svg>",
      both_ways ? "<path class=\"grid\" d=\"M50 0V10\"/>" : "", css, share < 0 ? middle - length : middle,
      length);
}

void write_chart(HtmlWriter& html, std::string_view id, std::string_view title, const ChartAxis& x_axis,
                 const ChartAxis& y_axis, const std::vector<ChartSeries>& given,
                 const std::vector<ChartMark>& marks) {
  Scale x(x_axis, left, width - right), y(y_axis, height - bottom, top);
  std::vector<ChartSeries> all = given;
  for (ChartSeries& series : all) {
    std::erase_if(series.points, [&](const ChartPoint& p) { return !x.takes(p.x) || !y.takes(p.y); });
    for (const ChartPoint& point : series.points) {
      x.see(point.x);
      for (const double value : {point.y, point.low_y, point.high_y})
        if (value != 0 || point.y == 0) y.see(value);
    }
  }
  if (x.empty() || y.empty()) return;
  x.settle();
  y.settle();
  html.open("figure", {{"class", "chart"}, {"id", id}});
  html.element("figcaption", title);
  html.raw(fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">", width, height,
                       html_escaped(title)));
  write_axes(html, x_axis, y_axis, x, y);
  for (const ChartMark& mark : marks)
    html.raw(fmt::format(
        "<path class=\"mark\" d=\"M{0:.1f} {1}V{2}\"/><text class=\"tick\" x=\"{3:.1f}\" "
        "y=\"{4}\">{5}</text>",
        x.pixel(mark.x), top, height - bottom, x.pixel(mark.x) + 4, top + 10, html_escaped(mark.text)));
  for (const ChartSeries& series : all) write_series(html, series, x, y);
  html.raw("</svg>");
  write_legend(html, all);
  html.close();
}

}  // namespace cplab

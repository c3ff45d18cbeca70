// See sweep_curves.hpp.
#include "report/html/sweep_curves.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "report/sweep_keys.hpp"

namespace cplab {
namespace {

// What a study chooses, beside what it asks.
bool is_choice(const std::string& key) {
  return key.starts_with("schedule.") || key == "parallel.algorithm" || key == "parallel.placement" ||
         key == "parallel.groups";
}

bool is_better(const SweepPoint& point, const SweepPoint& than) {
  if (point.fit.fits != than.fit.fits) return point.fit.fits;
  return point.time_s < than.time_s;
}

const SweepPoint* at(const SweepCurve& curve, double x) {
  const auto found = std::ranges::find(curve.points, x, &std::pair<double, const SweepPoint*>::first);
  return found == curve.points.end() ? nullptr : found->second;
}

// Where two straight lines in logarithms cross, from x0 to x1.
double crossing(double x0, double x1, double a0, double a1, double b0, double b1) {
  const double before = std::log(b0 / a0), after = std::log(b1 / a1);
  const double share = before == after ? 0.5 : before / (before - after);
  return x0 * std::pow(x1 / x0, std::clamp(share, 0.0, 1.0));
}

}  // namespace

std::vector<SweepCurve> curves_over(const SweepReport& report, const std::string& key) {
  std::map<std::pair<std::string, std::string>, std::map<double, const SweepPoint*>> curves;
  const auto columns = varying_keys(report.points);
  for (const SweepPoint& point : report.points) {
    const SweepValue* value = find_value(point, key);
    const auto x = value == nullptr ? std::nullopt : number_of(key, *value);
    if (!x) continue;
    std::string question;
    for (const auto& [other, shown] : columns) {
      const SweepValue* asked = find_value(point, other);
      if (other == key || is_choice(other) || asked == nullptr) continue;
      question += (question.empty() ? "" : ", ") + shown + " " + value_text(*asked);
    }
    const SweepPoint*& best = curves[{question, point.algorithm}][*x];
    if (best == nullptr || is_better(point, *best)) best = &point;
  }
  std::vector<SweepCurve> all;
  for (const auto& [name, points] : curves)
    all.push_back({name.second, name.first, {points.begin(), points.end()}});
  return all;
}

namespace {

const SweepCurve* fastest_curve(const std::vector<SweepCurve>& curves, const std::string& question,
                                double x) {
  const SweepCurve* best = nullptr;
  for (const SweepCurve& curve : curves) {
    const SweepPoint* here = curve.question == question ? at(curve, x) : nullptr;
    if (here != nullptr && (best == nullptr || is_better(*here, *at(*best, x)))) best = &curve;
  }
  return best;
}

void add_places(const std::vector<SweepCurve>& curves, const std::string& question,
                std::vector<BreakEvenPlace>& places) {
  std::set<double> values;
  for (const SweepCurve& curve : curves)
    for (const auto& [x, point] : curve.points)
      if (curve.question == question) values.insert(x);
  double x0 = 0;
  const SweepCurve* before = nullptr;
  for (const double x1 : values) {
    const SweepCurve* after = fastest_curve(curves, question, x1);
    if (before != nullptr && before != after && x0 > 0) {
      const SweepPoint *a0 = at(*before, x0), *a1 = at(*before, x1), *b0 = at(*after, x0),
                       *b1 = at(*after, x1);
      if (a1 != nullptr && b0 != nullptr)
        places.push_back({crossing(x0, x1, a0->time_s, a1->time_s, b0->time_s, b1->time_s), before->algorithm,
                          after->algorithm, question});
    }
    before = after;
    x0 = x1;
  }
}

}  // namespace

const SweepPoint* fastest_at(const std::vector<SweepCurve>& curves, const std::string& question,
                             double value) {
  const SweepCurve* best = fastest_curve(curves, question, value);
  return best == nullptr ? nullptr : at(*best, value);
}

std::vector<BreakEvenPlace> break_even(const std::vector<SweepCurve>& curves) {
  std::set<std::string> questions;
  for (const SweepCurve& curve : curves) questions.insert(curve.question);
  std::vector<BreakEvenPlace> places;
  for (const std::string& question : questions) add_places(curves, question, places);
  return places;
}

}  // namespace cplab

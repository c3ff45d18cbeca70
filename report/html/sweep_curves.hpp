// Times of a sweep over one of its keys, algorithm by algorithm, and where the fastest one changes. Internal
// to report/html/.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/sweep.hpp"

namespace cplab {

struct SweepCurve {
  std::string algorithm;
  std::string question;  // "heads 32": what else varies and is asked; empty: nothing
  // (value of the key, the point that is fastest there), by value; of points that fit, if any do.
  std::vector<std::pair<double, const SweepPoint*>> points;
};

// Of the points that agree in everything that is asked (problem, ranks, machine), `key` apart, the fastest by
// what was chosen (placement, schedule), for every algorithm.
std::vector<SweepCurve> curves_over(const SweepReport&, const std::string& key);

struct BreakEvenPlace {
  double at = 0;              // of the key, between two of its values, on straight lines in logarithms
  std::string before, after;  // algorithms
  std::string question;
};
// Where the fastest of the curves of one question changes. Nothing across a value that only one of the two
// has.
std::vector<BreakEvenPlace> break_even(const std::vector<SweepCurve>&);
// The fastest of the curves of that question at that value; null: none has it.
const SweepPoint* fastest_at(const std::vector<SweepCurve>&, const std::string& question, double value);

}  // namespace cplab

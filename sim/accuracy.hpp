// How far predictions of one kind were off on runs that had no part in the model, and the band that follows
// from it.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace cplab {

// Of all held-out runs of one kind, with e = predicted / measured - 1.
struct KindAccuracy {
  std::string kind;
  int points = 0;
  double median = 0;       // of |e|
  double signed_mean = 0;  // of e
  double half_width = 0;   // the 90 % quantile of |e|
  // The runs were held against the file with all that it assumes, and nothing was set since: what is assumed
  // is in half_width.
  bool with_assumed = false;
};

// The kind that a scenario is held against: one_gpu; of linear attention lasp (a chain of ranks) or scan;
// packed, window, batch; else the algorithm.
std::string accuracy_kind(const Scenario&);

// Of its kind; of a kind that was never held out the least accurate one. Null: nothing was.
const KindAccuracy* accuracy_of(const std::vector<KindAccuracy>&, const Scenario&);

}  // namespace cplab

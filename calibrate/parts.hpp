// What a calibration consists of, most valuable first, and which parts of it fit into a budget.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/machine.hpp"

namespace cplab::measure {

struct Part {
  std::string_view name;
  std::string_view what;  // is taken from the base where it was left out
  double estimate_s = 0;  // as on one and two H200; pairs and nodes: a guess
  int least_gpus = 1, least_nodes = 1;
};

// In the order in which they are measured. Names stay: files that are to be continued list them.
std::span<const Part> all_parts();
const Part* find_part(std::string_view name);

// Seconds of a budget that are kept for held-out runs.
double held_out_s(double budget_s);

// Those that are not done and whose estimates fit, one after the other, into `left_s`; one that is too long
// does not keep a later one out.
std::vector<const Part*> parts_within(double left_s, const Machine& machine,
                                      const std::vector<std::string>& done);

}  // namespace cplab::measure

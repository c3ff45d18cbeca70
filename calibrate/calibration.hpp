// A calibration from its first part to its last: what is next, what is written when, what is worth a warning.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "calibrate/measurer.hpp"
#include "calibrate/parts.hpp"
#include "calibrate/record.hpp"
#include "sim/hardware.hpp"

namespace cplab::measure {

// A machine, and how it came about: what a file holds, and what is continued.
struct State {
  Hardware hardware;
  Record record;
};

struct Talk {
  std::function<void(const std::string&)> say;  // a line of progress
  std::function<void(const State&)> write;      // the file, whole; called after each part
};

// Held-out runs: what was predicted by the machine as it is written, and measured, in at most so many
// seconds.
struct Trial {
  std::string kind;
  double predicted_s = 0, measured_s = 0;
};
using Trials = std::function<std::vector<Trial>(const State&, double most_s)>;

// By kind, in the order in which kinds appear.
std::vector<KindAccuracy> accuracy_of(const std::vector<Trial>& trials);

// Every part that is not done, and `points` of those that are, into the record.
void list_left_out(Record& record, const Machine& machine, const std::vector<std::string>& points);

// Measures the parts that fit and are not done, writes after each, runs the trials (none: null) and ends with
// what was left out and the warnings in the record. A part that fails is left out, with its message.
void calibrate(State& state, Measurer& measurer, double budget_s, const Talk& talk, const Trials& trials);

}  // namespace cplab::measure

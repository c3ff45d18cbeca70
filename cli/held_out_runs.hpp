// Predictions held against runs: scenarios that no table was made for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "calibrate/calibration.hpp"

namespace cplab {

struct HeldOut {
  std::uint64_t seed = 1;
  int gpus = 1;
  std::vector<std::string> scenarios;  // the user's own, first
};

// Predicts by `state.hardware`, then executes on GPUs as `run` does, one after the other until `most_s` are
// over. What cannot be predicted, does not fit or takes longer than a quarter of a second is passed over.
std::vector<measure::Trial> run_held_out(const HeldOut& asked, const measure::State& state, double most_s,
                                         const std::function<void(const std::string&)>& say);

}  // namespace cplab

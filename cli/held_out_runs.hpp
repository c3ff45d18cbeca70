// Predictions held against runs: scenarios that no table was made for.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "calibrate/calibration.hpp"
#include "plan/plan.hpp"

namespace cplab {

struct HeldOut {
  std::uint64_t seed = 1;
  int gpus = 1;
  std::vector<std::string> scenarios;  // the user's own, first
};

// The squares of attention that the plan of a scenario issues on its first and its last rank, each once, of
// the head sizes and dtype that calibrate measures; those that are no squares are left to the model.
std::vector<measure::AttentionShape> squares_of(const Plan& plan);
// Of all these scenarios. Throws InputError for one that is none.
std::vector<measure::AttentionShape> squares_of(const std::vector<std::string>& scenarios);

// Predicts by `state.hardware`, then executes on GPUs as `run` does, one after the other until `most_s` are
// over. What cannot be predicted, does not fit or takes longer than a quarter of a second is passed over.
std::vector<measure::Trial> run_held_out(const HeldOut& asked, const measure::State& state, double most_s,
                                         const std::function<void(const std::string&)>& say);

}  // namespace cplab

// A machine that nobody has, and somebody who makes up what is measured of it.
#pragma once

#include <string>
#include <vector>

#include "calibrate/measurer.hpp"

// 2 x "NVIDIA H200" with 132 multiprocessors.
cplab::measure::Machine made_up_machine();

// One table of a part, with times that a test knows: attention at 400 TFLOP/s, a backward pass three times as
// long, a causal one 0.6 times; an exchange with 10 us of start-up and 300 GB/s.
class MadeUp : public cplab::measure::Measurer {
 public:
  const cplab::measure::Machine& machine() const override { return machine_; }
  cplab::measure::Measurement measure(std::string_view part, double most_s, int channels) override;
  double reference_s() override { return reference; }
  std::string wrong_results() override { return wrong; }
  std::vector<std::string> others() const override { return others_there; }
  std::string clocks() const override { return "1980 MHz"; }
  double now_s() const override { return clock_s; }

  double clock_s = 0, part_s = 10;               // each part takes so long
  double reference = 1e-3, reference_later = 0;  // after the first part, if above 0
  std::string wrong, fails;                      // the part of that name fails
  std::vector<std::string> others_there, asked;
  int channels_asked = -1;

 private:
  cplab::measure::Machine machine_ = made_up_machine();
};

double made_up_attend_s(bool backward, bool causal, std::int64_t sequence);

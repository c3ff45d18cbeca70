// What a hardware file says of the calibration that wrote it: sections [calibration] and [accuracy].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/accuracy.hpp"

namespace cplab::measure {

struct Record {
  // With these a measurement is continued; where one differs it begins anew.
  std::string commit, kernel_set, gpu;  // kernel_set: core or full
  std::string kernels;                  // a hash of the kernels of the build
  std::string base;                     // as --base names it; empty: found by the GPU's name
  int gpus = 0;
  std::string driver, date;
  std::uint64_t seed = 1;
  double seconds = 0;  // of GPUs, in all calls together
  std::string clocks_before, clocks_after;
  std::vector<std::string> done;      // names of parts
  std::vector<std::string> left_out;  // what of the file is of the base, and why
  std::vector<std::string> warnings;
  std::vector<KindAccuracy> accuracy;
};

// What of `before` keeps its measurements from being continued by `now`: "commit a, now b"; empty: nothing.
std::string difference(const Record& before, const Record& now);

}  // namespace cplab::measure

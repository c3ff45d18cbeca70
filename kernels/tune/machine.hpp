// Where times were measured: what must be the same for them to be used again.
#pragma once

#include <string>

namespace cplab::kernels::tune {

struct Machine {
  std::string gpu;                 // "NVIDIA H200"
  std::string compute_capability;  // "9.0"
  int sms = 0;
  std::string driver;   // "580.159.04", and the CUDA version that it is of
  std::string runtime;  // "13.0"
  std::string kernels;  // hash of the build's kernels (build_of_kernels())

  bool operator==(const Machine&) const = default;
};

// The first thing in which two differ: "driver is 580.159.04, here 575.51"; empty: nothing.
std::string difference(const Machine& there, const Machine& here);

// SHA-256 of the compiled kernels and of the sources that cut calls into tiles, the first 16 digits; empty in
// a build without nvcc.
std::string build_of_kernels();

}  // namespace cplab::kernels::tune

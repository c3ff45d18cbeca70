// Small problems for the rungs with what must come out, by a plain double loop. Plain C++: the program
// `rungs` checks the GPU with it, tests/emulator the same source on a CPU.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cplab::kernels::cuda::hopper::rungs {

struct Shape {
  int S, heads;
  bool causal;
};

struct Case {
  Shape shape;
  std::vector<std::uint16_t> q, k, v;  // bf16, [heads, S, 128]
  std::vector<double> out, lse;        // [heads, S, 128], [heads, S]
};

// Random: scores have a standard deviation of 2, so that some keys count and most do not.
Case random_case(const Shape& shape, std::uint64_t seed);

// Largest errors of a result: |out - expected| of a row over |expected| (Euclidean), and of lse.
struct Errors {
  double out = 0, lse = 0;
  // bf16 p and bf16 results give 2e-3 to 3e-3 a row; fp32 sums of 128 products up to 30 give 1e-5.
  bool small() const { return out <= 6e-3 && lse <= 5e-5; }
  std::string text() const;
};
Errors errors_of(const Case& expected, std::span<const std::uint16_t> out, std::span<const float> lse);

}  // namespace cplab::kernels::cuda::hopper::rungs

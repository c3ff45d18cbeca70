// What `rungs` compares: every rung and, below and above, two kernels of the library, on the same operands.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/gpu/device_memory.hpp"
#include "tests/rungs/check.hpp"
#include "tests/rungs/rung.hpp"

namespace cplab::kernels::cuda::hopper::rungs {

// A problem in device memory. Waits for all it does.
class Operands {
 public:
  explicit Operands(const Shape& shape);
  void upload(std::span<const std::uint16_t> q, std::span<const std::uint16_t> k,
              std::span<const std::uint16_t> v);
  void fill(std::uint64_t seed);  // q, k, v: standard normal values
  void clear_results();           // to NaN
  std::pair<std::vector<std::uint16_t>, std::vector<float>> results() const;
  Problem problem() const;

 private:
  Shape shape_;
  DeviceMemory q_, k_, v_, out_, lse_;
};

struct Candidate {
  std::string name;
  std::function<void()> launch;  // queues one call
};
std::vector<Candidate> candidates(const Operands& operands);

struct Times {
  std::string name;
  double median_s, low_s, high_s;  // of a call; over the rounds
  double tflops;                   // by the median: 4 S S 128 a head, half of it for causal
};

// In every round all candidates, in a new random order: who runs after a slow one finds a cooler, faster GPU.
// Several calls at a time, queued behind copies that take longer than the queueing: no launch is timed.
std::vector<Times> time_shuffled(const std::vector<Candidate>& candidates, const Shape& shape, int rounds,
                                 std::uint64_t seed);

}  // namespace cplab::kernels::cuda::hopper::rungs

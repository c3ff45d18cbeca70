// Whoever measures: the GPUs of this machine, or in tests somebody who makes it up.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/machine.hpp"

namespace cplab::measure {

class Measurer {
 public:
  virtual ~Measurer() = default;
  virtual const Machine& machine() const = 0;
  // The part of that name; points that would begin after `most_s` are left out. `channels`: multiprocessors
  // that the largest exchange over NCCL holds, 0: unknown. Throws Error.
  virtual Measurement measure(std::string_view part, double most_s, int channels) = 0;
  // Of one attention kernel, always the same, as the GPU is now.
  virtual double reference_s() = 0;
  // How far a small attention is off from a sum in double on the host; empty: it is right.
  virtual std::string wrong_results() = 0;
  // Other processes that were on the GPUs before anything of ours was.
  virtual std::vector<std::string> others() const = 0;
  virtual std::string clocks() const = 0;  // "1980 MHz, at most 1980 MHz" of the first GPU
  virtual double now_s() const = 0;
};

struct GpuRequest {
  int gpus = 0;  // the first of this machine; 0: all
  std::uint64_t seed = 1;
  std::vector<AttentionShape> asked = {};  // attention beside the grid, of head size 64 or 128
  // Of several nodes: what makes a process on each other one call measure_between_nodes with this id.
  int nodes = 1;
  std::function<void(const std::string& id)> call_others = {};
};

// Throws Error with what is missing: GPU code in this build, NCCL, or a GPU.
std::unique_ptr<Measurer> gpu_measurer(const GpuRequest& request);

}  // namespace cplab::measure

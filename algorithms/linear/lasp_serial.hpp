// The kernels of lasp_naive and lasp_cache: one that walks a stretch serially and leaves its own state, then
// what entered by framework operations.
#pragma once

#include "algorithms/linear/coupled.hpp"

namespace cplab {

class LaspSerial : public Coupled {
 public:
  using Coupled::Coupled;

 protected:
  void kernels(const LinearTensors&, bool reverse, const Box& entered, const Box& leaving) override;

 private:
  void add(Builder::Named from, Builder::Named state, Builder::Named into) const;

  const std::vector<Chunk> stretches_ = s.chunks(INT64_MAX);
};

}  // namespace cplab

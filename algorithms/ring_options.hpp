// The free choices of ring attention, parsed once.
#pragma once

#include <cstdint>

#include "algorithms/softmax_sum.hpp"
#include "plan/plan.hpp"

namespace cplab {

struct RingOptions {
  std::int64_t kv_slots = 2;  // or SoftmaxSumOptions::all
  std::int64_t compute_lanes = 2;
  SoftmaxSumOptions sum;
  Role gradient_wire = Role::wide;
  bool overlap = true;
  bool copy_tiles = false;  // tile_inputs="copy": slot 0 copies K and V, part tiles read contiguous copies
  Transport transport = Transport::nccl;
};

RingOptions ring_options(const Schedule& resolved);

void build_ring(Builder&);

}  // namespace cplab

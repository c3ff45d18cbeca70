// The free choices of ring attention, parsed once.
#pragma once

#include <cstdint>

#include "algorithms/core/algorithm.hpp"
#include "algorithms/core/rotation.hpp"
#include "algorithms/softmax/softmax_sum.hpp"
#include "plan/islands.hpp"
#include "plan/plan.hpp"

namespace cplab {

struct RingOptions {
  std::int64_t kv_slots = 2;  // or SoftmaxSumOptions::all
  std::int64_t compute_lanes = 2;
  SoftmaxSumOptions sum;
  Role gradient_wire = Role::wide;
  bool overlap = true;
  int lane = 0;             // the first of its communication lanes
  bool copy_tiles = false;  // tile_inputs="copy": slot 0 copies K and V, tiles of some rows read copies
  TransportChoice transport = Transport::nccl;
  Travel travel = Travel::whole;
  std::int64_t dkv_tile_heads = 0;  // key heads whose gradients a tile computes at a time; 0: all
  bool keeps_own_kv = false;        // the backward reads the own K and V where they are
  bool sums_in_tiles = false;       // gradient_sum="fused": attention kernels add to what has come
  std::int64_t parts = 1;           // in which rows travel
  bool latents = false;             // travels="latent": they travel in the place of K and V
};

RingOptions ring_options(const Schedule& resolved);

// What an algorithm registers that runs rings, and which combinations of them it refuses.
std::vector<OptionInfo> ring_option_infos();
OptionInfo own_kv_option();  // of a ring whose K and V are inputs, which are there in the backward anyway
// Of a ring over all ranks, with what resolve_whole_ring_defaults() puts where an option is not given, in
// words for lists.
std::vector<OptionInfo> whole_ring_option_infos();
void resolve_whole_ring_defaults(Scenario&);
// Of an algorithm that runs rings over all ranks by views, and sums gradients apart: an Algorithm without
// name, with these options, their defaults and tests.
Algorithm algorithm_of_rings(void (*build)(Builder&));
void resolve_plain_ring_defaults(Scenario&);
void validate_plain_rings(const Scenario&);
// For every ring of one replica, the tokens of its members: of their queries and of the keys that travel.
struct RingTokens {
  Distribution queries, keys;
};
void resolve_ring_defaults(Scenario&, const std::vector<RingTokens>& rings);
void validate_ring_options(const Schedule&);

}  // namespace cplab

// Time and memory of the attention of one layer under a layout: the plan of its CP group, simulated on the
// GPUs that the group has; or, for decoding over shards of a cache, a stated formula.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "decide/layout.hpp"
#include "decide/model.hpp"
#include "decide/resources.hpp"
#include "plan/plan.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// One row of a micro-batch as one CP group sees it.
struct AttentionCase {
  std::size_t kind = 0;  // of Model::attention
  std::int64_t tp = 1, cp = 1;
  std::int64_t batch = 1;     // rows of `sequence` tokens at once
  std::int64_t sequence = 0;  // tokens of a row
  std::int64_t document = 0;  // the row is made of documents of so many tokens; 0: of one
  bool backward = true;
  bool full = false;    // every token sees the whole document: what algorithms cut a causal mask into
  bool decode = false;  // one query token a row, over keys of the whole row that the CP ranks share
  auto operator<=>(const AttentionCase&) const = default;
};

struct AttentionCost {
  double forward_s = 0, backward_s = 0;
  double low = 1, high = 1;  // factors: the band around both
  // Of the rank that is exposed longest: time in which it only communicates, and in which it waits for a
  // peer.
  double exposed_transfer_s = 0, exposed_wait_s = 0;
  OriginSeconds origins;     // of forward_s + backward_s
  ResourceSeconds critical;  // the same by what the path that ends last uses
  std::int64_t saved_bytes =
      0;  // q, k, v, out, lse and what else the plan keeps, of the rank that keeps most
  std::int64_t transient_bytes = 0;  // what its peak has beside them
  // Empty: the plan is of this very attention. Else what the formula stands for: "decode over shards of the
  // cache".
  std::string formula;
};

// Of the ranks that were planned, the most.
struct AttentionMemory {
  std::int64_t saved_bytes = 0, transient_bytes = 0;
};

// The scenario whose plan stands for that attention. Throws ScenarioError where the algorithm cannot do it.
Scenario scenario_of(const Model&, const AttentionCase&, const AttentionChoice&,
                     const Hardware& group_machine);
// The machine as the members of a CP group see it that are `tp` GPUs apart: their share of each node and of
// its NICs.
Hardware every_nth_gpu(const Hardware&, std::int64_t tp);
// Every choice that may be legal there, best known first: (algorithm, placement, schedule). `scenario_of`
// decides.
std::vector<AttentionChoice> choices_of(const Model&, const AttentionCase&, const Hardware& group_machine);

class LayerAttention {
 public:
  LayerAttention(const Model& model, const Hardware& hardware);
  ~LayerAttention();

  // Throws ScenarioError, HardwareError, StalledError. Each case is simulated once.
  const AttentionCost& cost(const AttentionCase&, const AttentionChoice&);
  // The same work on one GPU, of which no algorithm can do with less than its share: as one causal call, or
  // as the full calls that algorithms cut it into, where kernels take less for each pair of these.
  AttentionCost alone(AttentionCase);
  Plan plan(const AttentionCase&, const AttentionChoice&) const;
  // By the plans of the first rank, the last and the one in the middle, which are where placements differ
  // most; nothing is simulated. Throws as cost().
  AttentionMemory memory(const AttentionCase&, const AttentionChoice&);

 private:
  using Key = std::tuple<AttentionCase, std::string, std::string, std::string>;
  const Hardware& machine(std::int64_t tp) const;
  AttentionCost simulate_case(const AttentionCase&, const AttentionChoice&) const;
  AttentionCost tree_decode(const AttentionCase&) const;

  const Model& model_;
  const Hardware hardware_;                            // with attention kernels as a step holds them
  mutable std::map<std::int64_t, Hardware> machines_;  // by tp
  std::map<Key, AttentionCost> known_;
  std::map<Key, AttentionMemory> memories_;
};

}  // namespace cplab

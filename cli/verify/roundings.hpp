// How often a plan rounds each result to the nominal dtype: the plan's part in the tolerances of `verify`
// (tolerance.hpp).
#pragma once

#include "plan/plan.hpp"

namespace cplab {

// Roundings to the nominal dtype that a plan subjects one tensor to; of the rank with the most.
struct Roundings {
  bool tiles = false;     // results of tiles are stored in nominal
  double running = 0;     // merges and additions into nominal, mean number per element of the tensor
  double casts = 0;       // conversions to nominal, likewise
  double tile_count = 0;  // tiles per rank
  bool sliced = false;    // parts of a tile's result are rounded to nominal before they are summed
  double operations = 0;  // that merge or add into nominal, of a rank: no element has more of them
};

struct PlanRoundings {
  Roundings out, dq, dkv;
  // Linear attention: conversions to nominal that a state goes through between ranks; of the state with most.
  double state_casts = 0;
};

// Counts them by following the results of attend and attend_backward, or of the operations of linear
// attention, through copies, casts, additions and communication. fp64 problems and plans without attention
// give zeros.
PlanRoundings count_roundings(const Plan& plan);

}  // namespace cplab

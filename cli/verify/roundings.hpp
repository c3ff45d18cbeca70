// How often a plan rounds each result to the nominal dtype: the plan's part in the tolerances of `verify`
// (tolerance.hpp).
#pragma once

#include <vector>

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

// Variances of the errors that K and V have where they are made of latents (tolerance.hpp): of an element
// relative to its square by its own size, and on average by the terms of its sum too; and by these alone,
// element by element.
struct ProjectedErrors {
  double own = 0, average = 0;
  std::vector<double> k, v;  // [N,G,D], [N,G,E]
};

struct PlanRoundings {
  Roundings out, dq, dkv;
  // Latent keys and values: of the gradients of latents; dkv are then those of the K and V that are made of
  // them. projected: null, until whoever knows their data fills it in.
  Roundings dlatent;
  const ProjectedErrors* projected = nullptr;
  // Linear attention: conversions to nominal that a state goes through between ranks; of the state with most.
  double state_casts = 0;
  // Likewise, with a transition of every token: its kernels take blocks of tokens and round rows and states
  // before they multiply them, as those on GPUs do; the CPU's go token by token. Not the plan's: whoever
  // executes it says so.
  bool by_blocks = false;
};

// Additions into a result that is stored in nominal, how many to each element, beside what the plan has: of
// results that somebody else's implementation computed, who says so. dkv: dk and dv.
struct DeclaredSums {
  double out = 0, dq = 0, dkv = 0;
};
void add_declared(const DeclaredSums& sums, PlanRoundings& roundings);

// Counts them by following the results of attend and attend_backward, or of the operations of linear
// attention, through copies, casts, additions and communication. fp64 problems and plans without attention
// give zeros.
PlanRoundings count_roundings(const Plan& plan);

}  // namespace cplab

// What a right execution gives, sequence by sequence, and how far off it may be.
#pragma once

#include <map>
#include <string_view>
#include <vector>

#include "cli/progress.hpp"
#include "cli/verify/row_sample.hpp"
#include "cli/verify/states.hpp"
#include "cli/verify/tensors.hpp"
#include "cli/verify/tolerance.hpp"
#include "plan/plan.hpp"

namespace cplab {

// A right result of one sequence and how far off a right execution may be, in the axes of the tensor but B;
// of states [edges,H,D,E].
struct ExpectedTensor {
  std::vector<double> right;
  ExpectedError error;
};
using Expected = std::map<std::string_view, ExpectedTensor>;  // by name; empty where there are no tokens

// By sequence: the outputs of the problem (plan/tensors.hpp); of linear attention also `state` and `dstate`,
// of keys and of queries, at the edges of that sequence. Tells `progress` the stages if there is one. With a
// `sample` other rows may hold anything: softmax attention computes no more than it needs for these.
// `by_blocks`: PlanRoundings::by_blocks; `sums`: roundings beside those of the plan.
std::vector<Expected> expected_results(const Plan& plan, const Inputs& inputs, const StateEdges& edges,
                                       Progress* progress, const SampledRows* sample = nullptr,
                                       bool by_blocks = false, const DeclaredSums& sums = {});

// Of the only sequence of a problem that has no other, without states.
Expected expected_result(const Problem& problem, const PlanRoundings& roundings, const Inputs& inputs);

}  // namespace cplab

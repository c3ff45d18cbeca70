// Every choice that a scenario of an algorithm leaves, as dimensions with a few values each: what the bulk
// runs (tests/grid) and the properties (tests/properties) cover. Options come from the registry, so that a
// new algorithm or option needs no edit here.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "algorithms/core/algorithm.hpp"
#include "plan/problem.hpp"
#include "tests/scenarios/covering.hpp"

namespace cplab::testing {

struct Value {
  std::string name;
  std::function<void(Scenario&)> choose;
};
struct Dimension {
  std::string name;
  std::vector<Value> values;
};

// Options of the algorithm's own (`common`: also those that all algorithms have). Options that restrict each
// other, as a merge that refuses a number of slots, are one dimension of their legal combinations, its parts
// named in order ("deferred/all"; "-": has no value beside the others). An option of any count has its two
// least values and its default.
// Those that the algorithm has for its own kind of attention; or for linear attention beside it.
std::vector<Dimension> option_dimensions(const Algorithm&, bool common);
std::vector<Dimension> option_dimensions(const Algorithm&, bool common, Attention, bool latents = false);
Dimension placement_dimension(const Algorithm&);
Dimension ranks_dimension(const std::vector<int>& ranks);
Dimension mask_dimension();                                        // causal or not, windows
Dimension heads_dimension(const std::vector<std::string>& pairs);  // "H:G"
Dimension size_dimension(const std::vector<std::string>& sizes);   // "D" or "D/E"; sets the scale to D^-0.5
// Dense and packed, even and odd, empty, padded, and so padded that some rank holds padding alone. `scale`
// stretches them. Needs the ranks.
Dimension length_dimension(std::int64_t scale);
Dimension dtype_dimension(const std::vector<DType>& dtypes);
Dimension direction_dimension();
Dimension max_logit_dimension();  // true only where the attention has it
// Of linear attention: decays (some slopes, the extremes 0 and 8), gates of heads and of columns, delta
// rules, as the algorithm takes them. Of other algorithms one value that changes nothing.
Dimension transition_dimension(const Algorithm&);
// A convolution before Q, K and V: none, or over so many tokens where what is computed is linear attention,
// which must have been chosen before.
Dimension convolution_dimension();
// Bias and keep mask of algorithms that have dynamic mask attention, "none" being softmax; "linear ..." of
// those that compute linear attention beside it; of others one value that changes nothing. To be chosen
// before max_logit.
Dimension pair_mask_dimension(const Algorithm&);
// What queries see beside mask and window, and keys of their own: "own" is neither.
Dimension keys_dimension(const Algorithm&);
Dimension replica_dimension();  // one, two, and two whose ranks lie interleaved; needs the ranks

// The values of a case, applied in the order of the dimensions, resolved (resolve_with_heads), without
// options that are not for its kind of attention. Throws ScenarioError where the algorithm refuses the
// combination.
Scenario scenario_of(const Algorithm&, const std::vector<Dimension>&, const Case&);
std::string describe(const std::vector<Dimension>&, const Case&);  // "ranks=3, merge=fused, ..."

// Few cases in which every combination of the values of any `strength` dimensions occurs that the algorithm
// accepts; `impossible` counts the others.
std::vector<Case> cases_of(const Algorithm&, const std::vector<Dimension>&, std::size_t strength,
                           std::size_t* impossible = nullptr);
// Combinations of that strength that no case of the list contains, impossible ones included.
std::size_t uncovered(const std::vector<Dimension>&, std::size_t strength, const std::vector<Case>&);

}  // namespace cplab::testing

// A scenario for tests that need some built plan, no matter which algorithm wrote it.
#pragma once

#include <string>
#include <vector>

#include "algorithms/core/algorithm.hpp"
#include "plan/problem.hpp"

namespace cplab::testing {

// The first algorithm of the registry that takes every placement and any number of heads on any number of
// ranks, else the first that takes the placement (empty: any). Tests that are about one algorithm name it
// instead; those that are about all of them go through the registry (scenarios_of.hpp).
std::string any_algorithm(const std::string& placement = {});

// The problem becomes one of that kind of attention, which the others' numbers are changed for: linear
// attention is causal, has no window, as many key heads as heads, and slopes.
void take_attention(Problem& problem, Attention attention);
// Latent keys and values, as many of their heads as of queries.
void take_latents(Problem&);

// resolve() of algorithms/, for whatever algorithm: a decay gets slopes for all heads (those that there are,
// again and again; else some of every size), and one that refuses the numbers of heads, as those that
// split heads over the ranks may, gets `ranks` times as many of each. Throws ScenarioError if it refuses that
// too.
Scenario resolve_with_heads(const Scenario&);

// Resolved: 2 sequences of 96 tokens, H = 4, G = 2 (linear attention: 4), D = E = 8, causal, bf16, both
// directions, in the algorithm's default placement and schedule.
Scenario any_scenario(int ranks, const std::string& algorithm = any_algorithm());

// The kind of attention that the algorithm computes: the first one that it does not refuse, with any
// transition.
Attention attention_of(const std::string& algorithm);
// The first placement in which an algorithm of another kind computes linear attention as well; empty: none.
std::string placement_for_linear_too(const Algorithm&);
// take_attention for that algorithm, with the first transition that it does not refuse.
void suit(Problem& problem, const std::string& algorithm);

// The algorithms of the registry that compute that kind, for tests that are about one.
std::vector<Algorithm> algorithms_for(Attention);

}  // namespace cplab::testing

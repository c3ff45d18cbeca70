// Every algorithm and placement there is. The algorithms are those named in CMakeLists.txt: SUBJECT/NAME.cpp
// exports NAME_algorithm().
#include "algorithms/core/list.hpp"

#include <algorithm>
#include <array>

#include "algorithms/core/options.hpp"

namespace cplab {

#define CPLAB_ALGORITHM(name) Algorithm name##_algorithm();
#include "named_algorithms.inc"
#undef CPLAB_ALGORITHM

std::span<const Algorithm> algorithms() {
  static const std::vector<Algorithm> all = [] {
    std::vector<Algorithm> named{
#define CPLAB_ALGORITHM(name) name##_algorithm(),
#include "named_algorithms.inc"
#undef CPLAB_ALGORITHM
    };
    for (Algorithm& algorithm : named) {
      const std::vector<OptionInfo> common = common_options();
      algorithm.options.insert(algorithm.options.end(), common.begin(), common.end());
    }
    return named;
  }();
  return all;
}

std::span<const PlacementInfo> placements() {
  static const std::array<PlacementInfo, 7> all{{
      {"contiguous", {}, "rank p holds the p-th of P equal pieces of every sequence"},
      {"zigzag",
       {"head-tail", "headtail", "dual-chunk"},
       "2P chunks, rank p holds chunks p and 2P-1-p: causal work is equal"},
      {"striped", {"stripe"}, "rank p holds tokens p, p + P, p + 2P, ..."},
      {"stream",
       {"token-stream"},
       "rank p holds the p-th of P equal pieces of all sequences together, which begin anywhere"},
      {"hybrid",
       {"hybrid-cp"},
       "short sequences whole on one rank each, so that none of their keys travel, longer ones cut as in "
       "zigzag; "
       "parallel.homes says which"},
      {"balanced",
       {"magi", "dispatch", "load-balanced"},
       "chunks of all sequences together, shared out so that every rank has equally many visible pairs and "
       "tokens (MagiAttention's dispatch)"},
      {"dynamic",
       {"dynamic-cp", "dynamic-context-parallel"},
       "every sequence cut over its own group of 1, 2, 4, ... ranks, by its length and "
       "parallel.tokens_per_rank"},
  }};
  return all;
}

const Algorithm* find_algorithm(std::string_view name) {
  for (const Algorithm& a : algorithms())
    if (a.name == name || std::find(a.aliases.begin(), a.aliases.end(), name) != a.aliases.end()) return &a;
  return nullptr;
}

const PlacementInfo* find_placement(std::string_view name) {
  for (const PlacementInfo& p : placements())
    if (p.name == name || std::find(p.aliases.begin(), p.aliases.end(), name) != p.aliases.end()) return &p;
  return nullptr;
}

}  // namespace cplab

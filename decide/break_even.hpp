// Where the answer changes: from which length context parallelism pays, at which length algorithms change
// places, from which speed of the NICs on an exchange hides.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "decide/search.hpp"

namespace cplab {

struct BreakEven {
  std::string what;         // a sentence
  std::int64_t tokens = 0;  // the length; 0: the sentence is about something else, or there is none
  double bytes_s = 0;       // of a NIC; 0: as above
};

// Best time at one length with and without context parallelism; 0: nothing fits.
struct LengthPoint {
  std::int64_t tokens = 0;
  double with_s = 0, without_s = 0;  // a token of the step, all GPUs
};

LengthPoint with_and_without(const Model&, const Training&, const Hardware&, const SearchSpace&,
                             std::int64_t tokens);
// "Context parallelism pays from 32768 tokens on: 3.1 % more tokens a second ...". Of lengths that are powers
// of two from 4K to 1M, found by halving: where it pays it is taken to pay at every longer one too.
BreakEven pays_from(const Model&, const Training&, const Hardware&, const SearchSpace&);
// At the layout's tp and cp: which algorithm is fastest, of 4K tokens, four times as many, ... 1M; and where
// between them it changes.
std::vector<BreakEven> changes_of_algorithm(const Model&, const Training&, const Hardware&,
                                            const ModelLayout&, const SearchSpace&);
// Of a layout whose CP group spans nodes: the speed of a NIC from which its attention has less than `share`
// exposed.
std::optional<BreakEven> nic_that_hides(const Model&, const Training&, const Hardware&, const ModelLayout&,
                                        double share = 0.05);

}  // namespace cplab

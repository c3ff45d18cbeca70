// Random distributions for tests, and what each member holds, row by row.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "algorithms/core/distribution.hpp"

namespace cplab::testing {

using Token = std::pair<std::int64_t, std::int64_t>;  // sequence, position in it; padding counts too

struct RandomDistribution {
  int members = 3;
  std::vector<std::int64_t> lengths;  // of the sequences; 0 is a length
  std::int64_t heads = 4;
  bool parts_heads = false;   // each member holds some of the heads
  bool replicated = false;    // a token may lie with several members, or with none
  bool somewhere = true;      // every token lies with a member at least
  bool rows_in_order = true;  // else runs lie anywhere in the buffer, some with rows between theirs
};

// Sequences are cut into runs of random strides (1, 2, 3) and lengths, each given to a random member.
Distribution random_distribution(const RandomDistribution&, std::mt19937_64&);

// By row of the member's buffer: which token lies there; rows of no run are not in the map.
std::map<std::int64_t, Token> tokens_of(const Holding&);
// The other way round.
std::map<Token, std::int64_t> rows_of(const Holding&);

}  // namespace cplab::testing

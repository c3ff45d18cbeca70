// Right plans written by hand in which a key head's gradient is summed up from query heads that several
// operations and ranks hold.
#pragma once

#include <cstdint>

#include "plan/plan.hpp"

namespace cplab::hand {

// How the gradients of key heads that several ranks hold come together on the ranks of their tokens.
enum class Home : std::uint8_t {
  reduce_scatter,  // of all key heads; a rank sends zeros for those that it does not hold
  exchange,        // every rank sends what it holds; one add for each peer, the last first
  all_reduce,      // the holders of a key head sum first, then the first of them sends; P a multiple of G
};

struct Replicas {
  std::int32_t heads = 8, kv_heads = 2;  // query heads a multiple of `ranks`
  int ranks = 4;
  std::int64_t rows = 4;  // tokens of a rank
  Home home = Home::reduce_scatter;
  std::int32_t at_once = 0;  // at most so many query heads in an operation; 0: all of a key head
  DType dtype = DType::fp64;
};

// Ulysses with grouped heads: a rank has H / P query heads of all tokens, and the key heads that these need,
// be it all or some of the query heads of each; causal. The traded dO and the gradients that arrive share a
// slab, and the forward's tiles wait for the start of a barrier.
Plan replicated(const Replicas&);

}  // namespace cplab::hand

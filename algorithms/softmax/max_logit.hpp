// The largest logit of each query head, over all ranks (TransformerEngine's max_logit): its output, the boxes
// that tiles raise, and the maximum over the ranks. Where the problem does not ask for it, nothing is
// declared, every box is absent and nothing is emitted.
#pragma once

#include <map>

#include "algorithms/core/builder.hpp"

namespace cplab {

class MaxLogit {
 public:
  // Declares output max_logit [H], wide, and sets it to -inf.
  explicit MaxLogit(Builder&);

  // For Builder::Attend on that compute lane: of all query heads of the problem, to be narrowed to those of
  // the tile. Lane 0 raises the output; every other lane has a row of its own, set to -inf at its first tile,
  // for lanes that raised one row would wait for each other.
  Box of(Lane);

  // After the last tile: the maximum over the lanes, on compute lane 0, and over the team, on `lane`. Heads
  // that a member had no tile of are -inf there, so members may have had different heads.
  void finish(Lane lane, TransportChoice, const Team&);

 private:
  Builder& b_;
  Box output_;
  std::map<int, Box> others_;  // by the lane's index
};

}  // namespace cplab

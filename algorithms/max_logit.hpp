// The largest logit of each query head, over all ranks (TransformerEngine's max_logit): its output, the boxes
// that tiles raise, and the maximum over the ranks. Where the problem does not ask for it, nothing is
// declared, every box is absent and nothing is emitted.
#pragma once

#include <cstdint>

#include "algorithms/builder.hpp"

namespace cplab {

class MaxLogit {
 public:
  // Declares output max_logit [H], wide, and sets it to -inf. Tiles run on compute lanes 0 .. lanes - 1: each
  // further lane has a row of its own, for lanes that raised one row would wait for each other.
  explicit MaxLogit(Builder&, std::int64_t lanes = 1);

  // For Builder::Attend on that lane: query heads [begin, end), numbered as the problem does.
  Box heads(Lane, std::int64_t begin, std::int64_t end) const;

  // After the last tile: the maximum over the lanes, on compute lane 0, and over the team, on `lane`. Heads
  // that a member had no tile of are -inf there, so members may have had different heads.
  void finish(Lane lane, Transport, const Team&);

 private:
  Box of_lane(std::int64_t index) const;

  Builder& b_;
  std::int64_t lanes_;
  Box output_, others_;  // others_: the rows of lanes 1, 2, ...
};

}  // namespace cplab

// A view as contiguous pieces of memory: what its message is on the wire.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace cplab {

// Bytes [offset, offset + bytes) of a buffer, counted from the buffer's first.
struct Piece {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  bool operator==(const Piece&) const = default;
};

// The bytes of a view in message order (plan.hpp, struct View), as few pieces as that order allows. The view
// lies within its buffer. Rows of a row map count in the map's order.
std::vector<Piece> contiguous_pieces(const RankPlan&, const View&, DType nominal);
// How many these are, without listing them; quick also for very many rows, unless the view takes part of a
// plane's columns.
std::int64_t count_contiguous_pieces(const RankPlan&, const View&, DType nominal);

}  // namespace cplab

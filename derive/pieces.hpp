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
// lies within its buffer. Rows of a row map count in the map's order. Of planes that lie apart
// (Buffer::apart) the second counts as if it lay behind the first, in pieces of its own.
std::vector<Piece> contiguous_pieces(const RankPlan&, const View&, DType nominal);
// How many these are, without listing them; quick also for very many rows, unless the view takes part of a
// plane's columns.
std::int64_t count_contiguous_pieces(const RankPlan&, const View&, DType nominal);

// Lists of pieces of one length in bytes, cut wherever one of them is: afterwards piece i of every list has
// the same bytes. Nothing is cut twice, so the runs are as few as the lists allow.
void cut_alike(std::vector<std::vector<Piece>>& lists);

// `count` pieces of `bytes` each, one after another at these distances at either end of a message: what a
// copy engine moves in one call (cudaMemcpy2DAsync).
struct StridedPieces {
  std::int64_t from = 0, into = 0, bytes = 0, count = 1, from_stride = 0, into_stride = 0;
  bool operator==(const StridedPieces&) const = default;
};
constexpr std::int64_t most_stride = (std::int64_t{1} << 31) - 1;  // of such a call

// Two lists that cut_alike has cut, in their order; neighbours of one length at one distance, at least the
// length and at most most_stride, are taken together.
std::vector<StridedPieces> strided_pieces(const std::vector<Piece>& from, const std::vector<Piece>& into);

}  // namespace cplab

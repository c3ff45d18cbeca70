// Sequences cut at the borders of ranks, for linear attention: which tokens of which sequence a rank holds in
// a row, and what passes through it from one edge of its tokens to the other.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/core/distribution.hpp"
#include "plan/plan.hpp"

namespace cplab {

// Consecutive tokens of one sequence, at rows row, row + 1, ... of a rank (padding rows are none of them).
struct Stretch {
  std::int64_t sequence = 0;
  std::int64_t row = 0, count = 0;
  // The numbers of the states that cross the rank's left and right edge within this sequence; -1: none does.
  std::int32_t left = -1, right = -1;
};

// How a state goes through the tokens of a rank, or of several: decayed by `count` tokens, or not at all
// because its sequence ends there.
struct Passage {
  std::int64_t count = 0;
  bool resets = false;
};

// The stretches of all ranks of a group, from consecutive tokens at every one of them. Without `stream` a
// rank has a stretch of every sequence (placement contiguous), and a state of each of them crosses every
// edge. stream: sequences begin and end anywhere, and one state crosses an edge, of the sequence that lies
// there (zero where one ends).
class Stretches {
 public:
  Stretches(const Distribution&, bool stream);

  int ranks() const { return static_cast<int>(stretches_.size()); }
  std::int64_t states() const { return states_; }  // that cross an edge
  // Every rank has a stretch of every sequence (contiguous), and stretch i has state i at both edges.
  bool of_every_sequence() const { return of_every_sequence_; }
  const std::vector<Stretch>& of(int place) const { return stretches_[static_cast<std::size_t>(place)]; }
  // How state s passes through the tokens of that rank, from left to right or, `reverse`, from right to left.
  Passage through(int place, std::int64_t state, bool reverse) const;
  bool crosses_left(int place) const;  // some sequence has tokens on both sides of that edge
  bool crosses_right(int place) const;

  // The tokens of a rank as chunks of at most `rows`; every stretch begins a run of chunks. A stretch without
  // tokens that is crossed is one empty chunk. Chunk i has state i.
  std::vector<Chunk> chunks(int place, std::int64_t rows) const;
  // The most tokens of a stretch, and the most stretches of a rank.
  std::int64_t longest() const;
  std::int64_t most() const;

 private:
  bool of_every_sequence_ = true;
  std::int64_t states_ = 0;
  std::vector<std::vector<Stretch>> stretches_;  // by place
};

}  // namespace cplab

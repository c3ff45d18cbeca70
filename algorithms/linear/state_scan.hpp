// States on their way through the ranks: the moves of a scan as messages and combinations of states.
//
// A scan has indices 0 .. P - 1. Forward, index i is position i of the group; in the backward states of
// queries go from right to left, and index i is position P - 1 - i. Here, and nowhere else, is an index
// mapped to a position, and through the team to a global rank.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "algorithms/linear/linear.hpp"
#include "algorithms/linear/scan.hpp"

namespace cplab {

class StateScan {
 public:
  // `on`: the lane of messages; `combining`: of the combinations.
  StateScan(const LinearScope&, bool reverse, Lane on = state_lane, Lane combining = linear_lane);

  const bool reverse;
  bool nominal_wire() const { return nominal_wire_; }  // states are sent in another dtype than they have
  int index() const { return index_of(s_.place()); }
  int place_of(int index) const { return reverse ? s_.P() - 1 - index : index; }
  int index_of(int place) const { return place_of(place); }  // its own inverse

  // The first message waits until that operation has started: a receive that is posted long before its peer
  // can send only holds multiprocessors.
  void begin_after_start_of(std::uint32_t operation) { begin_after_ = operation; }

  // The moves of an inclusive scan in place: element e, at index e + `offset`, is the tokens of index e.
  // Moves of which nothing comes to an index whose state is needed are left out, on all ranks alike.
  void inclusive(const std::vector<ScanRound>&, const Box& partial, int offset = 0);
  // Along every move what `from` holds goes into `into` of its receiver, all at the same time. Nothing is
  // combined, and moves whose result no rank needs are made as well.
  void move(const ScanRound&, const Box& from, const Box& into);
  // Every index sends its state to the next, which receives it into `carry`: one round.
  void shift(const Box& from, const Box& carry);
  // One message from an index to the next, if this rank is either of them.
  void hop(int from_index, const Box& from, const Box& into);

  // The moves of the rounds that bring something to an index whose state is needed, and with `total` to the
  // last index of whole sequences; element e of n is at index e + P - n.
  const std::vector<ScanRound>& pruned(const std::vector<ScanRound>&, int n, bool total) const;
  // One round of a scan: the messages of this rank, if it has any.
  void post(const std::vector<Message>&);

  // into += what `from` is behind the tokens of the indices in the span; `transition`: what these do to it,
  // where that is more than a factor for each head.
  void combine(const Box& from, const Box& into, ScanSpan over, const Box& transition = {}) const;
  // into = what the tokens of a span do to a state: what its earlier ones do, `first`, and its later ones,
  // `then`, in the order of the tokens, from whichever side the scan comes.
  void compose(const Box& first, const Box& then, const Box& into, ScanSpan over) const;
  // Whether the index after this one needs a state from here.
  bool needed(int from_index) const;

 private:
  std::vector<ScanRound> prune(const std::vector<ScanRound>&, int n, bool total) const;
  Passage passage(ScanSpan, std::int64_t state) const;
  bool passes(ScanSpan) const;
  std::vector<Chunk> passing(ScanSpan) const;
  Box wire(const char* name, const Box& like);
  Box to_wire(const Box& state);
  void exchange(const std::vector<Message>&);

  const LinearScope& s_;
  Builder& b_;
  Lane on_, combining_;
  bool nominal_wire_;
  int step_ = 0;
  std::optional<std::uint32_t> begin_after_;
};

}  // namespace cplab

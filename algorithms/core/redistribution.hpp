// What has to move so that a tensor that lies in one way lies in another: for every pair of members, which
// rows and heads go from the one to the other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "algorithms/core/distribution.hpp"

namespace cplab {

// A share of a tensor that one member gives to another: the same tokens and heads at both ends, in the order
// of the receiver's runs.
struct Moved {
  RangeList from_rows, into_rows;  // of the giver's and of the receiver's buffer
  HeadRange heads;
};

class Redistribution {
 public:
  // Over the members of one team. Throws std::logic_error unless both have as many.
  Redistribution(Distribution from, Distribution to);
  // The redistribution of some of the heads, which every member has before and afterwards: the same tokens go
  // the same ways.
  Redistribution of_heads(HeadRange) const;

  // What `giver` gives to `receiver`, which may be itself. Of several members that hold a token and head the
  // receiver itself gives it, else the first one.
  std::vector<Moved> moved(int giver, int receiver) const;
  void append_moved(int giver, int receiver, std::vector<Moved>& list) const;
  // all_gather: every member gives all it has to every member, all alike in size. all_to_all: every pair
  // trades, members with themselves too. exchange: some do.
  OpKind kind() const { return kind_; }
  bool parts_heads() const;  // some member holds other heads afterwards
  bool replicates() const { return to_.replicated; }
  HeadRange heads_given(int giver) const { return from_[giver].heads; }

 private:
  // Rows of the same tokens at two members, in the order of the receiver's runs.
  struct CommonRows {
    RangeList from, into;
  };
  struct Known;

  CommonRows find_common_rows(int giver, int receiver) const;
  CommonRows common_rows(int giver, int receiver) const;
  void append_overlap(int giver, int receiver, std::vector<Moved>& list) const;
  OpKind find_kind() const;

  Distribution from_, to_;
  std::shared_ptr<Known> known_;  // about rows: the same whichever heads move
  OpKind kind_;
};

}  // namespace cplab

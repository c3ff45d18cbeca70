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
  // Calls visit(peer, rows of the buffer of the member at `place`, heads) for every share that it gives or
  // that it receives, peer by peer.
  template <class Visit>
  void for_each_share(int place, bool gives, Visit visit) const {
    if (!from_.replicated) {
      for (const Share& share : shares_of(place, gives)) {
        const HeadRange heads = gives ? from_[place].heads.common(to_[share.peer].heads)
                                      : from_[share.peer].heads.common(to_[place].heads);
        if (heads.count() > 0) visit(share.peer, share.rows, heads);
      }
      return;
    }
    for (int peer = 0; peer < from_.size(); ++peer)
      for (const Moved& each : gives ? moved(place, peer) : moved(peer, place))
        visit(peer, gives ? each.from_rows : each.into_rows, each.heads);
  }
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
  // Where every token has one holder: rows that a member and a peer have in common, at the member.
  struct Share {
    int peer = 0;
    RangeList rows;
  };

  // Whichever heads move. Of the member that was asked about last they are remembered: ranks are built one
  // after the other, and a rank that takes its heads a few at a time asks again and again.
  const std::vector<Share>& shares_of(int place, bool gives) const;
  CommonRows find_common_rows(int giver, int receiver) const;
  // What is found is remembered or, where others would have no use for it, put into `own`.
  const CommonRows& common_rows(int giver, int receiver, CommonRows& own) const;
  void append_overlap(int giver, int receiver, std::vector<Moved>& list) const;
  OpKind find_kind() const;

  Distribution from_, to_;
  std::shared_ptr<Known> known_;  // about rows: the same whichever heads move
  OpKind kind_;
};

}  // namespace cplab

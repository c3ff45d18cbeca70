// Which arrow of a trace is whose: for trace.cpp only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "plan/plan.hpp"

namespace cplab {

// Numbers the arrows of all messages of a plan: the same number at both ends, though each end is written with
// another rank. Parts of one ordered pair of ranks in one group match in the order of their posting.
class Arrows {
 public:
  explicit Arrows(const Plan& plan) {
    for (const RankPlan& rank : plan.ranks)
      for_each_part(rank, [&](const Operation& op, const Part& part) {
        Pair& pair = pairs_[key(rank, op, part)];
        ++(part.send ? pair.sends : pair.receives);
      });
    // Dense numbers in an order that no hash decides.
    std::vector<std::uint64_t> keys;
    for (const auto& [key, pair] : pairs_) keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    std::int64_t next = 1;
    for (const std::uint64_t key : keys) {
      Pair& pair = pairs_.at(key);
      const std::int64_t messages = std::max(pair.sends, pair.receives);
      pair.sends = pair.receives = next;
      next += messages;
    }
  }

  // The number of the next arrow of this part's pair, at this part's end. Parts come in order of posting.
  std::int64_t next(const RankPlan& rank, const Operation& op, const Part& part) {
    Pair& pair = pairs_.at(key(rank, op, part));
    return part.send ? pair.sends++ : pair.receives++;
  }

  template <class Visit>
  static void for_each_part(const RankPlan& rank, Visit visit) {
    for (const Operation& op : rank.operations)
      for (const Part& part : rank.parts_of(op))
        if (part.peer != rank.rank) visit(op, part);
  }

 private:
  struct Pair {
    std::int64_t sends = 0, receives = 0;  // counts, then the next number
  };
  static std::uint64_t key(const RankPlan& rank, const Operation& op, const Part& part) {
    const auto self = static_cast<std::uint64_t>(rank.rank), peer = static_cast<std::uint64_t>(part.peer);
    return std::uint64_t{op.group} << 48 | (part.send ? self : peer) << 24 | (part.send ? peer : self);
  }
  std::unordered_map<std::uint64_t, Pair> pairs_;
};

}  // namespace cplab

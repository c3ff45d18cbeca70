// Where a tensor lies: for every member of a team, which tokens and which heads it holds. Values, made from
// one another: all tokens gathered, heads split, only what a member's queries see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "algorithms/core/placement.hpp"
#include "plan/plan.hpp"
#include "plan/visible.hpp"

namespace cplab {

// Heads [begin, end) by their numbers in the problem: query heads or key heads, as the tensor has them.
struct HeadRange {
  std::int64_t begin = 0, end = 0;
  std::int64_t count() const { return end - begin; }
  HeadRange common(HeadRange other) const;
  bool operator==(const HeadRange&) const = default;
};

// A list that is never changed once it is there: members that hold the same tokens share one, and what is
// made from another costs no copy of what stays.
template <class T>
class SharedList {
 public:
  SharedList() = default;
  SharedList(std::vector<T> list)  // NOLINT(google-explicit-constructor): is one
      : list_(std::make_shared<const std::vector<T>>(std::move(list))) {}
  SharedList(std::initializer_list<T> list) : SharedList(std::vector<T>(list)) {}

  operator const std::vector<T>&() const { return list(); }  // NOLINT(google-explicit-constructor)
  auto begin() const { return list().begin(); }
  auto end() const { return list().end(); }
  std::size_t size() const { return list().size(); }
  const T& operator[](std::size_t i) const { return list()[i]; }
  // One list, not only equal ones.
  bool is(const SharedList& other) const { return list_ == other.list_; }
  const void* id() const { return list_.get(); }
  bool operator==(const SharedList& other) const { return is(other) || list() == other.list(); }
  bool operator==(const std::vector<T>& other) const { return list() == other; }

 private:
  const std::vector<T>& list() const {
    static const std::vector<T> none;
    return list_ ? *list_ : none;
  }
  std::shared_ptr<const std::vector<T>> list_;
};
using RunList = SharedList<TokenRun>;
using RangeList = SharedList<RowRange>;

// What one member holds. The runs say at which rows of its buffer the tokens lie.
struct Holding {
  RunList runs;
  HeadRange heads;
  std::int64_t rows() const;  // that a buffer needs: one more than the last row of a run
};

struct Distribution {
  std::vector<Holding> members;  // by place in the team
  bool replicated = false;       // some token and head is held by several members
  bool everywhere = false;       // every member holds all tokens, in rows of the same order

  const Holding& operator[](int place) const { return members[static_cast<std::size_t>(place)]; }
  int size() const { return static_cast<int>(members.size()); }
};

// Where the queries lie that a placement lays out over the ranks of a group: all heads are everywhere. And
// the keys, where they have tokens of their own.
Distribution placed(const Problem&, const Placement&, std::int64_t ranks);
Distribution placed(const Scenario& resolved, int replica);
Distribution placed_keys(const Scenario& resolved, int replica);  // with the heads of queries

// The tokens and heads of all members at every member: their rows one after the other, by place.
Distribution gathered(const Distribution&);

// The same tokens and heads, with the rows of every member laid in the order of its sequences and, within
// one, of the positions. Runs of a larger stride are interleaved where together they are consecutive tokens
// (all ranks of a striped placement), else they stay one after the other. Neighbouring runs become one.
Distribution in_sequence_order(const Distribution&);

// All tokens at every member, in sequence order, and for each member an equal share of the heads, in order.
// Throws std::logic_error unless the number of members divides that of the heads.
Distribution split_heads(const Distribution& tokens);

// The heads in ranges of `width`, the last of what is left.
std::vector<HeadRange> equal_parts(HeadRange, std::int64_t width);

// The key heads that those query heads read: query head h reads key head h * G / H.
HeadRange key_heads(const Problem&, HeadRange query_heads);
Distribution key_heads(const Problem&, const Distribution& of_queries);

// The distribution with other heads, the same at every member.
Distribution with_heads(Distribution, HeadRange);

// All tokens at every member, in sequence order, with the strides of tokens that they have: runs that could
// be interleaved stay one after the other.
Distribution all_tokens(const Distribution&);

// As all_tokens, but of the keys only those that the member's queries see: with a window, those before its
// own.
Distribution seen(const Distribution& queries, const Distribution& keys, const Visible& visible);

}  // namespace cplab

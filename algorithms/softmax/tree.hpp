// Attention whose K and V stay, for few queries: all of them go to every member, and each member's partial
// results come back, merged on the way. The loops are in tree.cpp, what they are made of in
// tree_attention.cpp.
#pragma once

#include <algorithm>
#include <functional>
#include <string_view>
#include <vector>

#include "algorithms/softmax/pass_q.hpp"

namespace cplab {

class Tree final : public SoftmaxAlgorithm {
 public:
  // by_heads: partial results are merged by heads, as in helix.cpp, instead of on the tree.
  Tree(const Scope&, const PassQOptions&, bool by_heads);
  void forward(const Forward&) override;
  void backward(const Backward&) override;
  Lane comm() const override { return o.comm; }

 private:
  // Rows of every member's queries, one block after the other: first the own ones, then those of the members
  // to the left. A block without any token is left out, unless it is the own one.
  Rows blocks(int first, int end) const;
  std::int64_t rows() const { return begins.back(); }
  Box all(const Box& like, Role) const;
  Box all(const Box& like, Role, Layout) const;
  Box incoming(const Box& all) const;

  // How many blocks are as far away as `distance` at the hop of that length.
  int hop(int distance) const { return std::min(distance, s.P() - distance); }
  int longest() const;  // hop: the largest power of two below the number of members
  int to_left(int distance) const { return (s.place() - distance + s.P()) % s.P(); }
  int to_right(int distance) const { return (s.place() + distance) % s.P(); }
  void exchange(std::vector<Message> messages) {
    b.exchange_rows(o.comm, o.transport, s.team, std::move(messages));
  }

  // All members' rows of what each has of its queries: `own` into the like one of `all`.
  void spread(const std::vector<Box>& own, const std::vector<Box>& all);
  // The partial results of the own queries, of all members: join adds what came, of some blocks, to `all`.
  void reduce(const std::vector<Box>& all, const std::vector<Box>& came,
              const std::function<void(const Rows& blocks)>& join);
  // The queries of those blocks, in rows of all; with the own keys: their tile, and what their logits have.
  std::vector<TokenRun> queries(int first, int end) const;
  Tile tile(int first, int end, Take take) const {
    return row_tile(queries(first, end), s.keys[s.place()].runs, b.visible(), take);
  }
  Builder::PairMask mask(const Tile&, const Box& kv, const Box& dkv, const PairBoxes&) const;
  // Rows of all: the own ones count their sinks here.
  struct Attended {
    Box q, bias, out, lse;
  };
  void attend(const Forward&, const Attended&, int first, int end);

  // The same of the forward, by heads: those that a member merges, of all rows.
  void merge_by_heads(const Forward&, const Box& out, const Box& lse);
  HeadRange share(int member) const;
  Box of_share(const Box& all, std::string_view name, int slots) const;
  Box own_rows(const Box& all, std::string_view name) const;
  int other(int member) const { return member < s.place() ? member : member - 1; }
  std::vector<RowRange> in_order_of(int member) const;  // rows of `all` as that member has them
  Rows first_block() const { return Rows::range(0, s.rows); }
  void bring_home(const Box& out, const Box& home, const Box& lse, const Forward&);

  const Scope& s;
  Builder& b;
  const PassQOptions o;
  const bool by_heads;
  std::vector<std::int64_t> begins;  // by block: its first row
  bool has_tokens;                   // this member has queries
};

// What algorithms of few queries register, without a name; and their plans.
Algorithm algorithm_of_few_queries(void (*build)(Builder&));
void build_tree(Builder&, bool by_heads);

}  // namespace cplab

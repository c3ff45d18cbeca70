// Attention whose K and V stay, for few queries: all of them go to every member, and each member's partial
// results come back, merged on the way. The loops are in tree.cpp, what they are made of in
// tree_attention.cpp.
#pragma once

#include <algorithm>
#include <functional>
#include <vector>

#include "algorithms/softmax/pass_q.hpp"

namespace cplab {

class Tree final : public SoftmaxAlgorithm {
 public:
  Tree(const Scope&, const PassQOptions&);
  void forward(const Forward&) override;
  void backward(const Backward&) override;
  Lane comm() const override { return o.comm; }

 private:
  // Rows of every member's queries, one block after the other: first the own ones, then those of the members
  // to the left. A block without any token is left out, unless it is the own one.
  Rows blocks(int first, int end) const;
  std::int64_t rows() const { return begins.back(); }
  Box all(const Box& like, Role) const;
  Box incoming(const Box& all) const;

  // How many blocks are as far away as `distance` at the hop of that length.
  int hop(int distance) const { return std::min(distance, s.P() - distance); }
  int longest() const;  // hop: the largest power of two below the number of members
  int to_left(int distance) const { return (s.place() - distance + s.P()) % s.P(); }
  int to_right(int distance) const { return (s.place() + distance) % s.P(); }
  void exchange(const std::vector<Message>&);

  // All members' rows of what each has of its queries: `own` into the like one of `all`.
  void spread(const std::vector<Box>& own, const std::vector<Box>& all);
  // The partial results of the own queries, of all members: join adds what came, of some blocks, to `all`.
  void reduce(const std::vector<Box>& all, const std::vector<Box>& came,
              const std::function<void(const Rows& blocks)>& join);
  Tile tile(Take) const;

  const Scope& s;
  Builder& b;
  const PassQOptions o;
  std::vector<std::int64_t> begins;  // by block: its first row
  bool has_tokens;                   // this member has queries
};

}  // namespace cplab

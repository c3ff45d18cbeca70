// Heads for tokens and back (DeepSpeed Ulysses, arXiv 2309.14509): the members of a team trade so that each
// holds all of the team's tokens and an equal share of the heads. What is computed between is not asked here:
// softmax/trade.hpp and linear/linear_trade.hpp put it in.
#pragma once

#include <string_view>
#include <vector>

#include "algorithms/core/redistribution.hpp"
#include "algorithms/core/scope.hpp"
#include "algorithms/core/transfer.hpp"

namespace cplab {

struct TradeOptions {
  TransportChoice transport = Transport::nccl;
  std::int64_t most_pieces = 0;     // as TransferOptions
  Role gradient_wire = Role::wide;  // of dK and dV where several members hold a key head
  bool one_by_one = false;          // tensors are traded one after the other; nothing runs beside that
};

class HeadTrade {
 public:
  // `team` trades; `tokens` and `key_tokens` are those of its members, as a scope has them, kept by
  // Builder::shared(). Work that is not communication goes on `compute`.
  HeadTrade(Builder&, const Team& team, const Distribution& tokens, const Distribution& key_tokens,
            TradeOptions, Lane compute, Lane comm);

  bool alone() const { return team_.size() == 1; }  // nothing is traded
  const TradeOptions& options() const { return o_; }
  Lane comm() const { return o_.one_by_one ? compute_ : comm_; }

  // How tensors of the queries' heads go in, and those of the keys'.
  const Redistribution& queries() const { return queries_; }
  const Redistribution& keys() const { return keys_; }
  // Gradients of a key head that several members hold are summed on their way back.
  bool sums_keys() const { return keys_.replicates() && keys_back_ == nullptr; }

  Transfer there(const std::vector<TransferTensor>&) const;
  Transfer back(const std::vector<TransferTensor>&) const;
  // Gradients of keys go to where the keys came from. Where all have these, that is to all.
  Transfer return_keys(std::string_view name, const Box& from, const Box& into) const;
  // Each is packed while the one before it moves; unless they go one by one.
  void run(std::vector<Transfer>) const;

 private:
  Transfer transfer(bool back, const std::vector<TransferTensor>&) const;

  Builder& b_;
  const Team& team_;
  TradeOptions o_;
  Lane compute_, comm_;
  const Redistribution &queries_, &keys_;
  const Redistribution* keys_back_;  // null: the adjoint of keys_
};

// What a rank holds once the whole group has traded: all tokens, with its share of the heads. `self` is the
// rank's team of one (alone()), and outlives what is returned.
Scope scope_of_share(const Scope& whole, const Team& self);

std::vector<OptionInfo> trade_option_infos();
TradeOptions trade_options(const Schedule& resolved);
// Throws ScenarioError unless `members` divides the query heads.
void require_divided_heads(const Scenario&, std::int64_t members, std::string_view members_are);

}  // namespace cplab

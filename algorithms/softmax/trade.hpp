// Heads for tokens and back, around an inner algorithm (DeepSpeed Ulysses, arXiv 2309.14509): the members of
// a team trade so that each holds all of the team's tokens and an equal share of the heads.
#pragma once

#include "algorithms/core/redistribution.hpp"
#include "algorithms/core/transfer.hpp"
#include "algorithms/softmax/softmax.hpp"

namespace cplab {

struct TradeOptions {
  TransportChoice transport = Transport::nccl;
  std::int64_t most_pieces = 0;     // as TransferOptions
  Role gradient_wire = Role::wide;  // of dK and dV where several members hold a key head
  bool one_by_one = false;          // tensors are traded one after the other; nothing runs beside that
};

class Trade final : public SoftmaxAlgorithm {
 public:
  // `team` trades within `outer`; `tokens` and `key_tokens` are those of its members, as a scope has them,
  // kept by Builder::shared(). `inner` runs over `inside`, whose tokens and heads are the traded ones. In a
  // team of one the inner algorithm is all there is.
  Trade(const Scope& outer, const Team& team, const Distribution& tokens, const Distribution& key_tokens,
        const Scope& inside, SoftmaxAlgorithm& inner, TradeOptions);
  void forward(const Forward&) override;
  void backward(const Backward&) override;

  Lane comm() const override;
  // What has been traded is kept.
  bool rereads_kv() const override { return team_.size() == 1 && inner_.rereads_kv(); }

 private:
  void run(std::vector<Transfer>) const;
  Transfer transfer(bool back, const std::vector<TransferTensor>&) const;
  Transfer return_keys(std::string_view name, const Box& from, const Box& into) const;

  const Scope& s_;  // inside
  Builder& b_;
  const Team& team_;
  SoftmaxAlgorithm& inner_;
  TradeOptions o_;
  const Redistribution &queries_, &keys_;
  const Redistribution* keys_back_;  // null: the adjoint of keys_
  Forward traded_;
};

std::vector<OptionInfo> trade_option_infos();
TradeOptions trade_options(const Schedule& resolved);
// Throws ScenarioError unless `members` divides the query heads.
void require_divided_heads(const Scenario&, std::int64_t members, std::string_view members_are);

}  // namespace cplab

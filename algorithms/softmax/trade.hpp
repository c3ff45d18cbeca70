// A trade of heads for tokens (core/head_trade.hpp) around an inner algorithm of softmax attention.
#pragma once

#include "algorithms/core/head_trade.hpp"
#include "algorithms/softmax/softmax.hpp"

namespace cplab {

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

 private:
  const Scope& s_;  // inside
  Builder& b_;
  SoftmaxAlgorithm& inner_;
  const HeadTrade trade_;
  Forward traded_;
};

}  // namespace cplab

// A trade of heads for tokens (core/head_trade.hpp) around an inner algorithm of linear attention. Gates and
// strengths go where the keys go; no state crosses the members of the team.
#pragma once

#include "algorithms/core/head_trade.hpp"
#include "algorithms/linear/linear.hpp"

namespace cplab {

class LinearTrade final : public LinearAlgorithm {
 public:
  // `team` trades within `outer`; `tokens` are those of its members, kept by Builder::shared(). `inner` runs
  // over `inside`, whose tokens and heads are the traded ones. In a team of one the inner algorithm is all
  // there is.
  LinearTrade(const Scope& outer, const Team& team, const Distribution& tokens, const Scope& inside,
              LinearAlgorithm& inner);
  void forward(const LinearTensors&) override;
  void backward(const LinearTensors&) override;
  bool rereads() const override { return trade_.alone(); }

 private:
  Box of_queries(std::string_view name, const Box& like, Category) const;

  const Scope& s_;  // inside
  Builder& b_;
  LinearAlgorithm& inner_;
  const HeadTrade trade_;
  LinearTensors traded_;
};

}  // namespace cplab

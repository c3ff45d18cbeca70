// Trades around an inner algorithm of linear attention; see linear_trade.hpp.
#include "algorithms/linear/linear_trade.hpp"

#include <string>
#include <vector>

namespace cplab {

LinearTrade::LinearTrade(const Scope& outer, const Team& team, const Distribution& tokens,
                         const Scope& inside, LinearAlgorithm& inner)
    : s_(inside),
      b_(outer.b),
      inner_(inner),
      trade_(outer.b, team, tokens, tokens, trade_options(outer.b.scenario().schedule), linear_lane,
             state_lane) {}

// A buffer of the traded rows and heads, with the dtype and the columns of `like`.
Box LinearTrade::of_queries(std::string_view name, const Box& like, Category category) const {
  const Buffer& untraded = b_.declared(like);
  return s_.query_buffer(name, untraded.role, category, 1, s_.rows, untraded.width);
}

void LinearTrade::forward(const LinearTensors& t) {
  if (trade_.alone()) return inner_.forward(t);
  // The backward reads what has been traded; nothing is traded twice.
  const Category kept = b_.between_layers() ? Category::saved : Category::working;
  traded_.q = of_queries("q_traded", t.q, kept);
  traded_.take_kv(b_, s_.kv_buffer("kv_traded", Role::nominal, kept, 1, s_.key_rows));
  std::vector<TransferTensor> with_keys{{"kv", &trade_.keys(), t.kv, traded_.kv}};
  const auto gate = [&](std::string_view name, const Box& from, Box& into) {
    if (!from.given()) return;
    into = of_queries(std::string(name) + "_traded", from, kept);
    with_keys.push_back({name, &trade_.queries(), from, into});
  };
  gate("log_decay", t.log_decay, traded_.log_decay);
  gate("beta", t.beta, traded_.beta);
  trade_.run({trade_.there({{"q", &trade_.queries(), t.q, traded_.q}}), trade_.there(with_keys)});
  traded_.out = of_queries("out_traded", t.out, Category::working);
  inner_.forward(traded_);
  trade_.run({trade_.back({{"out", &trade_.queries(), traded_.out, t.out}})});
}

void LinearTrade::backward(const LinearTensors& t) {
  if (trade_.alone()) return inner_.backward(t);
  using enum Category;
  traded_.dout = of_queries("dout_traded", t.dout, working);
  trade_.run({trade_.there({{"dout", &trade_.queries(), t.dout, traded_.dout}})});
  traded_.dq = of_queries("dq_traded", t.dq, working);
  traded_.take_dkv(b_, s_.dkv_buffer("dkv_traded", Role::nominal, working, 1, s_.key_rows));
  std::vector<TransferTensor> with_keys{{"dkv", &trade_.keys(), traded_.dkv, t.dkv}};
  const auto gate = [&](std::string_view name, Box& from, const Box& into) {
    if (!into.given()) return;
    from = of_queries(std::string(name) + "_traded", into, working);
    with_keys.push_back({name, &trade_.queries(), from, into});
  };
  gate("dlog_decay", traded_.dlog_decay, t.dlog_decay);
  gate("dbeta", traded_.dbeta, t.dbeta);
  inner_.backward(traded_);
  trade_.run({trade_.back({{"dq", &trade_.queries(), traded_.dq, t.dq}}), trade_.back(with_keys)});
}

}  // namespace cplab

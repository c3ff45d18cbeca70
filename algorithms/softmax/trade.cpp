// Trades around an inner algorithm of softmax attention; see trade.hpp.
#include "algorithms/softmax/trade.hpp"

namespace cplab {

Trade::Trade(const Scope& outer, const Team& team, const Distribution& tokens, const Distribution& key_tokens,
             const Scope& inside, SoftmaxAlgorithm& inner, TradeOptions options)
    : s_(inside),
      b_(outer.b),
      inner_(inner),
      trade_(outer.b, team, tokens, key_tokens, options, compute_lane, comm_lane) {}

void Trade::forward(const Forward& f) {
  if (trade_.alone()) return inner_.forward(f);
  const Problem& p = b_.problem();
  // The backward reads what has been traded; nothing is traded twice.
  const Category kept = b_.between_layers() ? Category::saved : Category::working;
  const Category kv_kept = inner_.rereads_kv() ? kept : Category::working;
  traded_.q = s_.query_buffer("q_traded", Role::nominal, kept, 1, s_.rows, p.head_size);
  traded_.kv = s_.kv_buffer("kv_traded", Role::nominal, kv_kept, 1, s_.key_rows);
  traded_.out = s_.query_buffer("out_traded", Role::nominal, Category::working, 1, s_.rows, p.value_size);
  traded_.lse = s_.lse_buffer("lse_traded", kept, 1, s_.rows);
  const Redistribution &queries = trade_.queries(), &of_keys = trade_.keys();
  const TransferTensor q{"q", &queries, f.q, traded_.q};
  // A bias of pairs stays with its queries: it goes where they go.
  std::vector<TransferTensor> of_queries{q};
  const auto pairs = [&](std::string_view name, const Box& from, Box& into) {
    if (!from.given()) return;
    into = s_.query_buffer(std::string(name) + "_traded", Role::nominal, kept, 1, s_.rows, p.pair_columns());
    of_queries.push_back({name, &queries, from, into});
  };
  pairs("bias", f.bias, traded_.bias);
  pairs("keep", f.keep, traded_.keep);
  if (trade_.options().one_by_one)
    trade_.run({trade_.there(of_queries),
                trade_.there({{"k", &of_keys, keys(b_, f.kv), keys(b_, traded_.kv)}}),
                trade_.there({{"v", &of_keys, behind_keys(b_, f.kv), behind_keys(b_, traded_.kv)}})});
  else
    trade_.run({trade_.there(of_queries), trade_.there({{"kv", &of_keys, f.kv, traded_.kv}})});
  traded_.max_logit = f.max_logit;
  traded_.sink = f.sink, traded_.table = f.table;
  inner_.forward(traded_);
  trade_.back({{"out", &queries, traded_.out, f.out}, {"lse", &queries, traded_.lse, f.lse}})
      .all(compute_lane, comm_lane);
}

void Trade::backward(const Backward& g) {
  if (trade_.alone()) return inner_.backward(g);
  delta_by_first_tile(b_, g, false);  // it is traded before any tile
  const Problem& p = b_.problem();
  const Redistribution& to_queries = trade_.queries();
  const auto queries = [&](std::string_view name, std::int64_t width) {
    return s_.query_buffer(name, Role::nominal, Category::working, 1, s_.rows, width);
  };
  Backward t;
  t.q = traded_.q;
  t.kv = traded_.kv;
  t.lse = traded_.lse;
  t.dout = queries("dout_traded", p.value_size);
  t.delta = s_.lse_buffer("delta_traded", Category::working, 1, s_.rows);
  trade_.there({{"dout", &to_queries, g.dout, t.dout}, {"delta", &to_queries, g.delta, t.delta}})
      .all(compute_lane, comm_lane);
  t.dq = queries("dq_traded", p.head_size);
  // The gradients of a key head that several members hold are sums over them.
  const Role wire = trade_.sums_keys() && b_.has_wide() ? trade_.options().gradient_wire : Role::nominal;
  t.bias = traded_.bias;
  t.keep = traded_.keep;
  t.table = g.table, t.dtable = g.dtable;
  if (g.dbias.given()) t.dbias = queries("dbias_traded", p.pair_columns());
  t.dkv = s_.dkv_buffer("dkv_traded", wire, Category::working, 1, s_.key_rows);
  inner_.backward(t);
  const TransferTensor dq{"dq", &to_queries, t.dq, g.dq};
  std::vector<TransferTensor> of_queries{dq};
  if (g.dbias.given()) of_queries.push_back({"dbias", &to_queries, t.dbias, g.dbias});
  if (trade_.options().one_by_one)
    trade_.run({trade_.back(of_queries), trade_.return_keys("dk", keys(b_, t.dkv), keys(b_, g.dkv)),
                trade_.return_keys("dv", behind_keys(b_, t.dkv), behind_keys(b_, g.dkv))});
  else
    trade_.run({trade_.back(of_queries), trade_.return_keys("dkv", t.dkv, g.dkv)});
}

Lane Trade::comm() const {
  return trade_.alone() ? inner_.comm() : trade_.comm();
}

}  // namespace cplab

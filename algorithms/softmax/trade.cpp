// Trades around an inner algorithm; see trade.hpp.
#include "algorithms/softmax/trade.hpp"

#include "algorithms/core/options.hpp"

namespace cplab {

namespace {

// From all heads of the keys at their place to those that a member's share of the query heads reads, or back.
const Redistribution& of_keys(Builder& b, const Distribution& tokens, bool back) {
  const Distribution& placed = b.shared().key_heads(b.problem(), tokens);
  const Distribution& split = b.shared().key_heads(b.problem(), b.shared().split_heads(tokens));
  return back ? b.shared().redistribution(split, placed) : b.shared().redistribution(placed, split);
}

}  // namespace

Trade::Trade(const Scope& outer, const Team& team, const Distribution& tokens, const Distribution& key_tokens,
             const Scope& inside, SoftmaxAlgorithm& inner, TradeOptions options)
    : s_(inside),
      b_(outer.b),
      team_(team),
      inner_(inner),
      o_(options),
      queries_(b_.shared().redistribution(tokens, b_.shared().split_heads(tokens))),
      keys_(of_keys(b_, key_tokens, false)),
      keys_back_(key_tokens.everywhere ? &of_keys(b_, key_tokens, true) : nullptr) {}

Transfer Trade::transfer(bool back, const std::vector<TransferTensor>& tensors) const {
  return Transfer(b_, team_, {back, {}, o_.transport, o_.most_pieces}, tensors);
}

// Gradients of keys go to where the keys came from. Where all have these, that is to all.
Transfer Trade::return_keys(std::string_view name, const Box& from, const Box& into) const {
  if (keys_back_ == nullptr) return transfer(true, {{name, &keys_, from, into}});
  return transfer(false, {{name, keys_back_, from, into}});
}

void Trade::forward(const Forward& f) {
  if (team_.size() == 1) return inner_.forward(f);
  const Problem& p = b_.problem();
  // The backward reads what has been traded; nothing is traded twice.
  const Category kept = b_.between_layers() ? Category::saved : Category::working;
  const Category kv_kept = inner_.rereads_kv() ? kept : Category::working;
  traded_.q = s_.query_buffer("q_traded", Role::nominal, kept, 1, s_.rows, p.head_size);
  traded_.kv = s_.kv_buffer("kv_traded", Role::nominal, kv_kept, 1, s_.key_rows);
  traded_.out = s_.query_buffer("out_traded", Role::nominal, Category::working, 1, s_.rows, p.value_size);
  traded_.lse = s_.lse_buffer("lse_traded", kept, 1, s_.rows);
  const TransferTensor q{"q", &queries_, f.q, traded_.q};
  // A bias of pairs stays with its queries: it goes where they go.
  std::vector<TransferTensor> of_queries{q};
  const auto pairs = [&](std::string_view name, const Box& from, Box& into) {
    if (!from.given()) return;
    into = s_.query_buffer(std::string(name) + "_traded", Role::nominal, kept, 1, s_.rows, p.pair_columns());
    of_queries.push_back({name, &queries_, from, into});
  };
  pairs("bias", f.bias, traded_.bias);
  pairs("keep", f.keep, traded_.keep);
  if (o_.one_by_one)
    run({transfer(false, of_queries), transfer(false, {{"k", &keys_, keys(b_, f.kv), keys(b_, traded_.kv)}}),
         transfer(false, {{"v", &keys_, behind_keys(b_, f.kv), behind_keys(b_, traded_.kv)}})});
  else
    run({transfer(false, of_queries), transfer(false, {{"kv", &keys_, f.kv, traded_.kv}})});
  traded_.max_logit = f.max_logit;
  traded_.sink = f.sink, traded_.table = f.table;
  inner_.forward(traded_);
  transfer(true, {{"out", &queries_, traded_.out, f.out}, {"lse", &queries_, traded_.lse, f.lse}})
      .all(compute_lane, comm_lane);
}

void Trade::backward(const Backward& g) {
  if (team_.size() == 1) return inner_.backward(g);
  delta_by_first_tile(b_, g, false);  // it is traded before any tile
  const Problem& p = b_.problem();
  const auto queries = [&](std::string_view name, std::int64_t width) {
    return s_.query_buffer(name, Role::nominal, Category::working, 1, s_.rows, width);
  };
  Backward t;
  t.q = traded_.q;
  t.kv = traded_.kv;
  t.lse = traded_.lse;
  t.dout = queries("dout_traded", p.value_size);
  t.delta = s_.lse_buffer("delta_traded", Category::working, 1, s_.rows);
  transfer(false, {{"dout", &queries_, g.dout, t.dout}, {"delta", &queries_, g.delta, t.delta}})
      .all(compute_lane, comm_lane);
  t.dq = queries("dq_traded", p.head_size);
  // The gradients of a key head that several members hold are sums over them.
  const Role wire =
      keys_.replicates() && keys_back_ == nullptr && b_.has_wide() ? o_.gradient_wire : Role::nominal;
  t.bias = traded_.bias;
  t.keep = traded_.keep;
  t.table = g.table, t.dtable = g.dtable;
  if (g.dbias.given()) t.dbias = queries("dbias_traded", p.pair_columns());
  t.dkv = s_.dkv_buffer("dkv_traded", wire, Category::working, 1, s_.key_rows);
  inner_.backward(t);
  const TransferTensor dq{"dq", &queries_, t.dq, g.dq};
  std::vector<TransferTensor> of_queries{dq};
  if (g.dbias.given()) of_queries.push_back({"dbias", &queries_, t.dbias, g.dbias});
  if (o_.one_by_one)
    run({transfer(true, of_queries), return_keys("dk", keys(b_, t.dkv), keys(b_, g.dkv)),
         return_keys("dv", behind_keys(b_, t.dkv), behind_keys(b_, g.dkv))});
  else
    run({transfer(true, of_queries), return_keys("dkv", t.dkv, g.dkv)});
}

Lane Trade::comm() const {
  return team_.size() == 1 ? inner_.comm() : o_.one_by_one ? compute_lane : comm_lane;
}

// Each is packed while the one before it moves; unless they go one by one.
void Trade::run(std::vector<Transfer> transfers) const {
  for (Transfer& t : transfers) {
    t.pack(compute_lane);
    t.move(o_.one_by_one ? compute_lane : comm_lane);
    if (o_.one_by_one) t.unpack(compute_lane);
  }
  for (Transfer& t : transfers)
    if (!o_.one_by_one) t.unpack(compute_lane);
}

std::vector<OptionInfo> trade_option_infos() {
  OptionInfo wire = gradient_wire_option();
  wire.help = "dtype in which dK and dV of key heads that several ranks hold are summed and sent";
  return {pack_above_option(), wire};
}

TradeOptions trade_options(const Schedule& s) {
  return {transport_of(s), s.count("pack_above"), gradient_wire_of(s), false};
}

void require_divided_heads(const Scenario& s, std::int64_t members, std::string_view members_are) {
  if (s.problem.heads % members == 0) return;
  throw ScenarioError("problem.heads", std::string(members_are) + " (" + std::to_string(members) +
                                           ") must divide heads (" + std::to_string(s.problem.heads) +
                                           "): every rank takes as many query heads; key heads may be fewer");
}

}  // namespace cplab

// What the loops of tree.cpp are made of: blocks of queries, buffers of all of them, the tile.
#include <algorithm>

#include "algorithms/softmax/tree.hpp"

namespace cplab {

Tree::Tree(const Scope& scope, const PassQOptions& options, bool heads)
    : s(scope), b(scope.b), o(options), by_heads(heads), begins{0} {
  const auto any = [&](int member) {
    return std::ranges::any_of(s.tokens[member].runs, [](const TokenRun& run) { return run.valid > 0; });
  };
  has_tokens = any(s.place());
  for (int block = 0; block < s.P(); ++block) {
    const int owner = to_left(block);
    begins.push_back(begins.back() + (block == 0 || any(owner) ? s.tokens[owner].rows() : 0));
  }
}

// What has no token goes nowhere.
Rows Tree::blocks(int first, int end) const {
  if (first == 0 && !has_tokens) first = 1;
  if (first >= end) return {};
  const std::int64_t begin = begins[static_cast<std::size_t>(first)];
  return Rows::range(begin, begins[static_cast<std::size_t>(end)] - begin);
}

int Tree::longest() const {
  int distance = 1;
  while (distance * 2 < s.P()) distance *= 2;
  return s.P() == 1 ? 0 : distance;
}

Box Tree::all(const Box& like, Role role) const {
  return all(like, role, b.declared(like).layout);
}

Box Tree::all(const Box& like, Role role, Layout layout) const {
  const std::string name = b.declared(like).name + "_all";
  BufferSpec spec = b.like(like, name);
  spec.role = role, spec.rows = rows(), spec.layout = layout;
  return b.buffer(spec);
}

Box Tree::incoming(const Box& of_all) const {
  std::int64_t most = 0;
  for (int distance = longest(); distance >= 1; distance /= 2)
    most = std::max(most, blocks(0, hop(distance)).count());
  if (most == 0) return {};
  const std::string name = b.declared(of_all).name + "_came";
  BufferSpec spec = b.like(of_all, name);
  spec.rows = most;
  return b.buffer(spec);
}

std::vector<TokenRun> Tree::queries(int first, int end) const {
  std::vector<TokenRun> list;
  for (int block = first; block < end; ++block) {
    const std::int64_t begin = begins[static_cast<std::size_t>(block)];
    if (begins[static_cast<std::size_t>(block) + 1] == begin) continue;
    for (TokenRun run : s.tokens[to_left(block)].runs) {
      run.row += begin;
      list.push_back(run);
    }
  }
  return list;
}

Builder::PairMask Tree::mask(const Tile& t, const Box& kv, const Box& dkv, const PairBoxes& boxes) const {
  if (b.problem().has_plain_logits()) return {};
  return pair_mask(b, kv, dkv, WriteMode::store, boxes, {queries(0, s.P()), t.q_rows},
                   {s.keys[s.place()].runs, t.k_rows});
}

void Tree::attend(const Forward& f, const Attended& all_rows, int first, int end) {
  const Tile t = tile(first, end, Take::queries);
  const Box kv = f.kv.rows(t.k_rows);
  PairBoxes boxes;
  boxes.table = f.table;
  if (all_rows.bias.given()) boxes.bias = all_rows.bias.rows(t.q_rows);
  b.attend(compute_lane,
           {all_rows.q.rows(t.q_rows), keys(b, kv), values(b, kv), all_rows.out.rows(t.q_rows),
            all_rows.lse.rows(t.q_rows), t.segments, WriteMode::store, f.max_logit->of(compute_lane),
            mask(t, kv, {}, boxes), first == 0 ? f.sink : Box()});
}

void Tree::forward(const Forward& f) {
  const bool alone = s.P() == 1;
  const Box q = alone ? f.q : all(f.q, Role::nominal), lse = alone ? f.lse : all(f.lse, Role::wide);
  // By heads: a share of them is one piece.
  const Box out = alone ? f.out
                        : all(f.out, o.wide ? Role::wide : Role::nominal,
                              by_heads ? Layout::heads_first : b.declared(f.out).layout);
  const Box bias = alone || !f.bias.given() ? f.bias : all(f.bias, Role::nominal);
  if (!alone) f.bias.given() ? spread({f.q, f.bias}, {q, bias}) : spread({f.q}, {q});
  const bool apart = f.sink.given() && rows() > s.rows;
  attend(f, {q, bias, out, lse}, 0, apart ? 1 : s.P());
  if (apart) attend(f, {q, bias, out, lse}, 1, s.P());
  if (alone) return;
  if (by_heads) return merge_by_heads(f, out, lse);
  const Box out_came = incoming(out), lse_came = incoming(lse);
  reduce({out, lse}, {out_came, lse_came}, [&](const Rows& met) {
    b.merge(compute_lane, out_came.first_rows(met.count()), lse_came.first_rows(met.count()), out.rows(met),
            lse.rows(met));
  });
  if (s.rows == 0) return;
  b.convert(compute_lane, out.first_rows(s.rows), f.out);
  b.copy(compute_lane, lse.first_rows(s.rows), f.lse);
}

void Tree::backward(const Backward& g) {
  delta_by_first_tile(b, g, false);
  const bool alone = s.P() == 1;
  std::vector<Box> own{g.q, g.dout, g.lse, g.delta}, of_all;
  if (g.bias.given()) own.push_back(g.bias);
  for (const Box& each : own) of_all.push_back(alone ? each : all(each, b.declared(each).role));
  // Each number of dbias comes from one rank: those of others are 0.
  std::vector<Box> gradients{g.dq}, sums{alone ? g.dq : all(g.dq, o.gradient_wire)}, came;
  if (g.bias.given()) gradients.push_back(g.dbias);
  if (g.bias.given()) sums.push_back(alone ? g.dbias : all(g.dbias, Role::nominal));
  if (!alone) spread(own, of_all);
  const Tile t = tile(0, s.P(), Take::all);
  const Box kv = g.kv.rows(t.k_rows), dkv = g.dkv.rows(t.k_rows);
  PairBoxes boxes = pairs_of(g);
  if (g.bias.given()) boxes.bias = of_all[4], boxes.dbias = sums[1];
  b.attend_backward(compute_lane, {of_all[0], keys(b, kv), values(b, kv), of_all[1], of_all[2], of_all[3],
                                   sums[0], keys(b, dkv), values(b, dkv), t.segments, WriteMode::store,
                                   WriteMode::store, mask(t, kv, dkv, boxes)});
  if (alone) return;
  for (const Box& each : sums) came.push_back(incoming(each));
  reduce(sums, came, [&](const Rows& met) {
    for (std::size_t i = 0; i < sums.size(); ++i)
      b.add(compute_lane, came[i].first_rows(met.count()), sums[i].rows(met));
  });
  for (std::size_t i = 0; i < sums.size() && s.rows > 0; ++i)
    b.convert(compute_lane, sums[i].first_rows(s.rows), gradients[i]);
}

// ---- By heads.

HeadRange Tree::share(int member) const {
  const std::int64_t heads = s.heads().count();
  return {s.heads().begin + member * heads / s.P(), s.heads().begin + (member + 1) * heads / s.P()};
}

Box Tree::of_share(const Box& of_all, std::string_view name, int slots) const {
  const HeadRange own = share(s.place());
  const std::int64_t rows_of_all = blocks(0, s.P()).count();
  if (own.count() == 0 || rows_of_all == 0) return {};
  BufferSpec spec = b.like(of_all.of_problem(own), name);
  spec.slots = slots, spec.rows = rows_of_all;
  return b.buffer(spec);
}

Box Tree::own_rows(const Box& of_all, std::string_view name) const {
  BufferSpec spec = b.like(of_all, name);
  spec.rows = std::max<std::int64_t>(s.rows, 1);
  return b.buffer(spec);
}

std::vector<RowRange> Tree::in_order_of(int member) const {
  const int first = (s.place() - member + s.P()) % s.P();  // here, of that member's own queries
  std::vector<RowRange> list = blocks(first, s.P()).ranges();
  const Rows behind = blocks(0, first);
  list.insert(list.end(), behind.ranges().begin(), behind.ranges().end());
  return list;
}

// The share that was merged here is at home already, and so is all of what nobody else has attended.
void Tree::bring_home(const Box& out, const Box& home, const Box& lse, const Forward& f) {
  if (s.rows == 0) return;
  const HeadRange here = has_tokens ? share(s.place()) : s.heads();
  if (here.count() > 0) {
    b.copy(compute_lane, out.of_problem(here).first_rows(s.rows), home.of_problem(here).first_rows(s.rows));
    b.copy(compute_lane, lse.of_problem(here).first_rows(s.rows), f.lse.of_problem(here));
  }
  b.convert(compute_lane, home.first_rows(s.rows), f.out);
}

// ---- Registration.

Algorithm algorithm_of_few_queries(void (*build)(Builder&)) {
  Algorithm a;
  a.placements = {"contiguous", "zigzag", "striped", "hybrid"};
  a.options = pass_q_option_infos();
  a.validate = require_softmax;
  a.build = build;
  return a;
}

void build_tree(Builder& b, bool by_heads) {
  const Scope whole(b);
  Tree tree(whole, pass_q_options(b.scenario().schedule), by_heads);
  run_summed(whole, tree);
}

}  // namespace cplab

// Narrows what a whole scope has to some of its heads, or of its keys; see ring_of_heads.hpp.
#include "algorithms/softmax/ring_of_heads.hpp"

#include <utility>

#include "algorithms/core/tile.hpp"

namespace cplab {
namespace {

RingOptions on_lane(RingOptions options, int lane) {
  options.lane = lane;
  return options;
}

// Those tokens of the team's members, in its order.
Distribution in_order(const Scope& whole, const Distribution& tokens, const Team& members) {
  Distribution some;
  for (const int position : members.positions) some.members.push_back(tokens[whole.team.place_of(position)]);
  some.replicated = tokens.replicated, some.everywhere = tokens.everywhere;
  return some;
}

// The query heads that read those key heads.
HeadRange readers(const Scope& whole, HeadRange keys) {
  const std::int64_t sharing = whole.b.problem().heads / whole.b.problem().kv_heads;
  return {keys.begin * sharing, keys.end * sharing};
}

// Of every member the runs in those rows, which keep their numbers.
Distribution within(Distribution tokens, const Rows& rows) {
  for (Holding& member : tokens.members) member.runs = runs_within(member.runs, rows);
  return tokens;
}

}  // namespace

PartialRing::PartialRing(const Scope& whole, const Team& members, const Distribution& tokens,
                         const Distribution& key_tokens, RingOptions options, int lane)
    : scope(whole.b, members, tokens, key_tokens, whole.layout), ring(scope, on_lane(options, lane)) {}

RingOfHeads::RingOfHeads(const Scope& whole, const Team& members, HeadRange keys, RingOptions options,
                         int lane)
    : PartialRing(whole, members, with_heads(in_order(whole, whole.tokens, members), readers(whole, keys)),
                  with_heads(in_order(whole, whole.key_tokens, members), readers(whole, keys)), options,
                  lane) {}

Box RingOfHeads::contiguous(const Box& kv) {
  if (scope.key_heads() == kv.problem_heads()) return kv;
  const Box own = scope.kv_buffer("kv_half", Role::nominal, Category::working, 1, scope.key_rows);
  scope.b.copy(compute_lane, kv.of_problem(scope.key_heads()), own);
  return own;
}

const Forward& RingOfHeads::forward_part(const Forward& whole) {
  const HeadRange heads = scope.heads();
  f = {whole.q.of_problem(heads), contiguous(whole.kv), whole.out.of_problem(heads),
       whole.lse.of_problem(heads), whole.max_logit};
  if (whole.bias.given()) f.bias = whole.bias.of_problem(heads);
  f.sink = whole.sink, f.table = whole.table;
  return f;
}

const Backward& RingOfHeads::backward_part(const Backward& whole) {
  const HeadRange heads = scope.heads();
  const auto part = [&](const Box& box) { return box.given() ? box.of_problem(heads) : Box(); };
  g.q = part(whole.q), g.lse = part(whole.lse), g.dout = part(whole.dout), g.delta = part(whole.delta);
  g.dq = part(whole.dq), g.out = part(whole.out), g.rounded_dq = part(whole.rounded_dq);
  g.bias = part(whole.bias), g.dbias = part(whole.dbias);
  g.table = whole.table, g.dtable = whole.dtable;
  // Other layers have run in between: what the forward copied is gone.
  g.kv = scope.b.between_layers() && ring.rereads_kv() ? contiguous(whole.kv) : f.kv;
  const bool all = scope.key_heads() == whole.dkv.problem_heads();
  g.dkv = all ? whole.dkv : scope.dkv_buffer("dkv_half", Role::nominal, Category::working, 1, scope.key_rows);
  return g;
}

void RingOfHeads::finish(const Backward& whole) {
  if (scope.key_heads() == whole.dkv.problem_heads()) return;
  scope.b.copy(compute_lane, g.dkv, whole.dkv.of_problem(scope.key_heads()));
}

RingOfKeys::RingOfKeys(const Scope& whole, const Team& members, RowRange keys, RingOptions options, int lane,
                       std::shared_ptr<RingSums> sums)
    : PartialRing(whole, members, in_order(whole, whole.tokens, members),
                  within(in_order(whole, whole.key_tokens, members), Rows::range(keys.begin, keys.count)),
                  options, lane),
      first_(sums->rings == 0) {
  ring.sum_with(std::move(sums));
}

const Forward& RingOfKeys::forward_part(const Forward& whole) {
  return f = whole;
}

const Backward& RingOfKeys::backward_part(const Backward& whole) {
  g = whole;
  if (!first_) g.out = {};
  return g;
}

TeamSpec all_in_reverse(std::string name, std::int64_t ranks) {
  TeamSpec all{std::move(name), {{}}};
  for (int place = static_cast<int>(ranks); place-- > 0;) all.members[0].push_back(place);
  return all;
}

}  // namespace cplab

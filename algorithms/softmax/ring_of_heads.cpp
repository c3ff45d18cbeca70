// Narrows what a whole scope has to some of its heads; see ring_of_heads.hpp.
#include "algorithms/softmax/ring_of_heads.hpp"

namespace cplab {
namespace {

RingOptions on_lane(RingOptions options, int lane) {
  options.lane = lane;
  return options;
}

// Those tokens of the team's members, in its order, with the query heads that read those key heads.
Distribution in_order(const Scope& whole, const Distribution& tokens, const Team& members, HeadRange keys) {
  const std::int64_t sharing = whole.b.problem().heads / whole.b.problem().kv_heads;
  Distribution some;
  for (const int position : members.positions) some.members.push_back(tokens[whole.team.place_of(position)]);
  return with_heads(std::move(some), {keys.begin * sharing, keys.end * sharing});
}

}  // namespace

RingOfHeads::RingOfHeads(const Scope& whole, const Team& members, HeadRange keys, RingOptions options,
                         int lane)
    : scope(whole.b, members, in_order(whole, whole.tokens, members, keys),
            in_order(whole, whole.key_tokens, members, keys), whole.layout),
      ring(scope, on_lane(options, lane)) {}

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

TeamSpec all_in_reverse(std::string name, std::int64_t ranks) {
  TeamSpec all{std::move(name), {{}}};
  for (int place = static_cast<int>(ranks); place-- > 0;) all.members[0].push_back(place);
  return all;
}

}  // namespace cplab

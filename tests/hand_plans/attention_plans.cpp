// Attention written by hand; see attention_plans.hpp.
#include "tests/hand_plans/attention_plans.hpp"

#include <algorithm>
#include <vector>

namespace cplab::hand {
namespace {

Segment full(std::int64_t queries, std::int64_t keys) {
  return {0, queries, 0, keys, 0, -1, -1};
}

}  // namespace

Plan empty_plan(int P, std::int64_t tokens, bool causal, Direction direction, DType dtype) {
  Plan plan = ranks_in_one_group(P, "cp", dtype);
  Problem& p = plan.scenario.problem;
  p.batch = 1;
  p.sequence = tokens;
  p.lengths = p.padded_lengths = {tokens};
  p.heads = 4, p.kv_heads = 2, p.head_size = 8, p.value_size = 6;
  p.causal = causal;
  p.direction = direction;
  p.scale = logit_scale;
  plan.scenario.placement = "contiguous";
  return plan;
}

Tensors tensors(const Plan& plan, Rank& rank) {
  const Problem& p = plan.scenario.problem;
  const std::int64_t n = rows_of_rank(plan), H = p.heads, D = p.head_size, E = p.value_size;
  Tensors t{};
  t.q = rank.buffer("q", Role::nominal, Category::input, 1, n, H, D);
  t.kv = rank.buffer("kv", Role::nominal, Category::input, 1, n, p.kv_heads, D + E);
  t.out = rank.buffer("out", Role::nominal, Category::output, 1, n, H, E);
  t.lse = rank.buffer("lse", Role::wide, Category::output, 1, n, H, 1);
  if (p.direction == Direction::forward) return t;
  t.dout = rank.buffer("dout", Role::nominal, Category::input, 1, n, H, E);
  t.delta = rank.buffer("delta", Role::wide, Category::working, 1, n, H, 1);
  t.dq = rank.buffer("dq", Role::nominal, Category::output, 1, n, H, D);
  t.dkv = rank.buffer("dkv", Role::nominal, Category::output, 1, n, p.kv_heads, D + E);
  return t;
}

ViewIndex keys(const Plan& plan, Rank& rank, At at) {
  at.width_end = static_cast<std::int32_t>(plan.scenario.problem.head_size);
  return rank.view(at);
}
ViewIndex values(const Plan& plan, Rank& rank, At at) {
  at.width_begin = static_cast<std::int32_t>(plan.scenario.problem.head_size);
  return rank.view(at);
}

namespace {

// Backward of the ring: K and V go on to the left; dK and dV follow one step behind, summed on the way.
void ring_backward(const Plan& plan, Rank& rank, const Tensors& t, int P, int r, const At& last_held) {
  const Problem& p = plan.scenario.problem;
  const std::int64_t n = rows_of_rank(plan), width = p.head_size + p.value_size;
  const int left = (r + P - 1) % P, right = (r + 1) % P;
  rank.phase(Phase::backward);
  rank.step = 0;
  rank.row_dot(compute, rank.view({t.dout}), rank.view({t.out}), rank.view({t.delta}));
  const auto slots = rank.buffer("kv_back", Role::nominal, Category::working, 2, n, p.kv_heads, width);
  const auto sums = rank.buffer("dkv_slots", Role::wide, Category::working, 2, n, p.kv_heads, width);
  const auto part = rank.buffer("dkv_tile", Role::wide, Category::working, 1, n, p.kv_heads, width);
  At held = last_held;
  std::vector<std::uint32_t> tiles, adds;
  for (int i = 0; i < P; ++i) {
    rank.step = static_cast<std::uint32_t>(i);
    const At next{slots, i % 2}, sum{sums, (i + 1) % 2};
    std::vector<Part> parts;
    std::vector<std::uint32_t> after;
    if (i + 1 < P) parts = {send(rank.view(held), left), receive(rank.view(next), right)};
    if (i > 0)
      parts.insert(parts.end(), {send(rank.view({sums, i % 2}), left), receive(rank.view(sum), right)});
    if (i > 0) after.push_back(adds.back());  // the sum it sends, and all before
    const std::uint32_t exchange = rank.communicate(comm, OpKind::exchange, parts, after);
    const At into = i == 0 ? sum : At{part};
    After received;
    if (i > 0) received = {exchange};
    AttendBackward tile{rank.view(t.q),    keys(plan, rank, held), values(plan, rank, held),
                        rank.view(t.dout), rank.view(t.lse),       rank.view(t.delta),
                        rank.view(t.dq),   keys(plan, rank, into), values(plan, rank, into)};
    if (i > 0) tile.dq_mode = add;
    adds.push_back(rank.attend_backward(compute, tile, {full(n, n)}, received));
    if (i > 0) adds.back() = rank.add_to(compute, rank.view(part), rank.view(sum));
    held = next;
  }
  rank.cast(compute, rank.view({sums, P % 2}), rank.view({t.dkv}));
}

}  // namespace

Plan ring(int P, std::int64_t rows, Merge how, Direction direction, DType dtype) {
  Plan plan = empty_plan(P, P * rows, false, direction, dtype);
  const Problem& p = plan.scenario.problem;
  for (int r = 0; r < P; ++r) {
    Rank rank(plan, r);
    const Tensors t = tensors(plan, rank);
    const int left = (r + P - 1) % P, right = (r + 1) % P;
    const bool deferred = how == Merge::deferred;
    const auto slots = rank.buffer("kv_slots", Role::nominal, Category::working, 2, rows, p.kv_heads,
                                   p.head_size + p.value_size);
    const std::int64_t parts = deferred ? P : 1;
    const auto part_out =
        rank.buffer("part_out", Role::nominal, Category::working, parts, rows, p.heads, p.value_size);
    const auto part_lse = rank.buffer("part_lse", Role::wide, Category::working, parts, rows, p.heads, 1);
    At held{t.kv};
    std::uint32_t received = 0, last_tile = 0;
    for (int i = 0; i < P; ++i) {
      rank.step = static_cast<std::uint32_t>(i);
      const At next{slots, i % 2};
      std::uint32_t exchange = 0;
      // The slot it receives into was read by the tile before; that tile is done when this may start.
      if (i + 1 < P)
        exchange = rank.communicate(
            comm, OpKind::exchange, {send(rank.view(held), right), receive(rank.view(next), left)},
            i >= 2 ? std::vector<std::uint32_t>{last_tile} : std::vector<std::uint32_t>{});
      const bool straight = i == 0 && !deferred;
      const std::int32_t slot = deferred ? i : 0;
      const std::uint32_t out = rank.view(straight ? At{t.out} : At{part_out, slot}),
                          lse = rank.view(straight ? At{t.lse} : At{part_lse, slot});
      last_tile = rank.attend(
          compute, {rank.view({t.q}), keys(plan, rank, held), values(plan, rank, held), out, lse},
          {full(rows, rows)}, i > 0 ? std::vector<std::uint32_t>{received} : std::vector<std::uint32_t>{});
      if (deferred && i == 0) rank.copy(compute, lse, rank.view({t.lse}));
      if (deferred && i > 0) rank.merge_lse(compute, lse, rank.view({t.lse}));
      if (!deferred && i > 0) rank.merge_out(compute, out, lse, rank.view({t.out}), rank.view({t.lse}));
      received = exchange;
      if (i + 1 < P) held = next;
    }
    for (int i = 0; deferred && i < P; ++i)
      rank.rescale(compute, rank.view({part_out, i}), rank.view({part_lse, i}), rank.view({t.lse}),
                   rank.view({t.out}), i == 0 ? store : add);
    if (direction == Direction::forward_backward) ring_backward(plan, rank, t, P, r, held);
  }
  return plan;
}

Plan gathered(int P, std::int64_t rows, DType dtype) {
  Plan plan = empty_plan(P, P * rows, true, Direction::forward_backward, dtype);
  const Problem& p = plan.scenario.problem;
  for (int r = 0; r < P; ++r) {
    Rank rank(plan, r);
    const Tensors t = tensors(plan, rank);
    const std::int64_t width = p.head_size + p.value_size, visible = (r + 1) * rows;
    const auto all = rank.buffer("kv_all", Role::nominal, Category::working, 1, P * rows, p.kv_heads, width);
    const auto dall = rank.buffer("dkv_all", Role::wide, Category::working, 1, P * rows, p.kv_heads, width);
    const auto sum = rank.buffer("dkv_sum", Role::wide, Category::working, 1, rows, p.kv_heads, width);
    std::vector<Part> gather, scatter;
    for (int peer = 0; peer < P; ++peer) {
      gather.push_back(send(rank.view({t.kv}), peer));
      gather.push_back(receive(rank.view({all, 0, peer * rows, rows}), peer));
    }
    const std::uint32_t gathered = rank.communicate(comm, OpKind::all_gather, gather);
    // One causal band over the keys of all ranks up to this one; the rows behind stay unread.
    const Segment causal{0, rows, 0, visible, r * rows, -1, 0};
    const At seen{all, 0, 0, visible};
    rank.attend(compute,
                {rank.view({t.q}), keys(plan, rank, seen), values(plan, rank, seen), rank.view({t.out}),
                 rank.view({t.lse})},
                {causal}, {gathered});
    rank.phase(Phase::backward);
    rank.row_dot(compute, rank.view({t.dout}), rank.view({t.out}), rank.view({t.delta}));
    // All keys, so that the rows that this rank does not see are stored as zero.
    const At whole{all}, dwhole{dall};
    const std::uint32_t tile =
        rank.attend_backward(compute,
                             {rank.view({t.q}), keys(plan, rank, whole), values(plan, rank, whole),
                              rank.view({t.dout}), rank.view({t.lse}), rank.view({t.delta}),
                              rank.view({t.dq}), keys(plan, rank, dwhole), values(plan, rank, dwhole)},
                             {causal});
    const std::uint32_t into = rank.view({sum});
    for (int peer = 0; peer < P; ++peer) {
      scatter.push_back(send(rank.view({dall, 0, peer * rows, rows}), peer));
      scatter.push_back(receive(into, peer));
    }
    const std::uint32_t scattered = rank.communicate(comm, OpKind::reduce_scatter, scatter, {tile});
    rank.cast(compute, into, rank.view({t.dkv}), {scattered});
  }
  return plan;
}

Plan single(std::int64_t tokens, Direction direction) {
  Plan plan = empty_plan(1, tokens, true, direction);
  Rank rank(plan, 0);
  const Tensors t = tensors(plan, rank);
  const Segment causal{0, tokens, 0, tokens, 0, -1, 0};
  rank.attend(compute,
              {rank.view({t.q}), keys(plan, rank, {t.kv}), values(plan, rank, {t.kv}), rank.view({t.out}),
               rank.view({t.lse})},
              {causal});
  if (direction == Direction::forward) return plan;
  rank.phase(Phase::backward);
  rank.row_dot(compute, rank.view({t.dout}), rank.view({t.out}), rank.view({t.delta}));
  rank.attend_backward(compute,
                       {rank.view({t.q}), keys(plan, rank, {t.kv}), values(plan, rank, {t.kv}),
                        rank.view({t.dout}), rank.view({t.lse}), rank.view({t.delta}), rank.view({t.dq}),
                        keys(plan, rank, {t.dkv}), values(plan, rank, {t.dkv})},
                       {causal});
  return plan;
}

Operation& find(Plan& plan, int rank, OpKind kind, Phase phase, std::uint32_t step) {
  std::vector<Operation>& list = plan.ranks[static_cast<std::size_t>(rank)].operations;
  return *std::find_if(list.begin(), list.end(), [&](const Operation& op) {
    return op.kind == kind && op.phase == phase && op.step == step;
  });
}

}  // namespace cplab::hand

// See collective_plans.hpp. Edges are derived from the views, as the builder does.
#include "tests/hand_plans/collective_plans.hpp"

#include <limits>
#include <utility>
#include <vector>

#include "tests/hand_plans/attention_plans.hpp"

namespace cplab::hand {

Plan traded(std::int64_t rows, DType dtype) {
  constexpr int P = 2;
  const std::int64_t N = P * rows;
  Plan plan = empty_plan(P, N, true, Direction::forward_backward, dtype);
  const Problem& p = plan.scenario.problem;
  const std::int64_t D = p.head_size, E = p.value_size;
  const auto H = static_cast<std::int32_t>(p.heads / P), G = static_cast<std::int32_t>(p.kv_heads / P);
  for (int r = 0; r < P; ++r) {
    Rank rank(plan, r);
    const Tensors t = tensors(plan, rank);
    const auto working = [&](const char* name, Role role, std::int64_t h, std::int64_t w) {
      return rank.buffer(name, role, Category::working, 1, N, h, w);
    };
    const auto q = working("q_heads", Role::nominal, H, D), kv = working("kv_heads", Role::nominal, G, D + E);
    const auto out = working("out_heads", Role::nominal, H, E), lse = working("lse_heads", Role::wide, H, 1);
    const auto dout = working("dout_heads", Role::nominal, H, E),
               delta = working("delta_heads", Role::wide, H, 1);
    const auto dq = working("dq_heads", Role::nominal, H, D),
               dkv = working("dkv_heads", Role::nominal, G, D + E);
    // One tensor in both distributions of Ulysses: this rank's tokens with all heads, and all tokens with
    // `each` heads of this rank. An all_to_all turns one into the other.
    struct Pair {
      std::uint32_t tokens, heads;
      std::int32_t each;
    };
    const auto trade = [&](const std::vector<Pair>& pairs, bool to_heads) {
      std::vector<Part> parts;
      for (const Pair& x : pairs) {
        for (int peer = 0; peer < P; ++peer) {
          const std::uint32_t by_tokens = rank.view(heads_of(x.tokens, peer * x.each, (peer + 1) * x.each));
          const std::uint32_t by_heads = rank.view(rows_of(x.heads, peer * rows, rows));
          parts.push_back(send(to_heads ? by_tokens : by_heads, peer));
          parts.push_back(receive(to_heads ? by_heads : by_tokens, peer));
        }
      }
      rank.communicate(comm, OpKind::all_to_all, parts);
    };
    const auto own_heads = [&](std::uint32_t i) {
      rank.op(i).head_begin = r * H, rank.op(i).head_end = (r + 1) * H;
    };
    const Segment causal{0, N, 0, N, 0, -1, 0};
    trade({{t.q, q, H}, {t.kv, kv, G}}, true);
    own_heads(rank.attend(compute,
                          {rank.view({q}), keys(plan, rank, {kv}), values(plan, rank, {kv}), rank.view({out}),
                           rank.view({lse})},
                          {causal}));
    trade({{t.out, out, H}, {t.lse, lse, H}}, false);
    rank.phase(Phase::backward);
    rank.row_dot(compute, rank.view({t.dout}), rank.view({t.out}), rank.view({t.delta}));
    trade({{t.dout, dout, H}, {t.delta, delta, H}}, true);
    own_heads(rank.attend_backward(compute,
                                   {rank.view({q}), keys(plan, rank, {kv}), values(plan, rank, {kv}),
                                    rank.view({dout}), rank.view({lse}), rank.view({delta}), rank.view({dq}),
                                    keys(plan, rank, {dkv}), values(plan, rank, {dkv})},
                                   {causal}));
    trade({{t.dq, dq, H}, {t.dkv, dkv, G}}, false);
  }
  return with_edges(std::move(plan));
}

Plan reduced(std::int64_t rows, DType dtype) {
  constexpr int P = 4;
  const std::int64_t N = P * rows;
  Plan plan = empty_plan(P, N, true, Direction::forward_backward, dtype);
  const Problem& p = plan.scenario.problem;
  const std::int64_t width = p.head_size + p.value_size;
  const auto ratio = static_cast<std::int32_t>(p.heads / p.kv_heads);
  plan.groups.push_back({"low", {0, 1}});
  plan.groups.push_back({"high", {2, 3}});
  plan.groups.push_back({"even", {0, 2}});
  plan.groups.push_back({"odd", {1, 3}});
  for (int r = 0; r < P; ++r) {
    Rank rank(plan, r);
    const Tensors t = tensors(plan, rank);
    const auto all = rank.buffer("kv_all", Role::nominal, Category::working, 1, N, p.kv_heads, width);
    const auto dall = rank.buffer("dkv_all", Role::wide, Category::working, 1, N, p.kv_heads, width);
    std::vector<Part> parts;
    for (int peer = 0; peer < P; ++peer) {
      parts.push_back(send(rank.view({t.kv}), peer));
      parts.push_back(receive(rank.view(rows_of(all, peer * rows, rows)), peer));
    }
    rank.communicate(comm, OpKind::all_gather, parts);
    const Segment causal{0, rows, 0, (r + 1) * rows, r * rows, -1, 0};
    const auto half = [&](std::int32_t g, bool forward) {
      const auto of = [&](std::uint32_t b) { return rank.view(heads_of(b, g * ratio, (g + 1) * ratio)); };
      const At kv = heads_of(all, g, g + 1), dkv = heads_of(dall, g, g + 1);
      const Lane lane = g == 0 ? compute : compute1;
      if (forward)
        rank.attend(lane, {of(t.q), keys(plan, rank, kv), values(plan, rank, kv), of(t.out), of(t.lse)},
                    {causal});
      else
        rank.attend_backward(lane,
                             {of(t.q), keys(plan, rank, kv), values(plan, rank, kv), of(t.dout), of(t.lse),
                              of(t.delta), of(t.dq), keys(plan, rank, dkv), values(plan, rank, dkv)},
                             {causal});
    };
    half(0, true);
    half(1, true);
    rank.communicate(comm, OpKind::barrier, {});
    rank.phase(Phase::backward);
    for (std::int32_t h = 0; h < p.heads; ++h)
      rank.row_dot(compute, rank.view(heads_of(t.dout, h, h + 1)), rank.view(heads_of(t.out, h, h + 1)),
                   rank.view(heads_of(t.delta, h, h + 1)));
    half(0, false);
    half(1, false);
    for (const std::uint16_t group :
         {r < 2 ? std::uint16_t{1} : std::uint16_t{2}, r % 2 == 0 ? std::uint16_t{3} : std::uint16_t{4}}) {
      const std::uint32_t view = rank.view({dall});
      rank.op(rank.all_reduce(comm, view, view)).group = group;
    }
    rank.host_sync({LaneKind::comm, 0});
    rank.cast(compute, rank.view(rows_of(dall, r * rows, rows)), rank.view({t.dkv}));
  }
  return with_edges(std::move(plan));
}

Plan in_place(int P, std::int64_t rows, DType dtype) {
  const std::int64_t N = P * rows;
  Plan plan = empty_plan(P, N, true, Direction::forward_backward, dtype);
  const Problem& p = plan.scenario.problem;
  const std::int64_t width = p.head_size + p.value_size;
  for (int r = 0; r < P; ++r) {
    Rank rank(plan, r);
    const Tensors t = tensors(plan, rank);
    const auto all = rank.buffer("kv_all", Role::nominal, Category::working, 1, N, p.kv_heads, width);
    const auto dall = rank.buffer("dkv_all", Role::wide, Category::working, 1, N, p.kv_heads, width);
    const Segment causal{0, rows, 0, (r + 1) * rows, r * rows, -1, 0};
    std::vector<std::uint32_t> slices, dslices;
    std::vector<Part> gather, scatter;
    for (int peer = 0; peer < P; ++peer) {
      slices.push_back(rank.view(rows_of(all, peer * rows, rows)));
      dslices.push_back(rank.view(rows_of(dall, peer * rows, rows)));
    }
    const auto own = static_cast<std::size_t>(r);
    for (int peer = 0; peer < P; ++peer) {
      gather.push_back(send(slices[own], peer));
      gather.push_back(receive(slices[static_cast<std::size_t>(peer)], peer));
      scatter.push_back(send(dslices[static_cast<std::size_t>(peer)], peer));
      scatter.push_back(receive(dslices[own], peer));
    }
    rank.copy(compute, rank.view({t.kv}), slices[own]);
    rank.communicate(comm, OpKind::all_gather, gather);
    rank.attend(compute,
                {rank.view({t.q}), keys(plan, rank, {all}), values(plan, rank, {all}), rank.view({t.out}),
                 rank.view({t.lse})},
                {causal});
    rank.phase(Phase::backward);
    rank.row_dot(compute, rank.view({t.dout}), rank.view({t.out}), rank.view({t.delta}));
    rank.attend_backward(compute,
                         {rank.view({t.q}), keys(plan, rank, {all}), values(plan, rank, {all}),
                          rank.view({t.dout}), rank.view({t.lse}), rank.view({t.delta}), rank.view({t.dq}),
                          keys(plan, rank, {dall}), values(plan, rank, {dall})},
                         {causal});
    rank.communicate(comm, OpKind::reduce_scatter, scatter);
    rank.cast(compute, dslices[own], rank.view({t.dkv}));
  }
  return with_edges(std::move(plan));
}

Plan permuted(std::int64_t rows, DType dtype) {
  Plan plan = empty_plan(2, 2 * rows, false, Direction::forward_backward, dtype);
  const Problem& p = plan.scenario.problem;
  const std::int64_t width = p.head_size + p.value_size;
  const std::vector<RowRange> map{{0, (rows + 1) / 2, 2}, {1, rows / 2, 2}};
  const Segment full{0, rows, 0, rows, 0, -1, -1};
  for (int r = 0; r < 2; ++r) {
    Rank rank(plan, r);
    const Tensors t = tensors(plan, rank);
    const auto working = [&](const char* name, Role role) {
      return rank.buffer(name, role, Category::working, 1, rows, p.kv_heads, width);
    };
    const auto packed = working("packed", Role::nominal), arrived = working("arrived", Role::nominal),
               held = working("held", Role::nominal);
    const auto own_sum = working("dkv_own", Role::wide), held_sum = working("dkv_held", Role::wide),
               packed_sum = working("dkv_packed", Role::wide),
               arrived_sum = working("dkv_arrived", Role::wide);
    const auto swap = [&](std::uint32_t from, std::uint32_t into) {
      rank.communicate(comm, OpKind::exchange,
                       {send(rank.view({from}), 1 - r), receive(rank.view({into}), 1 - r)});
    };
    const auto forward = [&](std::uint32_t kv, WriteMode mode) {
      rank.attend(compute,
                  {rank.view({t.q}), keys(plan, rank, {kv}), values(plan, rank, {kv}), rank.view({t.out}),
                   rank.view({t.lse}), mode},
                  {full});
    };
    const auto backward = [&](std::uint32_t kv, std::uint32_t dkv, WriteMode dq_mode) {
      rank.attend_backward(compute,
                           {rank.view({t.q}), keys(plan, rank, {kv}), values(plan, rank, {kv}),
                            rank.view({t.dout}), rank.view({t.lse}), rank.view({t.delta}), rank.view({t.dq}),
                            keys(plan, rank, {dkv}), values(plan, rank, {dkv}), dq_mode},
                           {full});
    };
    rank.copy(compute, rank.view({t.kv}, map), rank.view({packed}));
    swap(packed, arrived);
    forward(t.kv, store);
    rank.copy(compute, rank.view({arrived}), rank.view({held}, map));
    forward(held, merge);
    rank.phase(Phase::backward);
    rank.row_dot(compute, rank.view({t.dout}), rank.view({t.out}), rank.view({t.delta}));
    backward(held, held_sum, store);
    rank.copy(compute, rank.view({held_sum}, map), rank.view({packed_sum}));
    swap(packed_sum, arrived_sum);
    backward(t.kv, own_sum, add);
    rank.add_to(compute, rank.view({arrived_sum}), rank.view({own_sum}, map));
    rank.cast(compute, rank.view({own_sum}), rank.view({t.dkv}));
  }
  return with_edges(std::move(plan));
}

Plan raised(int P, DType dtype) {
  constexpr std::int64_t n = 4;
  constexpr double minus_infinity = -std::numeric_limits<double>::infinity();
  Plan plan = empty_plan(P, P * n, false, Direction::forward, dtype);
  Problem& p = plan.scenario.problem;
  p.max_logit = true;
  for (int r = 0; r < P; ++r) {
    Rank rank(plan, r);
    const Tensors t = tensors(plan, rank);
    const auto all = rank.buffer("all", Role::nominal, Category::working, 1, P * n, p.kv_heads,
                                 p.head_size + p.value_size);
    const auto most = rank.buffer("max_logit", Role::wide, Category::output, 1, 1, p.heads, 1);
    const auto other = rank.buffer("other", Role::wide, Category::working, 1, 1, p.heads, 1);
    std::vector<Part> parts;
    for (int peer = 0; peer < P; ++peer) {
      parts.push_back(send(rank.view({t.kv}), peer));
      parts.push_back(receive(rank.view(rows_of(all, peer * n, n)), peer));
    }
    rank.communicate(comm, OpKind::all_gather, parts);
    rank.fill(compute, rank.view({most}), minus_infinity);
    rank.fill(compute1, rank.view({other}), minus_infinity);
    for (const std::int32_t half : {0, 1}) {
      const auto heads = [&](std::uint32_t buffer, std::int32_t each) {
        return heads_of(buffer, half * each, half * each + each);
      };
      Attend tile{rank.view(heads(t.q, 2)),          keys(plan, rank, heads(all, 1)),
                  values(plan, rank, heads(all, 1)), rank.view(heads(t.out, 2)),
                  rank.view(heads(t.lse, 2)),        store};
      tile.max_logit = rank.view(heads(half == 0 ? most : other, 2));
      rank.attend(half == 0 ? compute : compute1, tile, {{0, n, 0, P * n, 0, -1, -1}});
    }
    rank.raise(compute, rank.view({other}), rank.view({most}));
    const ViewIndex whole = rank.view({most});  // one view: in place
    if (P > 1) rank.all_reduce(comm, whole, whole, {}, Reduction::max);
  }
  return with_edges(std::move(plan));
}

}  // namespace cplab::hand

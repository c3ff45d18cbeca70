// See replica_plans.hpp. Edges are derived from the views, as the builder does.
#include "tests/hand_plans/replica_plans.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/hand_plans/attention_plans.hpp"

namespace cplab::hand {
namespace {

constexpr Lane beside{LaneKind::comm, 1};

// Heads [begin, end), by their numbers in the problem.
struct Range {
  std::int32_t begin = 0, end = 0;
  std::int32_t count() const { return end - begin; }
};

class Writer {
 public:
  Writer(Plan& plan, const Replicas& what, int r)
      : plan_(plan), what_(what), r_(r), rank_(plan, r), t_(tensors(plan, rank_)) {}

  void write() {
    const Problem& p = plan_.scenario.problem;
    const std::int64_t D = p.head_size, E = p.value_size;
    const std::int32_t h = queries(r_).count(), g = keys_of(r_).count();
    q_ = working("q_heads", Role::nominal, h, D);
    kv_ = working("kv_heads", Role::nominal, g, D + E);
    out_ = working("out_heads", Role::nominal, h, E);
    lse_ = working("lse_heads", Role::wide, h, 1);
    trade({{t_.q, q_}, {t_.kv, kv_}}, true);
    const std::uint32_t barrier = rank_.communicate(beside, OpKind::barrier, {}, {}, 1);
    for_each_tile([&](Range heads, std::int32_t key, bool) {
      const At own_kv = heads_of(kv_, key, key + 1);
      const std::uint32_t i = rank_.attend(compute,
                                           {of(q_, heads), keys(plan_, rank_, own_kv),
                                            values(plan_, rank_, own_kv), of(out_, heads), of(lse_, heads)},
                                           {causal()});
      name_heads(i, heads);
      rank_.op(i).after_started = append(rank_.plan().edges, {barrier});
    });
    trade({{t_.out, out_}, {t_.lse, lse_}}, false);
    rank_.phase(Phase::backward);
    backward();
  }

 private:
  struct Pair {
    std::uint32_t tokens, heads;  // the rank's tokens with all heads; all tokens with the rank's heads
  };

  std::int64_t N() const { return what_.rows * what_.ranks; }
  Range queries(int rank) const {
    const std::int32_t each = what_.heads / what_.ranks;
    return {rank * each, (rank + 1) * each};
  }
  // The key heads that the query heads of `rank` need.
  Range keys_of(int rank) const {
    const std::int32_t group = what_.heads / what_.kv_heads;
    return {queries(rank).begin / group, (queries(rank).end - 1) / group + 1};
  }
  std::uint32_t working(const char* name, Role role, std::int64_t heads, std::int64_t width) {
    return rank_.buffer(name, role, Category::working, 1, N(), heads, width);
  }
  Segment causal() const { return {0, N(), 0, N(), 0, -1, 0}; }
  ViewIndex of(std::uint32_t buffer, Range heads) {
    return rank_.view(heads_of(buffer, heads.begin, heads.end));
  }
  void name_heads(std::uint32_t operation, Range heads) {
    rank_.op(operation).head_begin = queries(r_).begin + heads.begin;
    rank_.op(operation).head_end = queries(r_).begin + heads.end;
  }
  // Calls visit(query heads, their key head, first of this key head), counted among the rank's own.
  template <class Visit>
  void for_each_tile(Visit visit) {
    const std::int32_t group = what_.heads / what_.kv_heads;
    const Range own = queries(r_);
    for (std::int32_t at = own.begin; at < own.end;) {
      std::int32_t end = std::min(own.end, (at / group + 1) * group);
      if (what_.at_once > 0) end = std::min(end, at + what_.at_once);
      visit(Range{at - own.begin, end - own.begin}, at / group - keys_of(r_).begin,
            at == own.begin || at % group == 0);
      at = end;
    }
  }
  void trade(const std::vector<Pair>& pairs, bool to_heads) {
    std::vector<Part> parts;
    for (const Pair& x : pairs) {
      const bool of_keys = x.tokens == t_.kv;
      for (int peer = 0; peer < what_.ranks; ++peer) {
        const ViewIndex by_tokens = of(x.tokens, of_keys ? keys_of(peer) : queries(peer)),
                        by_heads = rank_.view(rows_of(x.heads, peer * what_.rows, what_.rows));
        parts.push_back(send(to_heads ? by_tokens : by_heads, peer));
        parts.push_back(receive(to_heads ? by_heads : by_tokens, peer));
      }
    }
    rank_.communicate(comm, OpKind::all_to_all, parts);
  }

  void backward() {
    const Problem& p = plan_.scenario.problem;
    const std::int64_t width = p.head_size + p.value_size;
    const bool all = what_.home == Home::reduce_scatter;
    const std::int32_t h = queries(r_).count(), first = all ? keys_of(r_).begin : 0;
    rank_.row_dot(compute, rank_.view({t_.dout}), rank_.view({t_.out}), rank_.view({t_.delta}));
    Buffer staged;
    staged.name = "dout_heads", staged.slab = "staging", staged.category = Category::working;
    staged.rows = N(), staged.heads = h, staged.width = p.value_size;
    const bool sends = what_.home == Home::exchange;
    const auto arrived = sends ? arrivals() : 0u;
    const auto dout = rank_.buffer(staged, sends ? rank_.plan().buffers[arrived].offset : -1);
    const auto delta = working("delta_heads", Role::wide, h, 1),
               dq = working("dq_heads", Role::nominal, h, p.head_size),
               dkv = working("dkv_heads", Role::wide, all ? p.kv_heads : keys_of(r_).count(), width);
    trade({{t_.dout, dout}, {t_.delta, delta}}, true);
    if (all) rank_.fill(compute, rank_.view({dkv}));
    for_each_tile([&](Range heads, std::int32_t key, bool fresh) {
      const At own_kv = heads_of(kv_, key, key + 1), own_dkv = heads_of(dkv, first + key, first + key + 1);
      name_heads(rank_.attend_backward(compute,
                                       {of(q_, heads), keys(plan_, rank_, own_kv),
                                        values(plan_, rank_, own_kv), of(dout, heads), of(lse_, heads),
                                        of(delta, heads), of(dq, heads), keys(plan_, rank_, own_dkv),
                                        values(plan_, rank_, own_dkv), store, all || !fresh ? add : store},
                                       {causal()}),
                 heads);
    });
    trade({{t_.dq, dq}}, false);
    const auto sum = rank_.buffer("dkv_sum", Role::wide, Category::working, 1, what_.rows, p.kv_heads, width);
    const ViewIndex whole = rank_.view({sum});
    if (all) {
      std::vector<Part> parts;
      for (int peer = 0; peer < what_.ranks; ++peer) {
        parts.push_back(send(rank_.view(rows_of(dkv, peer * what_.rows, what_.rows)), peer));
        parts.push_back(receive(whole, peer));
      }
      rank_.communicate(comm, OpKind::reduce_scatter, parts);
    } else if (sends) {
      send_and_add(dkv, arrived, sum);
    } else {
      sum_and_send(dkv, sum);
    }
    rank_.cast(compute, whole, rank_.view({t_.dkv}));
  }

  // What each peer sends of the rank's tokens, in a slot each.
  std::uint32_t arrivals() {
    const Problem& p = plan_.scenario.problem;
    Buffer b;
    b.name = "dkv_arrived", b.slab = "staging", b.category = Category::working, b.role = Role::wide;
    b.slots = what_.ranks, b.rows = what_.rows, b.width = p.head_size + p.value_size;
    for (int peer = 0; peer < what_.ranks; ++peer)
      b.heads = std::max<std::int64_t>(b.heads, keys_of(peer).count());
    return rank_.buffer(b);
  }

  void send_and_add(std::uint32_t dkv, std::uint32_t arrived, std::uint32_t sum) {
    const auto slot = [&](int peer) {
      At at = heads_of(arrived, 0, keys_of(peer).count());
      at.slot = peer;
      return rank_.view(at);
    };
    std::vector<Part> parts;
    for (int peer = 0; peer < what_.ranks; ++peer) {
      parts.push_back(send(rank_.view(rows_of(dkv, peer * what_.rows, what_.rows)), peer));
      parts.push_back(receive(slot(peer), peer));
    }
    rank_.communicate(comm, OpKind::exchange, parts);
    rank_.fill(compute, rank_.view({sum}));
    for (int peer = what_.ranks - 1; peer >= 0; --peer)
      rank_.add_to(compute, slot(peer), of(sum, keys_of(peer)));
  }

  // The ranks that hold one key head are a group, as plan.groups has them behind the first two.
  void sum_and_send(std::uint32_t dkv, std::uint32_t sum) {
    const int holders = what_.ranks / what_.kv_heads;
    const ViewIndex whole = rank_.view({dkv});
    rank_.all_reduce(comm, whole, whole, {}, Reduction::sum, static_cast<std::uint16_t>(2 + r_ / holders));
    std::vector<Part> parts;
    for (int peer = 0; peer < what_.ranks; ++peer) {
      if (r_ % holders == 0)
        parts.push_back(send(rank_.view(rows_of(dkv, peer * what_.rows, what_.rows)), peer));
      if (peer % holders == 0) parts.push_back(receive(of(sum, keys_of(peer)), peer));
    }
    rank_.communicate(comm, OpKind::exchange, parts);
  }

  Plan& plan_;
  const Replicas& what_;
  int r_;
  Rank rank_;
  Tensors t_;
  std::uint32_t q_ = 0, kv_ = 0, out_ = 0, lse_ = 0;
};

}  // namespace

Plan replicated(const Replicas& what) {
  Plan plan = empty_plan(what.ranks, what.rows * what.ranks, true, Direction::forward_backward, what.dtype);
  plan.scenario.problem.heads = what.heads;
  plan.scenario.problem.kv_heads = what.kv_heads;
  plan.groups.push_back({"beside", plan.groups[0].ranks});
  if (what.home == Home::all_reduce) {
    for (int first = 0; first < what.ranks; first += what.ranks / what.kv_heads) {
      Group holders{"holders" + std::to_string(first), {}};
      for (int i = 0; i < what.ranks / what.kv_heads; ++i) holders.ranks.push_back(first + i);
      plan.groups.push_back(holders);
    }
  }
  for (int r = 0; r < what.ranks; ++r) Writer(plan, what, r).write();
  return with_edges(std::move(plan));
}

}  // namespace cplab::hand

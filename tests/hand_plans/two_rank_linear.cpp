// See two_rank_linear.hpp.
#include "tests/hand_plans/two_rank_linear.hpp"

#include <numeric>

#include "tests/hand_plans/hand_plans.hpp"
#include "tests/hand_plans/linear_plans.hpp"

namespace cplab::hand {
namespace {

// Chunks of one piece whose edges both have state 0.
std::vector<Chunk> chunks_of(const std::vector<std::int64_t>& lengths) {
  const std::int64_t tokens = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  std::vector<Chunk> list;
  std::int64_t row = 0;
  for (const std::int64_t count : lengths) {
    list.push_back({.row = row,
                    .count = count,
                    .state = static_cast<std::int32_t>(list.size()),
                    .left = 0,
                    .right = 0,
                    .left_exponent = row,
                    .right_exponent = tokens - row - count});
    row += count;
  }
  return list;
}

class LinearRank {
 public:
  static constexpr std::int64_t H = 2, D = 4, E = 3;

  LinearRank(Plan& plan, int r, const std::vector<std::int64_t>& lengths)
      : rank_(plan, r),
        peer_(1 - r),
        tokens_(std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0})),
        states_(std::ssize(lengths)),
        chunks_(append(rank_.plan().chunks, chunks_of(lengths))),
        whole_(append(rank_.plan().chunks, {Chunk{.row = 0, .count = tokens_, .state = 0}})) {
    q_ = tokens("q", Category::input, D);
    k_ = tokens("k", Category::input, D);
    v_ = tokens("v", Category::input, E);
    dout_ = tokens("dout", Category::input, E);
  }

  void forward() {
    using enum Operand;
    const auto out_buffer = tokens("out", Category::output, E);
    own_ = states("state", Category::working, states_);
    const auto leaving =
        states(peer_ == 0 ? "last_state" : "leaving", peer_ == 0 ? Category::output : Category::working, 1);
    linear(OpKind::state, {{k, all(k_)}, {v, all(v_)}}, {{state, all(own_)}});
    linear(OpKind::scan, {}, {{state, all(own_), add}, {final_state, all(leaving)}});
    if (peer_ == 1) {
      rank_.communicate(comm, OpKind::exchange, {send(all(leaving), peer_)});
    } else {
      carry_ = states("carry", Category::working, 1);
      rank_.communicate(comm, OpKind::exchange, {receive(all(carry_), peer_)});
    }
    for (std::int32_t h = 0; h < H; ++h) {
      linear(OpKind::local, {{q, head(q_, h)}, {k, head(k_, h)}, {v, head(v_, h)}, {state, head(own_, h)}},
             {{out, head(out_buffer, h)}}, h, h + 1);
    }
    if (peer_ == 1) return;
    linear(OpKind::inter, {{q, all(q_)}, {carry, all(carry_)}}, {{out, all(out_buffer), add}});
    const auto op = linear(OpKind::combine, {{from, all(carry_)}}, {{into, all(leaving), add}});
    rank_.op(op).chunks = whole_;
  }

  void backward() {
    using enum Operand;
    rank_.phase(Phase::backward);
    const auto dq_buffer = tokens("dq", Category::output, D), dk_buffer = tokens("dk", Category::output, D);
    const auto dv_buffer = tokens("dv", Category::output, E);
    const auto own = states("dstate", Category::working, states_);
    linear(OpKind::state, {{q, all(q_)}, {dout, all(dout_)}}, {{dstate, all(own)}});
    std::vector<Named> scanned = {{dstate, all(own), add}};
    std::vector<Named> reads = {
        {q, all(q_)}, {k, all(k_)}, {v, all(v_)}, {dout, all(dout_)}, {state, all(own_)}};
    if (peer_ == 0) {
      const auto leaving = states("dleaving", Category::working, 1);
      scanned.push_back({final_state, all(leaving)});
      reverse(linear(OpKind::scan, {}, scanned));
      rank_.communicate(comm, OpKind::exchange, {send(all(leaving), peer_)});
      reads.push_back({carry, all(carry_)});
      reads.push_back({dstate, all(own)});
    } else {
      const auto dcarry_buffer = states("dcarry", Category::working, 1);
      reverse(linear(OpKind::scan, {}, scanned));
      rank_.communicate(comm, OpKind::exchange, {receive(all(dcarry_buffer), peer_)});
      reads.push_back({dstate, all(own)});
      reads.push_back({dcarry, all(dcarry_buffer)});
    }
    linear(OpKind::local_backward, reads, {{dq, all(dq_buffer)}, {dk, all(dk_buffer)}, {dv, all(dv_buffer)}});
  }

 private:
  std::uint32_t tokens(const char* name, Category category, std::int64_t width) {
    return rank_.buffer(name, Role::nominal, category, 1, tokens_, H, width);
  }
  std::uint32_t states(const char* name, Category category, std::int64_t count) {
    return rank_.buffer(name, Role::wide, category, 1, count * D, H, E);
  }
  ViewIndex all(std::uint32_t buffer) { return rank_.view(buffer); }
  ViewIndex head(std::uint32_t buffer, std::int32_t h) { return rank_.view(heads_of(buffer, h, h + 1)); }
  std::uint32_t linear(OpKind kind, const std::vector<Named>& reads, const std::vector<Named>& writes,
                       std::int32_t head_begin = 0, std::int32_t head_end = H) {
    const auto i = rank_.operation(compute, kind, accesses(reads), accesses(writes));
    Operation& op = rank_.op(i);
    op.chunks = chunks_;
    op.head_begin = head_begin;
    op.head_end = head_end;
    return i;
  }
  void reverse(std::uint32_t operation) { rank_.op(operation).reverse = true; }

  Rank rank_;
  int peer_;
  std::int64_t tokens_, states_;
  Span chunks_, whole_;
  std::uint32_t q_ = 0, k_ = 0, v_ = 0, dout_ = 0, own_ = 0, carry_ = 0;
};

}  // namespace

Plan two_rank_linear(const LinearShape& shape) {
  Plan plan = ranks_in_one_group(2, "all", DType::fp64);
  Problem& p = plan.scenario.problem;
  p.attention = Attention::linear;
  p.heads = p.kv_heads = LinearRank::H;
  p.head_size = LinearRank::D;
  p.value_size = LinearRank::E;
  p.causal = true;
  p.slopes = shape.slopes;
  for (int r = 0; r < 2; ++r) {
    LinearRank rank(plan, r, shape.chunks[static_cast<std::size_t>(r)]);
    rank.forward();
    rank.backward();
  }
  return with_edges(plan);
}

}  // namespace cplab::hand

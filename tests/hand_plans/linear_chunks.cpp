// Linear attention in chunks, over several sequences, and with other transitions than a decay; see
// linear_plans.hpp.
#include <algorithm>
#include <optional>

#include "tests/hand_plans/linear_plans.hpp"

namespace cplab::hand {
namespace {

using enum Operand;
using MaybeBuffer = std::optional<std::uint32_t>;

// One rank of `chunked`, in one direction after the other.
class ChunkedRank {
 public:
  ChunkedRank(Plan& plan, int r, std::int64_t rows)
      : plan_(plan), rank_(plan, r), buffers_(linear_buffers(plan, rank_)), r_(r) {
    const bool stream = plan.scenario.placement == "stream";
    std::int32_t number = 0;
    for (const TokenPiece& piece : pieces_of(plan, r)) {
      const std::int32_t left = !stream           ? number
                                : piece.begin > 0 ? 0
                                                  : -1,
                         right = !stream                    ? number
                                 : piece.end < piece.length ? 0
                                                            : -1;
      ++number;
      ends_.push_back({left, right, piece.count()});
      std::int64_t at = 0;
      do {
        Chunk c;
        c.row = piece.row + at;
        c.count = std::min(rows, piece.count() - at);
        c.state = static_cast<std::int32_t>(chunks_.size());
        c.left = left, c.right = right;
        c.left_exponent = left < 0 ? 0 : at;
        c.right_exponent = right < 0 ? 0 : piece.count() - at - c.count;
        c.resets = at == 0;
        chunks_.push_back(c);
        at += c.count;
      } while (at < piece.count());
    }
    edges_ = stream ? 1 : number;
  }

  void forward() {
    pass(false, state_, carry_);
    std::vector<Named> reads = inputs();
    add_states(reads, false);
    linear(plan_, rank_, OpKind::local, reads, {{out, rank_.view(buffers_.out)}}, chunks_);
  }

  void backward() {
    rank_.phase(Phase::backward);
    pass(true, dstate_, dcarry_);
    std::vector<Named> reads = inputs();
    reads.push_back({dout, rank_.view(buffers_.dout)});
    add_states(reads, false);
    add_states(reads, true);
    linear(plan_, rank_, OpKind::local_backward, reads,
           {{dq, rank_.view(buffers_.dq)},
            {dk, rank_.view(keys_at(plan_, buffers_.dkv))},
            {dv, rank_.view(values_at(plan_, buffers_.dkv))}},
           chunks_);
  }

 private:
  struct Ends {
    std::int32_t left, right;
    std::int64_t count;
  };

  std::vector<Named> inputs() {
    return {{q, rank_.view(buffers_.q)},
            {k, rank_.view(keys_at(plan_, buffers_.kv))},
            {v, rank_.view(values_at(plan_, buffers_.kv))}};
  }
  void add_states(std::vector<Named>& reads, bool reverse) {
    if (chunks_.empty()) return;
    reads.push_back({reverse ? dstate : state, rank_.view(reverse ? dstate_ : state_)});
    const MaybeBuffer& entered = reverse ? dcarry_ : carry_;
    if (entered) reads.push_back({reverse ? dcarry : carry, rank_.view(*entered)});
  }
  bool crosses(bool left) const {
    const int P = static_cast<int>(plan_.ranks.size());
    return (left ? r_ > 0 : r_ + 1 < P) &&
           std::ranges::any_of(ends_, [&](const Ends& e) { return (left ? e.left : e.right) >= 0; });
  }

  // What the rank does to every state that goes through it.
  std::vector<Chunk> passages(bool reverse) const {
    std::vector<Chunk> list;
    for (std::int32_t number = 0; number < edges_; ++number) {
      Chunk c;
      c.state = number;
      c.resets = true;
      for (const Ends& e : ends_) {
        if ((reverse ? e.left : e.right) != number) continue;
        c.count = e.count;
        c.resets = (reverse ? e.right : e.left) != number;
      }
      list.push_back(c);
    }
    return list;
  }

  void pass(bool reverse, std::uint32_t& own, MaybeBuffer& entered) {
    const auto n = static_cast<std::int64_t>(chunks_.size());
    if (n == 0) return;
    own = states(plan_, rank_, reverse ? "dstate" : "state", n);
    if (reverse)
      linear(plan_, rank_, OpKind::state, {{q, rank_.view(buffers_.q)}, {dout, rank_.view(buffers_.dout)}},
             {{dstate, rank_.view(own)}}, chunks_);
    else
      linear(plan_, rank_, OpKind::state,
             {{k, rank_.view(keys_at(plan_, buffers_.kv))}, {v, rank_.view(values_at(plan_, buffers_.kv))}},
             {{state, rank_.view(own)}}, chunks_);
    const bool enters = crosses(!reverse), leaves = crosses(reverse);
    std::vector<Named> written{{reverse ? dstate : state, rank_.view(own), add}};
    std::uint32_t last = 0;
    if (leaves) {
      last = states(plan_, rank_, reverse ? "d_last" : "last", edges_);
      written.push_back({final_state, rank_.view(last)});
    }
    linear(plan_, rank_, OpKind::scan, {}, written, chunks_, reverse);
    const int before = reverse ? r_ + 1 : r_ - 1, after = reverse ? r_ - 1 : r_ + 1;
    if (enters) {
      entered = states(plan_, rank_, reverse ? "dcarry" : "carry", edges_, Category::output);
      rank_.communicate(comm, OpKind::exchange, {receive(rank_.view(*entered), before)});
    }
    if (enters && leaves)
      linear(plan_, rank_, OpKind::combine, {{from, rank_.view(*entered)}}, {{into, rank_.view(last), add}},
             passages(reverse), reverse);
    if (leaves) rank_.communicate(comm, OpKind::exchange, {send(rank_.view(last), after)});
  }

  Plan& plan_;
  Rank rank_;
  LinearBuffers buffers_;
  int r_;
  std::vector<Ends> ends_;  // of its pieces
  std::vector<Chunk> chunks_;
  std::int64_t edges_ = 0;
  std::uint32_t state_ = 0, dstate_ = 0;
  MaybeBuffer carry_, dcarry_;
};

// One rank of `affine`.
class AffineRank {
 public:
  AffineRank(Plan& plan, int r)
      : plan_(plan),
        P_(static_cast<int>(plan.ranks.size())),
        r_(r),
        matrix_(plan.scenario.problem.transition == Transition::matrix),
        rank_(plan, r),
        t_(linear_buffers(plan, rank_)) {
    const Problem& p = plan.scenario.problem;
    const std::int64_t n = rows_of_rank(plan);
    const auto tensor = [&](const char* name, Category category, std::int64_t width) {
      return rank_.buffer(name, Role::wide, category, 1, n, p.heads, width);
    };
    log_decay_ = tensor("log_decay", Category::input, p.gate_columns());
    dlog_decay_ = tensor("dlog_decay", Category::output, p.gate_columns());
    if (matrix_) beta_ = tensor("beta", Category::input, 1);
    if (matrix_) dbeta_ = tensor("dbeta", Category::output, 1);
    const TokenPiece piece = pieces_of(plan, r).front();
    chunk_.row = piece.row, chunk_.count = piece.count();
    chunk_.state = chunk_.left = chunk_.right = 0;
  }

  void build() {
    const std::uint32_t own = states(plan_, rank_, "own"), own_t = transitions("own_transition", 1);
    std::vector<Named> reads{{k, keys()}, {v, values()}};
    add_factors(reads);
    linear(plan_, rank_, OpKind::state, reads, {{state, rank_.view(own)}, {transition, rank_.view(own_t)}},
           {chunk_});
    all_t_ = transitions("transitions", P_);
    gather(own_t, all_t_);
    const std::optional<std::uint32_t> carried = fold(own, false);
    reads = {{q, rank_.view(t_.q)}, {k, keys()}, {v, values()}};
    add_factors(reads);
    if (carried) reads.push_back({carry, rank_.view(*carried)});
    Chunk whole = chunk_;
    whole.state = -1;
    linear(plan_, rank_, OpKind::local, reads, {{out, rank_.view(t_.out)}}, {whole});

    rank_.phase(Phase::backward);
    const std::uint32_t down = states(plan_, rank_, "d_own");
    std::vector<Named> of_queries{{q, rank_.view(t_.q)}, {dout, rank_.view(t_.dout)}};
    if (matrix_) of_queries.push_back({k, keys()});
    add_factors(of_queries);
    linear(plan_, rank_, OpKind::state, of_queries, {{dstate, rank_.view(down)}}, {chunk_}, true);
    const std::optional<std::uint32_t> dcarried = fold(down, true);
    reads.push_back({dout, rank_.view(t_.dout)});
    if (dcarried) reads.push_back({dcarry, rank_.view(*dcarried)});
    std::vector<Named> writes{{dq, rank_.view(t_.dq)},
                              {dk, rank_.view(keys_at(plan_, t_.dkv))},
                              {dv, rank_.view(values_at(plan_, t_.dkv))},
                              {dlog_decay, rank_.view(dlog_decay_)}};
    if (matrix_) writes.push_back({dbeta, rank_.view(dbeta_)});
    linear(plan_, rank_, OpKind::local_backward, reads, writes, {whole});
  }

 private:
  ViewIndex keys() { return rank_.view(keys_at(plan_, t_.kv)); }
  ViewIndex values() { return rank_.view(values_at(plan_, t_.kv)); }
  void add_factors(std::vector<Named>& reads) {
    reads.push_back({log_decay, rank_.view(log_decay_)});
    if (matrix_) reads.push_back({beta, rank_.view(beta_)});
  }
  std::uint32_t transitions(const std::string& name, std::int64_t count) {
    const Problem& p = plan_.scenario.problem;
    Buffer b;
    b.name = name;
    b.role = Role::wide;
    b.layout = Layout::heads_first;
    b.rows = count * p.head_size, b.heads = p.heads, b.width = matrix_ ? p.head_size : 1;
    return rank_.buffer(b);
  }
  At part(std::uint32_t buffer, int of) const {
    const std::int64_t D = plan_.scenario.problem.head_size;
    return rows_of(buffer, of * D, D);
  }
  void gather(std::uint32_t own, std::uint32_t all) {
    std::vector<Part> parts;
    for (int peer = 0; peer < P_; ++peer) {
      parts.push_back(send(rank_.view(own), peer));
      parts.push_back(receive(rank_.view(part(all, peer)), peer));
    }
    rank_.communicate(comm, OpKind::all_gather, parts);
  }
  // The states of the ranks before (behind) this one, each passed through those between.
  std::optional<std::uint32_t> fold(std::uint32_t own, bool reverse) {
    const std::uint32_t all = states(plan_, rank_, reverse ? "d_all" : "all", P_);
    gather(own, all);
    const int step = reverse ? -1 : 1, first = reverse ? P_ - 1 : 0;
    if (r_ == first) return {};
    Chunk c;
    c.state = 0;
    for (int at = first + step; at != r_; at += step)
      linear(plan_, rank_, OpKind::combine,
             {{from, rank_.view(part(all, at - step))}, {transition, rank_.view(part(all_t_, at))}},
             {{into, rank_.view(part(all, at)), add}}, {c}, reverse);
    const std::uint32_t entered = states(plan_, rank_, reverse ? "dcarry" : "carry", 1, Category::output);
    rank_.copy(compute, rank_.view(part(all, r_ - step)), rank_.view(entered));
    return entered;
  }

  Plan& plan_;
  int P_, r_;
  bool matrix_;
  Rank rank_;
  LinearBuffers t_;
  std::uint32_t log_decay_ = 0, beta_ = 0, dlog_decay_ = 0, dbeta_ = 0, all_t_ = 0;
  Chunk chunk_;
};

}  // namespace

Plan chunked(int P, const std::vector<std::int64_t>& lengths, Direction direction,
             const std::string& placement, std::int64_t rows, DType dtype) {
  Plan plan = empty_linear_plan(P, lengths, direction, placement, dtype);
  for (int r = 0; r < P; ++r) {
    ChunkedRank rank(plan, r, rows);
    rank.forward();
    if (direction != Direction::forward) rank.backward();
  }
  return with_edges(std::move(plan));
}

Plan affine(int P, std::int64_t tokens, Transition transition, DType dtype) {
  Plan plan = empty_linear_plan(P, {tokens}, Direction::forward_backward, "contiguous", dtype);
  plan.scenario.problem.transition = transition;
  plan.scenario.problem.slopes.clear();
  for (int r = 0; r < P; ++r) AffineRank(plan, r).build();
  return with_edges(std::move(plan));
}

}  // namespace cplab::hand

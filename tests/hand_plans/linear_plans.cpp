// Linear attention written by hand; see linear_plans.hpp.
#include "tests/hand_plans/linear_plans.hpp"

#include <algorithm>

namespace cplab::hand {

using enum Operand;

Plan empty_linear_plan(int P, const std::vector<std::int64_t>& lengths, Direction direction,
                       const std::string& placement, DType dtype) {
  Plan plan = ranks_in_one_group(P, "cp", dtype);
  Problem& p = plan.scenario.problem;
  p.attention = Attention::linear;
  p.format = Format::thd;
  p.packed = true;
  p.lengths = p.padded_lengths = lengths;
  p.heads = p.kv_heads = 2, p.head_size = 4, p.value_size = 3;
  p.causal = true;
  p.slopes = {0.5, 0.25};
  p.direction = direction;
  plan.scenario.placement = placement;
  return plan;
}

std::vector<TokenPiece> pieces_of(const Plan& plan, int rank) {
  const Problem& p = plan.scenario.problem;
  const std::int64_t P = plan.scenario.parallel.ranks, n = rows_of_rank(plan);
  const bool stream = plan.scenario.placement == "stream";
  std::vector<TokenPiece> list;
  std::int64_t row = 0;  // of the sequence: in the rank; stream: in all ranks
  for (std::size_t b = 0; b < p.lengths.size(); ++b) {
    const std::int64_t padded = p.padded_lengths[b], length = p.lengths[b], local = (padded + P - 1) / P;
    if (padded == 0) continue;
    TokenPiece piece{static_cast<std::int64_t>(b), row, 0, 0, length};
    if (stream) {
      piece.begin = std::clamp<std::int64_t>(rank * n - row, 0, length);
      piece.end = std::clamp<std::int64_t>((rank + 1) * n - row, 0, length);
      piece.row = row + piece.begin - rank * n;
      if (piece.count() > 0) list.push_back(piece);
      row += padded;
    } else {
      piece.begin = std::min(length, rank * local);
      piece.end = std::min(length, (rank + 1) * local);
      list.push_back(piece);
      row += local;
    }
  }
  return list;
}

LinearBuffers linear_buffers(const Plan& plan, Rank& rank) {
  const Problem& p = plan.scenario.problem;
  const std::int64_t n = rows_of_rank(plan), H = p.heads, D = p.head_size, E = p.value_size;
  using enum Category;
  LinearBuffers t{};
  t.q = rank.buffer("q", Role::nominal, input, 1, n, H, D);
  t.kv = rank.buffer("kv", Role::nominal, input, 1, n, H, D + E);
  t.out = rank.buffer("out", Role::nominal, output, 1, n, H, E);
  if (!p.has_backward()) return t;
  t.dout = rank.buffer("dout", Role::nominal, input, 1, n, H, E);
  t.dq = rank.buffer("dq", Role::nominal, output, 1, n, H, D);
  t.dkv = rank.buffer("dkv", Role::nominal, output, 1, n, H, D + E);
  return t;
}

At keys_at(const Plan& plan, std::uint32_t buffer) {
  At at{buffer};
  at.width_end = static_cast<std::int32_t>(plan.scenario.problem.head_size);
  return at;
}
At values_at(const Plan& plan, std::uint32_t buffer) {
  At at{buffer};
  at.width_begin = static_cast<std::int32_t>(plan.scenario.problem.head_size);
  return at;
}

std::uint32_t states(const Plan& plan, Rank& rank, const std::string& name, std::int64_t count,
                     Category category) {
  const Problem& p = plan.scenario.problem;
  Buffer b;
  b.name = name;
  b.role = Role::wide;
  b.category = category;
  b.layout = Layout::heads_first;
  b.rows = count * p.head_size, b.heads = p.heads, b.width = p.value_size;
  return rank.buffer(b);
}

std::vector<Access> accesses(const std::vector<Named>& operands) {
  std::vector<Access> list;
  for (const Named& n : operands) list.push_back({n.view, n.mode, n.operand});
  return list;
}

std::uint32_t linear(const Plan& plan, Rank& rank, OpKind kind, const std::vector<Named>& reads,
                     const std::vector<Named>& writes, const std::vector<Chunk>& chunks, bool reverse) {
  const std::uint32_t i = rank.operation(compute, kind, accesses(reads), accesses(writes));
  Operation& op = rank.op(i);
  op.chunks = append(rank.plan().chunks, chunks);
  op.reverse = reverse;
  op.head_end = static_cast<std::int32_t>(plan.scenario.problem.heads);
  return i;
}

// ---- scans --------------------------------------------------------------------------------------

Scan::Scan(Plan& plan, Rank& r, const LinearBuffers& buffers, bool from_right)
    : P(static_cast<int>(plan.ranks.size())),
      index(from_right ? P - 1 - r.plan().rank : r.plan().rank),
      reverse(from_right),
      rank(r),
      plan_(plan),
      buffers_(buffers) {}

std::uint32_t Scan::buffer(const std::string& name, std::int64_t count) const {
  return states(plan_, rank, (reverse ? "d_" : "") + name, count);
}

std::uint32_t Scan::own_state(bool total) {
  const std::uint32_t own =
      total ? states(plan_, rank, reverse ? "dstate_first" : "state_last", 1, Category::output)
            : buffer("own");
  Chunk c;
  c.count = tokens(index, index);
  c.state = 0;
  if (reverse)
    linear(plan_, rank, OpKind::state, {{q, rank.view(buffers_.q)}, {dout, rank.view(buffers_.dout)}},
           {{dstate, rank.view(own)}}, {c});
  else
    linear(plan_, rank, OpKind::state,
           {{k, rank.view(keys_at(plan_, buffers_.kv))}, {v, rank.view(values_at(plan_, buffers_.kv))}},
           {{state, rank.view(own)}}, {c});
  return own;
}

std::uint32_t Scan::carry() {
  carry_ = states(plan_, rank, reverse ? "dcarry" : "carry", 1, Category::output);
  return *carry_;
}

std::int64_t Scan::tokens(int first, int last) const {
  std::int64_t sum = 0;
  for (int i = first; i <= last; ++i) sum += pieces_of(plan_, rank_of(i)).front().count();
  return sum;
}

std::uint32_t Scan::combine(const At& from_, const At& into_, std::int64_t count) const {
  Chunk c;
  c.count = count;
  c.state = 0;
  return linear(plan_, rank, OpKind::combine, {{from, rank.view(from_)}}, {{into, rank.view(into_), add}},
                {c}, reverse);
}

void Scan::exchange(const std::vector<Message>& messages, OpKind kind, Lane lane) const {
  std::vector<Part> parts;
  for (const Message& m : messages)
    parts.push_back(m.send ? send(rank.view(m.at), rank_of(m.index))
                           : receive(rank.view(m.at), rank_of(m.index)));
  if (!parts.empty()) rank.communicate(lane, kind, parts);
}

Plan scanned(int P, std::int64_t tokens, Direction direction, const ScanRanks& scan, DType dtype) {
  Plan plan = empty_linear_plan(P, {tokens}, direction, "contiguous", dtype);
  for (int r = 0; r < P; ++r) {
    Rank rank(plan, r);
    const LinearBuffers t = linear_buffers(plan, rank);
    const TokenPiece piece = pieces_of(plan, r).front();
    Chunk c;
    c.row = piece.row, c.count = piece.count();
    c.left = c.right = 0;
    const std::vector<Named> inputs{
        {q, rank.view(t.q)}, {k, rank.view(keys_at(plan, t.kv))}, {v, rank.view(values_at(plan, t.kv))}};
    Scan left(plan, rank, t, false);
    scan(left);
    std::vector<Named> reads = inputs;
    if (left.given_carry()) reads.push_back({carry, rank.view(*left.given_carry())});
    linear(plan, rank, OpKind::local, reads, {{out, rank.view(t.out)}}, {c});
    if (direction == Direction::forward) continue;
    rank.phase(Phase::backward);
    Scan right(plan, rank, t, true);
    scan(right);
    reads.insert(reads.begin() + 3, {dout, rank.view(t.dout)});
    if (right.given_carry()) reads.push_back({dcarry, rank.view(*right.given_carry())});
    linear(plan, rank, OpKind::local_backward, reads,
           {{dq, rank.view(t.dq)},
            {dk, rank.view(keys_at(plan, t.dkv))},
            {dv, rank.view(values_at(plan, t.dkv))}},
           {c});
  }
  return with_edges(std::move(plan));
}

}  // namespace cplab::hand

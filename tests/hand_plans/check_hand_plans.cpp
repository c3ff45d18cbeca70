// Plans written by hand; see check_hand_plans.hpp.
#include "tests/hand_plans/check_hand_plans.hpp"

#include <algorithm>
#include "plan/operands.hpp"
#include "tests/hand_plans/hand_plans.hpp"

namespace cplab::hand {
namespace {

constexpr auto store = WriteMode::store;
constexpr auto add = WriteMode::add;
constexpr auto merge = WriteMode::merge;

std::int64_t rows_of(const Plan& plan) {
  return plan.scenario.problem.padded_lengths[0] / plan.scenario.parallel.ranks;
}

Segment full(std::int64_t queries, std::int64_t keys) {
  return {0, queries, 0, keys, 0, -1, -1};
}

}  // namespace

Rank::Rank(Plan& p, int rank)
    : plan(&p.ranks[static_cast<std::size_t>(rank)]), dtype_(p.scenario.problem.dtype) {
  phase(Phase::forward);
}

void Rank::phase(Phase p) {
  phase_ = p;
  ordinal_ = 0;
  for (const Operation& o : plan->operations) ordinal_ += o.phase == p;
}

std::uint32_t Rank::buffer(std::string name, Role role, Category category, std::int64_t slots,
                           std::int64_t rows, std::int64_t heads, std::int64_t width) {
  Buffer b;
  b.name = std::move(name);
  b.role = role;
  b.category = category;
  b.slots = slots, b.rows = rows, b.heads = heads, b.width = width;
  b.bytes = slots * rows * heads * width * element_bytes(role, dtype_);
  b.offset = plan->arena_bytes;
  plan->arena_bytes += (b.bytes + 255) / 256 * 256;
  plan->buffers.push_back(b);
  return static_cast<std::uint32_t>(plan->buffers.size() - 1);
}

std::uint32_t Rank::view(const At& at, std::vector<RowRange> rows) {
  const Buffer& b = plan->buffers[at.buffer];
  View v;
  v.buffer = at.buffer;
  v.ranges = append(plan->row_ranges, rows);
  v.slot_begin = at.slot, v.slot_end = at.slot + 1;
  v.head_begin = at.head_begin,
  v.head_end = at.head_end < 0 ? static_cast<std::int32_t>(b.heads) : at.head_end;
  v.width_begin = at.width_begin,
  v.width_end = at.width_end < 0 ? static_cast<std::int32_t>(b.width) : at.width_end;
  plan->views.push_back(v);
  return static_cast<std::uint32_t>(plan->views.size() - 1);
}

std::uint32_t Rank::view(const At& at) {
  const std::int64_t rows = at.rows < 0 ? plan->buffers[at.buffer].rows - at.row : at.rows;
  return view(at, {{at.row, rows, 1}});
}

void Rank::set_after(Operation& op, const std::vector<std::uint32_t>& after) {
  op.after = append(plan->edges, after);
}

std::uint32_t Rank::operation(Lane lane, OpKind kind, const std::vector<std::uint32_t>& reads,
                              const std::vector<std::pair<std::uint32_t, WriteMode>>& writes,
                              const std::vector<std::uint32_t>& after) {
  Operation o;
  o.kind = kind;
  o.phase = phase_;
  o.lane = lane;
  o.step = step;
  o.ordinal = ordinal_++;
  std::vector<Access> read_list, write_list;
  for (const std::uint32_t view : reads) read_list.push_back({view, store});
  for (const auto& [view, mode] : writes) write_list.push_back({view, mode});
  name_by_position(kind, read_list, write_list);
  o.reads = append(plan->accesses, read_list);
  o.writes = append(plan->accesses, write_list);
  set_after(o, after);
  plan->operations.push_back(o);
  return static_cast<std::uint32_t>(plan->operations.size() - 1);
}

std::uint32_t Rank::attend(Lane lane, const std::vector<std::uint32_t>& reads,
                           const std::vector<std::pair<std::uint32_t, WriteMode>>& writes,
                           const std::vector<Segment>& segments, const std::vector<std::uint32_t>& after) {
  const std::uint32_t i =
      operation(lane, writes.size() == 2 ? OpKind::attend : OpKind::attend_backward, reads, writes, after);
  op(i).segments = append(plan->segments, segments);
  op(i).value = logit_scale;
  op(i).head_begin = plan->views[reads[0]].head_begin;
  op(i).head_end = plan->views[reads[0]].head_end;
  return i;
}

std::uint32_t Rank::communicate(Lane lane, OpKind kind, const std::vector<Part>& parts,
                                const std::vector<std::uint32_t>& after, std::uint16_t group) {
  const std::uint32_t i = operation(lane, kind, {}, {}, after);
  op(i).parts = append(plan->parts, parts);
  op(i).group = group;
  return i;
}

std::uint32_t Rank::find(const std::string& buffer) const {
  const auto at = std::find_if(plan->buffers.begin(), plan->buffers.end(),
                               [&](const Buffer& b) { return b.name == buffer; });
  return static_cast<std::uint32_t>(at - plan->buffers.begin());
}

Part send(std::uint32_t view, int peer) {
  return {view, peer, true};
}
Part receive(std::uint32_t view, int peer) {
  return {view, peer, false};
}

Plan empty_plan(int P, std::int64_t tokens, bool causal, Direction direction, DType dtype) {
  Plan plan = ranks_in_one_group(P, "cp");
  Problem& p = plan.scenario.problem;
  p.batch = 1;
  p.sequence = tokens;
  p.lengths = p.padded_lengths = {tokens};
  p.heads = 4, p.kv_heads = 2, p.head_size = 8, p.value_size = 6;
  p.causal = causal;
  p.direction = direction;
  p.dtype = dtype;
  p.scale = logit_scale;
  plan.scenario.placement = "contiguous";
  return plan;
}

Tensors tensors(const Plan& plan, Rank& rank) {
  const Problem& p = plan.scenario.problem;
  const std::int64_t n = rows_of(plan), H = p.heads, D = p.head_size, E = p.value_size;
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

std::uint32_t keys(const Plan& plan, Rank& rank, At at) {
  at.width_end = static_cast<std::int32_t>(plan.scenario.problem.head_size);
  return rank.view(at);
}
std::uint32_t values(const Plan& plan, Rank& rank, At at) {
  at.width_begin = static_cast<std::int32_t>(plan.scenario.problem.head_size);
  return rank.view(at);
}

namespace {

// Backward of the ring: K and V go on to the left; dK and dV follow one step behind, summed on the way.
void ring_backward(const Plan& plan, Rank& rank, const Tensors& t, int P, int r, const At& last_held) {
  const Problem& p = plan.scenario.problem;
  const std::int64_t n = rows_of(plan), width = p.head_size + p.value_size;
  const int left = (r + P - 1) % P, right = (r + 1) % P;
  rank.phase(Phase::backward);
  rank.step = 0;
  rank.operation(compute, OpKind::row_dot, {rank.view({t.dout}), rank.view({t.out})},
                 {{rank.view({t.delta}), store}});
  const auto slots = rank.buffer("kv_back", Role::nominal, Category::working, 2, n, p.kv_heads, width);
  const auto sums = rank.buffer("dkv_slots", Role::wide, Category::working, 2, n, p.kv_heads, width);
  const auto tile = rank.buffer("dkv_tile", Role::wide, Category::working, 1, n, p.kv_heads, width);
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
    const At into = i == 0 ? sum : At{tile};
    std::vector<std::uint32_t> reads{rank.view({t.q}),    keys(plan, rank, held), values(plan, rank, held),
                                     rank.view({t.dout}), rank.view({t.lse}),     rank.view({t.delta})};
    std::vector<std::uint32_t> received;
    if (i > 0) received = {exchange};
    adds.push_back(rank.attend(compute, reads,
                               {{rank.view({t.dq}), i == 0 ? store : add},
                                {keys(plan, rank, into), store},
                                {values(plan, rank, into), store}},
                               {full(n, n)}, received));
    if (i > 0)
      adds.back() = rank.operation(compute, OpKind::add, {rank.view({tile})}, {{rank.view(sum), add}});
    held = next;
  }
  rank.operation(compute, OpKind::cast, {rank.view({sums, P % 2})}, {{rank.view({t.dkv}), store}});
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
      last_tile = rank.attend(compute, {rank.view({t.q}), keys(plan, rank, held), values(plan, rank, held)},
                              {{out, store}, {lse, store}}, {full(rows, rows)},
                              i > 0 ? std::vector<std::uint32_t>{received} : std::vector<std::uint32_t>{});
      if (deferred && i == 0) rank.operation(compute, OpKind::copy, {lse}, {{rank.view({t.lse}), store}});
      if (deferred && i > 0) rank.operation(compute, OpKind::merge, {lse}, {{rank.view({t.lse}), merge}});
      if (!deferred && i > 0)
        rank.operation(compute, OpKind::merge, {out, lse},
                       {{rank.view({t.out}), merge}, {rank.view({t.lse}), merge}});
      received = exchange;
      if (i + 1 < P) held = next;
    }
    for (int i = 0; deferred && i < P; ++i)
      rank.operation(compute, OpKind::merge,
                     {rank.view({part_out, i}), rank.view({part_lse, i}), rank.view({t.lse})},
                     {{rank.view({t.out}), i == 0 ? store : add}});
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
    rank.attend(compute, {rank.view({t.q}), keys(plan, rank, seen), values(plan, rank, seen)},
                {{rank.view({t.out}), store}, {rank.view({t.lse}), store}}, {causal}, {gathered});
    rank.phase(Phase::backward);
    rank.operation(compute, OpKind::row_dot, {rank.view({t.dout}), rank.view({t.out})},
                   {{rank.view({t.delta}), store}});
    // All keys, so that the rows that this rank does not see are stored as zero.
    const At whole{all}, dwhole{dall};
    const std::uint32_t tile = rank.attend(
        compute,
        {rank.view({t.q}), keys(plan, rank, whole), values(plan, rank, whole), rank.view({t.dout}),
         rank.view({t.lse}), rank.view({t.delta})},
        {{rank.view({t.dq}), store}, {keys(plan, rank, dwhole), store}, {values(plan, rank, dwhole), store}},
        {causal});
    const std::uint32_t into = rank.view({sum});
    for (int peer = 0; peer < P; ++peer) {
      scatter.push_back(send(rank.view({dall, 0, peer * rows, rows}), peer));
      scatter.push_back(receive(into, peer));
    }
    const std::uint32_t scattered = rank.communicate(comm, OpKind::reduce_scatter, scatter, {tile});
    rank.operation(compute, OpKind::cast, {into}, {{rank.view({t.dkv}), store}}, {scattered});
  }
  return plan;
}

Plan single(std::int64_t tokens, Direction direction) {
  Plan plan = empty_plan(1, tokens, true, direction);
  Rank rank(plan, 0);
  const Tensors t = tensors(plan, rank);
  const Segment causal{0, tokens, 0, tokens, 0, -1, 0};
  rank.attend(compute, {rank.view({t.q}), keys(plan, rank, {t.kv}), values(plan, rank, {t.kv})},
              {{rank.view({t.out}), store}, {rank.view({t.lse}), store}}, {causal});
  if (direction == Direction::forward) return plan;
  rank.phase(Phase::backward);
  rank.operation(compute, OpKind::row_dot, {rank.view({t.dout}), rank.view({t.out})},
                 {{rank.view({t.delta}), store}});
  rank.attend(
      compute,
      {rank.view({t.q}), keys(plan, rank, {t.kv}), values(plan, rank, {t.kv}), rank.view({t.dout}),
       rank.view({t.lse}), rank.view({t.delta})},
      {{rank.view({t.dq}), store}, {keys(plan, rank, {t.dkv}), store}, {values(plan, rank, {t.dkv}), store}},
      {causal});
  return plan;
}

Operation& find(Plan& plan, int rank, OpKind kind, Phase phase, std::uint32_t step) {
  std::vector<Operation>& list = plan.ranks[static_cast<std::size_t>(rank)].operations;
  return *std::find_if(list.begin(), list.end(), [&](const Operation& op) {
    return op.kind == kind && op.phase == phase && op.step == step;
  });
}

bool has(const CheckResult& result, FindingKind kind, int rank, const std::string& operation) {
  return std::any_of(result.findings.begin(), result.findings.end(), [&](const Finding& f) {
    return f.kind == kind && f.rank == rank && f.operation == operation;
  });
}

std::string text(const CheckResult& result) {
  std::string all;
  for (const Finding& f : result.findings)
    all += std::string(name(f.kind)) + " rank " + std::to_string(f.rank) + " " + f.operation + " [" +
           f.buffer + "] " + f.message + "\n";
  return all;
}

}  // namespace cplab::hand

// Three algorithms that use all of the builder; see builder_plans.hpp.
#include "tests/exec/builder_plans.hpp"

#include <span>

#include "algorithms/core/scope.hpp"
#include "algorithms/softmax/softmax.hpp"

namespace cplab {
namespace {

// Buffers of the rank's own rows.
struct Own {
  explicit Own(Builder& b) {
    const Problem& p = b.problem();
    const std::int64_t n = b.rows();
    q = b.buffer({"q", Role::nominal, Category::input, 1, n, p.heads, p.head_size});
    kv = Scope(b).kv_buffer("kv", Role::nominal, Category::input, 1, n);
    out = b.buffer({"out", Role::nominal, Category::output, 1, n, p.heads, p.value_size});
    lse = Scope(b).lse_buffer("lse", Category::output, 1, n);
  }
  void gradients(Builder& b) {
    const Problem& p = b.problem();
    const std::int64_t n = b.rows();
    b.phase(Phase::backward);
    dout = b.buffer({"dout", Role::nominal, Category::input, 1, n, p.heads, p.value_size});
    dq = b.buffer({"dq", Role::nominal, Category::output, 1, n, p.heads, p.head_size});
    dkv = Scope(b).kv_buffer("dkv", Role::nominal, Category::output, 1, n);
    delta = Scope(b).lse_buffer("delta", Category::working, 1, n);
    b.row_dot(compute_lane, dout, out, delta);
  }
  Box q, kv, out, lse, dout, dq, dkv, delta;
};

// The token runs of the ranks at `positions`, their rows one after the other in one buffer.
std::vector<TokenRun> joined(const Builder& b, std::span<const int> positions) {
  std::vector<TokenRun> runs;
  std::int64_t at = 0;
  for (const int position : positions) {
    for (const TokenRun& run : shifted(b.placement().runs(position), at)) runs.push_back(run);
    at += b.rows();
  }
  return runs;
}

std::vector<Box> pieces(const Box& all, int count, std::int64_t rows) {
  std::vector<Box> list;
  for (int i = 0; i < count; ++i) list.push_back(all.rows_at(i * rows, rows));
  return list;
}

void attend_all(Builder& b, const Own& own, const Box& all, std::span<const int> positions) {
  const auto q_runs = b.placement().runs(b.position());
  const ListTile t = tile_between(q_runs, joined(b, positions), b.visible(), Take::all);
  b.attend(compute_lane, {own.q.rows(t.q_rows), keys(b, all).rows(t.k_rows), values(b, all).rows(t.k_rows),
                          own.out.rows(t.q_rows), own.lse.rows(t.q_rows), t.segments});
}

void differentiate_all(Builder& b, const Own& own, const Box& all, const Box& dall,
                       std::span<const int> positions) {
  const auto q_runs = b.placement().runs(b.position());
  const ListTile t = tile_between(q_runs, joined(b, positions), b.visible(), Take::all);
  b.attend_backward(compute_lane, {own.q.rows(t.q_rows), keys(b, all).rows(t.k_rows),
                                   values(b, all).rows(t.k_rows), own.dout.rows(t.q_rows),
                                   own.lse.rows(t.q_rows), own.delta.rows(t.q_rows), own.dq.rows(t.q_rows),
                                   keys(b, dall).rows(t.k_rows), values(b, dall).rows(t.k_rows), t.segments});
}

// The whole group once more: what runs on a lane of its own needs a communicator of its own.
std::vector<TeamSpec> whole_group_beside(const Scenario& scenario) {
  TeamSpec spec{"beside", {{}}};
  for (int i = 0; i < static_cast<int>(scenario.parallel.ranks); ++i) spec.members[0].push_back(i);
  return {spec};
}

void build_gathered(Builder& b) {
  const std::int64_t n = b.rows(), all_rows = n * b.P();
  const Team& team = b.everyone();
  const auto gathered = [&](std::string_view name, std::string_view slab) {
    const Problem& p = b.problem();
    return b.buffer({name, Role::nominal, Category::working, 1, all_rows, p.kv_heads,
                     p.head_size + p.value_size, p.head_size, Layout::rows_first, 0, slab});
  };
  Own own(b);
  // Under "layers" the backward may not use what the forward gathered: it gathers again, into the same bytes.
  const Box all = gathered("kv_all", "gathered");
  b.all_gather(comm_lane, Transport::nccl, team, own.kv, pieces(all, b.P(), n));
  b.barrier(beside_lane, Transport::nccl, b.team("beside"));
  const std::uint32_t barrier = b.last();
  b.wait_for_start(barrier);
  attend_all(b, own, all, team.positions);
  if (!b.backward()) return;
  own.gradients(b);
  const Box again = gathered("kv_again", "gathered");
  b.all_gather(comm_lane, Transport::nccl, team, own.kv, pieces(again, b.P(), n));
  b.host_sync(comm_lane);
  const Box dall = gathered("dkv_all", "");
  differentiate_all(b, own, again, dall, team.positions);
  b.reduce_scatter(comm_lane, Transport::nccl, team, pieces(dall, b.P(), n), own.dkv);
}

std::vector<TeamSpec> pairs(const Scenario& scenario) {
  TeamSpec inner{"inner", {}}, outer{"outer", {{}, {}}};
  for (int i = 0; i < static_cast<int>(scenario.parallel.ranks); i += 2) {
    inner.members.push_back({i, i + 1});
    outer.members[0].push_back(i);
    outer.members[1].push_back(i + 1);
  }
  return {inner, outer};
}

void build_two_stages(Builder& b) {
  const Team &inner = b.team("inner"), &outer = b.team("outer");
  const std::int64_t n = b.rows();
  Own own(b);
  const Box pair = Scope(b).kv_buffer("kv_pair", Role::nominal, Category::working, 1, 2 * n);
  const Box all = Scope(b).kv_buffer("kv_all", Role::nominal, Category::working, 1, n * b.P());
  b.all_gather(comm_lane, Transport::nccl, inner, own.kv, pieces(pair, 2, n));
  b.all_gather(comm_lane, Transport::nccl, outer, pair, pieces(all, outer.size(), 2 * n));
  attend_all(b, own, all, b.everyone().positions);
  if (!b.backward()) return;
  own.gradients(b);
  const Box dall = Scope(b).kv_buffer("dkv_all", Role::nominal, Category::working, 1, n * b.P());
  const Box dpair = Scope(b).kv_buffer("dkv_pair", Role::nominal, Category::working, 1, 2 * n);
  differentiate_all(b, own, all, dall, b.everyone().positions);
  b.reduce_scatter(comm_lane, Transport::nccl, outer, pieces(dall, outer.size(), 2 * n), dpair);
  b.reduce_scatter(comm_lane, Transport::nccl, inner, pieces(dpair, 2, n), own.dkv);
}

void build_traded(Builder& b) {
  const Problem& p = b.problem();
  const int P = b.P();
  const std::int64_t n = b.rows(), all_rows = n * P, h = p.heads / P, g = p.kv_heads / P;
  const Team& team = b.everyone();
  Own own(b);
  // All tokens of this rank's heads.
  const auto trade = [&](std::string_view name, Category category, std::int64_t heads, std::int64_t width,
                         std::int64_t planes = 0) {
    return b.buffer({name, Role::nominal, category, 1, all_rows, heads, width, planes, Layout::rows_first,
                     b.position() * heads});
  };
  const auto wide_trade = [&](std::string_view name) {
    return b.buffer(
        {name, Role::wide, Category::working, 1, all_rows, h, 1, 0, Layout::heads_first, b.position() * h});
  };
  const auto by_heads = [&](const Box& box, std::int64_t heads) {
    std::vector<Box> list;
    for (int i = 0; i < P; ++i) list.push_back(box.heads(i * heads, (i + 1) * heads));
    return list;
  };
  const auto there = [&](const Box& from, const Box& into, std::int64_t heads) {
    b.all_to_all(comm_lane, Transport::nccl, team, by_heads(from, heads), pieces(into, P, n));
  };
  const auto back = [&](const Box& from, const Box& into, std::int64_t heads) {
    b.all_to_all(comm_lane, Transport::nccl, team, pieces(from, P, n), by_heads(into, heads));
  };
  const Box q = trade("q_traded", Category::working, h, p.head_size);
  const Box kv = trade("kv_traded", Category::working, g, p.head_size + p.value_size, p.head_size);
  const Box out = trade("out_traded", Category::working, h, p.value_size), lse = wide_trade("lse_traded");
  there(own.q, q, h);
  there(own.kv, kv, g);
  const std::vector<TokenRun> runs = joined(b, team.positions);
  const ListTile t = tile_between(runs, runs, Visible(p), Take::all);
  b.attend(compute_lane, {q.rows(t.q_rows), keys(b, kv).rows(t.k_rows), values(b, kv).rows(t.k_rows),
                          out.rows(t.q_rows), lse.rows(t.q_rows), t.segments});
  back(out, own.out, h);
  back(lse, own.lse, h);
  if (!b.backward()) return;
  own.gradients(b);
  const Box dout = trade("dout_traded", Category::working, h, p.value_size),
            delta = wide_trade("delta_traded");
  const Box dq = trade("dq_traded", Category::working, h, p.head_size);
  const Box dkv = trade("dkv_traded", Category::working, g, p.head_size + p.value_size, p.head_size);
  there(own.dout, dout, h);
  there(own.delta, delta, h);
  b.attend_backward(compute_lane,
                    {q.rows(t.q_rows), keys(b, kv).rows(t.k_rows), values(b, kv).rows(t.k_rows),
                     dout.rows(t.q_rows), lse.rows(t.q_rows), delta.rows(t.q_rows), dq.rows(t.q_rows),
                     keys(b, dkv).rows(t.k_rows), values(b, dkv).rows(t.k_rows), t.segments});
  back(dq, own.dq, h);
  back(dkv, own.dkv, g);
}

}  // namespace

Algorithm gathered_algorithm() {
  Algorithm a;
  a.name = "gathered";
  a.build = build_gathered;
  a.teams = whole_group_beside;
  return a;
}

Algorithm traded_algorithm() {
  Algorithm a;
  a.name = "traded";
  a.build = build_traded;
  return a;
}

Algorithm two_level_algorithm() {
  Algorithm a;
  a.name = "two_level";
  a.build = build_two_stages;
  a.teams = pairs;
  return a;
}

}  // namespace cplab

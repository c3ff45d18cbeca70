// The faults: which bug, where it shipped, how it shows. Mutations edit a right plan; see faults.hpp.
#include "algorithms/faults.hpp"

#include <algorithm>
#include <array>

#include "algorithms/build.hpp"
#include "algorithms/placement.hpp"
#include "derive/edges.hpp"
#include "derive/edits.hpp"

namespace cplab {
namespace {

[[noreturn]] void no_place(std::string_view fault, std::string_view needs) {
  throw ScenarioError("parallel", "fault " + std::string(fault) + " has no place in this plan; it needs " +
                                      std::string(needs));
}

// The n-th operation of that kind in a phase of a rank's plan that fits; -1 if there is none.
template <class Fits>
std::ptrdiff_t find_operation(const RankPlan& rank, OpKind kind, Phase phase, Fits fits) {
  for (std::size_t i = 0; i < rank.operations.size(); ++i) {
    const Operation& op = rank.operations[i];
    if (op.kind == kind && op.phase == phase && fits(op)) return static_cast<std::ptrdiff_t>(i);
  }
  return -1;
}

RankPlan& rank_at(Plan& plan, std::size_t rank, std::string_view fault) {
  if (plan.ranks.size() <= rank) no_place(fault, "at least " + std::to_string(rank + 1) + " ranks");
  return plan.ranks[rank];
}

void nothing(Plan&) {}

void ring_slot_reuse(Plan& plan) {
  bool found = false;
  for (RankPlan& rank : plan.ranks) {
    for (Operation& op : rank.operations) {
      if (op.kind != OpKind::exchange || op.phase != Phase::forward) continue;
      found |= op.after.count > 0;
      op.after = {};
    }
  }
  if (!found)
    no_place("ring-slot-reuse", "an exchange that waits for a tile (kv_slots=2 and at least 4 ranks)");
}

void drop_wait(Plan& plan) {
  RankPlan& rank = rank_at(plan, 2, "drop-wait");
  const auto i = find_operation(rank, OpKind::attend, Phase::forward,
                                [](const Operation& op) { return op.step == 1 && op.after.count > 0; });
  if (i < 0) no_place("drop-wait", "a second tile on rank 2");
  rank.operations[static_cast<std::size_t>(i)].after = {};
}

void stale_kv(Plan& plan) {
  RankPlan& rank = rank_at(plan, 1, "stale-kv");
  const auto i = find_operation(rank, OpKind::attend_backward, Phase::backward,
                                [](const Operation& op) { return op.step == 1; });
  if (i < 0) no_place("stale-kv", "a second backward tile on rank 1");
  Operation& op = rank.operations[static_cast<std::size_t>(i)];
  std::vector<Access> reads(rank.reads(op).begin(), rank.reads(op).end());
  for (Access& access : reads) {
    if (access.operand != Operand::k && access.operand != Operand::v) continue;
    View view = rank.views[access.view];
    const auto slots = static_cast<std::int32_t>(rank.buffers[view.buffer].slots);
    if (slots < 2) no_place("stale-kv", "two slots for K and V");
    view.slot_begin = (view.slot_begin + slots - 1) % slots;
    view.slot_end = view.slot_begin + 1;
    access.view = add_view(rank, view);
  }
  op.reads = add_accesses(rank, reads);
  derive_edges(rank);
}

void unordered_exchange(Plan& plan) {
  bool found = false;
  for (RankPlan& rank : plan.ranks) {
    for (std::size_t i = 0; i < rank.operations.size(); ++i) {
      const Operation op = rank.operations[i];
      if (op.kind != OpKind::exchange || op.phase != Phase::forward) continue;
      std::vector<Part> sends, receives;
      for (const Part& part : rank.parts_of(op)) (part.send ? sends : receives).push_back(part);
      if (sends.empty() || receives.empty()) continue;
      insert_operation(rank, i + 1, op);
      rank.operations[i].parts = add_parts(rank, sends);
      rank.operations[i + 1].parts = add_parts(rank, receives);
      rank.operations[i + 1].bytes = 0;
      ++i;
      found = true;
    }
    derive_edges(rank);
  }
  if (!found) no_place("unordered-exchange", "at least 2 ranks");
}

void dropped_receive(Plan& plan) {
  RankPlan& rank = rank_at(plan, 1, "dropped-receive");
  const auto i =
      find_operation(rank, OpKind::exchange, Phase::forward, [](const Operation&) { return true; });
  if (i < 0) no_place("dropped-receive", "an exchange in the forward");
  Operation& op = rank.operations[static_cast<std::size_t>(i)];
  std::vector<Part> sends;
  for (const Part& part : rank.parts_of(op)) {
    if (part.send) sends.push_back(part);
  }
  op.parts = add_parts(rank, sends);
  derive_edges(rank);
}

// The result of a tile that covers only some of the query rows is merged into the first rows instead of its
// own.
void upper_half_overwrite(Plan& plan) {
  RankPlan& rank = rank_at(plan, 0, "upper-half-overwrite");
  const auto i = find_operation(rank, OpKind::merge, Phase::forward, [&](const Operation& op) {
    if (op.writes.count != 2) return false;
    const View& out = rank.view_of(op, Operand::out);
    return row_count(rank.rows_of(out)) < rank.buffers[out.buffer].rows;
  });
  if (i < 0)
    no_place("upper-half-overwrite", "an incremental merge of half a rank's queries (zigzag, causal)");
  Operation& op = rank.operations[static_cast<std::size_t>(i)];
  std::vector<Access> writes(rank.writes(op).begin(), rank.writes(op).end());
  for (Access& access : writes) {
    View view = rank.views[access.view];
    view.ranges = add_ranges(rank, {{0, row_count(rank.rows_of(view)), 1}});
    access.view = add_view(rank, view);
  }
  op.writes = add_accesses(rank, writes);
  derive_edges(rank);
}

// The second tile of rank 1 and the merge of its result.
std::pair<std::size_t, std::size_t> second_tile(const RankPlan& rank, std::string_view fault) {
  const auto tile =
      find_operation(rank, OpKind::attend, Phase::forward, [](const Operation& op) { return op.step > 0; });
  const auto merge =
      find_operation(rank, OpKind::merge, Phase::forward, [](const Operation&) { return true; });
  if (tile < 0 || merge < 0) no_place(fault, "a second tile on rank 1 with a merge of its own (incremental)");
  return {static_cast<std::size_t>(tile), static_cast<std::size_t>(merge)};
}

void skip_tile(Plan& plan) {
  RankPlan& rank = rank_at(plan, 1, "skip-tile");
  const auto [tile, merge] = second_tile(rank, "skip-tile");
  remove_operation(rank, merge);
  remove_operation(rank, tile);
  derive_edges(rank);
}

void double_tile(Plan& plan) {
  RankPlan& rank = rank_at(plan, 1, "double-tile");
  const auto [tile, merge] = second_tile(rank, "double-tile");
  insert_operation(rank, merge + 1, rank.operations[merge]);
  insert_operation(rank, tile + 1, rank.operations[tile]);
  derive_edges(rank);
}

void thd_even_split(Plan& plan) {
  const Scenario& s = plan.scenario;
  bool changed = false;
  for (int replica = 0; replica < static_cast<int>(s.parallel.replicas); ++replica) {
    Placement placement(s.problem, s.parallel, s.placement, replica);
    changed |= placement.split_valid_evenly(s.problem);
    build_group(plan, replica, placement);
  }
  if (!changed) no_place("thd-even-split", "a sequence length that the number of chunks does not divide");
}

const std::vector<std::string_view> both{"cpu", "gpu"}, cpu{"cpu"};

ExpectedFinding expect(FindingKind kind, int rank = -1, std::string operation = {}) {
  return {kind, rank, std::move(operation)};
}

}  // namespace

std::string_view name(FaultForm form) {
  constexpr std::array<std::string_view, 3> names{"mutation", "substitute", "identity"};
  return names.at(static_cast<std::size_t>(form));
}

std::span<const Fault> faults() {
  using enum FaultForm;
  using enum FindingKind;
  static const std::vector<Fault> all{
      {"identity", identity, "nothing is changed: must be found right", "faults/ring.toml", both,
       std::nullopt, nothing},
      {"ring-slot-reuse", mutation,
       "a receive does not wait until the tile has read the slot it overwrites (S4-3)", "faults/ring.toml",
       both, expect(race, 0, "0/forward/4"), ring_slot_reuse},
      {"stale-kv", mutation, "a backward tile reads the K, V slot of the step before (Automodel#3157)",
       "faults/ring.toml", both, expect(coverage, 1, "1/backward/4"), stale_kv},
      {"drop-wait", mutation, "a tile does not wait for the K, V it reads (as S3-1)", "faults/ring.toml",
       both, expect(race, 2, "2/forward/3"), drop_wait},
      {"unordered-exchange", mutation, "every rank sends first and receives then, none in one group (ZZ#39)",
       "faults/ring.toml", both, expect(deadlock, 0, "0/forward/0"), unordered_exchange},
      {"dropped-receive", mutation,
       "a rank sends on and never posts the receive of its neighbour's message (NCCL waits for ever)",
       "faults/ring.toml", both, expect(unmatched, 0, "0/forward/0"), dropped_receive},
      {"upper-half-overwrite", mutation,
       "the merge of an upper tile goes to the first half of the queries (S4-7)", "faults/ring.toml", both,
       expect(coverage, 0, "0/forward/6"), upper_half_overwrite},
      {"skip-tile", mutation, "one tile is left out", "faults/ring.toml", both, expect(coverage, 1),
       skip_tile},
      {"double-tile", mutation, "one tile is attended and merged twice", "faults/ring.toml", both,
       expect(coverage, 1, "1/forward/8"), double_tile},
      {"thd-even-split", mutation,
       "valid tokens per chunk taken as length / (2P), wrong where 2P does not divide it (TE#3331, TE#1930)",
       "faults/packed-odd.toml", both, expect(coverage, 0, "0/forward/1"), thd_even_split},
      {"naive-merge", substitute,
       "lse = a + log(1 + exp(b - a)) overflows for b - a > 88 in fp32 (EasyContext#14)",
       "faults/large-logits.toml", cpu, expect(numerics), nullptr},
      {"nominal-accumulator", substitute, "the running out is rounded to bf16 at every merge (TE#2916)",
       "faults/many-merges.toml", cpu, expect(numerics), nullptr},
      {"maxlogit-zero-offset", substitute,
       "max_logit counts rows from 0 where the valid ones begin at an offset: some are missed (S3-6)",
       "faults/max-logit.toml", cpu, expect(numerics), nullptr},
  };
  return all;
}

const Fault* find_fault(std::string_view name) {
  for (const Fault& fault : faults())
    if (fault.name == name) return &fault;
  return nullptr;
}

}  // namespace cplab

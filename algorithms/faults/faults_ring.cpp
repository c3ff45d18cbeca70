// Mutations of rings: waits, slots, messages and tiles of a plan that hands K and V on from rank to rank.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "algorithms/faults/mutations.hpp"
#include "derive/edges.hpp"

namespace cplab::mutations {

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
  bool everywhere = true;
  // By group and step, the ranks that send and receive in it: where one does not, no circle of them waits.
  std::map<std::pair<std::uint16_t, std::uint32_t>, std::set<int>> of_step;
  for (RankPlan& rank : plan.ranks) {
    bool found = false;
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
      of_step[{op.group, op.step}].insert(rank.rank);
    }
    everywhere &= found;
    derive_edges(rank);
  }
  for (const auto& [at, ranks] : of_step) everywhere &= ranks.size() == plan.groups[at.first].ranks.size();
  if (!everywhere) no_place("unordered-exchange", "a ring in which every rank sends and receives");
}

void dropped_receive(Plan& plan) {
  RankPlan& rank = rank_at(plan, 1, "dropped-receive");
  const auto i = find_operation(rank, OpKind::exchange, Phase::forward, [&](const Operation& op) {
    return std::ranges::any_of(rank.parts_of(op), [](const Part& part) { return !part.send; });
  });
  if (i < 0) no_place("dropped-receive", "an exchange of the forward in which rank 1 receives");
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
    const auto rows = rank.rows_of(out);
    return row_count(rows) < rank.buffers[out.buffer].rows && rows[0].begin > 0;
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

}  // namespace cplab::mutations

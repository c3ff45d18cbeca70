// Mutations of gathers and of the reduce-scatters that bring gradients back.
#include <algorithm>

#include "algorithms/core/placement.hpp"
#include "algorithms/faults/mutations.hpp"
#include "derive/edges.hpp"

namespace cplab::mutations {
namespace {

bool is_forward_gather(const Operation& op) {
  return op.kind == OpKind::all_gather && op.phase == Phase::forward;
}

// The rows that a member's share has where shares lie one after the other, whatever sequences they are of.
std::vector<RowRange> rank_major(const Plan& plan, const Operation& op, int peer, std::int64_t rows) {
  const std::vector<int>& members = plan.groups[op.group].ranks;
  const auto place = std::ranges::find(members, peer) - members.begin();
  return {{place * rows, rows, 1}};
}

// Where the rows of a member come to lie in a buffer that has the sequences one after the other, by a
// placement of these sequences; rows that it does not have come last.
std::vector<RowRange> rows_in_sequences(const Scenario& s, const Placement& all, const Placement& by,
                                        int member) {
  std::vector<RowRange> rows;
  const std::vector<SequenceRows> sequences = gathered_rows(s, by);
  for (const TokenRun& run : by.runs(member)) {
    const auto of_run = std::ranges::find(sequences, run.sequence, &SequenceRows::sequence);
    if (run.stride != 1 || of_run == sequences.end()) return {};
    append_rows(rows, {of_run->begin + run.position, run.rows, 1});
  }
  if (sequences.empty()) return {};
  const std::int64_t rest = all.rows() - by.rows();
  append_rows(rows, {sequences.back().end + member * rest, rest, 1});
  return rows;
}

}  // namespace

void gather_missing_wait(Plan& plan) {
  bool found = false;
  for (RankPlan& rank : plan.ranks) {
    for (std::size_t i = 0; i < rank.operations.size(); ++i) {
      const Operation& op = rank.operations[i];
      if (op.kind != OpKind::attend || op.lane.index == 0) continue;
      const std::uint32_t kv = rank.view_of(op, Operand::k).buffer;
      found |= drop_edges(rank, i, [&](const Operation& before) { return brings(rank, before, kv); });
    }
  }
  if (!found)
    no_place("gather-missing-wait", "tiles on a second lane that wait for K and V (compute_lanes=2)");
}

void gather_reuse(Plan& plan) {
  bool found = false;
  for (RankPlan& rank : plan.ranks) {
    for (std::size_t i = 0; i < rank.operations.size(); ++i) {
      if (!is_forward_gather(rank.operations[i])) continue;
      found |= drop_edges(rank, i, [](const Operation& before) { return before.kind == OpKind::attend; });
    }
  }
  if (!found)
    no_place("gather-reuse",
             "a gather that waits for a tile (three strides of key heads that are sent as they "
             "are: pack_above)");
}

void batched_gather_layout(Plan& plan) {
  bool found = false;
  const bool of_states = plan.scenario.problem.attention == Attention::linear;
  for (RankPlan& rank : plan.ranks) {
    for (Operation& op : rank.operations) {
      if (op.kind != OpKind::all_gather || of_states) continue;
      found |= change_parts(rank, op, [&](const Part& part, View& view) {
        const std::int64_t rows = row_count(rank.rows_of(view));
        return !part.send && set_rows(rank, view, rank_major(plan, op, part.peer, rows));
      });
    }
    derive_edges(rank);
  }
  if (!found)
    no_place("batched-gather-layout",
             "an all_gather of tokens that is received in place, of more than one sequence (batch=2)");
}

void batched_scatter_layout(Plan& plan) {
  bool found = false;
  for (RankPlan& rank : plan.ranks) {
    for (const Operation& scatter : rank.operations) {
      if (scatter.kind != OpKind::reduce_scatter) continue;
      for (Operation& op : rank.operations) {
        if (op.kind != OpKind::copy && op.kind != OpKind::cast) continue;
        if (!takes(rank, scatter, rank.view_of(op, Operand::into).buffer)) continue;
        found |= change_views(rank, op.reads, [&](Operand, View& view) {
          return set_rows(rank, view, {{0, row_count(rank.rows_of(view)), 1}});
        });
      }
    }
    derive_edges(rank);
  }
  if (!found)
    no_place(
        "batched-scatter-layout",
        "gradients that are packed for a reduce_scatter, of more than one sequence (head_strided, batch=2)");
}

void reorder_by_valid_offsets(Plan& plan) {
  const Scenario& s = plan.scenario;
  Problem without_padding = s.problem;
  without_padding.padded_lengths = s.problem.lengths;
  // A stream is the packed row cut in pieces: padding is a part of it, and reordering by lengths would move
  // tokens from rank to rank.
  if (s.placement == "stream")
    no_place("reorder-by-valid-offsets", "a placement that cuts each sequence, not the packed row");
  bool found = false;
  for (RankPlan& rank : plan.ranks) {
    const Placement right(s.problem, s.parallel, s.placement, rank.replica);
    const Placement wrong(without_padding, s.parallel, s.placement, rank.replica);
    const std::vector<int>& members = s.parallel.groups[static_cast<std::size_t>(rank.replica)];
    for (Operation& op : rank.operations) {
      if (!is_forward_gather(op)) continue;
      found |= change_parts(rank, op, [&](const Part& part, View& view) {
        const auto place = static_cast<int>(std::ranges::find(members, part.peer) - members.begin());
        // set_rows tells whether these are the rows of the right placement.
        return !part.send && !set_rows(rank, view, rows_in_sequences(s, right, right, place)) &&
               set_rows(rank, view, rows_in_sequences(s, right, wrong, place));
      });
    }
    derive_edges(rank);
  }
  if (!found)
    no_place(
        "reorder-by-valid-offsets",
        "an all_gather that is received in the order of sequences, one of them with padding that it could "
        "do without");
}

void issue_before_drain(Plan& plan) {
  bool found = false;
  for (RankPlan& rank : plan.ranks) {
    std::vector<std::size_t> scatters;
    for (std::size_t i = 0; i < rank.operations.size(); ++i)
      if (rank.operations[i].kind == OpKind::reduce_scatter) scatters.push_back(i);
    if (scatters.size() < 2) continue;
    const std::size_t first = scatters[0], second = scatters[1];
    const auto uses_of_first = [&](const View& view, bool sent) {
      return std::ranges::any_of(rank.parts_of(rank.operations[first]), [&](const Part& part) {
        const View& other = rank.views[part.view];
        return part.send == sent && other.buffer == view.buffer && other.slot_begin == view.slot_begin;
      });
    };
    std::vector<std::size_t> drains;
    bool stages_behind = false;  // a drain, into what the first one sends
    for (std::size_t i = first + 1; i < second; ++i) {
      const Operation& op = rank.operations[i];
      if (std::ranges::any_of(rank.reads(op),
                              [&](auto& a) { return uses_of_first(rank.views[a.view], false); }))
        drains.push_back(i);
      else if (!drains.empty())
        stages_behind |= std::ranges::any_of(
            rank.writes(op), [&](auto& a) { return uses_of_first(rank.views[a.view], true); });
    }
    if (!stages_behind) continue;
    // The drains come to stand behind the second reduce_scatter, in the same order.
    for (std::size_t i = drains.size(), behind = second; i-- > 0; --behind)
      move_operation(rank, drains[i], behind);
    found = true;
  }
  if (!found)
    no_place("issue-before-drain",
             "two reduce_scatters with one staging buffer (head_strided, staging=drain_first)");
}

void head_slice_wrong_dim(Plan& plan) {
  bool found = false;
  for (RankPlan& rank : plan.ranks) {
    for (Operation& op : rank.operations) {
      if (op.kind != OpKind::attend_backward) continue;
      found |= change_views(rank, op.reads, [](Operand operand, View& view) {
        if (operand != Operand::lse || view.head_begin == 0) return false;
        view.head_end -= view.head_begin;
        view.head_begin = 0;
        return true;
      });
    }
    derive_edges(rank);
  }
  if (!found) no_place("head-slice-wrong-dim", "a backward that attends some of the heads at a time");
}

}  // namespace cplab::mutations

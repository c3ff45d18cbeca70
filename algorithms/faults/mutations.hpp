// The mutations behind the table of faults, and what they find their place in a plan with. Each throws
// ScenarioError where a plan has no place for it; what it does and where it shipped says the table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "derive/edits.hpp"
#include "plan/plan.hpp"

namespace cplab {
class Placement;
}

namespace cplab::mutations {

// faults_ring.cpp
void ring_slot_reuse(Plan&);
void drop_wait(Plan&);
void stale_kv(Plan&);
void unordered_exchange(Plan&);
void dropped_receive(Plan&);
void upper_half_overwrite(Plan&);
void skip_tile(Plan&);
void double_tile(Plan&);
// faults_gather.cpp
void gather_missing_wait(Plan&);
void gather_reuse(Plan&);
void batched_gather_layout(Plan&);
void batched_scatter_layout(Plan&);
void reorder_by_valid_offsets(Plan&);
void issue_before_drain(Plan&);
void head_slice_wrong_dim(Plan&);
// faults_lengths.cpp
void thd_even_split(Plan&);
void last_token_dropped(Plan&);
void dead_padding_nan(Plan&);
void cu_seqlens_cache_by_shape(Plan&);
void no_visible_clamp(Plan&);
void window_one_shift(Plan&);
// faults_groups.cpp
void replicated_double_count(Plan&);
void hierarchical_level_missing(Plan&);
void communicator_order(Plan&);
// faults_logits.cpp
void sink_on_every_tile(Plan&);
void sink_gradient_of_rank(Plan&);
// faults_scan.cpp
void suffix_shift_left(Plan&);
void published_down_sweep(Plan&);
void blocking_shift(Plan&);
void left_edge_partner(Plan&);
void inclusive_prefix(Plan&);
// faults_states.cpp
void swapped_states(Plan&);
void local_rank_as_global(Plan&);
void uninitialised_state(Plan&);
void dropped_tail(Plan&);
void shared_kv_buffer(Plan&);
void backward_right_on_last_rank_only(Plan&);

[[noreturn]] void no_place(std::string_view fault, std::string_view needs);
RankPlan& rank_at(Plan&, std::size_t rank, std::string_view fault);

// The first operation of that kind in a phase of a rank's plan that fits; -1 if there is none.
template <class Fits>
std::ptrdiff_t find_operation(const RankPlan& rank, OpKind kind, Phase phase, Fits fits) {
  for (std::size_t i = 0; i < rank.operations.size(); ++i) {
    const Operation& op = rank.operations[i];
    if (op.kind == kind && op.phase == phase && fits(op)) return static_cast<std::ptrdiff_t>(i);
  }
  return -1;
}

// It writes or receives into, reads or sends from that buffer.
bool brings(const RankPlan&, const Operation&, std::uint32_t buffer);
bool takes(const RankPlan&, const Operation&, std::uint32_t buffer);
// Edges to operations that `drop` names are dropped; true if there was one.
template <class Drop>
bool drop_edges(RankPlan& rank, std::size_t operation, Drop drop) {
  std::vector<std::uint32_t> kept;
  const auto after = rank.after(rank.operations[operation]);
  for (const std::uint32_t e : after)
    if (!drop(rank.operations[e])) kept.push_back(e);
  if (kept.size() == after.size()) return false;
  set_after(rank, operation, kept);
  return true;
}

// Other views for accesses: change(operand, view) says whether it changed the view. True if it did one.
template <class Change>
bool change_views(RankPlan& rank, Span& accesses, Change change) {
  const auto span = RankPlan::slice(rank.accesses, accesses);
  std::vector<Access> list(span.begin(), span.end());
  bool changed = false;
  for (Access& access : list) {
    View view = rank.views[access.view];
    if (!change(access.operand, view)) continue;
    access.view = add_view(rank, view);
    changed = true;
  }
  if (changed) accesses = add_accesses(rank, list);
  return changed;
}
// The same for messages: change(part, view).
template <class Change>
bool change_parts(RankPlan& rank, Operation& op, Change change) {
  std::vector<Part> list(rank.parts_of(op).begin(), rank.parts_of(op).end());
  bool changed = false;
  for (Part& part : list) {
    View view = rank.views[part.view];
    if (!change(part, view)) continue;
    part.view = add_view(rank, view);
    changed = true;
  }
  if (changed) op.parts = add_parts(rank, list);
  return changed;
}
// A sequence's rows, padding included, in a buffer that holds the sequences of a group one after the other.
struct SequenceRows {
  std::int64_t sequence = 0, begin = 0, end = 0;
  std::int64_t length = 0;  // without padding
};
std::vector<SequenceRows> gathered_rows(const Scenario&, const Placement&);

// Appends rows, to the last range where they continue it.
void append_rows(std::vector<RowRange>&, const RowRange& next);
// Other rows; true if they are others.
bool set_rows(RankPlan&, View&, const std::vector<RowRange>&);

}  // namespace cplab::mutations

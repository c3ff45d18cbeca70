// The builder of plans written by hand, buffer by buffer and operation by operation. It knows only plan/, and
// shares nothing with algorithms/builder, so that what tests a plan is not tested against what wrote it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace cplab::hand {

inline constexpr Lane compute{LaneKind::compute, 0};
inline constexpr Lane compute1{LaneKind::compute, 1};
inline constexpr Lane comm{LaneKind::comm, 0};
inline constexpr auto store = WriteMode::store;
inline constexpr auto add = WriteMode::add;
inline constexpr auto merge = WriteMode::merge;
inline constexpr double logit_scale = 0.3;  // of Rank::attend and Rank::attend_backward

// Puts `items` at the end of a pool (RankPlan::views, parts, edges, ...); returns where they are in it.
template <class T>
Span append(std::vector<T>& pool, const std::vector<T>& items) {
  const Span span{static_cast<std::uint32_t>(pool.size()), static_cast<std::uint32_t>(items.size())};
  pool.insert(pool.end(), items.begin(), items.end());
  return span;
}

using ViewIndex = std::uint32_t;  // index into RankPlan::views
using After = std::vector<std::uint32_t>;

// Part of a buffer, by its index: one slot unless `slots` says more; -1 is to the end of the axis.
struct At {
  std::uint32_t buffer = 0;
  std::int32_t slot = 0;
  std::int64_t row = 0, rows = -1;
  std::int32_t width_begin = 0, width_end = -1;
  std::int32_t head_begin = 0, head_end = -1;
  std::int32_t slots = 1;
};
At heads_of(std::uint32_t buffer, std::int32_t begin, std::int32_t end);
At rows_of(std::uint32_t buffer, std::int64_t begin, std::int64_t count);

// Operands by name, as views.
struct Attend {
  ViewIndex q, k, v, out, lse;
  WriteMode mode = store;  // of out and lse
  std::optional<ViewIndex> max_logit = {};
};
struct AttendBackward {
  ViewIndex q, k, v, dout, lse, delta, dq, dk, dv;
  WriteMode dq_mode = store, dkv_mode = store;
};

Part send(ViewIndex, int peer);
Part receive(ViewIndex, int peer);

// One rank of a plan under construction. The plan must not be moved meanwhile. Everything is appended:
// buffers lie one behind the other in the arena, operations are issued in the order of the calls. Calls that
// append an operation return its index; `after` names earlier operations of the rank.
class Rank {
 public:
  Rank(Plan& plan, int rank);

  // Sets bytes and offset (behind all others if `at` < 0); returns the index.
  std::uint32_t buffer(Buffer, std::int64_t at = -1);
  std::uint32_t buffer(std::string name, Role, Category, std::int64_t slots, std::int64_t rows,
                       std::int64_t heads, std::int64_t width);
  ViewIndex view(const At&);
  ViewIndex view(std::uint32_t buffer) { return view(At{buffer}); }
  // These rows in this order, instead of the box's.
  ViewIndex view(const At&, const std::vector<RowRange>& row_map);
  ViewIndex view(std::uint32_t buffer, const std::vector<RowRange>& row_map) {
    return view(At{buffer}, row_map);
  }

  std::uint32_t attend(Lane, const Attend&, const std::vector<Segment>&, const After& = {});
  std::uint32_t attend_backward(Lane, const AttendBackward&, const std::vector<Segment>&, const After& = {});
  std::uint32_t row_dot(Lane, ViewIndex dout, ViewIndex out, ViewIndex delta, const After& = {});
  // The three forms of merge: into a running (out, lse); of the LSEs alone; and of an out whose final LSE is
  // known already.
  std::uint32_t merge_out(Lane, ViewIndex part_out, ViewIndex part_lse, ViewIndex out, ViewIndex lse,
                          const After& = {});
  std::uint32_t merge_lse(Lane, ViewIndex part_lse, ViewIndex lse, const After& = {});
  std::uint32_t rescale(Lane, ViewIndex part_out, ViewIndex part_lse, ViewIndex lse, ViewIndex out, WriteMode,
                        const After& = {});
  std::uint32_t copy(Lane, ViewIndex from, ViewIndex into, const After& = {});
  std::uint32_t cast(Lane, ViewIndex from, ViewIndex into, const After& = {});
  std::uint32_t add_to(Lane, ViewIndex from, ViewIndex into, const After& = {});
  std::uint32_t raise(Lane, ViewIndex from, ViewIndex into, const After& = {});  // maximum
  std::uint32_t fill(Lane, ViewIndex into, double value = 0, const After& = {});
  std::uint32_t all_reduce(Lane, ViewIndex from, ViewIndex into, const After& = {},
                           Reduction = Reduction::sum, std::uint16_t group = 0);
  std::uint32_t host_sync(Lane, const After& = {});
  // exchange, all_gather, reduce_scatter, all_to_all, barrier
  std::uint32_t communicate(Lane, OpKind, const std::vector<Part>&, const After& = {},
                            std::uint16_t group = 0);
  // Any operation, also one that is malformed.
  std::uint32_t operation(Lane, OpKind, const std::vector<Access>& reads, const std::vector<Access>& writes,
                          const After& = {});

  void phase(Phase);  // of the operations to come; their ordinals go on where the phase has some already
  std::uint32_t step = 0;

  RankPlan& plan() const { return plan_->ranks[index_]; }
  Operation& op(std::uint32_t i) const { return plan().operations[i]; }
  std::uint32_t find(const std::string& buffer) const;
  std::string id(std::uint32_t operation) const { return operation_id(plan(), op(operation)); }

 private:
  Plan* plan_;
  std::size_t index_;
  Phase phase_ = Phase::forward;
  std::uint32_t ordinal_ = 0;
};

// `ranks` empty ranks in one group of that name; the problem is the default one, in `dtype`.
Plan ranks_in_one_group(int ranks, std::string group_name = "all", DType dtype = DType::fp64);

// The rows that each rank has of all sequences together, as the placement of the plan gives them.
std::int64_t rows_of_rank(const Plan&);

// A buffer [1, rows, 1, 1], nominal: doubles in an fp64 problem.
Buffer column(const std::string& name, std::int64_t rows, Category category = Category::working);

// The edges that follow from the views (derive/edges.hpp), on all ranks.
Plan with_edges(Plan);

}  // namespace cplab::hand

// What the parts of the checker share: findings as they are collected, the plan with every view resolved and
// every reference tested, and the calls between the parts. Only the sources of check/ include this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "check/check.hpp"
#include "plan/plan.hpp"
#include "plan/structure.hpp"

namespace cplab::checking {

inline constexpr std::int64_t most_tokens = std::int64_t{1} << 31;  // so that pairs are counted exactly
inline constexpr std::uint32_t none = no_index;
inline constexpr const char* part_of_columns = "takes part of the columns only";

// Collects findings: one per (kind, rank, operation, buffer), and of one kind on one rank at most `limit`.
class Findings {
 public:
  explicit Findings(std::size_t limit) : limit_(limit) {}

  // `operation` and `buffer` index the rank's plan, or are `none`; rank null: no rank in particular.
  // `missing`: the name of a buffer that the rank lacks, where `buffer` is none.
  void add(FindingKind kind, const RankPlan* rank, std::uint32_t operation, std::uint32_t buffer,
           std::string message, const std::string& missing = {});
  void append(Findings&& other);
  bool has(FindingKind kind) const;
  bool empty() const { return items_.empty(); }
  // Sorted by kind, rank and operation; with more than `limit`, the earliest of every kind.
  std::vector<Finding> take();

 private:
  struct Item {
    FindingKind kind;
    int rank;
    std::uint32_t operation;
    std::uint32_t buffer;
    Finding finding;
  };
  std::size_t limit_;
  std::vector<Item> items_;
  std::unordered_set<std::string> seen_;
  std::unordered_map<std::uint64_t, std::size_t> per_rank_;
};

// A view with its rows resolved. Not valid: it leaves its buffer or refers to nothing.
struct Box {
  std::span<const RowRange> ranges;  // in the order of the view
  std::int64_t rows = 0;             // all ranges together
  std::int64_t low = 0, high = 0;    // they lie in [low, high)
  std::uint32_t buffer = none;
  std::int32_t row_set = -1;  // RankModel::row_sets; -1: the rows are [low, high)
  std::int32_t slot_begin = 0, slot_end = 0;
  std::int32_t head_begin = 0, head_end = 0;
  std::int32_t width_begin = 0, width_end = 0;
  bool valid = false;

  std::int32_t slots() const { return slot_end - slot_begin; }
  std::int32_t heads() const { return head_end - head_begin; }
  std::int32_t width() const { return width_end - width_begin; }
  bool empty() const { return rows == 0 || slots() == 0 || heads() == 0 || width() == 0; }
};

class RankModel {
 public:
  const RankPlan* plan = nullptr;
  std::vector<Box> boxes;   // by view
  std::vector<Form> forms;  // by operation
  std::vector<RowSet> row_sets;
  // Lanes in order of first use; an operation is lanes[lane_of[i]][place[i]].
  std::vector<std::vector<std::uint32_t>> lanes;
  std::vector<std::uint16_t> lane_of;
  std::vector<std::uint32_t> place;

  // By operation and lane: how many operations of the lane are complete when it starts (check_order).
  std::vector<std::uint32_t> clocks;

  const Operation& op(std::uint32_t i) const { return plan->operations[i]; }
  // x is complete when y starts.
  bool comes_before(std::uint32_t x, std::uint32_t y) const {
    return clocks[std::size_t{y} * lanes.size() + lane_of[x]] > place[x];
  }
  // The box of an operand that the operation has; the operation is of good form.
  const Box& operand(std::uint32_t i, Operand operand) const {
    return boxes[plan->find(op(i), operand)->view];
  }
  // Empty for a broken operation, so that every later loop is safe.
  std::span<const Access> reads(std::uint32_t i) const;
  std::span<const Access> writes(std::uint32_t i) const;
  std::span<const Part> parts(std::uint32_t i) const;
  std::span<const Segment> segments(std::uint32_t i) const;
  // Calls visit(operation) for its event edges to earlier operations; any others were reported.
  template <class Visit>
  void for_each_edge(std::uint32_t i, Visit visit) const {
    if (forms[i] == Form::broken) return;
    for (std::uint32_t e : plan->after(op(i)))
      if (e < i) visit(e);
  }
  // Calls visit(view, writes) for every valid, non-empty box the operation touches. A part that the rank
  // sends to itself and that stays where it is (parts_in_place) is only read.
  template <class Visit>
  void for_each_access(std::uint32_t i, Visit visit) const {
    for (const Access& a : reads(i)) touch(a.view, false, visit);
    for (const Access& a : writes(i)) touch(a.view, true, visit);
    if (parts(i).empty()) return;
    const bool sums = op(i).kind == OpKind::reduce_scatter;  // then the others' parts are added to what stays
    const std::vector<std::uint8_t> in_place = parts_in_place(*plan, op(i));
    for (std::size_t p = 0; p < parts(i).size(); ++p) {
      const Part& part = parts(i)[p];
      if (in_place[p] && part.send && sums) continue;  // its receive part stands for both
      touch(part.view, !part.send && (!in_place[p] || sums), visit);
    }
  }

  template <class Visit>
  void for_each_start_edge(std::uint32_t i, Visit visit) const {
    if (forms[i] == Form::broken) return;
    for (std::uint32_t e : plan->after_started(op(i)))
      if (e < i) visit(e);
  }
  // Calls visit(buffer) for the other buffers of the buffer's slab.
  template <class Visit>
  void for_each_of_slab(std::uint32_t buffer, Visit visit) const {
    const std::vector<Buffer>& all = plan->buffers;
    if (all[buffer].slab.empty()) return;
    for (std::uint32_t b = 0; b < all.size(); ++b)
      if (b != buffer && all[b].slab == all[buffer].slab) visit(b);
  }

  // Of two boxes of one buffer. overlap: they share an element. contains: the first includes the second
  // (false also where that would be expensive to find out).
  bool overlap(const Box&, const Box&);
  bool contains(const Box&, const Box&);

 private:
  template <class Visit>
  void touch(std::uint32_t view, bool write, Visit& visit) const {
    if (view < boxes.size() && boxes[view].valid && !boxes[view].empty()) visit(view, write);
  }
  bool rows_overlap(const Box&, const Box&) const;
  bool rows_contain(const Box&, const Box&) const;
  std::unordered_map<std::uint64_t, std::uint8_t> row_relations_;
};

struct Model {
  const Plan* plan = nullptr;
  std::vector<RankModel> ranks;
  std::optional<GroupIndex> groups;
  std::vector<std::uint32_t> first_operation;  // of each rank among all; one more at the end
  std::int64_t bytes(const RankModel&, const Box&) const;
};

// check.cpp. False: the scenario or the groups make no sense, there is nothing to check.
bool sane_scenario(const Plan&, Findings&);

// check/linear_problem.cpp. What a problem of linear attention may not be, or null.
const char* wrong_linear_problem(const Scenario&);
// What an operation of good form has that the problem's linear attention does not, or null. The boxes are
// resolved; the problem may be one of softmax attention.
const char* wrong_linear_operation(const Problem&, const RankModel&, const Operation&);

// check/structure.cpp: resolves a sane plan, and tests its form and that its tiles are the problem's.
void resolve(const Plan&, Model&, Findings&);

// check/order.cpp: happens-before within one rank. Races, shared bytes, buffers never used.
void check_order(RankModel&, Findings&);

// Executes a plan symbolically: check/launches.cpp calls it for every operation and message, in an order that
// the plan allows.
class Interpreter {
 public:
  virtual ~Interpreter() = default;
  virtual void run(std::uint32_t rank, std::uint32_t operation) = 0;
  // `fits`: size and dtype agree. `first`: the first part received into this view by this operation.
  virtual void transfer(std::uint32_t from_rank, std::uint32_t send_operation, const Part& send,
                        std::uint32_t into_rank, std::uint32_t receive_operation, const Part& receive,
                        bool fits, bool first) = 0;
  virtual void all_reduce(std::span<const std::pair<std::uint32_t, std::uint32_t>> members) = 0;
};

// check/matching.cpp: pairs sends and receives, runs the plan without buffering, compares launch orders. True
// when every operation completed.
bool check_matching(Model&, Findings&, Interpreter&, CheckResult&);

// "kv_slots slot 1, rows 0..4095" for messages.
std::string describe_box(const RankModel&, const Box&);
// operation_id of plan.hpp, also for what is no phase.
std::string id_of(const RankPlan&, const Operation&);
std::string describe_operation(const RankModel&, std::uint32_t operation);  // "attend 1/forward/3"

}  // namespace cplab::checking

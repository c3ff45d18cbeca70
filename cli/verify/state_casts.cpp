// Conversions of states, counted along every message of the plan in an order in which it can be executed.
#include "cli/verify/state_casts.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "derive/walk.hpp"

namespace cplab {
namespace {

bool is_meeting(OpKind kind) {
  return kind == OpKind::all_reduce || kind == OpKind::barrier;
}

class CastCounter {
 public:
  explicit CastCounter(const Plan& plan) : plan_(plan), walk_(plan) {
    for (const RankPlan& rank : plan.ranks) casts_.emplace_back(rank.buffers.size(), no_state);
  }

  int most() {
    std::vector<OpRef> ready;
    walk_.begin(ready);
    while (!ready.empty()) {
      const OpRef op = ready.back();
      ready.pop_back();
      const OpKind kind = operation(op).kind;
      if (is_meeting(kind))
        meet(op, ready);
      else if (is_communication(kind))
        post(op, ready);
      else
        compute(op), walk_.complete(op, ready);
    }
    return most_;
  }

 private:
  static constexpr int no_state = -1;

  const RankPlan& rank(OpRef op) const { return plan_.ranks[op.rank]; }
  const Operation& operation(OpRef op) const { return rank(op).operations[op.operation]; }
  int& casts(OpRef op, const View& view) { return casts_[op.rank][view.buffer]; }

  void write(OpRef op, const View& view, int count) {
    int& held = casts(op, view);
    const Buffer& buffer = rank(op).buffers[view.buffer];
    const bool whole =
        element_count(rank(op), view) == buffer.slots * buffer.rows * buffer.heads * buffer.width;
    held = whole ? count : std::max(held, count);
    most_ = std::max(most_, held);
  }

  // States are what they are made of, rounded once more where they are stored in nominal.
  void compute(OpRef op) {
    const RankPlan& r = rank(op);
    const Operation& operation = this->operation(op);
    int most = no_state;
    for (const Access& access : r.reads(operation)) most = std::max(most, casts(op, r.views[access.view]));
    for (const Access& access : r.writes(operation))
      if (access.mode != WriteMode::store) most = std::max(most, casts(op, r.views[access.view]));
    for (const Access& access : r.writes(operation)) {
      const View& view = r.views[access.view];
      const bool rounds = r.buffers[view.buffer].role == Role::nominal && operation.kind != OpKind::copy;
      if (makes_state(operation.kind, access.operand))
        write(op, view, std::max(most, 0) + (rounds ? 1 : 0));
      else if (!is_linear(operation.kind))
        write(op, view, most == no_state ? no_state : most + (rounds ? 1 : 0));
    }
  }

  static bool makes_state(OpKind kind, Operand operand) {
    return kind == OpKind::state || kind == OpKind::scan || kind == OpKind::combine ||
           operand == Operand::final_state;
  }

  void post(OpRef op, std::vector<OpRef>& ready) {
    if (operation(op).parts.count == 0) return walk_.complete(op, ready);
    std::vector<Match> matched;
    walk_.post(op, matched);
    for (const Match& match : matched) {
      const View& from = rank(match.sender).views[rank(match.sender).parts[match.send_part].view];
      const View& into = rank(match.receiver).views[rank(match.receiver).parts[match.receive_part].view];
      write(match.receiver, into, casts(match.sender, from));
      for (const OpRef side : {match.sender, match.receiver})
        if (walk_.part_done(side)) walk_.complete(side, ready);
    }
  }

  void meet(OpRef op, std::vector<OpRef>& ready) {
    std::vector<OpRef> members;
    if (!walk_.meet(op, members)) return;
    for (const OpRef member : members) walk_.complete(member, ready);
  }

  const Plan& plan_;
  Walk walk_;
  std::vector<std::vector<int>> casts_;  // by rank and buffer
  int most_ = 0;
};

}  // namespace

double count_state_casts(const Plan& plan) {
  return CastCounter(plan).most();
}

}  // namespace cplab

// One run through the whole plan; see repetition.hpp.
#include "exec/cpu/repetition.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "plan/structure.hpp"

namespace cplab {

Repetition::Repetition(const Plan& plan, ExecutionOrder order, std::vector<std::unique_ptr<RankState>>& ranks,
                       Clock::time_point deadline, std::vector<MemoryLog>* log)
    : plan_(plan),
      ranks_(ranks),
      deadline_(deadline),
      log_(log),
      walk_(plan),
      pool_(order),
      touched_(plan.ranks.size()) {
  timeline_.ranks.resize(plan.ranks.size());
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    OperationTime not_ended;
    not_ended.end_s = -1;
    timeline_.ranks[r].assign(plan.ranks[r].operations.size(), not_ended);
    touched_[r].assign(plan.ranks[r].buffers.size(), false);
    for (std::uint32_t b = 0; b < plan.ranks[r].buffers.size(); ++b) {
      // Inputs were written before the start: their memory is not filled with NaN at their first use.
      if (plan.ranks[r].buffers[b].category == Category::input) take_memory(r, b, false);
    }
  }
}

double Repetition::run() {
  start_ = Clock::now();
  walk_.begin(ready_);
  push_ready();
  while (!pool_.empty()) {
    if (Clock::now() > deadline_) throw_hang(true);
    const ReadyItem item = pool_.take();
    switch (item.kind) {
      case ReadyItem::Kind::operation: start(item.op); break;
      case ReadyItem::Kind::transfer: transfer(matches_[item.index]); break;
      case ReadyItem::Kind::meeting: hold_meeting(meetings_[item.index]); break;
    }
    push_ready();
  }
  if (!walk_.finished()) throw_hang(false);
  return now_s();
}

void Repetition::push_ready() {
  for (const OpRef ref : ready_) {
    pool_.push({ReadyItem::Kind::operation, ref, 0, operation(ref).lane});
  }
  ready_.clear();
}

// A buffer's memory is filled with NaN just before its first use, in the order of execution. If the plan
// reuses memory without the edge that orders it, this destroys what the earlier buffer still holds.
void Repetition::take_memory(std::size_t rank, std::uint32_t index, bool fresh) {
  const Buffer& buffer = plan_.ranks[rank].buffers[index];
  touched_[rank][index] = true;
  if (fresh) ranks_[rank]->device.poison(buffer.offset, buffer.bytes);
  if (log_ != nullptr) (*log_)[rank].blocks.push_back({index, buffer.offset, buffer.bytes});
}

void Repetition::touch(OpRef ref) {
  for (const MemoryUse& use : ranks_[ref.rank]->binder.uses(operation(ref))) {
    if (!touched_[ref.rank][use.buffer]) take_memory(ref.rank, use.buffer, true);
    if (log_ != nullptr) (*log_)[ref.rank].uses.push_back(use);
  }
}

void Repetition::start(OpRef ref) {
  const Operation& op = operation(ref);
  touch(ref);
  OperationTime& time = time_of(ref);
  time.issue_s = time.start_s = now_s();
  if (op.kind == OpKind::host_sync) {
    complete(ref);
    return;
  } else if (op.kind == OpKind::all_reduce || op.kind == OpKind::barrier) {
    std::vector<OpRef> members;
    if (walk_.meet(ref, members)) {
      meetings_.push_back(std::move(members));
      pool_.push({ReadyItem::Kind::meeting, ref, meetings_.size() - 1, op.lane});
    }
  } else if (is_communication(op.kind)) {
    post(ref);
  } else {
    compute(ref);
    complete(ref);
    return;
  }
  walk_.started(ref, ready_);  // posted, hence not complete yet
}

void Repetition::compute(OpRef ref) {
  RankState& rank = *ranks_[ref.rank];
  const Operation& op = operation(ref);
  try {
    for (const KernelCall& call : rank.binder.bind(op)) rank.device.launch(call, op.lane);
  } catch (const std::invalid_argument& refused) {
    const RankPlan& plan = plan_.ranks[ref.rank];
    throw BadPlan(FindingKind::unmatched, plan.rank, operation_id(plan, op), "",
                  operation_id(plan, op) + ": " + refused.what());
  }
}

void Repetition::post(OpRef ref) {
  std::vector<Match> matched;
  walk_.post(ref, matched);
  for (const Match& match : matched) {
    matches_.push_back(match);
    pool_.push(
        {ReadyItem::Kind::transfer, match.receiver, matches_.size() - 1, operation(match.receiver).lane});
  }
  if (operation(ref).parts.count == 0) complete(ref);
}

void Repetition::transfer(const Match& match) {
  const double begin = now_s();
  RankState& sender = *ranks_[match.sender.rank];
  RankState& receiver = *ranks_[match.receiver.rank];
  const Operation& from_op = operation(match.sender);
  const Operation& into_op = operation(match.receiver);
  const RankPlan& from_plan = plan_.ranks[match.sender.rank];
  const RankPlan& into_plan = plan_.ranks[match.receiver.rank];
  const View& from = from_plan.views[from_plan.parts[match.send_part].view];
  const View& into = into_plan.views[into_plan.parts[match.receive_part].view];
  const auto pieces = matching_pieces(sender.binder, from_op, from, receiver.binder, into_op, into);
  if (from_op.kind != into_op.kind) {
    throw BadPlan(FindingKind::unmatched, into_plan.rank, operation_id(into_plan, into_op), "",
                  operation_id(from_plan, from_op) + " and " + operation_id(into_plan, into_op) +
                      " exchange data but are different operations");
  }
  if (into_op.kind == OpKind::reduce_scatter) {
    Received received{match.receive_part, {}, {}};
    for (const auto& [source, target] : pieces) {
      received.tensors.push_back(std::make_unique<StagedTensor>(receiver.device, source, into_op.lane));
      received.targets.push_back(target);
    }
    received_[{match.receiver.rank, match.receiver.operation}].push_back(std::move(received));
  } else {
    for (const auto& [source, target] : pieces) receiver.device.move(source, target, into_op.lane);
  }
  const double moved = now_s() - begin;
  part_done(match.sender, moved);
  part_done(match.receiver, moved);
}

void Repetition::part_done(OpRef ref, double moved_s) {
  moved_s_[{ref.rank, ref.operation}] += moved_s;
  if (!walk_.part_done(ref)) return;
  if (operation(ref).kind == OpKind::reduce_scatter) sum_received(ref);
  complete(ref);
}

// Parts that were received for one view are summed in the order of the group, whatever order they came in.
void Repetition::sum_received(OpRef ref) {
  const RankPlan& plan = plan_.ranks[ref.rank];
  const Operation& op = operation(ref);
  const std::vector<int>& group = plan_.groups[op.group].ranks;
  std::vector<Received>& received = received_[{ref.rank, ref.operation}];
  const auto place = [&](const Received& r) {
    return std::find(group.begin(), group.end(), plan.parts[r.part].peer) - group.begin();
  };
  // The first view that names the same elements: peers may have cut its rows otherwise.
  const auto parts = plan.parts_of(op);
  const auto target = [&](const Received& r) {
    const auto first = std::ranges::find_if(parts, [&](const Part& part) {
      return !part.send && (part.view == plan.parts[r.part].view ||
                            same_elements(plan, plan.views[part.view], plan.views[plan.parts[r.part].view]));
    });
    return first->view;
  };
  std::map<std::uint32_t, std::uint32_t> targets;  // by part
  for (const Received& r : received) targets.emplace(r.part, target(r));
  std::stable_sort(received.begin(), received.end(), [&](const Received& a, const Received& b) {
    return std::make_pair(targets[a.part], place(a)) < std::make_pair(targets[b.part], place(b));
  });
  for (std::size_t first = 0; first < received.size();) {
    std::size_t last = first;
    while (last < received.size() && targets[received[last].part] == targets[received[first].part]) ++last;
    for (std::size_t piece = 0; piece < received[first].tensors.size(); ++piece) {
      std::vector<const StagedTensor*> addends;
      for (std::size_t i = first; i < last; ++i) {
        if (piece >= received[i].tensors.size()) continue;  // other senders have more pieces
        addends.push_back(received[i].tensors[piece].get());
      }
      reduce_in_order(ranks_[ref.rank]->device, op.lane, Reduction::sum, addends,
                      received[first].targets[piece]);
    }
    first = last;
  }
  received_.erase({ref.rank, ref.operation});
}

// all_reduce: every member's views are read before any is written, so that it may work in place.
void Repetition::hold_meeting(const std::vector<OpRef>& members) {
  const double begin = now_s();
  const Operation& first = operation(members.front());
  for (const OpRef ref : members) {
    const Operation& op = operation(ref);
    if (op.kind == first.kind && op.reduction == first.reduction) continue;
    const RankPlan& plan = plan_.ranks[ref.rank];
    throw BadPlan(FindingKind::unmatched, plan.rank, operation_id(plan, op), "",
                  operation_id(plan, op) + " meets a different collective of its group");
  }
  if (first.kind == OpKind::all_reduce) all_reduce(members);
  const double moved = now_s() - begin;
  for (const OpRef ref : members) {
    moved_s_[{ref.rank, ref.operation}] += moved;
    complete(ref);
  }
}

void Repetition::all_reduce(const std::vector<OpRef>& members) {
  const auto view_of = [&](OpRef ref, bool write) -> const View& {
    const RankPlan& plan = plan_.ranks[ref.rank];
    return plan.view_of(operation(ref), write ? Operand::into : Operand::from);
  };
  std::vector<std::vector<std::unique_ptr<StagedTensor>>> sources(members.size());
  std::vector<std::vector<kernels::View>> targets(members.size());
  for (std::size_t m = 0; m < members.size(); ++m) {
    // Each member's operand against the first member's result: all shapes and dtypes are then equal.
    RankState& rank = *ranks_[members[m].rank];
    const Operation& op = operation(members[m]);
    const RankState& home = *ranks_[members[0].rank];
    for (const auto& [from, into] : matching_pieces(rank.binder, op, view_of(members[m], false), home.binder,
                                                    operation(members[0]), view_of(members[0], true))) {
      sources[m].push_back(std::make_unique<StagedTensor>(rank.device, from, op.lane));
    }
    for (const auto& [from, into] :
         matching_pieces(home.binder, operation(members[0]), view_of(members[0], true), rank.binder, op,
                         view_of(members[m], true))) {
      targets[m].push_back(into);
    }
  }
  for (std::size_t piece = 0; piece < sources[0].size(); ++piece) {
    std::vector<const StagedTensor*> addends;
    for (const auto& source : sources) addends.push_back(source[piece].get());
    for (std::size_t m = 0; m < members.size(); ++m) {
      const Operation& op = operation(members[m]);
      reduce_in_order(ranks_[members[m].rank]->device, op.lane, op.reduction, addends, targets[m][piece]);
    }
  }
}

void Repetition::complete(OpRef ref) {
  OperationTime& time = time_of(ref);
  time.end_s = now_s();
  if (is_communication(operation(ref).kind)) {
    const auto moved = moved_s_.find({ref.rank, ref.operation});
    const double moved_s = moved == moved_s_.end() ? 0 : moved->second;
    if (moved != moved_s_.end()) moved_s_.erase(moved);
    time.wait_s = std::max(0.0, time.end_s - time.start_s - moved_s);
  }
  walk_.complete(ref, ready_);
  ++done_;
  if (after_operation) after_operation(done_);
}

void Repetition::throw_hang(bool timed_out) const {
  // What a rank waits in: its first operation, in program order, that has not ended.
  std::vector<int> ranks;
  std::vector<std::string> operations;
  for (std::size_t r = 0; r < plan_.ranks.size(); ++r) {
    const RankPlan& plan = plan_.ranks[r];
    for (std::size_t i = 0; i < plan.operations.size(); ++i) {
      if (timeline_.ranks[r][i].end_s >= 0) continue;
      ranks.push_back(plan.rank);
      operations.push_back(operation_id(plan, plan.operations[i]));
      break;
    }
  }
  const std::string head = timed_out
                               ? "the time is up after " + std::to_string(done_before + done_) + " of " +
                                     std::to_string(all_operations) + " operations; unfinished ranks:\n"
                               : "nothing can happen any more:\n";
  throw ExecutionHang(timed_out, std::move(ranks), std::move(operations), head + walk_.blocked());
}

}  // namespace cplab

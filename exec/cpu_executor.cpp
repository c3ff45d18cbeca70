// The cooperative scheduler over all ranks and lanes; see cpu_executor.hpp.
#include "exec/cpu_executor.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <utility>

#include "algorithms/walk.hpp"
#include "exec/collectives.hpp"
#include "exec/cpu_device.hpp"
#include "exec/schedule.hpp"

namespace cplab {

namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

struct RankState {
  RankState(const RankPlan& plan, DType nominal, const kernels::Tiles& tiles)
      : device(plan.arena_bytes, tiles), binder(plan, nominal, device.base()) {}
  CpuDevice device;
  Binder binder;
};

// One pass over the whole plan.
class Repetition {
 public:
  Repetition(const Plan& plan, const CpuOptions& options, std::vector<std::unique_ptr<RankState>>& ranks,
             Clock::time_point deadline, std::vector<MemoryLog>* log)
      : plan_(plan),
        options_(options),
        ranks_(ranks),
        deadline_(deadline),
        log_(log),
        walk_(plan),
        pool_(options.order),
        touched_(plan.ranks.size()) {
    timeline_.ranks.resize(plan.ranks.size());
    for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
      OperationTime not_ended;
      not_ended.end_s = -1;
      timeline_.ranks[r].assign(plan.ranks[r].operations.size(), not_ended);
      touched_[r].assign(plan.ranks[r].buffers.size(), false);
      for (std::uint32_t b = 0; b < plan.ranks[r].buffers.size(); ++b) {
        // Inputs are there before the start; whatever else lies in their memory is the plan's mistake.
        if (plan.ranks[r].buffers[b].category == Category::input) take_memory(r, b, false);
      }
    }
  }

  // Returns the seconds it took.
  double run() {
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

  Timeline take_timeline() { return std::move(timeline_); }

 private:
  double now_s() const { return seconds(Clock::now() - start_); }
  const Operation& operation(OpRef ref) const { return plan_.ranks[ref.rank].operations[ref.operation]; }
  OperationTime& time_of(OpRef ref) { return timeline_.ranks[ref.rank][ref.operation]; }

  void push_ready() {
    for (const OpRef ref : ready_) {
      pool_.push({ReadyItem::Kind::operation, ref, 0, operation(ref).lane});
    }
    ready_.clear();
  }

  // Fresh memory is NaN from the moment of its first use on, in the order of execution: without the edge that
  // orders the reuse of memory, this destroys what another buffer still holds there.
  void take_memory(std::size_t rank, std::uint32_t index, bool fresh) {
    const Buffer& buffer = plan_.ranks[rank].buffers[index];
    touched_[rank][index] = true;
    if (fresh) ranks_[rank]->device.poison(buffer.offset, buffer.bytes);
    if (log_ != nullptr) (*log_)[rank].blocks.push_back({index, buffer.offset, buffer.bytes});
  }

  void touch(OpRef ref) {
    for (const MemoryUse& use : ranks_[ref.rank]->binder.uses(operation(ref))) {
      if (!touched_[ref.rank][use.buffer]) take_memory(ref.rank, use.buffer, true);
      if (log_ != nullptr) (*log_)[ref.rank].uses.push_back(use);
    }
  }

  void start(OpRef ref) {
    const Operation& op = operation(ref);
    touch(ref);
    OperationTime& time = time_of(ref);
    time.issue_s = time.start_s = now_s();
    if (op.kind == OpKind::host_sync) {
      complete(ref);
    } else if (op.kind == OpKind::all_reduce || op.kind == OpKind::barrier) {
      std::vector<OpRef> members;
      if (!walk_.meet(ref, members)) return;
      meetings_.push_back(std::move(members));
      pool_.push({ReadyItem::Kind::meeting, ref, meetings_.size() - 1, op.lane});
    } else if (is_communication(op.kind)) {
      post(ref);
    } else {
      compute(ref);
      complete(ref);
    }
  }

  void compute(OpRef ref) {
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

  void post(OpRef ref) {
    std::vector<Match> matched;
    walk_.post(ref, matched);
    for (const Match& match : matched) {
      matches_.push_back(match);
      pool_.push(
          {ReadyItem::Kind::transfer, match.receiver, matches_.size() - 1, operation(match.receiver).lane});
    }
    if (operation(ref).parts.count == 0) complete(ref);
  }

  void transfer(const Match& match) {
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

  void part_done(OpRef ref, double moved_s) {
    moved_s_[{ref.rank, ref.operation}] += moved_s;
    if (!walk_.part_done(ref)) return;
    if (operation(ref).kind == OpKind::reduce_scatter) sum_received(ref);
    complete(ref);
  }

  // Parts that were received for one view are summed in the order of the group, whatever order they came in.
  void sum_received(OpRef ref) {
    const RankPlan& plan = plan_.ranks[ref.rank];
    const Operation& op = operation(ref);
    const std::vector<int>& group = plan_.groups[op.group].ranks;
    std::vector<Received>& received = received_[{ref.rank, ref.operation}];
    const auto place = [&](const Received& r) {
      return std::find(group.begin(), group.end(), plan.parts[r.part].peer) - group.begin();
    };
    std::stable_sort(received.begin(), received.end(), [&](const Received& a, const Received& b) {
      return std::make_pair(plan.parts[a.part].view, place(a)) <
             std::make_pair(plan.parts[b.part].view, place(b));
    });
    for (std::size_t first = 0; first < received.size();) {
      std::size_t last = first;
      while (last < received.size() &&
             plan.parts[received[last].part].view == plan.parts[received[first].part].view)
        ++last;
      for (std::size_t piece = 0; piece < received[first].tensors.size(); ++piece) {
        std::vector<const StagedTensor*> addends;
        for (std::size_t i = first; i < last; ++i) {
          if (piece >= received[i].tensors.size()) continue;  // senders cut the width differently
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
  void hold_meeting(const std::vector<OpRef>& members) {
    const double begin = now_s();
    const Operation& first = operation(members.front());
    for (const OpRef ref : members) {
      const Operation& op = operation(ref);
      if (op.kind == first.kind && op.reduction == first.reduction && op.reads.count == first.reads.count)
        continue;
      const RankPlan& plan = plan_.ranks[ref.rank];
      throw BadPlan(FindingKind::unmatched, plan.rank, operation_id(plan, op), "",
                    operation_id(plan, op) + " meets a different collective of its group");
    }
    if (first.kind == OpKind::all_reduce) {
      for (std::uint32_t i = 0; i < first.reads.count; ++i) all_reduce(members, i);
    }
    const double moved = now_s() - begin;
    for (const OpRef ref : members) {
      moved_s_[{ref.rank, ref.operation}] += moved;
      complete(ref);
    }
  }

  void all_reduce(const std::vector<OpRef>& members, std::uint32_t operand) {
    const auto view_of = [&](OpRef ref, bool write) -> const View& {
      const RankPlan& plan = plan_.ranks[ref.rank];
      const Operation& op = operation(ref);
      return plan.views[plan.accesses[(write ? op.writes.first : op.reads.first) + operand].view];
    };
    std::vector<std::vector<std::unique_ptr<StagedTensor>>> sources(members.size());
    std::vector<std::vector<kernels::View>> targets(members.size());
    for (std::size_t m = 0; m < members.size(); ++m) {
      // Each member's operand against the first member's result: all shapes and dtypes are then equal.
      RankState& rank = *ranks_[members[m].rank];
      const Operation& op = operation(members[m]);
      const RankState& home = *ranks_[members[0].rank];
      for (const auto& [from, into] :
           matching_pieces(rank.binder, op, view_of(members[m], false), home.binder, operation(members[0]),
                           view_of(members[0], true))) {
        sources[m].push_back(std::make_unique<StagedTensor>(rank.device, from, op.lane));
      }
      for (const auto& [from, into] :
           matching_pieces(home.binder, operation(members[0]), view_of(members[0], true), rank.binder, op,
                           view_of(members[m], true))) {
        targets[m].push_back(into);
      }
      if (sources[m].size() != sources[0].size() || targets[m].size() != sources[0].size()) {
        const RankPlan& plan = plan_.ranks[members[m].rank];
        throw BadPlan(FindingKind::unmatched, plan.rank, operation_id(plan, op), "",
                      operation_id(plan, op) + ": the members of an all_reduce cut its width differently");
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

  void complete(OpRef ref) {
    OperationTime& time = time_of(ref);
    time.end_s = now_s();
    if (is_communication(operation(ref).kind)) {
      const auto moved = moved_s_.find({ref.rank, ref.operation});
      const double moved_s = moved == moved_s_.end() ? 0 : moved->second;
      if (moved != moved_s_.end()) moved_s_.erase(moved);
      time.wait_s = std::max(0.0, time.end_s - time.start_s - moved_s);
    }
    walk_.complete(ref, ready_);
  }

  [[noreturn]] void throw_hang(bool timed_out) const {
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
    const std::string head =
        timed_out ? "the time is up; unfinished ranks:\n" : "nothing can happen any more:\n";
    throw ExecutionHang(timed_out, std::move(ranks), std::move(operations), head + walk_.blocked());
  }

  using Key = std::pair<std::uint32_t, std::uint32_t>;
  struct Received {  // by a reduce_scatter, until all of its parts are there
    std::uint32_t part = 0;
    std::vector<std::unique_ptr<StagedTensor>> tensors;
    std::vector<kernels::View> targets;
  };

  const Plan& plan_;
  const CpuOptions& options_;
  std::vector<std::unique_ptr<RankState>>& ranks_;
  Clock::time_point deadline_, start_;
  std::vector<MemoryLog>* log_;
  Walk walk_;
  ReadyPool pool_;
  Timeline timeline_;
  std::vector<OpRef> ready_;
  std::vector<Match> matches_;
  std::vector<std::vector<OpRef>> meetings_;
  std::vector<std::vector<bool>> touched_;  // by rank, by buffer
  std::map<Key, std::vector<Received>> received_;
  std::map<Key, double> moved_s_;  // of communications that have not ended
};

}  // namespace

struct CpuExecutor::State {
  State(const Plan& plan_, CpuOptions options_) : plan(plan_), options(options_) {}

  const RankPlan& rank_of(int rank) const {
    if (rank < 0 || static_cast<std::size_t>(rank) >= plan.ranks.size()) {
      throw BadPlan(FindingKind::unmatched, rank, "", "", "the plan has no rank " + std::to_string(rank));
    }
    return plan.ranks[static_cast<std::size_t>(rank)];
  }

  const Buffer* find(int rank, std::string_view name) const {
    const RankPlan& of = rank_of(rank);
    const auto found =
        std::find_if(of.buffers.begin(), of.buffers.end(), [&](const Buffer& b) { return b.name == name; });
    return found == of.buffers.end() ? nullptr : &*found;
  }

  // Calls visit(element, at) for every element in the order of [slots, rows, heads, width]; `element` counts
  // from the first byte of the buffer.
  template <class Visit>
  static void for_each_element(const Buffer& b, Visit visit) {
    std::size_t at = 0;
    for (std::int64_t slot = 0; slot < b.slots; ++slot) {
      for (std::int64_t row = 0; row < b.rows; ++row) {
        for (std::int64_t head = 0; head < b.heads; ++head) {
          const std::int64_t line =
              b.layout == Layout::rows_first ? row * b.heads + head : head * b.rows + row;
          for (std::int64_t x = 0; x < b.width; ++x) {
            const bool second = b.planes > 0 && x >= b.planes;
            const std::int64_t begin = second ? b.planes : 0;
            const std::int64_t width = (b.planes > 0 && !second ? b.planes : b.width) - begin;
            visit((slot * b.width + begin) * b.rows * b.heads + line * width + (x - begin), at++);
          }
        }
      }
    }
  }

  const Buffer& require(int rank, std::string_view name) const {
    const Buffer* buffer = find(rank, name);
    if (buffer == nullptr) {
      throw BadPlan(FindingKind::unmatched, rank, "", std::string(name),
                    "rank " + std::to_string(rank) + " has no buffer " + std::string(name));
    }
    return *buffer;
  }

  const Plan& plan;
  CpuOptions options;
  std::vector<std::unique_ptr<RankState>> ranks;
};

CpuExecutor::CpuExecutor(const Plan& plan, const CpuOptions& options)
    : state_(std::make_unique<State>(plan, options)) {
  require_executable(plan);
  double bytes = 0;
  for (const RankPlan& rank : plan.ranks) bytes += static_cast<double>(rank.arena_bytes);
  const double physical =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (bytes > 0.9 * physical) {
    throw NotEnoughMemory("the arenas of " + std::to_string(plan.ranks.size()) + " ranks take " +
                          std::to_string(static_cast<std::int64_t>(bytes / (1 << 20))) +
                          " MiB, and this machine has " +
                          std::to_string(static_cast<std::int64_t>(physical / (1 << 20))));
  }
  const kernels::Tiles& tiles = options.tiles != nullptr ? *options.tiles : kernels::cpu_tiles();
  for (const RankPlan& rank : plan.ranks) {
    state_->ranks.push_back(std::make_unique<RankState>(rank, plan.scenario.problem.dtype, tiles));
  }
}

CpuExecutor::~CpuExecutor() = default;

bool CpuExecutor::has(int rank, std::string_view buffer) const {
  return state_->find(rank, buffer) != nullptr;
}

void CpuExecutor::write(int rank, std::string_view buffer, std::span<const double> values) {
  const Buffer& b = state_->require(rank, buffer);
  if (static_cast<std::int64_t>(values.size()) != b.slots * b.rows * b.heads * b.width) {
    throw std::invalid_argument("buffer " + b.name + " does not have " + std::to_string(values.size()) +
                                " elements");
  }
  const kernels::DType dtype = kernel_dtype(b.role, state_->plan.scenario.problem.dtype);
  std::byte* data = state_->ranks[static_cast<std::size_t>(rank)]->device.base() + b.offset;
  State::for_each_element(b, [&](std::int64_t element, std::size_t at) {
    kernels::store_element(data, dtype, element, values[at]);
  });
}

std::vector<double> CpuExecutor::read(int rank, std::string_view buffer) const {
  const Buffer& b = state_->require(rank, buffer);
  const kernels::DType dtype = kernel_dtype(b.role, state_->plan.scenario.problem.dtype);
  const std::byte* data = state_->ranks[static_cast<std::size_t>(rank)]->device.base() + b.offset;
  std::vector<double> values(static_cast<std::size_t>(b.slots * b.rows * b.heads * b.width));
  State::for_each_element(b, [&](std::int64_t element, std::size_t at) {
    values[at] = kernels::load_element(data, dtype, element);
  });
  return values;
}

ExecutionResult CpuExecutor::run() {
  const CpuOptions& options = state_->options;
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                           std::chrono::duration<double>(options.timeout_s));
  ExecutionResult result;
  if (options.keep_log) result.memory.resize(state_->plan.ranks.size());
  std::vector<std::pair<double, Timeline>> timed;
  const int repetitions = options.warmup + std::max(1, options.iterations);
  for (int i = 0; i < repetitions; ++i) {
    std::vector<MemoryLog>* log = i == 0 && options.keep_log ? &result.memory : nullptr;
    Repetition repetition(state_->plan, options, state_->ranks, deadline, log);
    const double time_s = repetition.run();
    if (i < options.warmup) continue;
    result.times_s.push_back(time_s);
    timed.emplace_back(time_s, repetition.take_timeline());
  }
  const std::size_t n = timed.size();
  const auto by_time = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::stable_sort(timed.begin(), timed.end(), by_time);
  result.time_s = (timed[(n - 1) / 2].first + timed[n / 2].first) / 2;
  result.timeline = std::move(timed[(n - 1) / 2].second);
  for (std::size_t r = 0; r < state_->ranks.size(); ++r) {
    if (!state_->ranks[r]->device.red_zones_intact()) result.overrun_ranks.push_back(static_cast<int>(r));
  }
  return result;
}

}  // namespace cplab

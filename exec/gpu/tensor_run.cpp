// A plan bound to places of tensors, again for every new ones; see tensor_run.hpp.
#include "exec/gpu/tensor_run.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <list>
#include <stdexcept>
#include <thread>

#include "derive/phases.hpp"
#include "exec/gpu/issuer.hpp"
#include "exec/gpu/machine.hpp"
#include "exec/gpu/messages.hpp"
#include "exec/gpu/nccl_link.hpp"
#include "exec/gpu/nccl_world.hpp"
#include "exec/gpu/rank.hpp"
#include "exec/gpu/streams.hpp"
#include "exec/gpu/tensor_places.hpp"

namespace cplab {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::int64_t most_tables_bytes = std::int64_t{1} << 29;  // of all bindings of a phase

// Of the thread that calls; put back afterwards, because the caller's framework has its own idea of it.
class CurrentDevice {
 public:
  CurrentDevice() { (void)cudaGetDevice(&device_); }
  ~CurrentDevice() { (void)cudaSetDevice(device_); }

 private:
  int device_ = 0;
};

// The plan's calls and messages with the addresses that its buffers have in one set of places.
struct Binding {
  std::vector<TensorPlace> places;
  std::byte* scratch = nullptr;
  void* tables = nullptr;                       // of PhasePlan::tables_bytes
  std::vector<std::unique_ptr<GpuRank>> ranks;  // by rank of the plan: this one's, else null
  std::unique_ptr<GpuMessages> messages;
  std::unique_ptr<NcclLink> link;
};

// Every part has its counterpart on all ranks; else the operation is never issued, and its rank would wait
// for ever.
void require_matched(const Plan& plan, const PlannedMessages& planned) {
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    for (std::size_t i = 0; i < plan.ranks[r].operations.size(); ++i) {
      const Operation& op = plan.ranks[r].operations[i];
      const PostedParts& posted = planned.posted[r][i];
      if (posted.sends.size() + posted.receives.size() == op.parts.count) continue;
      throw std::invalid_argument(
          operation_id(plan.ranks[r], op) +
          ": a part of it has no counterpart, or it can never begin; `check` says more");
    }
  }
}

// One phase of the plan.
struct PhasePlan {
  PhasePlan(Plan plan_, int rank)
      : plan(std::move(plan_)),
        planned(plan),
        memory(plan.ranks[static_cast<std::size_t>(rank)], plan.scenario.problem.dtype) {
    require_matched(plan, planned);
  }
  Plan plan;
  PlannedMessages planned;
  PhaseMemory memory;
  std::list<Binding> bindings;  // the one that was used last comes first
  // Of the kernels' tables, their scratch memory included, in one binding; one that needs more, because of
  // how its tensors lie, has memory of its own.
  std::int64_t tables_bytes = 0;
};

// Memory on a GPU, all of which goes at once.
class Memory {
 public:
  Memory() = default;
  ~Memory() {
    for (void* each : all_) (void)cudaFree(each);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* take(std::int64_t bytes, int rank) {
    void* memory = nullptr;
    cuda_require(cudaMalloc(&memory, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1))),
                 "cudaMalloc", rank);
    all_.push_back(memory);
    return memory;
  }

 private:
  std::vector<void*> all_;
};

}  // namespace

struct TensorRun::State {
  PhasePlan* phase_plan(Phase phase) const { return phases[phase == Phase::forward ? 0 : 1].get(); }
  GpuRankOptions rank_options() const {
    GpuRankOptions of;
    of.device = device;
    of.deterministic = deterministic;
    of.numbers = ProblemNumbers(plan.scenario.problem);
    of.head_start_us = head_start_us(plan.scenario.schedule);
    of.reserved_sms = reserved_sms(plan.scenario.schedule, multiprocessors(device));
    of.streams = streams;
    return of;
  }
  Binding bind(const PhasePlan& phase_plan, GpuRankOptions options) const;
  Binding& binding_of(PhasePlan& phase_plan, std::span<const TensorPlace> places, std::byte* scratch);
  void* free_tables(PhasePlan& phase_plan);
  void connect(PhasePlan& phase_plan) const;
  void issue(const Binding& binding);
  void join_lanes(GpuRank& own, cudaStream_t callers);

  Plan plan;
  int rank = 0, device = 0;
  bool deterministic = false;
  std::unique_ptr<NcclWorld> world;
  std::shared_ptr<GpuStreams> streams = std::make_shared<GpuStreams>();
  Memory memory;
  std::array<std::unique_ptr<PhasePlan>, 2> phases;  // forward, backward; null: the plan has none
  // Where a call begins on its caller's stream, where a lane has come to in it, and where the last call ends:
  // the next one has the same scratch memory, perhaps on another stream.
  cudaEvent_t fork = nullptr, join = nullptr, ended = nullptr;
  std::size_t keep = 0;  // bindings of a phase
  std::uint32_t repetitions = 0;
  std::int64_t known = 0, bound = 0;
  std::mutex mutex;
};

std::vector<char> TensorRun::make_id() {
  return NcclWorld::make_id();
}

// The operations of this rank with addresses; not yet connected to anyone.
Binding TensorRun::State::bind(const PhasePlan& phase_plan, GpuRankOptions options) const {
  const auto r = static_cast<std::size_t>(rank);
  Binding binding;
  binding.ranks.resize(phase_plan.plan.ranks.size());
  binding.ranks[r] = std::make_unique<GpuRank>(phase_plan.plan.ranks[r],
                                               phase_plan.plan.scenario.problem.dtype, std::move(options));
  binding.ranks[r]->prepare();
  const GpuTeam team(static_cast<int>(phase_plan.plan.ranks.size()), nullptr);
  binding.messages = std::make_unique<GpuMessages>(phase_plan.plan, phase_plan.planned, binding.ranks, team);
  if (world != nullptr) binding.link = std::make_unique<NcclLink>(phase_plan.plan, *binding.ranks[r], *world);
  return binding;
}

// In an arena of its own, which goes afterwards: what is sent for the connections may hold anything. Also
// learns how long the kernels' tables are.
void TensorRun::State::connect(PhasePlan& phase_plan) const {
  const Binding binding = bind(phase_plan, rank_options());
  phase_plan.tables_bytes = binding.ranks[static_cast<std::size_t>(rank)]->tables_bytes();
  if (binding.link != nullptr) binding.link->connect(*binding.messages);
  binding.ranks[static_cast<std::size_t>(rank)]->synchronize();
}

Binding& TensorRun::State::binding_of(PhasePlan& phase_plan, std::span<const TensorPlace> places,
                                      std::byte* scratch) {
  const auto same = [&](const Binding& binding) {
    return binding.scratch == scratch && std::ranges::equal(binding.places, places);
  };
  const auto found = std::find_if(phase_plan.bindings.begin(), phase_plan.bindings.end(), same);
  if (found != phase_plan.bindings.end()) {
    ++known;
    phase_plan.bindings.splice(phase_plan.bindings.begin(), phase_plan.bindings, found);
    return phase_plan.bindings.front();
  }
  GpuRankOptions options = rank_options();
  options.memory = phase_plan.memory.places(places, scratch);
  options.tables = free_tables(phase_plan);
  options.tables_bytes = phase_plan.tables_bytes;
  void* const tables = options.tables;
  Binding binding = bind(phase_plan, std::move(options));
  binding.places.assign(places.begin(), places.end());
  binding.scratch = scratch;
  binding.tables = tables;
  ++bound;
  phase_plan.bindings.push_front(std::move(binding));
  return phase_plan.bindings.front();
}

// For the tables of one more binding: new, or of the binding that was not used for longest, which goes. The
// new tables wait for that one's kernels.
void* TensorRun::State::free_tables(PhasePlan& phase_plan) {
  const std::int64_t by_bytes = most_tables_bytes / std::max<std::int64_t>(phase_plan.tables_bytes, 1);
  const std::size_t most = std::min(keep, static_cast<std::size_t>(std::max<std::int64_t>(by_bytes, 1)));
  if (phase_plan.bindings.size() < most) return memory.take(phase_plan.tables_bytes, rank);
  const Binding& oldest = phase_plan.bindings.back();
  GpuRank& own = *oldest.ranks[static_cast<std::size_t>(rank)];
  for (const GpuLane& lane : own.lanes())
    cuda_require(cudaStreamWaitEvent(streams->uploads(rank), own.operation(lane.operations.back()).done, 0),
                 "cudaStreamWaitEvent", rank);
  void* const tables = oldest.tables;
  phase_plan.bindings.pop_back();
  return tables;
}

void TensorRun::State::join_lanes(GpuRank& own, cudaStream_t callers) {
  for (const GpuLane& lane : own.lanes()) {
    cuda_require(cudaEventRecord(join, lane.stream), "cudaEventRecord", rank);
    cuda_require(cudaStreamWaitEvent(callers, join, 0), "cudaStreamWaitEvent", rank);
  }
  cuda_require(cudaEventRecord(ended, callers), "cudaEventRecord", rank);
}

void TensorRun::State::issue(const Binding& binding) {
  GpuIssuer issuer(*binding.ranks[static_cast<std::size_t>(rank)], *binding.messages, binding.link.get());
  GpuIssuer::Iteration iteration;
  iteration.number = ++repetitions;
  iteration.jitter = false;
  iteration.start = Clock::now();
  issuer.begin(iteration);
  while (!issuer.all_issued()) {
    if (issuer.advance()) continue;  // what is left waits for a host_sync
    if (world != nullptr) world->require_healthy();
    std::this_thread::yield();
  }
}

TensorRun::TensorRun(Plan plan, int rank, int device, std::vector<char> id, bool deterministic,
                     std::size_t keep)
    : state_(std::make_unique<State>()) {
  require_executable(plan);
  require_tensors(plan);
  if (rank < 0 || rank >= static_cast<int>(plan.ranks.size()))
    throw std::invalid_argument("rank " + std::to_string(rank) + " of a plan of " +
                                std::to_string(plan.ranks.size()));
  part_inputs(plan);
  const bool nccl = needs_nccl(plan);
  State& s = *state_;
  s.plan = std::move(plan);
  s.rank = rank;
  s.device = device;
  s.deterministic = deterministic;
  s.keep = std::max<std::size_t>(keep, 1);
  std::vector<const Plan*> plans;
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    Plan alone = phase_alone(s.plan, phase);
    const auto has_work = [](const RankPlan& each) { return !each.operations.empty(); };
    if (std::none_of(alone.ranks.begin(), alone.ranks.end(), has_work)) continue;
    auto& phase_plan = s.phases[phase == Phase::forward ? 0 : 1];
    phase_plan = std::make_unique<PhasePlan>(std::move(alone), rank);
    plans.push_back(&phase_plan->plan);
  }
  const CurrentDevice before;
  load_gpu(device, false, rank);
  cuda_require(cudaEventCreateWithFlags(&s.fork, cudaEventDisableTiming), "cudaEventCreate", rank);
  cuda_require(cudaEventCreateWithFlags(&s.join, cudaEventDisableTiming), "cudaEventCreate", rank);
  cuda_require(cudaEventCreateWithFlags(&s.ended, cudaEventDisableTiming), "cudaEventCreate", rank);
  if (nccl && id.empty() && s.plan.ranks.size() == 1) id = make_id();
  if (nccl) s.world = std::make_unique<NcclWorld>(plans, rank, id);
  for (const auto& phase_plan : s.phases)
    if (phase_plan != nullptr) s.connect(*phase_plan);
}

TensorRun::~TensorRun() {
  const CurrentDevice before;
  (void)cudaSetDevice(state_->device);
  (void)cudaDeviceSynchronize();  // what is queued uses what goes now
  (void)cudaEventDestroy(state_->fork);
  (void)cudaEventDestroy(state_->join);
  (void)cudaEventDestroy(state_->ended);
  for (auto& phase_plan : state_->phases) phase_plan.reset();
  state_.reset();
}

const std::vector<PhaseTensor>& TensorRun::tensors(Phase phase) const {
  static const std::vector<PhaseTensor> none;
  const PhasePlan* phase_plan = state_->phase_plan(phase);
  return phase_plan == nullptr ? none : phase_plan->memory.tensors();
}

std::int64_t TensorRun::scratch_bytes() const {
  std::int64_t most = 0;
  for (const auto& phase_plan : state_->phases)
    if (phase_plan != nullptr) most = std::max(most, phase_plan->memory.scratch_bytes());
  return most;
}

void TensorRun::queue(Phase phase, std::span<const TensorPlace> tensors, std::byte* scratch, void* stream) {
  State& s = *state_;
  PhasePlan* phase_plan = s.phase_plan(phase);
  if (phase_plan == nullptr || tensors.size() != phase_plan->memory.tensors().size())
    throw std::invalid_argument("the phase takes " + std::to_string(this->tensors(phase).size()) +
                                " tensors, not " + std::to_string(tensors.size()));
  const std::lock_guard lock(s.mutex);
  const CurrentDevice before;
  auto* const callers = static_cast<cudaStream_t>(stream);
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cuda_require(cudaStreamIsCapturing(callers, &capture), "cudaStreamIsCapturing", s.rank);
  if (capture != cudaStreamCaptureStatusNone)
    throw GpuError("a plan cannot be part of the CUDA graph of a framework's stream");
  const Binding& binding = s.binding_of(*phase_plan, tensors, scratch);
  GpuRank& own = *binding.ranks[static_cast<std::size_t>(s.rank)];
  own.use_device();
  cuda_require(cudaEventRecord(s.fork, callers), "cudaEventRecord", s.rank);
  for (const GpuLane& lane : own.lanes())
    for (const cudaEvent_t event : {s.fork, s.ended})
      cuda_require(cudaStreamWaitEvent(lane.stream, event, 0), "cudaStreamWaitEvent", s.rank);
  try {
    s.issue(binding);
  } catch (...) {  // what is queued uses the caller's tensors all the same
    s.join_lanes(own, callers);
    throw;
  }
  s.join_lanes(own, callers);
}

std::int64_t TensorRun::known() const {
  const std::lock_guard lock(state_->mutex);
  return state_->known;
}

std::int64_t TensorRun::bound() const {
  const std::lock_guard lock(state_->mutex);
  return state_->bound;
}

std::vector<std::pair<std::string, std::string>> TensorRun::variants(Phase phase) const {
  const std::lock_guard lock(state_->mutex);
  std::vector<std::pair<std::string, std::string>> named;
  const PhasePlan* phase_plan = state_->phase_plan(phase);
  if (phase_plan == nullptr || phase_plan->bindings.empty()) return named;
  const GpuRank& own = *phase_plan->bindings.front().ranks[static_cast<std::size_t>(state_->rank)];
  for (std::uint32_t i = 0; i < own.plan().operations.size(); ++i)
    named.emplace_back(operation_id(own.plan(), own.plan().operations[i]), own.variant(i));
  return named;
}

}  // namespace cplab

// The link `nccl`; see nccl_link.hpp.
#include "exec/gpu/nccl_link.hpp"

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "exec/gpu/device_work.hpp"

namespace cplab {

namespace {

ncclDataType_t nccl_type(kernels::DType dtype) {
  switch (dtype) {
    case kernels::DType::fp64: return ncclFloat64;
    case kernels::DType::fp32: return ncclFloat32;
    case kernels::DType::bf16: return ncclBfloat16;
    case kernels::DType::fp16: return ncclFloat16;
  }
  return ncclInt8;
}

// NCCL's calls between begin and end are one. An exception ends them too: NCCL counts its groups by thread,
// and the thread may be another framework's.
class CallGroup {
 public:
  explicit CallGroup(int rank) : rank_(rank) { nccl_require(ncclGroupStart(), "ncclGroupStart", rank); }
  ~CallGroup() {
    if (!ended_) (void)ncclGroupEnd();
  }
  CallGroup(const CallGroup&) = delete;
  CallGroup& operator=(const CallGroup&) = delete;
  void end(ncclComm_t comm = nullptr) {
    ended_ = true;
    nccl_require(ncclGroupEnd(), "ncclGroupEnd", rank_, comm);
  }

 private:
  int rank_;
  bool ended_ = false;
};

}  // namespace

struct NcclLink::State {
  State(const Plan& plan_, GpuRank& rank_, NcclWorld& world_) : plan(plan_), rank(rank_), world(world_) {}

  int id() const { return rank.plan().rank; }
  int place(std::uint16_t group, int peer) const {
    const std::vector<int>& ranks = plan.groups[group].ranks;
    return static_cast<int>(std::find(ranks.begin(), ranks.end(), peer) - ranks.begin());
  }

  // From an operation to itself: no message, but a copy on its stream.
  static bool stays(const GpuMessage& message) { return message.match.sender == message.match.receiver; }
  void queue_local_copies(std::uint32_t index, const GpuMessages& messages, cudaStream_t stream) {
    for (const std::uint32_t m : rank.operation(index).sends) {
      if (!stays(messages[m])) continue;
      for (const ByteBlock& block : messages[m].blocks)
        cuda_require(queue_local_copy(stream, block), "a copy that stays", id());
    }
  }

  void queue_parts(std::uint32_t index, const GpuMessages& messages, ncclComm_t comm, cudaStream_t stream) {
    const RankPlan& own = rank.plan();
    const Operation& op = own.operations[index];
    const GpuOperation& prepared = rank.operation(index);
    auto send = prepared.sends.begin(), receive = prepared.receives.begin();  // in the order of the parts
    for (const Part& part : own.parts_of(op)) {
      const GpuMessage& message = messages[part.send ? *send++ : *receive++];
      if (stays(message)) continue;
      const int peer = place(op.group, part.peer);
      for (const ByteRun& run : message.runs) {
        if (part.send) {
          nccl_require(ncclSend(run.from, run.bytes, ncclInt8, peer, comm, stream), "ncclSend", id(), comm);
        } else {
          nccl_require(ncclRecv(run.into, run.bytes, ncclInt8, peer, comm, stream), "ncclRecv", id(), comm);
        }
      }
    }
  }

  // The calls of one collective, to be queued as one group. What NCCL sums, it sums in an order of its own.
  void queue_meeting(const GpuMessages& messages, const Meeting& meeting, ncclComm_t comm,
                     cudaStream_t stream) {
    const auto own = static_cast<std::size_t>(place(meeting.group, id()));
    const auto at = [&](const Place& place) {
      return messages.address(static_cast<std::uint32_t>(id()), place);
    };
    const auto count = [](const Sum& sum) {
      return static_cast<std::size_t>(sum.bytes) / kernels::bytes_of(sum.dtype);
    };
    if (meeting.kind == OpKind::barrier) {
      std::byte* byte = world.byte_to_meet();
      nccl_require(ncclAllReduce(byte, byte, 1, ncclUint8, ncclMax, comm, stream),
                   "ncclAllReduce of a barrier", id(), comm);
    }
    for (const Gather& gather : meeting.gathers) {
      nccl_require(ncclAllGather(at(gather.from[own]), at(gather.into[own]),
                                 static_cast<std::size_t>(gather.bytes), ncclInt8, comm, stream),
                   "ncclAllGather", id(), comm);
    }
    for (std::size_t k = 0; k < meeting.sums.size(); ++k) {
      const Sum& sum = meeting.sums[k];
      if (sum.root < 0) {
        nccl_require(ncclAllReduce(at(sum.from[own]), at(sum.into[own]), count(sum), nccl_type(sum.dtype),
                                   meeting.reduction == Reduction::max ? ncclMax : ncclSum, comm, stream),
                     "ncclAllReduce", id(), comm);
      } else if (!meeting.scattered) {
        const bool root = static_cast<std::size_t>(sum.root) == own;
        nccl_require(ncclReduce(at(sum.from[own]), root ? at(sum.into[0]) : nullptr, count(sum),
                                nccl_type(sum.dtype), ncclSum, sum.root, comm, stream),
                     "ncclReduce", id(), comm);
      } else if (sum.root == 0) {  // the sums of the other roots follow it
        nccl_require(ncclReduceScatter(at(sum.from[own]), at(meeting.sums[k + own].into[0]), count(sum),
                                       nccl_type(sum.dtype), ncclSum, comm, stream),
                     "ncclReduceScatter", id(), comm);
      }
    }
  }

  // The collective that the operation is part of, if it is queued as one rather than as messages.
  static bool is_one_call(OpKind kind, const GpuMeeting* meeting) {
    return nccl_call(kind, meeting == nullptr ? nullptr : &meeting->plan) !=
           nccl_call(OpKind::exchange, nullptr);
  }

  const Plan& plan;
  GpuRank& rank;
  NcclWorld& world;
};

NcclLink::NcclLink(const Plan& plan, GpuRank& rank, NcclWorld& world)
    : state_(std::make_unique<State>(plan, rank, world)) {}

NcclLink::~NcclLink() = default;

void NcclLink::connect(const GpuMessages& messages) {
  const RankPlan& own = state_->rank.plan();
  if (own.operations.empty()) return;
  state_->rank.use_device();
  const cudaStream_t stream = state_->rank.lanes().front().stream;
  const auto rank = static_cast<std::uint32_t>(own.rank);
  // By communicator, the peers of this rank in either direction; both ends know of each other from their own
  // parts, and take the communicators in one order.
  struct Peers {
    std::set<int> sends, receives;
  };
  std::map<NcclWorld::Key, Peers> peers;
  for (std::uint32_t i = 0; i < own.operations.size(); ++i) {
    const Operation& op = own.operations[i];
    if (!is_communication(op.kind) || op.transport != Transport::nccl) continue;
    if (State::is_one_call(op.kind, messages.meeting_of({rank, i}))) continue;
    Peers& of = peers[NcclWorld::key_of(op)];
    for (const Part& part : own.parts_of(op)) (part.send ? of.sends : of.receives).insert(part.peer);
  }
  for (const auto& [key, of] : peers) {
    const ncclComm_t comm = state_->world.comm(key);
    std::byte* scratch = nullptr;
    cuda_require(cudaMalloc(&scratch, 512), "cudaMalloc", state_->id());
    CallGroup group(state_->id());
    for (const int peer : of.sends)
      nccl_require(ncclSend(scratch, 1, ncclInt8, state_->place(key.first, peer), comm, stream), "ncclSend",
                   state_->id());
    for (const int peer : of.receives)
      nccl_require(ncclRecv(scratch + 256, 1, ncclInt8, state_->place(key.first, peer), comm, stream),
                   "ncclRecv", state_->id());
    group.end();
    cuda_require(cudaStreamSynchronize(stream), "cudaStreamSynchronize", state_->id());
    cuda_require(cudaFree(scratch), "cudaFree", state_->id());
  }
  // NCCL chooses by size how it moves a collective, and connects for that at its first use. Members agree on
  // which is the first of its size, and meet in one order.
  std::set<std::tuple<NcclWorld::Key, std::string_view, std::vector<std::int64_t>>> known;
  for (const GpuMeeting& meeting : messages.meetings()) {
    const Meeting& of = meeting.plan;
    const auto member =
        std::find_if(of.members.begin(), of.members.end(), [&](OpRef each) { return each.rank == rank; });
    if (of.transport != Transport::nccl || member == of.members.end() ||
        !State::is_one_call(of.kind, &meeting))
      continue;
    const Operation& op = own.operations[member->operation];
    std::vector<std::int64_t> bytes;
    for (const Gather& gather : of.gathers) bytes.push_back(gather.bytes);
    for (const Sum& sum : of.sums) bytes.push_back(sum.bytes);
    if (!known.insert({NcclWorld::key_of(op), nccl_call(of.kind, &of), std::move(bytes)}).second) continue;
    CallGroup group(state_->id());
    state_->queue_meeting(messages, of, state_->world.comm(NcclWorld::key_of(op)), stream);
    group.end();
    cuda_require(cudaStreamSynchronize(stream), "cudaStreamSynchronize", state_->id());
  }
}

void NcclLink::queue(std::uint32_t index, const GpuMessages& messages) {
  const RankPlan& own = state_->rank.plan();
  const Operation& op = own.operations[index];
  const ncclComm_t comm = state_->world.comm(NcclWorld::key_of(op));
  const cudaStream_t stream = state_->rank.lanes()[state_->rank.operation(index).lane].stream;
  const int id = state_->id();
  const GpuMeeting* meeting = messages.meeting_of({static_cast<std::uint32_t>(own.rank), index});
  const bool one_call = State::is_one_call(op.kind, meeting);
  if (!one_call) state_->queue_local_copies(index, messages, stream);
  CallGroup group(id);
  if (one_call) {
    state_->queue_meeting(messages, meeting->plan, comm, stream);
  } else {
    state_->queue_parts(index, messages, comm, stream);
  }
  group.end(comm);
}

}  // namespace cplab

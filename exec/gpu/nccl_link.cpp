// The link `nccl`; see nccl_link.hpp.
#include "exec/gpu/nccl_link.hpp"

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <stdexcept>

namespace cplab {

namespace {

void nccl_require(ncclResult_t code, const char* call, int rank, ncclComm_t comm = nullptr) {
  if (code == ncclSuccess) return;
  std::string message = "rank " + std::to_string(rank) + ": " + call + ": " + ncclGetErrorString(code);
  const char* last = ncclGetLastError(comm);
  if (last != nullptr && *last != '\0') message += std::string(" (") + last + ")";
  throw GpuError(message);
}

ncclDataType_t nccl_type(kernels::DType dtype) {
  switch (dtype) {
    case kernels::DType::fp64: return ncclFloat64;
    case kernels::DType::fp32: return ncclFloat32;
    case kernels::DType::bf16: return ncclBfloat16;
    case kernels::DType::fp16: return ncclFloat16;
  }
  return ncclInt8;
}

}  // namespace

struct NcclLink::State {
  State(const Plan& plan_, GpuRank& rank_) : plan(plan_), rank(rank_) {}

  int id() const { return rank.plan().rank; }
  int place(std::uint16_t group, int peer) const {
    const std::vector<int>& ranks = plan.groups[group].ranks;
    return static_cast<int>(std::find(ranks.begin(), ranks.end(), peer) - ranks.begin());
  }

  // The memory of a reduction as flat arrays, which NCCL sums: one for every slot and plane of the view, so
  // that all ranks cut alike.
  std::vector<kernels::View> flat(const Operation& op, const View& view) const {
    std::vector<kernels::View> arrays = rank.binder().pieces(view);
    for (kernels::View& array : arrays) {
      const std::vector<Chunk> chunks = contiguous_chunks(array, array);
      if (chunks.size() > 1) {
        throw BadPlan(FindingKind::unmatched, id(), operation_id(rank.plan(), op),
                      rank.plan().buffers[view.buffer].name,
                      operation_id(rank.plan(), op) + ": NCCL reduces contiguous memory only");
      }
      array.rows = chunks.empty()
                       ? 0
                       : static_cast<std::int64_t>(chunks.front().bytes / kernels::bytes_of(array.dtype));
      if (!chunks.empty()) array.data = chunks.front().into;
    }
    return arrays;
  }

  void queue_parts(std::uint32_t index, const GpuMessages& messages, ncclComm_t comm, cudaStream_t stream) {
    const RankPlan& own = rank.plan();
    const Operation& op = own.operations[index];
    const GpuOperation& prepared = rank.operation(index);
    for (std::uint32_t p = op.parts.first; p < op.parts.first + op.parts.count; ++p) {
      const Part& part = own.parts[p];
      const std::vector<std::uint32_t>& mine = part.send ? prepared.sends : prepared.receives;
      const auto found = std::find_if(mine.begin(), mine.end(), [&](std::uint32_t m) {
        return p == (part.send ? messages[m].match.send_part : messages[m].match.receive_part);
      });
      if (found == mine.end()) throw std::logic_error("a part without a message is not queued");
      const int peer = place(op.group, part.peer);
      for (const Chunk& chunk : messages[*found].chunks) {
        if (part.send) {
          nccl_require(ncclSend(chunk.from, chunk.bytes, ncclInt8, peer, comm, stream), "ncclSend", id(),
                       comm);
        } else {
          nccl_require(ncclRecv(chunk.into, chunk.bytes, ncclInt8, peer, comm, stream), "ncclRecv", id(),
                       comm);
        }
      }
    }
  }

  const Plan& plan;
  GpuRank& rank;
  std::mutex mutex;
  bool aborted = false;
  std::vector<ncclComm_t> owned;      // to be destroyed
  std::vector<ncclComm_t> groups;     // by group of the plan; null where the rank is no member
  std::byte* byte_to_meet = nullptr;  // on the GPU, for barriers; null if the plan has none
};

bool have_nccl() {
  return true;
}

std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return {};
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

NcclLink::WorldId NcclLink::make_id() {
  ncclUniqueId id;
  nccl_require(ncclGetUniqueId(&id), "ncclGetUniqueId", -1);
  return WorldId(id.internal, id.internal + NCCL_UNIQUE_ID_BYTES);
}

NcclLink::NcclLink(const Plan& plan, GpuRank& rank, const WorldId& world)
    : state_(std::make_unique<State>(plan, rank)) {
  rank.use_device();
  ncclUniqueId id;
  if (world.size() != NCCL_UNIQUE_ID_BYTES)
    throw GpuError("rank 0 gave NCCL an id of " + std::to_string(world.size()) + " bytes, not " +
                   std::to_string(NCCL_UNIQUE_ID_BYTES) + ": all processes need the same transport");
  std::memcpy(id.internal, world.data(), NCCL_UNIQUE_ID_BYTES);
  const int ranks = static_cast<int>(plan.ranks.size());
  ncclComm_t comm = nullptr;
  nccl_require(ncclCommInitRank(&comm, ranks, id, state_->id()), "ncclCommInitRank", state_->id());
  state_->owned.push_back(comm);
  // Each group has a communicator of its own, so that two on two lanes do not wait for each other. The first
  // that is the world in its order has the world's.
  bool world_is_taken = false;
  for (const Group& group : plan.groups) {
    bool is_world = !world_is_taken && static_cast<int>(group.ranks.size()) == ranks;
    for (int r = 0; is_world && r < ranks; ++r) is_world = group.ranks[static_cast<std::size_t>(r)] == r;
    if (is_world) {
      world_is_taken = true;
      state_->groups.push_back(comm);
      continue;
    }
    const auto place = std::find(group.ranks.begin(), group.ranks.end(), state_->id());
    const bool member = place != group.ranks.end();
    ncclComm_t part = nullptr;
    nccl_require(ncclCommSplit(comm, member ? 0 : NCCL_SPLIT_NOCOLOR,
                               static_cast<int>(place - group.ranks.begin()), &part, nullptr),
                 "ncclCommSplit", state_->id(), comm);
    if (part != nullptr) state_->owned.push_back(part);
    state_->groups.push_back(part);
  }
  const std::vector<Operation>& operations = rank.plan().operations;
  if (std::any_of(operations.begin(), operations.end(),
                  [](const Operation& op) { return op.kind == OpKind::barrier; })) {
    constexpr std::size_t whole_words = 256;  // NCCL reads more than the one byte
    cuda_require(cudaMalloc(&state_->byte_to_meet, whole_words), "cudaMalloc", state_->id());
    cuda_require(cudaMemset(state_->byte_to_meet, 0, whole_words), "cudaMemset", state_->id());
  }
}

NcclLink::~NcclLink() {
  if (state_->aborted) return;
  (void)cudaSetDevice(state_->rank.options().device);
  (void)cudaFree(state_->byte_to_meet);
  for (auto comm = state_->owned.rbegin(); comm != state_->owned.rend(); ++comm) (void)ncclCommDestroy(*comm);
}

void NcclLink::connect() {
  const RankPlan& own = state_->rank.plan();
  if (own.operations.empty()) return;
  state_->rank.use_device();
  // By group, the peers of this rank in either direction; both ends know of each other from their own parts.
  std::set<std::pair<std::uint16_t, int>> sends, receives;
  for (const Operation& op : own.operations) {
    if (!is_communication(op.kind) || op.transport != Transport::nccl) continue;
    for (const Part& part : own.parts_of(op)) (part.send ? sends : receives).insert({op.group, part.peer});
  }
  if (sends.empty() && receives.empty()) return;
  std::byte* scratch = nullptr;
  cuda_require(cudaMalloc(&scratch, 512), "cudaMalloc", state_->id());
  const cudaStream_t stream = state_->rank.lanes().front().stream;
  nccl_require(ncclGroupStart(), "ncclGroupStart", state_->id());
  for (const auto& [group, peer] : sends) {
    nccl_require(ncclSend(scratch, 1, ncclInt8, state_->place(group, peer), state_->groups[group], stream),
                 "ncclSend", state_->id());
  }
  for (const auto& [group, peer] : receives) {
    nccl_require(
        ncclRecv(scratch + 256, 1, ncclInt8, state_->place(group, peer), state_->groups[group], stream),
        "ncclRecv", state_->id());
  }
  nccl_require(ncclGroupEnd(), "ncclGroupEnd", state_->id());
  cuda_require(cudaStreamSynchronize(stream), "cudaStreamSynchronize", state_->id());
  cuda_require(cudaFree(scratch), "cudaFree", state_->id());
}

void NcclLink::queue(std::uint32_t index, const GpuMessages& messages) {
  const RankPlan& own = state_->rank.plan();
  const Operation& op = own.operations[index];
  const ncclComm_t comm = state_->groups[op.group];
  const cudaStream_t stream = state_->rank.lanes()[state_->rank.operation(index).lane].stream;
  const int id = state_->id();
  nccl_require(ncclGroupStart(), "ncclGroupStart", id);
  switch (op.kind) {
    case OpKind::all_reduce: {
      const std::vector<kernels::View> from = state_->flat(op, own.view_of(op, Operand::from));
      const std::vector<kernels::View> into = state_->flat(op, own.view_of(op, Operand::into));
      for (std::size_t k = 0; k < into.size(); ++k) {
        nccl_require(ncclAllReduce(from[k].data, into[k].data, static_cast<std::size_t>(into[k].rows),
                                   nccl_type(into[k].dtype),
                                   op.reduction == Reduction::max ? ncclMax : ncclSum, comm, stream),
                     "ncclAllReduce", id, comm);
      }
      break;
    }
    case OpKind::barrier:
      nccl_require(
          ncclAllReduce(state_->byte_to_meet, state_->byte_to_meet, 1, ncclUint8, ncclMax, comm, stream),
          "ncclAllReduce of a barrier", id, comm);
      break;
    case OpKind::reduce_scatter: {
      // One reduction for every root and view that it sums, in group order: the k-th part that this rank
      // sends to a root goes into the k-th view of which that root receives parts.
      std::vector<std::vector<kernels::View>> sent(state_->plan.groups[op.group].ranks.size());
      std::vector<kernels::View> received;
      for (const Part& part : own.parts_of(op)) {
        for (const kernels::View& array : state_->flat(op, own.views[part.view])) {
          if (part.send) {
            sent[static_cast<std::size_t>(state_->place(op.group, part.peer))].push_back(array);
          } else if (part.peer == own.rank) {  // every peer contributes to the same views, this rank too
            received.push_back(array);
          }
        }
      }
      for (std::size_t root = 0; root < sent.size(); ++root) {
        for (std::size_t k = 0; k < sent[root].size(); ++k) {
          const kernels::View& view = sent[root][k];
          nccl_require(ncclReduce(view.data, k < received.size() ? received[k].data : nullptr,
                                  static_cast<std::size_t>(view.rows), nccl_type(view.dtype), ncclSum,
                                  static_cast<int>(root), comm, stream),
                       "ncclReduce", id, comm);
        }
      }
      break;
    }
    default: state_->queue_parts(index, messages, comm, stream); break;
  }
  nccl_require(ncclGroupEnd(), "ncclGroupEnd", id, comm);
}

void NcclLink::require_healthy() const {
  for (const ncclComm_t comm : state_->owned) {
    ncclResult_t error = ncclSuccess;
    nccl_require(ncclCommGetAsyncError(comm, &error), "ncclCommGetAsyncError", state_->id());
    if (error != ncclInProgress) nccl_require(error, "communication", state_->id(), comm);
  }
}

void NcclLink::abort() {
  const std::lock_guard lock(state_->mutex);
  if (state_->aborted) return;
  state_->aborted = true;
  for (auto comm = state_->owned.rbegin(); comm != state_->owned.rend(); ++comm) (void)ncclCommAbort(*comm);
}

}  // namespace cplab

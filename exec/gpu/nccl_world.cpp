// Communicators of a world and its groups; see nccl_world.hpp.
#include "exec/gpu/nccl_world.hpp"

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "exec/gpu/rank.hpp"

namespace cplab {

namespace {

// NCCL's thread blocks would come in clusters of four on Hopper, each within one GPC: between the thread
// blocks of a persistent kernel a few multiprocessors are free, but hardly four of one GPC.
// NCCL_CGA_CLUSTER_SIZE overrides this.
ncclConfig_t config_of(std::uint8_t channels) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.cgaClusterSize = 0;
  if (channels > 0) config.minCTAs = config.maxCTAs = channels;
  return config;
}

// Those that the plans use, the same on all ranks.
std::set<NcclWorld::Key> keys_of(const std::vector<const Plan*>& plans) {
  std::set<NcclWorld::Key> used;
  for (const Plan* plan : plans)
    for (const RankPlan& each : plan->ranks)
      for (const Operation& op : each.operations)
        if (is_communication(op.kind) && op.transport == Transport::nccl) used.insert(NcclWorld::key_of(op));
  return used;
}

bool is_everybody(const std::vector<int>& members, int ranks) {
  if (static_cast<int>(members.size()) != ranks) return false;
  for (int r = 0; r < ranks; ++r)
    if (members[static_cast<std::size_t>(r)] != r) return false;
  return true;
}

}  // namespace

bool have_nccl() {
  return true;
}

std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return {};
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

void nccl_require(int code, const char* call, int rank, NcclComm comm) {
  if (code == ncclSuccess) return;
  std::string message = rank >= 0 ? "rank " + std::to_string(rank) + ": " : "";
  message += std::string(call) + ": " + ncclGetErrorString(static_cast<ncclResult_t>(code));
  const char* last = ncclGetLastError(comm);
  if (last != nullptr && *last != '\0') message += std::string(" (") + last + ")";
  throw GpuError(message);
}

NcclWorld::Id NcclWorld::make_id() {
  ncclUniqueId id;
  nccl_require(ncclGetUniqueId(&id), "ncclGetUniqueId", -1);
  return Id(id.internal, id.internal + NCCL_UNIQUE_ID_BYTES);
}

NcclWorld::NcclWorld(const std::vector<const Plan*>& plans, int rank, const Id& world) : rank_(rank) {
  try {
    make(plans, world);
  } catch (...) {
    abort();  // the others are in a collective that this rank will not come to
    throw;
  }
}

void NcclWorld::make(const std::vector<const Plan*>& plans, const Id& world) {
  ncclUniqueId id;
  if (world.size() != NCCL_UNIQUE_ID_BYTES)
    throw GpuError("rank 0 gave NCCL an id of " + std::to_string(world.size()) + " bytes, not " +
                   std::to_string(NCCL_UNIQUE_ID_BYTES) + ": all processes need the same transport");
  std::memcpy(id.internal, world.data(), NCCL_UNIQUE_ID_BYTES);
  (void)cudaGetDevice(&device_);
  const int ranks = static_cast<int>(plans.front()->ranks.size());
  ncclComm_t comm = nullptr;
  ncclConfig_t config = config_of(0);
  nccl_require(ncclCommInitRankConfig(&comm, ranks, id, rank_, &config), "ncclCommInitRankConfig", rank_);
  owned_.push_back(comm);
  // Each group has communicators of its own, so that two on two lanes do not wait for each other: one for
  // every number of channels that its operations say. The first group that is the world in its order has the
  // world's.
  bool world_is_taken = false;
  for (const Key& key : keys_of(plans)) {
    const std::vector<int>& members = plans.front()->groups[key.first].ranks;
    if (world_is_taken || key.second != 0 || !is_everybody(members, ranks)) {
      split(members, key);
      continue;
    }
    world_is_taken = true;
    comms_[key] = comm;
  }
  for (const Plan* plan : plans) {
    const std::vector<Operation>& operations = plan->ranks[static_cast<std::size_t>(rank_)].operations;
    const auto meets = [](const Operation& op) { return op.kind == OpKind::barrier; };
    if (byte_to_meet_ != nullptr || std::none_of(operations.begin(), operations.end(), meets)) continue;
    constexpr std::size_t whole_words = 256;  // NCCL reads more than the one byte
    cuda_require(cudaMalloc(&byte_to_meet_, whole_words), "cudaMalloc", rank_);
    cuda_require(cudaMemset(byte_to_meet_, 0, whole_words), "cudaMemset", rank_);
  }
}

void NcclWorld::split(const std::vector<int>& members, const Key& key) {
  const auto place = std::find(members.begin(), members.end(), rank_);
  const int color = place != members.end() ? 0 : NCCL_SPLIT_NOCOLOR;
  ncclComm_t part = nullptr;
  ncclConfig_t config = config_of(key.second);
  nccl_require(
      ncclCommSplit(owned_.front(), color, static_cast<int>(place - members.begin()), &part, &config),
      "ncclCommSplit", rank_, owned_.front());
  if (part != nullptr) owned_.push_back(part);
  comms_[key] = part;
}

NcclWorld::~NcclWorld() {
  if (aborted_) return;
  (void)cudaSetDevice(device_);
  (void)cudaFree(byte_to_meet_);
  for (auto comm = owned_.rbegin(); comm != owned_.rend(); ++comm) (void)ncclCommDestroy(*comm);
}

void NcclWorld::require_healthy() const {
  for (const ncclComm_t comm : owned_) {
    ncclResult_t error = ncclSuccess;
    nccl_require(ncclCommGetAsyncError(comm, &error), "ncclCommGetAsyncError", rank_);
    if (error != ncclInProgress) nccl_require(error, "communication", rank_, comm);
  }
}

void NcclWorld::abort() {
  const std::lock_guard lock(mutex_);
  if (aborted_) return;
  aborted_ = true;
  for (auto comm = owned_.rbegin(); comm != owned_.rend(); ++comm) (void)ncclCommAbort(*comm);
}

}  // namespace cplab

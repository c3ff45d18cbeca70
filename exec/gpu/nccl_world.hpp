// The NCCL communicators that plans need: one for every group, and one for all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan.hpp"

struct ncclComm;

namespace cplab {

using NcclComm = ncclComm*;

bool have_nccl();            // in this build
bool nccl_is_loaded();       // in this process, by us or by somebody else
std::string nccl_version();  // "2.28.3", of the library, which is loaded now if need be; empty without

// Throws GpuError unless `code` (an ncclResult_t) is ncclSuccess, with NCCL's last words on `comm`.
void nccl_require(int code, const char* call, int rank, NcclComm comm = nullptr);

class NcclWorld {
 public:
  // An id for one world, made by one rank and handed to all.
  using Id = std::vector<char>;
  static Id make_id();

  // Collective over all ranks of the plans, each from its own thread or process, for one rank on the current
  // device: the world's communicator, then one for every group and number of channels that operations of the
  // plans name, in one order; without clusters of thread blocks. The plans, one at least, have the same ranks
  // and groups. Throws GpuError.
  NcclWorld(const std::vector<const Plan*>& plans, int rank, const Id& id);
  ~NcclWorld();
  NcclWorld(const NcclWorld&) = delete;
  NcclWorld& operator=(const NcclWorld&) = delete;

  // Of the group of an operation with its number of channels; null where the rank is no member.
  using Key = std::pair<std::uint16_t, std::uint8_t>;
  static Key key_of(const Operation& op) { return {op.group, op.channels}; }
  NcclComm comm(const Key& key) const { return comms_.at(key); }
  // A byte on the GPU, for barriers; null where no plan has one.
  std::byte* byte_to_meet() const { return byte_to_meet_; }

  // Throws GpuError if NCCL has found a failure (a peer that is gone, a network that is down).
  void require_healthy() const;
  // From another thread or this one: what is queued and what waits in a call ends. Nothing may be queued
  // afterwards.
  void abort();
  bool aborted() const { return aborted_; }

 private:
  void make(const std::vector<const Plan*>& plans, const Id& id);
  void split(const std::vector<int>& members, const Key& key);

  int rank_, device_ = 0;
  std::vector<NcclComm> owned_;    // to be destroyed
  std::map<Key, NcclComm> comms_;  // null where the rank is no member
  std::byte* byte_to_meet_ = nullptr;
  std::mutex mutex_;
  bool aborted_ = false;
};

}  // namespace cplab

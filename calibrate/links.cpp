// NCCL communicators and a ring of peer copies; see links.hpp.
#include "calibrate/links.hpp"

#include <cuda_runtime.h>
#include <nccl.h>

#include <cstdio>
#include <thread>

namespace cplab::measure {

void allow_peer_access(int device, int peer) {
  int possible = 0;
  require_cuda(cudaDeviceCanAccessPeer(&possible, device, peer), "cudaDeviceCanAccessPeer");
  if (possible == 0)
    throw Error("GPU " + std::to_string(device) + " cannot reach the memory of GPU " + std::to_string(peer));
  const cudaError_t code = cudaDeviceEnablePeerAccess(peer, 0);
  if (code == cudaErrorPeerAccessAlreadyEnabled) {
    (void)cudaGetLastError();  // takes the error off the thread
    return;
  }
  require_cuda(code, "cudaDeviceEnablePeerAccess");
}

NcclRank::NcclRank(Team& team, int rank)
    : team_(team),
      rank_(rank),
      next_((rank + 1) % team.size()),
      previous_((rank + team.size() - 1) % team.size()) {
  // The id of rank 0 reaches the others through this thread-shared place.
  static ncclUniqueId id;
  team_.meet();
  if (rank == 0) require_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  team_.meet();
  const ncclUniqueId own = id;
  require_nccl(ncclCommInitRank(&communicator_, team_.size(), own, rank), "ncclCommInitRank");
  team_.meet();
}

NcclRank::~NcclRank() {
  // Destroying a communicator waits for all ranks; one that has failed would never come.
  const ncclResult_t code = team_.failed() ? ncclCommAbort(communicator_) : ncclCommDestroy(communicator_);
  if (code != ncclSuccess) std::fprintf(stderr, "end of a communicator: %s\n", ncclGetErrorString(code));
}

void NcclRank::shift(const char* send, char* receive, std::int64_t bytes, CudaStream stream) const {
  const auto count = static_cast<std::size_t>(bytes);
  require_nccl(ncclGroupStart(), "ncclGroupStart");
  require_nccl(ncclSend(send, count, ncclInt8, next_, communicator_, stream), "ncclSend");
  require_nccl(ncclRecv(receive, count, ncclInt8, previous_, communicator_, stream), "ncclRecv");
  require_nccl(ncclGroupEnd(), "ncclGroupEnd");
}

void NcclRank::shift_pieces(const char* send, char* receive, std::int64_t bytes, std::int64_t pieces,
                            CudaStream stream) const {
  const std::int64_t each = bytes / pieces;
  const auto count = static_cast<std::size_t>(each);
  require_nccl(ncclGroupStart(), "ncclGroupStart");
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const std::int64_t at = 2 * piece * each;
    require_nccl(ncclSend(send + at, count, ncclInt8, next_, communicator_, stream), "ncclSend");
    require_nccl(ncclRecv(receive + at, count, ncclInt8, previous_, communicator_, stream), "ncclRecv");
  }
  require_nccl(ncclGroupEnd(), "ncclGroupEnd");
}

void NcclRank::all_gather(const char* send, char* receive, std::int64_t bytes, CudaStream stream) const {
  require_nccl(ncclAllGather(send, receive, static_cast<std::size_t>(bytes), ncclInt8, communicator_, stream),
               "ncclAllGather");
}

void NcclRank::reduce_scatter(const char* send, char* receive, std::int64_t bytes, CudaStream stream) const {
  require_nccl(ncclReduceScatter(send, receive, static_cast<std::size_t>(bytes) / sizeof(float), ncclFloat32,
                                 ncclSum, communicator_, stream),
               "ncclReduceScatter");
}

void NcclRank::all_reduce(const char* send, char* receive, std::int64_t bytes, CudaStream stream) const {
  require_nccl(ncclAllReduce(send, receive, static_cast<std::size_t>(bytes) / sizeof(float), ncclFloat32,
                             ncclSum, communicator_, stream),
               "ncclAllReduce");
}

void NcclRank::all_to_all(const char* send, char* receive, std::int64_t bytes, CudaStream stream) const {
  const auto count = static_cast<std::size_t>(bytes);
  require_nccl(ncclGroupStart(), "ncclGroupStart");
  for (int distance = 1; distance < team_.size(); ++distance) {
    const int to = (rank_ + distance) % team_.size();
    const int from = (rank_ + team_.size() - distance) % team_.size();
    require_nccl(ncclSend(send + to * bytes, count, ncclInt8, to, communicator_, stream), "ncclSend");
    require_nccl(ncclRecv(receive + from * bytes, count, ncclInt8, from, communicator_, stream), "ncclRecv");
  }
  require_nccl(ncclGroupEnd(), "ncclGroupEnd");
}

CopyRing::CopyRing(Team& team) : team_(team) {
  for (int rank = 0; rank < team.size(); ++rank) members_.push_back(std::make_unique<Member>());
  for (int from = 0; from < team.size(); ++from)
    for (int to = 0; to < team.size(); ++to) {
      int reaches = 1;
      if (from != to) require_cuda(cudaDeviceCanAccessPeer(&reaches, from, to), "cudaDeviceCanAccessPeer");
      possible_ = possible_ && reaches != 0;
    }
}

void CopyRing::prepare(int rank, char* receive) {
  if (!possible_) return;
  Member& own = *members_[static_cast<std::size_t>(rank)];
  own.receive = receive;
  for (std::int64_t i = 0; i < events; ++i) {
    own.ready.push_back(std::make_unique<Event>(false));
    own.done.push_back(std::make_unique<Event>(false));
  }
  allow_peer_access(rank, (rank + 1) % team_.size());
  team_.meet();
}

void CopyRing::reach_all(int rank) const {
  for (int peer = 0; peer < team_.size(); ++peer)
    if (possible_ && peer != rank) allow_peer_access(rank, peer);
}

void CopyRing::put(int rank, const char* send, std::int64_t bytes, CudaStream stream,
                   std::int64_t pieces) const {
  const int next = (rank + 1) % team_.size();
  const std::int64_t each = bytes / pieces;
  for (std::int64_t piece = 0; piece < pieces; ++piece) {
    const std::int64_t at = 2 * piece * each;
    require_cuda(cudaMemcpyPeerAsync(members_[static_cast<std::size_t>(next)]->receive + at, next, send + at,
                                     rank, static_cast<std::size_t>(each), stream),
                 "cudaMemcpyPeerAsync");
  }
}

void CopyRing::wait_until(const std::atomic<std::int64_t>& count, std::int64_t least) const {
  while (count.load(std::memory_order_acquire) < least) {
    team_.require_alive();
    std::this_thread::yield();
  }
}

void CopyRing::shift(int rank, const char* send, std::int64_t bytes, CudaStream stream, std::int64_t pieces) {
  const auto ranks = static_cast<std::size_t>(team_.size());
  const auto r = static_cast<std::size_t>(rank);
  Member& own = *members_[r];
  Member& next = *members_[(r + 1) % ranks];
  Member& previous = *members_[(r + ranks - 1) % ranks];
  const std::int64_t call = own.calls++;
  const auto slot = static_cast<std::size_t>(call % events);
  // An event is waited for only once it is recorded: the host of the other rank says when.
  own.ready[slot]->record(stream);
  own.readied.store(call + 1, std::memory_order_release);
  wait_until(next.readied, call + 1);
  next.ready[slot]->queue_wait(stream);
  put(rank, send, bytes, stream, pieces);
  own.done[slot]->record(stream);
  own.finished.store(call + 1, std::memory_order_release);
  wait_until(previous.finished, call + 1);
  previous.done[slot]->queue_wait(stream);
}

void CopyRing::trade(int rank, const char* send, std::int64_t stride, std::int64_t bytes, CudaStream stream) {
  const int ranks = team_.size();
  const auto member = [&](int r) -> Member& { return *members_[static_cast<std::size_t>(r)]; };
  Member& own = member(rank);
  const std::int64_t call = own.calls++;
  const auto slot = static_cast<std::size_t>(call % events);
  own.ready[slot]->record(stream);
  own.readied.store(call + 1, std::memory_order_release);
  for (int distance = 1; distance < ranks; ++distance) {
    const int to = (rank + distance) % ranks;
    wait_until(member(to).readied, call + 1);
    member(to).ready[slot]->queue_wait(stream);
    require_cuda(cudaMemcpyPeerAsync(member(to).receive + rank * bytes, to, send + to * stride, rank,
                                     static_cast<std::size_t>(bytes), stream),
                 "cudaMemcpyPeerAsync");
  }
  own.done[slot]->record(stream);
  own.finished.store(call + 1, std::memory_order_release);
  for (int distance = 1; distance < ranks; ++distance) {
    const int from = (rank + ranks - distance) % ranks;
    wait_until(member(from).finished, call + 1);
    member(from).done[slot]->queue_wait(stream);
  }
}

void CopyRing::shift_unpaired(int rank, const char* send, std::int64_t bytes, CudaStream stream) {
  const auto ranks = static_cast<std::size_t>(team_.size());
  const auto r = static_cast<std::size_t>(rank);
  members_[r]->ready[0]->record(stream);
  members_[(r + 1) % ranks]->ready[1]->queue_wait(stream);
  put(rank, send, bytes, stream);
  members_[r]->done[0]->record(stream);
  members_[(r + ranks - 1) % ranks]->done[1]->queue_wait(stream);
}

}  // namespace cplab::measure

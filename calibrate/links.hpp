// Communication between the GPUs of a team, for calibrate/: NCCL communicators and a ring of peer
// copies.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "calibrate/team.hpp"

struct ncclComm;

namespace cplab::measure {

// One per rank; made and destroyed by all ranks of the team together.
class NcclRank {
 public:
  NcclRank(Team& team, int rank);
  ~NcclRank();
  NcclRank(const NcclRank&) = delete;
  NcclRank& operator=(const NcclRank&) = delete;

  // `bytes` to the next rank, as many from the one before, in one group.
  void shift(const char* send, char* receive, std::int64_t bytes, CudaStream stream) const;
  // The same in so many messages of one group, with gaps as long between them.
  void shift_pieces(const char* send, char* receive, std::int64_t bytes, std::int64_t pieces,
                    CudaStream stream) const;
  // `bytes` of every rank to all; `receive` holds bytes x ranks.
  void all_gather(const char* send, char* receive, std::int64_t bytes, CudaStream stream) const;
  // fp32 sums: `bytes` of them for every rank out of `send`, which holds bytes x ranks.
  void reduce_scatter(const char* send, char* receive, std::int64_t bytes, CudaStream stream) const;
  // fp32 sums of `bytes`, for all.
  void all_reduce(const char* send, char* receive, std::int64_t bytes, CudaStream stream) const;
  // `bytes` to each other rank, as many from each, in one group; both hold bytes x ranks.
  void all_to_all(const char* send, char* receive, std::int64_t bytes, CudaStream stream) const;

 private:
  Team& team_;
  int rank_, next_, previous_;
  ncclComm* communicator_ = nullptr;
};

// Shifts and trades by copy engines. For each message the sender waits for the receiver's event (its memory
// is free), copies into that memory and records an event for which the receiver waits. Shared by all ranks;
// each calls prepare before the first shift.
class CopyRing {
 public:
  explicit CopyRing(Team& team);
  // Whether every GPU of the team reaches the memory of every other; else there are no shifts and trades, and
  // prepare and reach_all do nothing.
  bool possible() const { return possible_; }
  void prepare(int rank, char* receive);
  void shift(int rank, const char* send, std::int64_t bytes, CudaStream stream, std::int64_t pieces = 1);
  // `bytes` to every other rank, nearest first, from send + its number x stride (0: all get the same), into
  // its memory at the sender's number x bytes. After reach_all on every rank.
  void reach_all(int rank) const;
  void trade(int rank, const char* send, std::int64_t stride, std::int64_t bytes, CudaStream stream);
  // What one shift costs the host, without waiting for the host of another rank: the same calls on events
  // that have been recorded already.
  void shift_unpaired(int rank, const char* send, std::int64_t bytes, CudaStream stream);

 private:
  static constexpr std::int64_t events = 1024;  // more than shifts or trades are ever queued at once
  struct Member {
    char* receive = nullptr;
    std::vector<std::unique_ptr<Event>> ready, done;
    std::atomic<std::int64_t> readied{0}, finished{0};
    std::int64_t calls = 0;  // of this rank's own thread
  };
  // In so many copies, with gaps as long between them.
  void put(int rank, const char* send, std::int64_t bytes, CudaStream stream, std::int64_t pieces = 1) const;
  void wait_until(const std::atomic<std::int64_t>& count, std::int64_t least) const;

  Team& team_;
  bool possible_ = true;
  std::vector<std::unique_ptr<Member>> members_;
};

// From the current device to `peer`'s memory. Throws Error if the machine does not allow it.
void allow_peer_access(int device, int peer);

}  // namespace cplab::measure

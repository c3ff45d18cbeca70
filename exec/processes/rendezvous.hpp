// How the processes of one launch meet: gathers and barriers over TCP, without MPI, and the news of a
// process that failed or is gone.
//
// A star: rank 0 listens, the others connect to it, and it passes every contribution on as it arrives, so
// that each process knows by itself whom it still waits for. Each process has one service thread, which
// owns the sockets and sleeps in poll. That is what makes failure news prompt and cheap: it passes
// through rank 0 while that process computes, a closed socket is seen when the kernel closes it, and asking
// (poll_failure) is one atomic load. Only the first failure is reported; later ones are its consequences.
//
// A process joins by presenting the token of the launch (Launch::token) in its first message; until then a
// connection can make rank 0 hold 2 KiB for 3 s. Nothing is encrypted, the token neither: it protects against
// those who cannot read the network's traffic. What a member sends is bounded by kind and checked.
//
// A process leaves by destroying its Rendezvous, which says so to the others: that is no failure, unless
// somebody still needs it, or an exception is what destroys it. A process that ends in any other way is lost.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "exec/processes/launch.hpp"

namespace cplab {

namespace rendezvous {
struct Service;
}

// The processes of a launch cannot meet or have lost each other: exit code 3.
struct MeetingError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Processes that do not fit together: another program or version at the port, two processes of one rank,
// other world sizes, a barrier here and a gather there.
struct RendezvousError : MeetingError {
  using MeetingError::MeetingError;
};

// The process of `rank` is gone: its connection is closed, or it has left while others need it.
struct PeerLost : MeetingError {
  PeerLost(int rank_, const std::string& message) : MeetingError(message), rank(rank_) {}
  int rank;
};

// The process of `rank` has announced a failure.
struct PeerFailed : MeetingError {
  PeerFailed(int rank_, const std::string& message) : MeetingError(message), rank(rank_) {}
  int rank;
};

// The time is up and nothing came from the ranks in `missing` (ascending).
struct RendezvousTimeout : MeetingError {
  RendezvousTimeout(std::vector<int> missing_, const std::string& message)
      : MeetingError(message), missing(std::move(missing_)) {}
  std::vector<int> missing;
};

// Calls that wait belong to one thread at a time and are made by all processes in the same order;
// poll_failure, throw_if_failed and announce_failure may be called by any thread at any time. Not to be used
// across fork. In a launch of one process there are no sockets and no threads.
class Rendezvous {
 public:
  // Returns when all processes of the launch have joined. Throws RendezvousTimeout, RendezvousError,
  // PeerLost, PeerFailed; std::invalid_argument if the launch contradicts itself.
  static std::unique_ptr<Rendezvous> join(const Launch& launch, double timeout_s);
  // Leaves. What this process has sent still arrives, then 2 s at most for the others to hear.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  int rank() const;
  int world() const;

  // Everybody's bytes by rank, of any lengths. Throws PeerLost, PeerFailed, RendezvousTimeout,
  // RendezvousError. Any of these is a failure for all processes: their calls throw from then on.
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine, double timeout_s);
  // The same for one value of a plain type.
  template <class Value>
  std::vector<Value> all_gather_value(const Value& mine, double timeout_s);
  // Throws what all_gather throws.
  void barrier(double timeout_s);

  // Makes the current and all later calls of every process, this one included, throw PeerFailed with this
  // rank and message. Returns when it is under way (1 s at most); does nothing after a first failure.
  void announce_failure(const std::string& message);
  // What has failed, this process's own announcement included. One atomic load while nothing has.
  std::optional<std::string> poll_failure() const;
  // Throws PeerLost, PeerFailed or RendezvousError if something has failed.
  void throw_if_failed() const;

 private:
  explicit Rendezvous(std::unique_ptr<rendezvous::Service> service);
  std::unique_ptr<rendezvous::Service> service_;
};

template <class Value>
std::vector<Value> Rendezvous::all_gather_value(const Value& mine, double timeout_s) {
  static_assert(std::is_trivially_copyable_v<Value>);
  const auto gathered = all_gather(std::as_bytes(std::span(&mine, 1)), timeout_s);
  std::vector<Value> values(gathered.size());
  for (std::size_t rank = 0; rank < gathered.size(); ++rank) {
    if (gathered[rank].size() != sizeof(Value))
      throw RendezvousError("rendezvous: rank " + std::to_string(rank) + " gave " +
                            std::to_string(gathered[rank].size()) + " bytes where this rank gave " +
                            std::to_string(sizeof(Value)));
    std::memcpy(&values[rank], gathered[rank].data(), sizeof(Value));
  }
  return values;
}

}  // namespace cplab

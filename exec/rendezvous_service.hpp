// What exec/rendezvous.hpp is made of: the state of one process and the service thread that keeps it. For
// exec/rendezvous.cpp and exec/rendezvous_service.cpp only.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "exec/launch.hpp"
#include "exec/wire.hpp"

namespace cplab::rendezvous {

enum class Cause : std::uint32_t { lost, failed, misfit };

struct Failure {
  Cause cause = Cause::lost;
  int rank = 0;
  std::string message;
};

// As the exception that users of Rendezvous see.
[[noreturn]] void raise(const Failure& failure);

struct Peer {
  wire::Connection connection;
  int rank = -1;          // -1 until it has said hello
  bool has_left = false;  // by its own word, or refused: its end is no loss
};

// One call of all processes.
struct Round {
  explicit Round(int world) : kinds(world), given(world) {}
  std::vector<wire::Kind> kinds;
  std::vector<std::shared_ptr<wire::Bytes>> given;  // null: still missing
};

// Everything below `mutex` is guarded by it. Only the service thread adds and removes peers; whoever holds
// the mutex may write to their connections, which never blocks.
struct Service {
  explicit Service(const Launch& launch_)
      : launch(launch_),
        exceptions(std::uncaught_exceptions()),
        rank(launch_.rank),
        world(launch_.world),
        joined(world, false),
        departed(world, false),
        next_from(world, 0) {
    joined[rank] = true;
  }
  ~Service() { leave(); }

  void listen_until(wire::Clock::time_point deadline);
  void connect_until(wire::Clock::time_point deadline, double timeout_s);
  void start();
  void leave();
  void serve();
  void wake() const;
  void accept_all();
  bool receive(Peer& peer);  // false: the connection has ended
  void handle(Peer& peer, const wire::Frame& frame);
  void greet(Peer& peer, const wire::Frame& frame);
  void deposit(const wire::Frame& frame);
  void send_to_all(const wire::Frame& frame, const Peer* except);
  // The first failure stands and is passed on to all but the one it came from, if it came.
  void fail(const Failure& what, const Peer* source);
  bool is_hub() const { return rank == 0; }
  std::vector<int> not_joined() const;
  std::vector<std::vector<std::byte>> take(wire::Kind kind, std::span<const std::byte> mine,
                                           double timeout_s);

  const Launch launch;
  const int exceptions;  // under way when this process joined
  const int rank;
  const int world;
  std::atomic<bool> failed{false};
  wire::Socket wake_up;
  std::thread thread;

  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Failure> failure;
  std::vector<bool> joined;
  std::vector<bool> departed;
  std::vector<std::uint64_t> next_from;  // sequence number that the rank's next contribution must have
  std::map<std::uint64_t, Round> rounds;
  std::uint64_t next_sequence = 0;
  std::string notes;  // what was turned away while joining
  wire::Socket listener;
  std::list<Peer> peers;
  bool leaving = false;
  wire::Clock::time_point leaving_since;
};

// What the deadline of a call is; a wait without end becomes a very long one.
wire::Clock::time_point after(double seconds);
std::shared_ptr<wire::Bytes> bytes_of(std::string_view text);
std::string text_of(const wire::Frame& frame);

// Detail of Kind::refuse.
constexpr std::uint32_t refused_for_good = 0;
constexpr std::uint32_t refused_other_job = 1;  // an older launch may still hold the port: worth trying again

}  // namespace cplab::rendezvous

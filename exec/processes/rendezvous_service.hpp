// What exec/processes/rendezvous.hpp is made of: the state of one process and the service thread that keeps
// it. For exec/processes/rendezvous.cpp and exec/processes/rendezvous_service.cpp only.
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

#include "exec/processes/launch.hpp"
#include "exec/processes/shared_token.hpp"
#include "exec/processes/wire.hpp"

namespace cplab::rendezvous {

enum class Cause : std::uint32_t { lost, failed, misfit };
static_assert(static_cast<std::uint32_t>(Cause::misfit) == wire::last_failure_cause);

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
  bool has_left = false;  // it said so, or was refused: that its connection ends is no failure
  wire::Clock::time_point since = wire::Clock::now();
};

// Connections that have not sent a valid hello: how long each may stay, and how many there may be in addition
// to one for each rank that has not joined. The oldest is dropped first.
constexpr auto greeting_patience = std::chrono::seconds(3);
constexpr std::size_t spare_strangers = 32;
// Before another try to accept, when there is no descriptor or memory for it.
constexpr auto starved_pause = std::chrono::milliseconds(100);

// What was turned away while joining, to explain a timeout. However many came, it stays short.
class Notes {
 public:
  void add(const std::string& note);
  std::string text() const;  // "; one; another; and 17 more"

 private:
  std::vector<std::string> first_;
  std::size_t more_ = 0;
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
  std::vector<wire::Frame> ask_to_join(Peer& hub, wire::Clock::time_point deadline, std::string& why);
  std::string place() const;  // where rank 0 listens
  void start();
  void leave();
  void serve();
  void serve_until_left();
  int poll_timeout_ms() const;
  void wake() const;
  void stop_listening();
  void accept_some();
  void turn_away(Peer& peer, std::uint32_t detail, const std::string& objection);
  bool drop_oldest_stranger();  // false: there is none
  void drop_late_strangers();
  bool receive(Peer& peer);  // false: the connection has ended
  void handle(Peer& peer, const wire::Frame& frame);
  void greet(Peer& peer, const wire::Frame& frame);
  void deposit(const wire::Frame& frame);
  void send_to_all(const wire::Frame& frame, const Peer* except);
  // Keeps the first failure and tells all peers of it but `source`, which reported it (null: none did).
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
  Notes notes;
  wire::Socket listener;
  wire::Clock::time_point accept_after;  // not before: see starved_pause
  std::string token;                     // of the launch; the hub's
  std::optional<SharedToken> shared_token;
  std::list<Peer> peers;
  bool leaving = false;
  wire::Clock::time_point leaving_since;
};

// The deadline of a call that begins now; an infinite timeout becomes a very long one.
wire::Clock::time_point after(double seconds);
// The largest contribution to a gather that this host could hold.
std::uint64_t gather_bytes();
using wire::bytes_of;
using wire::text_of;

// Detail of Kind::refuse.
constexpr std::uint32_t refused_for_good = 0;
constexpr std::uint32_t refused_other_job = 1;  // an older launch may still hold the port: worth trying again
// How long a rank whose token is refused tries again: an older launch may be about to leave the port.
constexpr auto refused_token_patience = std::chrono::seconds(30);
constexpr std::uint32_t refused_token = 2;  // the same, or the processes were given different ones

}  // namespace cplab::rendezvous

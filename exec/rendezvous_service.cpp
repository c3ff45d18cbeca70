// The service thread: it owns the sockets, passes contributions on at rank 0, and notices failures.
#include "exec/rendezvous_service.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "exec/rendezvous.hpp"

namespace cplab::rendezvous {

using wire::Clock;
using wire::Frame;
using wire::Kind;

namespace {

constexpr double longest_wait_s = 1e8;  // the clock's arithmetic has an end
// How long a process that leaves waits for the others to hear of it: once all is sent, and at most.
constexpr auto linger = std::chrono::seconds(2);
constexpr auto longest_linger = std::chrono::seconds(60);

}  // namespace

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::clamp(seconds, 0.0, longest_wait_s)));
}

std::shared_ptr<wire::Bytes> bytes_of(std::string_view text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return std::make_shared<wire::Bytes>(data, data + text.size());
}

std::string text_of(const Frame& frame) {
  return {reinterpret_cast<const char*>(frame.payload->data()), frame.payload->size()};
}

[[noreturn]] void raise(const Failure& failure) {
  switch (failure.cause) {
    case Cause::lost: throw PeerLost(failure.rank, failure.message);
    case Cause::failed: throw PeerFailed(failure.rank, failure.message);
    case Cause::misfit: break;
  }
  throw RendezvousError(failure.message);
}

std::vector<int> Service::not_joined() const {
  std::vector<int> missing;
  for (int other = 0; other < world; ++other)
    if (!joined[other]) missing.push_back(other);
  return missing;
}

void Service::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_up.get(), &one, sizeof(one));
}

void Service::start() {
  wake_up = wire::Socket(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_up) throw std::system_error(errno, std::generic_category(), "eventfd");
  thread = std::thread([this] { serve(); });
}

// What is queued goes out, the others hear that this rank left, and each connection is read to its end:
// closing one with unread bytes would reset it and could destroy the last words under way.
void Service::leave() {
  if (!thread.joinable()) return;
  {
    const std::lock_guard lock(mutex);
    leaving = true;
    leaving_since = Clock::now();
    send_to_all({Kind::leave, rank, 0, 0}, nullptr);
    for (Peer& peer : peers) peer.connection.end_output();
  }
  wake();
  thread.join();
}

void Service::serve() {
  std::unique_lock lock(mutex);
  while (true) {
    for (Peer& peer : peers) peer.connection.write();
    changed.notify_all();
    if (leaving) {
      listener = wire::Socket();
      std::erase_if(peers, [](const Peer& peer) { return peer.rank < 0; });
      const bool all_sent =
          std::all_of(peers.begin(), peers.end(), [](const Peer& peer) { return peer.connection.idle(); });
      if (peers.empty() || Clock::now() >= leaving_since + (all_sent ? linger : longest_linger)) return;
    }
    std::vector<pollfd> waiting = {{wake_up.get(), POLLIN, 0}, {listener.get(), POLLIN, 0}};
    for (const Peer& peer : peers) {
      const int events = peer.connection.idle() ? POLLIN : POLLIN | POLLOUT;
      waiting.push_back({peer.connection.socket().get(), static_cast<short>(events), 0});
    }
    constexpr int look_again_ms = 100;  // for the end of the linger
    const int timeout = leaving ? look_again_ms : -1;
    lock.unlock();
    const int ready = ::poll(waiting.data(), waiting.size(), timeout);  // negative descriptors are ignored
    lock.lock();
    if (ready <= 0) continue;
    if (waiting[0].revents != 0) {
      std::uint64_t count = 0;
      [[maybe_unused]] const ssize_t drained = ::read(wake_up.get(), &count, sizeof(count));
    }
    std::size_t at = 2;
    for (auto peer = peers.begin(); peer != peers.end(); ++at) {
      const bool ended = (waiting[at].revents & ~POLLOUT) != 0 && !receive(*peer);
      peer = ended ? peers.erase(peer) : std::next(peer);
    }
    if (waiting[1].revents != 0) accept_all();
    if (listener && not_joined().empty()) {
      listener = wire::Socket();
      std::erase_if(peers, [](const Peer& peer) { return peer.rank < 0 && !peer.has_left; });
    }
  }
}

void Service::accept_all() {
  while (wire::Socket socket = wire::accept_from(listener))
    peers.push_back({wire::Connection(std::move(socket))});
}

bool Service::receive(Peer& peer) {
  std::vector<Frame> frames;
  bool open = false;
  std::string strange;
  try {
    open = peer.connection.read(frames);
  } catch (const wire::NotOurs& error) {
    strange = error.what();
  }
  for (const Frame& frame : frames) handle(peer, frame);
  if (!strange.empty()) {
    // A stranger at the port must not end a run; its visit explains a timeout, though.
    if (peer.rank < 0)
      notes += "; somebody else connected: " + strange;
    else
      fail({Cause::misfit, peer.rank, "rendezvous: from rank " + std::to_string(peer.rank) + ": " + strange},
           nullptr);
  } else if (!open && peer.rank >= 0 && !peer.has_left && !leaving) {
    // Not while leaving: whoever hears of that ends its side too.
    departed[peer.rank] = true;
    fail({Cause::lost, peer.rank, "rank " + std::to_string(peer.rank) + " is gone: its connection closed"},
         &peer);
  }
  return open;
}

void Service::handle(Peer& peer, const Frame& frame) {
  if (peer.rank < 0) {
    if (!peer.has_left) greet(peer, frame);
    return;
  }
  const bool from_itself = frame.rank == peer.rank;
  const bool about_somebody = frame.rank >= 0 && frame.rank < world && frame.rank != rank;
  if (is_hub() ? !from_itself && frame.kind != Kind::failure
               : !about_somebody && frame.kind != Kind::joined && frame.kind != Kind::failure) {
    fail({Cause::misfit, peer.rank,
          "rendezvous: rank " + std::to_string(peer.rank) + " sent a message of rank " +
              std::to_string(frame.rank)},
         nullptr);
    return;
  }
  switch (frame.kind) {
    case Kind::joined:
      if (frame.rank >= 0 && frame.rank < world) joined[frame.rank] = true;
      return;
    case Kind::gather:
    case Kind::barrier:
      deposit(frame);
      if (is_hub()) send_to_all(frame, &peer);
      return;
    case Kind::failure: fail({static_cast<Cause>(frame.detail), frame.rank, text_of(frame)}, &peer); return;
    case Kind::leave:
      departed[frame.rank] = true;
      if (is_hub()) send_to_all(frame, &peer);
      if (from_itself) {
        peer.has_left = true;
        peer.connection.end_output();
      }
      return;
    case Kind::hello:
    case Kind::refuse: break;
  }
  fail({Cause::misfit, peer.rank,
        "rendezvous: rank " + std::to_string(peer.rank) + " greets after it has joined"},
       nullptr);
}

void Service::greet(Peer& peer, const Frame& frame) {
  std::string objection;
  std::uint32_t detail = refused_for_good;
  if (frame.kind != Kind::hello) {
    objection = "the first message is no greeting";
  } else if (text_of(frame) != launch.job) {
    detail = refused_other_job;
    objection =
        "this port belongs to another launch (\"" + launch.job + "\", not \"" + text_of(frame) + "\")";
  } else if (frame.sequence != static_cast<std::uint64_t>(world)) {
    objection = "rank " + std::to_string(frame.rank) + " counts " + std::to_string(frame.sequence) +
                " processes, rank 0 counts " + std::to_string(world);
  } else if (frame.rank < 1 || frame.rank >= world) {
    objection =
        "there is no rank " + std::to_string(frame.rank) + " beside rank 0 of " + std::to_string(world);
  } else if (joined[frame.rank]) {
    objection = "rank " + std::to_string(frame.rank) + " has joined already: two processes have one rank";
  }
  if (!objection.empty()) {
    notes += "; turned away: " + objection;
    peer.has_left = true;
    peer.connection.send({Kind::refuse, 0, detail, 0, bytes_of(objection)});
    peer.connection.end_output();
    return;
  }
  peer.rank = frame.rank;
  peer.connection.trust();
  joined[frame.rank] = true;
  for (int other = 0; other < world; ++other)
    if (joined[other] && other != frame.rank) peer.connection.send({Kind::joined, other, 0, 0});
  send_to_all({Kind::joined, frame.rank, 0, 0}, nullptr);
  if (failure)  // of one that joined before
    peer.connection.send({Kind::failure, failure->rank, static_cast<std::uint32_t>(failure->cause), 0,
                          bytes_of(failure->message)});
}

void Service::deposit(const Frame& frame) {
  if (frame.sequence != next_from[frame.rank]++) {
    fail({Cause::misfit, frame.rank,
          "rendezvous: message " + std::to_string(frame.sequence) + " of rank " + std::to_string(frame.rank) +
              " where " + std::to_string(next_from[frame.rank] - 1) + " was due"},
         nullptr);
    return;
  }
  const auto round = rounds.try_emplace(frame.sequence, world).first;
  round->second.kinds[frame.rank] = frame.kind;
  round->second.given[frame.rank] = frame.payload;
  // A call that gave up on this rank has no use for what comes late.
  if (frame.sequence < next_sequence && round->second.given[rank] == nullptr) rounds.erase(round);
}

void Service::send_to_all(const Frame& frame, const Peer* except) {
  for (Peer& peer : peers) {
    if (peer.rank < 0 || peer.has_left || &peer == except) continue;
    peer.connection.send(frame);
    peer.connection.write();
  }
}

// Written before anybody of this process can know and exit: at rank 0 others depend on it.
void Service::fail(const Failure& what, const Peer* source) {
  if (failure) return;
  failure = what;
  const Frame frame{Kind::failure, what.rank, static_cast<std::uint32_t>(what.cause), 0,
                    bytes_of(what.message)};
  for (Peer& peer : peers) {
    if (peer.rank < 0 || peer.has_left || &peer == source) continue;
    peer.connection.send_next(frame);
    peer.connection.write();
  }
  failed.store(true, std::memory_order_release);
  changed.notify_all();
}

}  // namespace cplab::rendezvous

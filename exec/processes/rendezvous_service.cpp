// The service thread: it owns the sockets, passes contributions on at rank 0, and notices failures.
#include "exec/processes/rendezvous_service.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "exec/processes/rendezvous.hpp"

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

std::uint64_t gather_bytes() {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  return std::min(wire::max_gather_bytes, pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGE_SIZE)));
}

void Notes::add(const std::string& note) {
  constexpr std::size_t most = 8;
  if (std::find(first_.begin(), first_.end(), note) != first_.end()) return;
  if (first_.size() < most)
    first_.push_back(note);
  else
    ++more_;
}

std::string Notes::text() const {
  std::string text;
  for (const std::string& note : first_) text += "; " + note;
  if (more_ > 0) text += "; and " + std::to_string(more_) + " more";
  return text;
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
  try {
    serve_until_left();
  } catch (const std::exception& error) {  // no memory
    const std::lock_guard lock(mutex);
    fail({Cause::failed, rank, "rank " + std::to_string(rank) + " failed: " + error.what()}, nullptr);
    stop_listening();
    peers.clear();
  }
}

// Until the next timer of the service (linger, a pause in accepting, strangers to drop); -1: there is none.
int Service::poll_timeout_ms() const {
  constexpr auto look_again = std::chrono::milliseconds(100);  // for the end of the linger
  const auto now = Clock::now();
  auto until = Clock::time_point::max();
  if (leaving) until = now + look_again;
  if (listener && accept_after > now) until = std::min(until, accept_after);
  for (const Peer& peer : peers)
    if (peer.rank < 0) until = std::min(until, peer.since + greeting_patience);
  if (until == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 60'000));
}

void Service::serve_until_left() {
  std::unique_lock lock(mutex);
  while (true) {
    for (Peer& peer : peers) peer.connection.write();
    changed.notify_all();
    if (leaving) {
      stop_listening();
      std::erase_if(peers, [](const Peer& peer) { return peer.rank < 0; });
      const bool all_sent =
          std::all_of(peers.begin(), peers.end(), [](const Peer& peer) { return peer.connection.idle(); });
      // After a failure no peer needs what is still queued.
      const auto patience = all_sent || failure ? linger : longest_linger;
      if (peers.empty() || Clock::now() >= leaving_since + patience) return;
    }
    const bool accepting = Clock::now() >= accept_after;
    std::vector<pollfd> waiting = {{wake_up.get(), POLLIN, 0}, {accepting ? listener.get() : -1, POLLIN, 0}};
    for (const Peer& peer : peers) {
      const int events = peer.connection.idle() ? POLLIN : POLLIN | POLLOUT;
      waiting.push_back({peer.connection.socket().get(), static_cast<short>(events), 0});
    }
    const int timeout = poll_timeout_ms();
    lock.unlock();
    const int ready = ::poll(waiting.data(), waiting.size(), timeout);  // negative descriptors are ignored
    if (ready < 0 && errno != EINTR) std::this_thread::sleep_for(starved_pause);
    lock.lock();
    if (ready > 0) {
      if (waiting[0].revents != 0) {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t drained = ::read(wake_up.get(), &count, sizeof(count));
      }
      std::size_t at = 2;
      for (auto peer = peers.begin(); peer != peers.end(); ++at) {
        const bool ended = (waiting[at].revents & ~POLLOUT) != 0 && !receive(*peer);
        peer = ended ? peers.erase(peer) : std::next(peer);
      }
      if (waiting[1].revents != 0) accept_some();
    }
    drop_late_strangers();
    if (listener && not_joined().empty()) {
      stop_listening();
      std::erase_if(peers, [](const Peer& peer) { return peer.rank < 0 && !peer.has_left; });
    }
  }
}

void Service::stop_listening() {
  if (shared_token) shared_token->remove();
  listener = wire::Socket();
}

// A rank sends hello as soon as it is connected, so that is read at once. There is room for each rank that
// has not joined and some more; a connection that stays silent is dropped for the next one.
void Service::accept_some() {
  constexpr int most_in_a_turn = 64;
  for (int i = 0; i < most_in_a_turn; ++i) {
    bool starved = false;
    wire::Socket socket = wire::accept_from(listener, starved);
    if (!socket) {
      if (!starved) return;
      notes.add(std::string("rank 0 could not accept a connection: ") + std::strerror(errno));
      if (drop_oldest_stranger()) continue;
      accept_after = Clock::now() + starved_pause;
      return;
    }
    peers.push_back({wire::Connection(std::move(socket), wire::Sender::stranger, gather_bytes())});
    if (!receive(peers.back())) peers.pop_back();
    const auto strangers = static_cast<std::size_t>(
        std::count_if(peers.begin(), peers.end(), [](const Peer& peer) { return peer.rank < 0; }));
    if (strangers > not_joined().size() + spare_strangers) drop_oldest_stranger();
  }
}

bool Service::drop_oldest_stranger() {
  const auto oldest =
      std::find_if(peers.begin(), peers.end(), [](const Peer& peer) { return peer.rank < 0; });
  if (oldest == peers.end()) return false;
  if (!oldest->has_left) notes.add("somebody connected and said nothing");
  peers.erase(oldest);
  return true;
}

void Service::drop_late_strangers() {
  const auto late = Clock::now() - greeting_patience;
  std::erase_if(peers, [&](const Peer& peer) {
    if (peer.rank >= 0 || peer.since > late) return false;
    if (!peer.has_left) notes.add("somebody connected and said nothing");
    return true;
  });
}

bool Service::receive(Peer& peer) {
  if (peer.rank < 0 && peer.has_left) return peer.connection.drain();
  std::vector<Frame> frames;
  bool open = false;
  std::string strange;
  try {
    open = peer.connection.read(frames);
  } catch (const wire::OtherVersion& error) {
    strange = error.what();
    if (peer.rank < 0) {  // the header, which all versions share, says which version it speaks
      notes.add("somebody else connected: " + strange);
      turn_away(peer, refused_for_good, strange);
      return true;
    }
  } catch (const wire::NotOurs& error) {
    strange = error.what();
  }
  try {
    for (const Frame& frame : frames) handle(peer, frame);
  } catch (const wire::NotOurs& error) {
    strange = error.what();
    open = false;
  }
  if (!strange.empty()) {
    // A stranger at the port must not end a run, but it may explain a later timeout: it is noted.
    if (peer.rank < 0)
      notes.add("somebody else connected: " + strange);
    else
      fail({Cause::misfit, peer.rank, "rendezvous: from rank " + std::to_string(peer.rank) + ": " + strange},
           nullptr);
  } else if (!open && peer.rank >= 0 && !peer.has_left && !leaving) {
    // Not while leaving: peers that learn of it close their side too.
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
  const bool somebody = frame.rank >= 0 && frame.rank < world;
  const bool may_be_own = frame.kind == Kind::joined || frame.kind == Kind::failure;
  if (!somebody ||
      (is_hub() ? !from_itself && frame.kind != Kind::failure : frame.rank == rank && !may_be_own)) {
    fail({Cause::misfit, peer.rank,
          "rendezvous: rank " + std::to_string(peer.rank) + " sent a message of rank " +
              std::to_string(frame.rank)},
         nullptr);
    return;
  }
  switch (frame.kind) {
    case Kind::joined:
      if (is_hub()) break;  // only the hub lets others in
      joined[frame.rank] = true;
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
        "rendezvous: rank " + std::to_string(peer.rank) + " greets again after it has joined"},
       nullptr);
}

void Service::turn_away(Peer& peer, std::uint32_t detail, const std::string& objection) {
  peer.has_left = true;
  peer.connection.send({Kind::refuse, 0, detail, 0, bytes_of(objection)});
  peer.connection.end_output();
  peer.connection.write();
}

// The token is tested first: a process without it learns nothing of this launch.
void Service::greet(Peer& peer, const Frame& frame) {
  const wire::Greeting greeting = wire::greeting_of(frame);
  std::string objection;
  std::uint32_t detail = refused_for_good;
  if (!wire::same_secret(greeting.token, token)) {
    detail = refused_token;
    objection = "another launch token (CPLAB_TOKEN) than that of rank 0";
  } else if (greeting.job != launch.job) {
    detail = refused_other_job;
    objection = "this port belongs to another launch (\"" + launch.job + "\", not \"" + greeting.job + "\")";
  } else if (greeting.world != static_cast<std::uint64_t>(world)) {
    objection = "rank " + std::to_string(frame.rank) + " counts " + std::to_string(greeting.world) +
                " processes, rank 0 counts " + std::to_string(world);
  } else if (frame.rank < 1 || frame.rank >= world) {
    objection =
        "there is no rank " + std::to_string(frame.rank) + " beside rank 0 of " + std::to_string(world);
  } else if (joined[frame.rank]) {
    objection = "rank " + std::to_string(frame.rank) + " has joined already: two processes have one rank";
  }
  if (!objection.empty()) {
    notes.add("turned away: " + objection);
    turn_away(peer, detail, objection);
    return;
  }
  peer.rank = frame.rank;
  peer.connection.trust();
  joined[frame.rank] = true;
  for (int other = 0; other < world; ++other)
    if (joined[other] && other != frame.rank) peer.connection.send({Kind::joined, other, 0, 0});
  send_to_all({Kind::joined, frame.rank, 0, 0}, nullptr);
  if (failure)  // of a rank that joined before
    peer.connection.send({Kind::failure, failure->rank, static_cast<std::uint32_t>(failure->cause), 0,
                          bytes_of(failure->message)});
}

// No rank is more than one call ahead, because each call needs the contributions of all.
void Service::deposit(const Frame& frame) {
  if (frame.sequence != next_from[frame.rank]++) {
    fail({Cause::misfit, frame.rank,
          "rendezvous: message " + std::to_string(frame.sequence) + " of rank " + std::to_string(frame.rank) +
              " where " + std::to_string(next_from[frame.rank] - 1) + " was due"},
         nullptr);
    return;
  }
  if (frame.sequence > next_sequence) {
    fail({Cause::misfit, frame.rank,
          "rendezvous: rank " + std::to_string(frame.rank) + " is ahead of a call that needs all"},
         nullptr);
    return;
  }
  const auto round = rounds.try_emplace(frame.sequence, world).first;
  round->second.kinds[frame.rank] = frame.kind;
  round->second.given[frame.rank] = frame.payload;
  // This rank has given that call up (timeout): a late contribution to it is dropped.
  if (frame.sequence < next_sequence && round->second.given[rank] == nullptr) rounds.erase(round);
}

void Service::send_to_all(const Frame& frame, const Peer* except) {
  for (Peer& peer : peers) {
    if (peer.rank < 0 || peer.has_left || &peer == except) continue;
    peer.connection.send(frame);
    peer.connection.write();
  }
}

// The news is sent before any thread of this process learns of the failure and may exit: other ranks hear of
// it through rank 0 only.
void Service::fail(const Failure& what, const Peer* source) {
  if (failure) return;
  failure = what;
  if (what.message.size() > wire::max_text_bytes) failure->message.resize(wire::max_text_bytes);
  const Frame frame{Kind::failure, what.rank, static_cast<std::uint32_t>(what.cause), 0,
                    bytes_of(failure->message)};
  for (Peer& peer : peers) {
    if (peer.rank < 0 || peer.has_left || &peer == source) continue;
    peer.connection.send_next(frame);
    peer.connection.write();
  }
  failed.store(true, std::memory_order_release);
  changed.notify_all();
}

}  // namespace cplab::rendezvous

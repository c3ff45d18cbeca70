// Joining, and the calls that wait for what the service thread receives.
#include "exec/processes/rendezvous.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <thread>

#include "exec/processes/rendezvous_service.hpp"

namespace cplab {
namespace rendezvous {

using wire::Clock;
using wire::Frame;
using wire::Kind;

namespace {

std::string seconds(double value) {
  std::string text = std::to_string(value);  // 1.500000
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + " s";
}

std::string names_of(const std::vector<int>& ranks) {
  constexpr std::size_t shown = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), shown); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  if (ranks.size() > shown) text += " and " + std::to_string(ranks.size() - shown) + " more";
  return text;
}

}  // namespace

// The port may still be held by a process of an earlier launch that is about to end.
void Service::listen_until(Clock::time_point deadline) {
  while (true) {
    try {
      listener = wire::listen_at(launch.master_address, launch.master_port, world + 16);
      token = launch.token;
      if (token.empty()) token = shared_token.emplace(launch.master_port).text();
      return;
    } catch (const std::system_error& error) {
      if (error.code().value() != EADDRINUSE || Clock::now() >= deadline)
        throw RendezvousError(std::string("rendezvous: rank 0 cannot listen: ") + error.what() +
                              "; CPLAB_PORT chooses another port");
    } catch (const std::runtime_error& error) {
      throw RendezvousError(std::string("rendezvous: ") + error.what());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// What rank 0 answers to the hello; empty, and `why`, if it does not.
std::vector<Frame> Service::ask_to_join(Peer& hub, Clock::time_point deadline, std::string& why) {
  std::vector<Frame> frames;
  bool open = true;
  while (open && frames.empty() && Clock::now() < deadline) {
    hub.connection.write();
    wire::wait_for(hub.connection.socket(), !hub.connection.idle(), deadline);
    try {
      open = hub.connection.read(frames);
    } catch (const wire::NotOurs& error) {
      throw RendezvousError("rendezvous at " + place() + ": " + error.what() +
                            "; CPLAB_PORT chooses another port");
    }
  }
  why = open ? "no answer" : "the connection was closed";
  return frames;
}

std::string Service::place() const {
  return launch.master_address + ":" + std::to_string(launch.master_port);
}

// Until rank 0 of this launch says that this rank has joined.
void Service::connect_until(Clock::time_point deadline, double timeout_s) {
  std::string why = "nobody listens";
  auto pause = std::chrono::milliseconds(5);
  std::optional<Clock::time_point> give_up;  // when a refused token stops being tried again
  do {
    wire::Socket socket = wire::connect_to(launch.master_address, launch.master_port, deadline, why);
    // Rank 0 publishes its token as soon as it listens.
    std::optional<std::string> said;
    if (socket && !launch.token.empty()) said = launch.token;
    if (socket && !said) {
      std::string missing;
      said = read_shared_token(launch.master_port, missing);
      if (!said) why = "somebody listens there, but " + missing + "; CPLAB_PORT chooses another port";
    }
    if (said) {
      Peer hub{wire::Connection(std::move(socket), wire::Sender::host, gather_bytes())};
      hub.rank = 0;
      hub.connection.send(wire::greeting_frame({rank, static_cast<std::uint64_t>(world), *said, launch.job}));
      const std::vector<Frame> frames = ask_to_join(hub, deadline, why);
      if (!frames.empty() && frames.front().kind == Kind::joined) {
        peers.push_back(std::move(hub));
        for (const Frame& frame : frames) handle(peers.back(), frame);
        return;
      }
      if (!frames.empty()) {
        why = text_of(frames.front());
        const std::uint32_t detail = frames.front().detail;
        if (detail == refused_token && !give_up) give_up = Clock::now() + refused_token_patience;
        const bool for_good = detail != refused_token && detail != refused_other_job;
        if (for_good || (give_up && Clock::now() > *give_up))
          throw RendezvousError("rendezvous at " + place() + ": " + why);
      }
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(100));
  } while (Clock::now() < deadline);
  throw RendezvousTimeout({0}, "rendezvous: rank " + std::to_string(rank) + " did not reach rank 0 at " +
                                   place() + " within " + seconds(timeout_s) + ": " + why);
}

std::vector<std::vector<std::byte>> Service::take(Kind kind, std::span<const std::byte> mine,
                                                  double timeout_s) {
  const Clock::time_point deadline = after(timeout_s);
  Frame frame{kind, rank, 0, 0, std::make_shared<wire::Bytes>(mine.begin(), mine.end())};
  std::unique_lock lock(mutex);
  if (failure) raise(*failure);
  frame.sequence = next_sequence++;
  Round& round = rounds.try_emplace(frame.sequence, world).first->second;
  round.kinds[rank] = kind;
  round.given[rank] = frame.payload;
  send_to_all(frame, nullptr);
  if (std::any_of(peers.begin(), peers.end(), [](const Peer& peer) { return !peer.connection.idle(); }))
    wake();  // the service thread sends the rest

  std::vector<int> missing;
  const auto settled = [&] {
    missing.clear();
    for (int other = 0; other < world; ++other)
      if (round.given[other] == nullptr) missing.push_back(other);
    return missing.empty() || failure.has_value() || departed[0] ||
           std::any_of(missing.begin(), missing.end(), [&](int other) { return departed[other]; });
  };
  const bool in_time = changed.wait_until(lock, deadline, settled);
  Round done = std::move(round);
  rounds.erase(frame.sequence);
  if (!missing.empty()) {
    if (failure) raise(*failure);
    // All ranks are told, since no later call could succeed, and they are told the cause, not its
    // consequences.
    std::optional<Failure> lost;
    for (const int other : missing)
      if (departed[other] && !lost)
        lost = {Cause::lost, other, "rank " + std::to_string(other) + " left while others still wait for it"};
    if (!lost && departed[0]) lost = {Cause::lost, 0, "rank 0 left while others still wait for each other"};
    if (lost) {
      fail(*lost, nullptr);
      raise(*lost);
    }
    if (!in_time) {
      const std::string what = "nothing from " + names_of(missing) + " within " + seconds(timeout_s);
      fail({Cause::failed, rank, "rank " + std::to_string(rank) + " failed: " + what}, nullptr);
      throw RendezvousTimeout(missing, "rendezvous: " + what);
    }
  }
  for (int other = 0; other < world; ++other)
    if (done.kinds[other] != kind) {
      fail({Cause::misfit, other,
            "rendezvous: rank " + std::to_string(other) + " and rank " + std::to_string(rank) +
                " differ: one is in a barrier, the other in a gather"},
           nullptr);
      raise(*failure);
    }
  lock.unlock();  // the copies may take their time
  // At rank 0 a payload may still be queued for other ranks: it is copied, not moved.
  std::vector<std::vector<std::byte>> gathered(world);
  for (int other = 0; other < world; ++other)
    gathered[other] = is_hub() || other == rank ? *done.given[other] : std::move(*done.given[other]);
  return gathered;
}

}  // namespace rendezvous

using namespace rendezvous;

Rendezvous::Rendezvous(std::unique_ptr<Service> service) : service_(std::move(service)) {}

std::unique_ptr<Rendezvous> Rendezvous::join(const Launch& launch, double timeout_s) {
  if (launch.world < 1 || launch.rank < 0 || launch.rank >= launch.world)
    throw std::invalid_argument("rendezvous: no rank " + std::to_string(launch.rank) + " in " +
                                std::to_string(launch.world));
  auto service = std::make_unique<Service>(launch);
  if (launch.world > 1) {
    const Clock::time_point deadline = after(timeout_s);
    if (service->is_hub())
      service->listen_until(deadline);
    else
      service->connect_until(deadline, timeout_s);
    service->start();
    std::unique_lock lock(service->mutex);
    const auto settled = [&] {
      return service->failure || service->departed[0] || service->not_joined().empty();
    };
    service->changed.wait_until(lock, deadline, settled);
    if (service->failure) raise(*service->failure);
    // Rank 0 leaves when its time is up: then the same ranks are missing here.
    if (const std::vector<int> missing = service->not_joined(); !missing.empty())
      throw RendezvousTimeout(missing, "rendezvous: " + names_of(missing) + " did not join at " +
                                           service->place() + " within " + seconds(timeout_s) +
                                           service->notes.text());
  }
  return std::unique_ptr<Rendezvous>(new Rendezvous(std::move(service)));
}

Rendezvous::~Rendezvous() {
  if (std::uncaught_exceptions() > service_->exceptions) announce_failure("an exception ended it");
}

int Rendezvous::rank() const {
  return service_->rank;
}

int Rendezvous::world() const {
  return service_->world;
}

std::vector<std::vector<std::byte>> Rendezvous::all_gather(std::span<const std::byte> mine,
                                                           double timeout_s) {
  return service_->take(Kind::gather, mine, timeout_s);
}

void Rendezvous::barrier(double timeout_s) {
  service_->take(Kind::barrier, {}, timeout_s);
}

void Rendezvous::announce_failure(const std::string& message) {
  std::unique_lock lock(service_->mutex);
  const std::string mine = "rank " + std::to_string(service_->rank) + " failed: ";
  service_->fail({Cause::failed, service_->rank, mine + message}, nullptr);
  service_->wake();
  service_->changed.wait_until(lock, after(1), [&] {
    return std::all_of(service_->peers.begin(), service_->peers.end(),
                       [](const Peer& peer) { return peer.connection.idle(); });
  });
}

std::optional<std::string> Rendezvous::poll_failure() const {
  if (!service_->failed.load(std::memory_order_acquire)) return std::nullopt;
  const std::lock_guard lock(service_->mutex);
  return service_->failure->message;
}

void Rendezvous::throw_if_failed() const {
  if (!service_->failed.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(service_->mutex);
  raise(*service_->failure);
}

}  // namespace cplab

// fork, a shared page per outcome, waitpid.
#include "tests/exec/processes.hpp"

#include <doctest/doctest.h>

#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>
#include <thread>

#include "exec/processes/board.hpp"
#include "exec/processes/rendezvous.hpp"

namespace cplab::processes {
namespace {

void describe(Outcome& own, const char* type, const char* text, const std::vector<int>& ranks) {
  std::snprintf(own.thrown, sizeof(own.thrown), "%s", type);
  std::snprintf(own.text, sizeof(own.text), "%s", text);
  own.rank_count = static_cast<int>(std::min<std::size_t>(ranks.size(), 8));
  std::copy_n(ranks.begin(), own.rank_count, own.ranks);
}

void execute(const Body& body, Outcome& own) {
  try {
    body(own);
  } catch (const PeerLost& error) {
    describe(own, "PeerLost", error.what(), {error.rank});
  } catch (const PeerFailed& error) {
    describe(own, "PeerFailed", error.what(), {error.rank});
  } catch (const RendezvousTimeout& error) {
    describe(own, "RendezvousTimeout", error.what(), error.missing);
  } catch (const RendezvousError& error) {
    describe(own, "RendezvousError", error.what(), {});
  } catch (const BoardError& error) {
    describe(own, "BoardError", error.what(), {});
  } catch (const std::exception& error) {
    describe(own, "exception", error.what(), {});
  }
  own.finished_s = now_s();
  own.ended = true;
}

}  // namespace

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<Outcome> run(const std::vector<Body>& bodies, double limit_s) {
  const std::size_t bytes = sizeof(Outcome) * bodies.size();
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap");
  auto* outcomes = static_cast<Outcome*>(memory);
  std::vector<pid_t> children;
  std::fflush(nullptr);
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    new (outcomes + i) Outcome();
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("fork");
    if (child == 0) {
      execute(bodies[i], outcomes[i]);
      ::_exit(0);
    }
    children.push_back(child);
  }
  const double deadline = now_s() + limit_s;
  for (const pid_t child : children) {
    while (::waitpid(child, nullptr, WNOHANG) == 0) {
      if (now_s() > deadline) ::kill(child, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  std::vector<Outcome> result(outcomes, outcomes + bodies.size());
  ::munmap(memory, bytes);
  return result;
}

std::vector<Outcome> run(int count, const std::function<void(int rank, Outcome& own)>& body) {
  std::vector<Body> bodies;
  for (int rank = 0; rank < count; ++rank) bodies.push_back([&body, rank](Outcome& own) { body(rank, own); });
  return run(bodies);
}

int free_port() {
  static int calls = 0;
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const int port = 20000 + (::getpid() * 37 + calls++) % 12000;
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
    const bool free = ::bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    ::close(probe);
    if (free) return port;
  }
  throw std::runtime_error("no free port");
}

Launch launch_of(int rank, int world, int port) {
  Launch launch;
  launch.rank = launch.local_rank = rank;
  launch.world = launch.local_world = world;
  launch.master_address = "127.0.0.1";
  launch.master_port = port;
  launch.processes = world > 1;
  launch.source = "test";
  return launch;
}

std::string thrown(const Outcome& outcome) {
  return outcome.ended ? outcome.thrown : "killed";
}

bool contains(const Outcome& outcome, const std::string& part) {
  return contains(std::string(outcome.text), part);
}

void check_all_fine(const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes) {
    CAPTURE(outcome.text);
    CHECK(thrown(outcome) == "");
  }
}

std::unique_ptr<Rendezvous> join(int rank, int world, int port) {
  return Rendezvous::join(launch_of(rank, world, port), patience_s);
}

void sleep_ms(int duration) {
  std::this_thread::sleep_for(std::chrono::milliseconds(duration));
}

}  // namespace cplab::processes

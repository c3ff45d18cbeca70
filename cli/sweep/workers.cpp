// Processes, their sockets and who does what next; see workers.hpp.
#include "cli/sweep/workers.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

namespace cplab {

namespace {

bool write_all(int to, const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = ::send(to, data, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

bool read_all(int from, char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = ::read(from, data, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

struct Worker {
  pid_t process = -1;
  int socket = -1;                     // to it: numbers there, results back
  std::optional<std::int64_t> number;  // that it works on
  std::size_t group = SIZE_MAX;        // that it takes tasks from
  std::string received;
};

// Whether its process has ended; it is not reaped. Mostly the end of its socket says so first. But another
// sweep, in another thread of this program, may have forked a process that has a copy of it, and that keeps
// it open.
bool has_ended(const Worker& worker) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(worker.process), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == worker.process;
}

bool is_readable(const Worker& worker) {
  pollfd one{worker.socket, POLLIN, 0};
  return ::poll(&one, 1, 0) > 0;
}

[[noreturn]] void serve(int socket, const WorkerCalls& calls) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody would read what it finds
  int code = 0;
  try {
    if (calls.begin) calls.begin();
    std::int64_t number = 0;
    while (read_all(socket, reinterpret_cast<char*>(&number), sizeof number)) {
      const std::string result = calls.work(number);
      const std::uint64_t bytes = result.size();
      if (!write_all(socket, reinterpret_cast<const char*>(&bytes), sizeof bytes) ||
          !write_all(socket, result.data(), result.size()))
        break;
    }
  } catch (...) {
    code = 1;
  }
  _exit(code);  // without the parent's destructors and buffered output
}

class Pool {
 public:
  Pool(std::vector<std::vector<std::int64_t>> groups, int processes, const WorkerCalls& calls)
      : groups_(std::move(groups)), begun_(groups_.size()), calls_(calls) {
    std::size_t tasks = 0;
    for (std::vector<std::int64_t>& group : groups_) {
      std::ranges::reverse(group);  // taken from the back
      tasks += group.size();
    }
    workers_.resize(std::min(static_cast<std::size_t>(std::max(processes, 1)), tasks));
    for (Worker& worker : workers_) start(worker);
  }
  ~Pool() {
    for (Worker& worker : workers_) {
      if (worker.process < 0) continue;
      ::kill(worker.process, SIGKILL);
      (void)reap(worker);
    }
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void run() {
    for (Worker& worker : workers_) give(worker);
    while (std::ranges::any_of(workers_, [](const Worker& worker) { return worker.number.has_value(); }))
      receive();
  }

 private:
  void start(Worker& worker) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair");
    std::fflush(nullptr);  // what is buffered now would be written twice
    const pid_t child = ::fork();
    if (child < 0) fail("fork");
    if (child == 0) {
      // Else a socket would stay open as long as any process lives.
      for (const Worker& other : workers_)
        if (other.socket >= 0) ::close(other.socket);
      ::close(ends[0]);
      serve(ends[1], calls_);
    }
    ::close(ends[1]);
    worker = Worker{child, ends[0], std::nullopt, SIZE_MAX, {}};
  }
  [[noreturn]] static void fail(const char* what) {
    throw std::runtime_error(std::string("a process of the sweep: ") + what + ": " + std::strerror(errno));
  }

  // Closes its socket and waits for its end; the status of waitpid.
  static int reap(Worker& worker) {
    ::close(worker.socket);
    int status = 0;
    while (::waitpid(worker.process, &status, 0) < 0 && errno == EINTR) {
    }
    worker.process = worker.socket = -1;
    return status;
  }

  // The next task: of its group, else of the first that nobody has begun, else of the longest.
  std::optional<std::int64_t> next(Worker& worker) {
    if (worker.group >= groups_.size() || groups_[worker.group].empty()) {
      while (first_ < groups_.size() && begun_[first_]) ++first_;
      worker.group = first_;
      if (worker.group == groups_.size()) {
        const auto longest = std::ranges::max_element(
            groups_, [](const auto& a, const auto& b) { return a.size() < b.size(); });
        if (longest == groups_.end() || longest->empty()) return std::nullopt;
        worker.group = static_cast<std::size_t>(longest - groups_.begin());
      }
      begun_[worker.group] = true;
    }
    if (groups_[worker.group].empty()) return next(worker);
    const std::int64_t number = groups_[worker.group].back();
    groups_[worker.group].pop_back();
    return number;
  }

  void give(Worker& worker) {
    worker.number = next(worker);
    if (!worker.number) return;
    const std::int64_t number = *worker.number;
    // If it has ended meanwhile, its results end too, and receive() sees it.
    (void)write_all(worker.socket, reinterpret_cast<const char*>(&number), sizeof number);
  }

  void receive() {
    std::vector<pollfd> ready;
    for (const Worker& worker : workers_) ready.push_back({worker.number ? worker.socket : -1, POLLIN, 0});
    constexpr int pause_ms = 200;
    const int ended = ::poll(ready.data(), ready.size(), calls_.waiting ? pause_ms : -1);
    if (ended < 0 && errno != EINTR) fail("poll");
    if (ended <= 0) {
      if (calls_.waiting) calls_.waiting();
      look_for_ended();
      return;
    }
    for (std::size_t w = 0; w < workers_.size(); ++w)
      if (ready[w].revents != 0) take(workers_[w]);
  }

  // What an ended process wrote before is taken first.
  void look_for_ended() {
    for (Worker& worker : workers_) {
      if (!worker.number || !has_ended(worker)) continue;
      is_readable(worker) ? take(worker) : replace(worker);
    }
  }

  void take(Worker& worker) {
    char some[1 << 16];
    const ssize_t n = ::read(worker.socket, some, sizeof some);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) return replace(worker);
    worker.received.append(some, static_cast<std::size_t>(n));
    std::uint64_t bytes = 0;
    if (worker.received.size() < sizeof bytes) return;
    std::memcpy(&bytes, worker.received.data(), sizeof bytes);
    if (worker.received.size() < sizeof bytes + bytes) return;
    std::string result = worker.received.substr(sizeof bytes);
    const std::int64_t number = *worker.number;
    worker.received.clear();
    give(worker);  // before what it found is looked at: it need not wait
    calls_.done(number, std::move(result));
  }

  void replace(Worker& worker) {
    const std::int64_t number = *worker.number;
    const int status = reap(worker);
    std::string why = "ended with code " + std::to_string(WEXITSTATUS(status));
    if (WIFSIGNALED(status))
      why = "was ended by signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) +
            ")";
    start(worker);
    give(worker);
    calls_.lost(number, "the process that simulated it " + why);
  }

  std::vector<std::vector<std::int64_t>> groups_;
  std::vector<char> begun_;
  std::size_t first_ = 0;
  const WorkerCalls& calls_;
  std::vector<Worker> workers_;
};

}  // namespace

void work_in_processes(std::vector<std::vector<std::int64_t>> groups, int processes,
                       const WorkerCalls& calls) {
  Pool pool(std::move(groups), processes, calls);
  pool.run();
}

}  // namespace cplab

// A list that only grows, so that a signal handler can walk it at any time; see leftovers.hpp.
#include "report/leftovers.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <utility>

namespace cplab {

// Never freed, since a handler may look at it: a program names few temporary files.
struct Leftover::Entry {
  std::string path;
  std::atomic<bool> live{true};
  Entry* next = nullptr;
};

namespace {

std::atomic<void*> first_entry{nullptr};  // of type Leftover::Entry, which is private
std::atomic<int> holds{0};
std::atomic<int> held_signal{0};
static_assert(std::atomic<void*>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free);

// Ends the process as the signal would without a handler.
void end_by(int number) {
  remove_leftovers();
  std::signal(number, SIG_DFL);
  (void)std::raise(number);  // within a handler: takes effect when it returns
}

void handle(int number) {
  if (holds.load() > 0) {
    held_signal.store(number);
    return;
  }
  end_by(number);
}

}  // namespace

Leftover::Leftover(const std::string& path) : entry_(new Entry{path}) {
  void* first = first_entry.load();
  do {
    entry_->next = static_cast<Entry*>(first);
  } while (!first_entry.compare_exchange_weak(first, entry_));
}

Leftover::Leftover(Leftover&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}

Leftover& Leftover::operator=(Leftover&& other) noexcept {
  if (this != &other) {
    forget();
    entry_ = std::exchange(other.entry_, nullptr);
  }
  return *this;
}

void Leftover::forget() noexcept {
  if (entry_ != nullptr) entry_->live.store(false);
  entry_ = nullptr;
}

void remove_leftovers() noexcept {
  for (auto* entry = static_cast<Leftover::Entry*>(first_entry.load()); entry != nullptr; entry = entry->next)
    if (entry->live.load()) ::unlink(entry->path.c_str());
}

void end_cleanly_on_signals() {
  for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE}) {
    struct sigaction action = {};
    if (::sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    ::sigemptyset(&action.sa_mask);
    (void)::sigaction(number, &action, nullptr);
  }
}

HoldSignals::HoldSignals() {
  holds.fetch_add(1);
}

HoldSignals::~HoldSignals() {
  if (holds.fetch_sub(1) > 1) return;
  if (const int number = held_signal.exchange(0); number != 0) end_by(number);
}

}  // namespace cplab

// See interned.hpp.
#include "report/interned.hpp"

#include <pthread.h>

#include <mutex>
#include <set>

namespace cplab {

namespace {

std::mutex mutex;

// A process that one thread forks while another holds the lock would wait for it for ever: forks wait
// instead.
[[maybe_unused]] const int waits_at_forks =
    pthread_atfork([] { mutex.lock(); }, [] { mutex.unlock(); }, [] { mutex.unlock(); });

}  // namespace

std::string_view interned(std::string_view text) {
  static std::set<std::string, std::less<>> texts;  // whose elements stay where they are
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = texts.find(text);
  return found != texts.end() ? *found : *texts.emplace(text).first;
}

}  // namespace cplab

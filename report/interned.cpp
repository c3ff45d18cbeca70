// See interned.hpp.
#include "report/interned.hpp"

#include <mutex>
#include <set>

namespace cplab {

std::string_view interned(std::string_view text) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> texts;  // whose elements stay where they are
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = texts.find(text);
  return found != texts.end() ? *found : *texts.emplace(text).first;
}

}  // namespace cplab

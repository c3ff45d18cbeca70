// What messages are searched with.
#pragma once

#include <string>

namespace cplab::testing {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace cplab::testing

// A fixed part of many cases, chosen by what each is, not by its place in the list: a case that is added or
// left out moves no other into the part or out of it.
#pragma once

#include <cstdint>
#include <string_view>

namespace cplab::testing {

// One of `parts` cases, about; 1: every one.
constexpr bool in_part(std::string_view what, std::uint64_t parts) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char letter : what) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return (hash ^ hash >> 32) % parts == 0;
}

}  // namespace cplab::testing

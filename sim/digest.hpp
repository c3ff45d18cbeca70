// What a list of numbers is known by, where keeping the lists themselves would take more memory than plans
// do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace cplab {

// 128 bits of a list of numbers, in their order: two chains that share nothing but their input. If digests
// were random, two of a million different lists (2^39 pairs) would have the same one with a chance of 2^-89.
class Digest {
 public:
  void add(std::int64_t number) {
    const auto word = static_cast<std::uint64_t>(number);
    a_ = mixed((a_ ^ word) * 0x9E3779B97F4A7C15u);
    b_ = mixed((b_ + word) * 0xD6E8FEB86659FD93u + 0x2545F4914F6CDD1Du);
  }
  void add(std::initializer_list<std::int64_t> numbers) {
    for (const std::int64_t number : numbers) add(number);
  }
  bool operator==(const Digest&) const = default;

  struct Hash {
    std::size_t operator()(const Digest& digest) const { return static_cast<std::size_t>(digest.a_); }
  };

 private:
  static std::uint64_t mixed(std::uint64_t word) { return word ^ word >> 32; }
  std::uint64_t a_ = 0x243F6A8885A308D3u, b_ = 0x13198A2E03707344u;
};

}  // namespace cplab

// What machine.cpp and products.cpp keep of an emulated thread block.
#pragma once

#include <ucontext.h>

#include <array>
#include <csetjmp>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/emulator/machine.hpp"

namespace cplab::emulator {

constexpr int warp_threads = 32, warpgroup_threads = 128;

// The memory of a fiber's stack, uninitialized, which goes from one fiber to another: a thread block has some
// hundred, of which it would clear 48 MiB.
class Stack {
 public:
  static constexpr std::size_t bytes = 128 << 10;

  Stack() = default;
  Stack(Stack&&) = default;
  Stack& operator=(Stack&&) = default;
  ~Stack() {
    if (memory_) spare().push_back(std::move(memory_));
  }
  unsigned char* data() {
    if (!memory_ && !spare().empty()) {
      memory_ = std::move(spare().back());
      spare().pop_back();
    }
    if (!memory_) memory_ = std::make_unique_for_overwrite<unsigned char[]>(bytes);
    return memory_.get();
  }

 private:
  using Memory = std::unique_ptr<unsigned char[]>;
  static std::vector<Memory>& spare() {
    static std::vector<Memory> stacks;
    return stacks;
  }
  Memory memory_;
};

// A context is entered once; from then on _setjmp and _longjmp switch, which make no system call: swapcontext
// makes one for the signal mask, and that took half of an emulation's time.
struct Fiber {
  ucontext_t context;
  std::jmp_buf place;  // where it goes on, once it has begun
  bool begun = false;
  Stack stack;
  std::function<bool()> ready;
  const char* waits_for = "";
  bool finished = false;
  std::vector<std::function<std::function<void()>()>> stores;  // to read shared memory
  std::vector<std::function<void()>> writes;                   // have read it
  std::vector<Machine::Product> products;
  std::vector<std::size_t> groups;  // ends of committed batches in `products`
};

struct Warp {
  int arrived = 0;
  std::uint32_t generation = 0;
  std::array<std::array<std::uint64_t, warp_threads>, 2> values{};
};

struct Meeting {
  int arrived = 0;
  std::uint32_t generation = 0;
};

struct Barrier {
  int arrivals = 0, pending = 0;
  std::int64_t bytes = 0;
  std::uint32_t phase = 0;
};

struct Machine::State {
  std::mt19937_64 random;
  bool late_copies = false;
  int reading = 0;  // threads whose stores the copy engine has yet to read
  unsigned block = 0;
  unsigned char* shared = nullptr;
  std::vector<Fiber> fibers;
  std::size_t current = 0;
  std::jmp_buf scheduler;
  const std::function<void()>* body = nullptr;
  std::function<void()> entry;
  std::vector<std::size_t> order;
  std::size_t left = 0;  // threads that have not ended
  std::exception_ptr failure;
  std::vector<Warp> warps;
  std::map<int, Meeting> meetings, warpgroups;
  std::map<std::uint32_t, Barrier> barriers;
  std::vector<std::pair<std::uint32_t, std::pair<int, std::function<void()>>>> copies;  // to come

  void complete(Barrier& barrier) {
    if (barrier.pending != 0 || barrier.bytes != 0) return;
    ++barrier.phase;
    barrier.pending = barrier.arrivals;
  }
  Barrier& barrier_at(std::uint32_t address) {
    const auto found = barriers.find(address);
    if (found == barriers.end()) throw std::runtime_error("a barrier that nobody has initialized");
    return found->second;
  }
  void land(std::uint32_t barrier, int bytes, const std::function<void()>& move) {
    move();
    barrier_at(barrier).bytes -= bytes;
    complete(barrier_at(barrier));
  }
  void multiply(std::size_t first_thread, std::size_t product);
};

}  // namespace cplab::emulator

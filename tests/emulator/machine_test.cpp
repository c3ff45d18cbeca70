// The emulator itself: it must find what it is there to find.
#include "tests/emulator/machine.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

namespace cplab::emulator {
namespace {

struct Shared {
  Shared() : memory(std::make_unique<unsigned char[]>(shared_bytes)) {}
  std::unique_ptr<unsigned char[]> memory;
};

TEST_CASE("emulator: lanes see each other's values, and barriers hold threads back") {
  Shared shared;
  Machine block(1, false);
  std::vector<std::uint64_t> sums(64);
  int arrived = 0;
  bool together = true;
  block.run(64, 0, shared.memory.get(), [&] {
    const std::uint64_t* const all = machine().exchange(static_cast<std::uint64_t>(machine().thread()));
    std::uint64_t sum = 0;
    for (int lane = 0; lane < 32; ++lane) sum += all[lane];
    sums[static_cast<std::size_t>(machine().thread())] = sum;
    ++arrived;
    machine().meet(1, 64);
    if (arrived != 64) together = false;
  });
  CHECK(sums[5] == 31 * 32 / 2);
  CHECK(sums[40] == 31 * 32 / 2 + 32 * 32);
  CHECK(together);
}

TEST_CASE("emulator: a barrier waits for arrivals and bytes, by phase") {
  for (const bool late : {false, true}) {
    Shared shared;
    Machine block(2, late);
    bool moved = false, seen = false, second = false;
    block.run(32, 0, shared.memory.get(), [&] {
      if (machine().thread() == 0) machine().init_barrier(64, 1);
      (void)machine().exchange(0);
      if (machine().thread() == 1) {
        machine().arrive(64, 1, 16);
        machine().copy(64, 16, [&] { moved = true; });
      }
      if (machine().thread() == 2) {
        machine().wait_barrier(64, 0);
        seen = moved;
        machine().arrive(64, 1, 0);
        machine().wait_barrier(64, 1);
        second = true;
      }
    });
    CHECK(seen);
    CHECK(second);
  }
}

TEST_CASE("emulator: a hang is found and described") {
  Shared shared;
  Machine block(3, false);
  CHECK_THROWS_WITH_AS(block.run(32, 0, shared.memory.get(),
                                 [&] {
                                   if (machine().thread() == 0) machine().init_barrier(8, 1);
                                   (void)machine().exchange(0);
                                   machine().wait_barrier(8, 0);
                                 }),
                       "the block hangs: warp 0 waits for a barrier in shared memory;", std::runtime_error);
}

TEST_CASE("emulator: sums change at the wait that demands it, and not before") {
  // Every operand element is 1: 16 products a step.
  Shared shared;
  Machine block(4, false);
  std::vector<float> before(128), after(128);
  block.run(128, 0, shared.memory.get(), [&] {
    float sums[1][4] = {};
    // 64 rows of 128 bytes are read, in part.
    constexpr std::uint16_t one = 0x3f80;  // in bf16
    for (int n = 0; n < 32; ++n)
      std::memcpy(machine().shared() + (machine().thread() * 32 + n) * 2, &one, sizeof(one));
    const std::uint64_t descriptor = std::uint64_t{64} << 32 | std::uint64_t{1} << 62;
    const Machine::Product product{.sums = &sums[0][0], .columns = 8, .a = descriptor, .b = descriptor};
    machine().queue(product);
    machine().commit();
    machine().wait_products(1);
    before[static_cast<std::size_t>(machine().thread())] = sums[0][3];
    machine().wait_products(0);
    after[static_cast<std::size_t>(machine().thread())] = sums[0][3];
  });
  for (const float value : before) CHECK(value == 0);
  for (const float value : after) CHECK(value == 16);
}

TEST_CASE("emulator: late stores read at the wait for them, and none is left at the end") {
  Shared shared;
  Machine block(5, true);
  int source = 1, stored = 0;
  block.run(32, 0, shared.memory.get(), [&] {
    if (machine().thread() != 0) return;
    machine().store([&]() -> std::function<void()> { return [&stored, read = source] { stored = read; }; });
    source = 2;
    machine().tma_store_wait();
    source = 3;
  });
  CHECK(stored == 2);
  CHECK_THROWS_WITH_AS(block.run(32, 0, shared.memory.get(), [&] { machine().store([] { return [] {}; }); }),
                       "a thread ends before its copies have read", std::runtime_error);
}

}  // namespace
}  // namespace cplab::emulator

// Thread blocks that run at the same time and wait for each other through memory.
#pragma once

#include <cstdint>
#include <functional>

#include "tests/emulator/machine.hpp"

namespace cplab::emulator {

struct Together {
  std::uint64_t seed = 0;
  bool late_copies = false;
  int resident = 1;  // blocks at once: another one starts, in any order, when one has ended
};

// Runs all blocks of a grid, a few rounds of one and then of another. All of them have their shared memory at
// `shared`: what the others hold there is kept elsewhere meanwhile. Throws std::runtime_error if none of
// those that run can go on.
void run_together(const Together& how, int threads, int blocks, unsigned char* shared,
                  const std::function<void()>& thread);

}  // namespace cplab::emulator

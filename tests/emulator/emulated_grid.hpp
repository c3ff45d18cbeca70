// A grid of thread blocks, one after the other; for translation units with the shims before CUDA.
#pragma once

#include <cstdint>
#include <functional>

#include "tests/emulator/shim/device.hpp"

namespace cplab::emulator {

struct Grid {
  std::int64_t x = 1, y = 1, z = 1;
};

inline void run_grid(const Grid& grid, int threads, unsigned char* shared, std::uint64_t seed,
                     const std::function<void()>& thread) {
  Machine machine(seed, true);
  emulated_threads = threads;
  emulated_grid_x = static_cast<unsigned>(grid.x);
  emulated_grid_y = static_cast<unsigned>(grid.y);
  for (std::int64_t block = 0; block < grid.x * grid.y * grid.z; ++block)
    machine.run(threads, static_cast<unsigned>(block), shared, thread);
  emulated_grid_x = ~0U;
  emulated_grid_y = 1;
}

}  // namespace cplab::emulator

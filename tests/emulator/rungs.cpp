// The rungs as functions of the emulator: their own source, with the shims before CUDA.
#include "tests/emulator/rungs.hpp"

#include <algorithm>
#include <iterator>

#include "tests/emulator/shim/device.hpp"
//
#include "tests/rungs/ladder.cuh"

namespace cplab::kernels::cuda::hopper::rungs {

// What the kernels declare as dynamic shared memory.
alignas(1024) unsigned char rung_shared[emulator::shared_bytes];

}  // namespace cplab::kernels::cuda::hopper::rungs

namespace cplab::emulator {

namespace rungs = kernels::cuda::hopper::rungs;

int rung_count() {
  return static_cast<int>(std::size(rungs::ladder));
}
const char* rung_name(int n) {
  return rungs::ladder[n].name;
}

void run_rung(int n, const rungs::Problem& problem, std::uint64_t seed, bool late_copies) {
  const rungs::RungKernel& rung = rungs::ladder[n];
  rungs::RungParams params = rungs::rung_params(problem, [](const kernels::cuda::DeviceView& view, int rows) {
    return CUtensorMap{view, rows};
  });
  const int tiles = (problem.S + rung.rows - 1) / rung.rows * problem.heads;
  params.blocks = rung.persistent ? std::min(tiles, 2) : tiles;
  Machine machine(seed, late_copies);
  emulated_threads = rung.threads;
  for (int block = 0; block < params.blocks; ++block)
    machine.run(rung.threads, static_cast<unsigned>(block), rungs::rung_shared, [&] { rung.kernel(params); });
}

}  // namespace cplab::emulator

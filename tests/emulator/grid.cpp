// Blocks in turn on one core; see grid.hpp.
#include "tests/emulator/grid.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace cplab::emulator {

void run_together(const Together& how, int threads, int blocks, unsigned char* shared,
                  const std::function<void()>& thread) {
  struct Resident {
    unsigned number;
    std::unique_ptr<Machine> machine;
    std::vector<unsigned char> memory;
    bool stuck = false;  // since any block went on
  };
  std::mt19937_64 random(how.seed);
  std::vector<unsigned> waiting(static_cast<std::size_t>(blocks));
  std::iota(waiting.begin(), waiting.end(), 0U);
  std::shuffle(waiting.begin(), waiting.end(), random);
  std::vector<Resident> residents;
  while (!waiting.empty() || !residents.empty()) {
    while (!waiting.empty() && residents.size() < static_cast<std::size_t>(std::max(how.resident, 1))) {
      residents.push_back({waiting.back(), std::make_unique<Machine>(random(), how.late_copies), {}});
      residents.back().machine->start(threads, waiting.back(), shared, thread);
      residents.back().memory.assign(shared, shared + shared_bytes);
      waiting.pop_back();
    }
    std::vector<std::size_t> ready;
    for (std::size_t n = 0; n < residents.size(); ++n)
      if (!residents[n].stuck) ready.push_back(n);
    if (ready.empty()) {
      std::string text = "the grid hangs:";
      for (const Resident& each : residents)
        text += " block " + std::to_string(each.number) + ":" + each.machine->waits();
      throw std::runtime_error(text);
    }
    const std::size_t chosen = ready[random() % ready.size()];
    Resident& block = residents[chosen];
    std::copy(block.memory.begin(), block.memory.end(), shared);
    const Machine::Progress progress = block.machine->advance(static_cast<int>(1 + random() % 100));
    block.memory.assign(shared, shared + shared_bytes);
    block.stuck = progress == Machine::Progress::none;
    if (!block.stuck)
      for (Resident& each : residents) each.stuck = false;
    if (progress == Machine::Progress::finished)
      residents.erase(residents.begin() + static_cast<std::ptrdiff_t>(chosen));
  }
}

}  // namespace cplab::emulator

// Fibers, barriers and copies of an emulated thread block; see machine.hpp.
#include "tests/emulator/machine.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/emulator/machine_state.hpp"

namespace cplab::emulator {

namespace {

Machine* running = nullptr;

}  // namespace

Machine& machine() {
  return *running;
}

Machine::Machine(std::uint64_t seed, bool late_copies) : state_(std::make_unique<State>()) {
  state_->random.seed(seed);
  state_->late_copies = late_copies;
}
Machine::~Machine() = default;

int Machine::thread() const {
  return static_cast<int>(state_->current);
}
unsigned Machine::block() const {
  return state_->block;
}
unsigned char* Machine::shared() const {
  return state_->shared;
}

namespace {

void fiber_main(unsigned low, unsigned high) {
  auto* const call = reinterpret_cast<std::function<void()>*>(std::uintptr_t{high} << 32 | low);
  (*call)();
}

// The fiber will call `entry`, which does not return.
void prepare(Fiber& fiber, std::function<void()>& entry) {
  fiber.ready = nullptr;
  fiber.begun = false;
  fiber.finished = false;
  fiber.stores.clear();
  fiber.writes.clear();
  fiber.products.clear();
  fiber.groups.clear();
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.data();
  fiber.context.uc_stack.ss_size = Stack::bytes;
  fiber.context.uc_link = nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(&entry);
  makecontext(&fiber.context, reinterpret_cast<void (*)()>(fiber_main), 2, static_cast<unsigned>(address),
              static_cast<unsigned>(address >> 32));
}

// Functions of their own, so that no variable lives across a jump: its value could be lost.
__attribute__((noinline)) void enter(std::jmp_buf& scheduler, Fiber& fiber) {
  if (_setjmp(scheduler) != 0) return;
  if (fiber.begun) _longjmp(fiber.place, 1);
  fiber.begun = true;
  setcontext(&fiber.context);
}
__attribute__((noinline)) void leave(Fiber& fiber, std::jmp_buf& scheduler) {
  if (_setjmp(fiber.place) == 0) _longjmp(scheduler, 1);
}

}  // namespace

void Machine::run(int threads, unsigned block, unsigned char* shared, const std::function<void()>& thread) {
  start(threads, block, shared, thread);
  for (Progress progress = Progress::some; progress != Progress::finished;) {
    progress = advance(1 << 20);
    if (progress == Progress::none) throw std::runtime_error("the block hangs:" + waits());
  }
}

void Machine::start(int threads, unsigned block, unsigned char* shared, const std::function<void()>& thread) {
  State& s = *state_;
  s.block = block;
  s.shared = shared;
  s.body = &thread;
  s.failure = nullptr;
  s.reading = 0;
  std::fill_n(shared, shared_bytes, 0xFF);  // NaN in every dtype
  s.warps.assign(static_cast<std::size_t>(threads / warp_threads), {});
  s.meetings.clear();
  s.warpgroups.clear();
  s.barriers.clear();
  s.copies.clear();
  s.fibers.resize(static_cast<std::size_t>(threads));
  s.entry = [&s] {
    try {
      (*s.body)();
    } catch (...) {
      s.failure = std::current_exception();
    }
    if (!s.failure && !s.fibers[s.current].stores.empty())
      s.failure = std::make_exception_ptr(std::runtime_error("a thread ends before its copies have read"));
    s.fibers[s.current].finished = true;
    leave(s.fibers[s.current], s.scheduler);
  };
  for (Fiber& fiber : s.fibers) prepare(fiber, s.entry);
  s.order.resize(s.fibers.size());
  std::iota(s.order.begin(), s.order.end(), std::size_t{0});
  s.left = s.order.size();
}

Machine::Progress Machine::advance(int rounds) {
  State& s = *state_;
  running = this;
  bool any = false;
  for (; s.left > 0 && rounds > 0; --rounds) {
    std::shuffle(s.order.begin(), s.order.end(), s.random);
    bool progress = false;
    for (const std::size_t f : s.order) {
      Fiber& fiber = s.fibers[f];
      if (fiber.finished || (fiber.ready && !fiber.ready())) continue;
      progress = true;
      fiber.ready = nullptr;
      s.current = f;
      enter(s.scheduler, fiber);
      if (s.failure) std::rethrow_exception(s.failure);
      if (fiber.finished) --s.left;
    }
    any = any || progress || !s.copies.empty() || s.reading > 0;
    // Late is not last: now and then a copy lands while others still work.
    if (progress && (s.copies.empty() || s.random() % 4 != 0)) continue;
    if (s.copies.empty() && s.reading > 0) continue;
    if (s.copies.empty()) return any ? Progress::some : Progress::none;
    const std::size_t chosen = s.random() % s.copies.size();
    const auto [barrier, copy] = s.copies[chosen];
    s.copies.erase(s.copies.begin() + static_cast<std::ptrdiff_t>(chosen));
    s.land(barrier, copy.first, copy.second);
  }
  if (s.left > 0) return Progress::some;
  std::shuffle(s.order.begin(), s.order.end(), s.random);
  for (const std::size_t f : s.order) {
    for (const auto& write : s.fibers[f].writes) write();
    s.fibers[f].writes.clear();
  }
  return Progress::finished;
}

std::string Machine::waits() const {
  std::string text;
  for (std::size_t f = 0; f < state_->fibers.size(); f += warp_threads)
    if (!state_->fibers[f].finished)
      text += " warp " + std::to_string(f / warp_threads) + " waits for " + state_->fibers[f].waits_for + ";";
  return text;
}

void Machine::wait_until(const char* what, std::function<bool()> holds) {
  if (holds()) return;
  Fiber& fiber = state_->fibers[state_->current];
  fiber.waits_for = what;
  fiber.ready = std::move(holds);
  leave(fiber, state_->scheduler);
}

const std::uint64_t* Machine::exchange(std::uint64_t value) {
  Warp& warp = state_->warps[state_->current / warp_threads];
  const std::uint32_t generation = warp.generation;
  auto& values = warp.values[generation % 2];
  values[state_->current % warp_threads] = value;
  if (++warp.arrived == warp_threads) {
    warp.arrived = 0;
    ++warp.generation;
  } else {
    wait_until("the lanes of its warp", [&warp, generation] { return warp.generation != generation; });
  }
  return values.data();
}

void Machine::meet(int id, int threads) {
  Meeting& meeting = state_->meetings[id];
  const std::uint32_t generation = meeting.generation;
  if (++meeting.arrived == threads) {
    meeting.arrived = 0;
    ++meeting.generation;
  } else {
    wait_until("a named barrier", [&meeting, generation] { return meeting.generation != generation; });
  }
}

void Machine::pass(int id, int threads) {
  Meeting& meeting = state_->meetings[id];
  if (++meeting.arrived < threads) return;
  meeting.arrived = 0;
  ++meeting.generation;
}

void Machine::init_barrier(std::uint32_t address, int arrivals) {
  state_->barriers[address] = {.arrivals = arrivals, .pending = arrivals};
}

void Machine::arrive(std::uint32_t address, int arrivals, int expected_bytes) {
  Barrier& barrier = state_->barrier_at(address);
  barrier.bytes += expected_bytes;
  barrier.pending -= arrivals;
  if (barrier.pending < 0) throw std::runtime_error("more arrivals at a barrier than it was made for");
  if (arrivals > 0) state_->complete(barrier);
}

void Machine::wait_barrier(std::uint32_t address, int parity) {
  const Barrier& barrier = state_->barrier_at(address);
  wait_until("a barrier in shared memory",
             [&barrier, parity] { return static_cast<int>(barrier.phase & 1) != parity; });
}

bool Machine::is_over(std::uint32_t address, int parity) const {
  return static_cast<int>(state_->barrier_at(address).phase & 1) != parity;
}

void Machine::copy(std::uint32_t barrier, int bytes, std::function<void()> move) {
  if (state_->late_copies)
    state_->copies.push_back({barrier, {bytes, std::move(move)}});
  else
    state_->land(barrier, bytes, move);
}

void Machine::store(std::function<std::function<void()>()> read) {
  if (state_->late_copies)
    state_->fibers[state_->current].stores.push_back(std::move(read));
  else
    read()();
}

void Machine::tma_store_wait(std::size_t but) {
  // Others go on while the copy engine has not read yet.
  auto left = static_cast<int>(state_->random() % 24);
  ++state_->reading;
  wait_until("its stores to be read", [left]() mutable { return left-- <= 0; });
  --state_->reading;
  Fiber& fiber = state_->fibers[state_->current];
  for (; fiber.stores.size() > but; fiber.stores.erase(fiber.stores.begin()))
    fiber.writes.push_back(fiber.stores.front()());
}

void Machine::tma_store_wait_until_written() {
  tma_store_wait();
  Fiber& fiber = state_->fibers[state_->current];
  for (const auto& write : fiber.writes) write();
  fiber.writes.clear();
}

}  // namespace cplab::emulator

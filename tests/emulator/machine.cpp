// Fibers, barriers, copies and products of an emulated thread block; see machine.hpp.
#include "tests/emulator/machine.hpp"

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace cplab::emulator {

namespace {

constexpr std::size_t stack_bytes = 128 << 10;
constexpr int warp_threads = 32, warpgroup_threads = 128;

Machine* running = nullptr;

struct Fiber {
  ucontext_t context;
  std::vector<unsigned char> stack;
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

}  // namespace

struct Machine::State {
  std::mt19937_64 random;
  bool late_copies = false;
  int reading = 0;  // threads whose stores the copy engine has yet to read
  unsigned block = 0;
  unsigned char* shared = nullptr;
  std::vector<Fiber> fibers;
  std::size_t current = 0;
  ucontext_t scheduler;
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

// The fiber will call `entry`, and go on in `after` when that returns.
__attribute__((noinline)) void prepare(Fiber& fiber, std::function<void()>& entry, ucontext_t& after) {
  fiber.stack.resize(stack_bytes);
  fiber.ready = nullptr;
  fiber.finished = false;
  fiber.stores.clear();
  fiber.writes.clear();
  fiber.products.clear();
  fiber.groups.clear();
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.data();
  fiber.context.uc_stack.ss_size = fiber.stack.size();
  fiber.context.uc_link = &after;
  const auto address = reinterpret_cast<std::uintptr_t>(&entry);
  makecontext(&fiber.context, reinterpret_cast<void (*)()>(fiber_main), 2, static_cast<unsigned>(address),
              static_cast<unsigned>(address >> 32));
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
  // A fiber's end must find its way back: a context's link does that.
  s.entry = [&s] {
    try {
      (*s.body)();
    } catch (...) {
      s.failure = std::current_exception();
    }
    if (!s.failure && !s.fibers[s.current].stores.empty())
      s.failure = std::make_exception_ptr(std::runtime_error("a thread ends before its copies have read"));
    s.fibers[s.current].finished = true;
  };
  for (Fiber& fiber : s.fibers) prepare(fiber, s.entry, s.scheduler);
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
      swapcontext(&s.scheduler, &fiber.context);
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
  swapcontext(&fiber.context, &state_->scheduler);
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

void Machine::tma_store_wait() {
  // Others go on while the copy engine has not read yet.
  auto left = static_cast<int>(state_->random() % 24);
  ++state_->reading;
  wait_until("its stores to be read", [left]() mutable { return left-- <= 0; });
  --state_->reading;
  Fiber& fiber = state_->fibers[state_->current];
  for (const auto& read : fiber.stores) fiber.writes.push_back(read());
  fiber.stores.clear();
}

void Machine::tma_store_wait_until_written() {
  tma_store_wait();
  Fiber& fiber = state_->fibers[state_->current];
  for (const auto& write : fiber.writes) write();
  fiber.writes.clear();
}

// --- products of warpgroups ------------------------------------------------------------------------------

namespace {

// The byte of an element under the 128-byte swizzle: bits 4 to 6 are exchanged with bits 7 to 9.
std::uint32_t swizzled(std::uint32_t byte) {
  return byte ^ (byte >> 7 & 7) << 4;
}

struct Descriptor {
  explicit Descriptor(std::uint64_t bits)
      : start(static_cast<std::uint32_t>(bits & 0x3fff) << 4),
        leading(static_cast<std::uint32_t>(bits >> 16 & 0x3fff) << 4),
        stride(static_cast<std::uint32_t>(bits >> 32 & 0x3fff) << 4) {
    if (bits >> 62 != 1 || (bits >> 49 & 7) != 0)
      throw std::runtime_error("a descriptor without the 128-byte swizzle");
  }
  // Row r, place k of the summed index, which runs along the row.
  std::uint32_t k_major(int r, int k) const {
    return swizzled(start + static_cast<std::uint32_t>(r / 8) * stride +
                    static_cast<std::uint32_t>(r % 8 * 128 + k * 2));
  }
  // Column c, place k of the summed index, which runs over rows.
  std::uint32_t mn_major(int c, int k) const {
    return swizzled(start + static_cast<std::uint32_t>(c / 64) * leading +
                    static_cast<std::uint32_t>(k / 8) * stride +
                    static_cast<std::uint32_t>(k % 8 * 128 + c % 64 * 2));
  }
  std::uint32_t start, leading, stride;
};

}  // namespace

void Machine::State::multiply(std::size_t first_thread, std::size_t index) {
  const Product& shape = fibers[first_thread].products[index];
  const auto load = [&](std::uint32_t byte) {
    if (byte + 2 > shared_bytes) throw std::runtime_error("an operand beyond shared memory");
    return shape.value(static_cast<std::uint16_t>(shared[byte] | shared[byte + 1] << 8));
  };
  constexpr int rows = 64, depth = 16;
  std::array<float, rows * depth> a{};
  if (shape.a_registers == nullptr) {
    const Descriptor from(shape.a);
    for (int r = 0; r < rows; ++r)
      for (int k = 0; k < depth; ++k)
        a[static_cast<std::size_t>(r * depth + k)] =
            load(shape.a_mn_major ? from.mn_major(r, k) : from.k_major(r, k));
  } else {
    for (int t = 0; t < warpgroup_threads; ++t) {
      const std::uint32_t* const registers =
          fibers[first_thread + static_cast<std::size_t>(t)].products[index].a_registers;
      for (int part = 0; part < 4; ++part)
        for (int half = 0; half < 2; ++half) {
          const int r = t / 32 * 16 + t % 32 / 4 + part % 2 * 8;
          const int k = t % 4 * 2 + part / 2 * 8 + half;
          a[static_cast<std::size_t>(r * depth + k)] =
              shape.value(static_cast<std::uint16_t>(registers[part] >> 16 * half));
        }
    }
  }
  const int columns = shape.columns;
  std::vector<float> b(static_cast<std::size_t>(depth * columns));
  const Descriptor from(shape.b);
  for (int k = 0; k < depth; ++k)
    for (int c = 0; c < columns; ++c)
      b[static_cast<std::size_t>(k * columns + c)] =
          load(shape.b_mn_major ? from.mn_major(c, k) : from.k_major(c, k));
  std::vector<float> row(static_cast<std::size_t>(columns));
  for (int r = 0; r < rows; ++r) {
    std::fill(row.begin(), row.end(), 0.0f);
    for (int k = 0; k < depth; ++k)
      for (std::size_t c = 0; c < row.size(); ++c)
        row[c] +=
            a[static_cast<std::size_t>(r * depth + k)] * b[static_cast<std::size_t>(k) * row.size() + c];
    for (int lane = 0; lane < 4; ++lane) {
      const int t = r / 16 * 32 + r % 8 * 4 + lane;
      const Product& own = fibers[first_thread + static_cast<std::size_t>(t)].products[index];
      for (int n = 0; n < columns / 8; ++n)
        for (int e = 0; e < 2; ++e) {
          float& sum = own.sums[4 * n + r % 16 / 8 * 2 + e];
          const float value = row[static_cast<std::size_t>(8 * n + 2 * lane + e)];
          sum = own.keep ? sum + value : value;
        }
    }
  }
}

void Machine::queue(const Product& product) {
  state_->fibers[state_->current].products.push_back(product);
}

void Machine::commit() {
  Fiber& fiber = state_->fibers[state_->current];
  fiber.groups.push_back(fiber.products.size());
}

void Machine::wait_products(int pending) {
  State& s = *state_;
  const std::size_t first = s.current / warpgroup_threads * warpgroup_threads;
  Meeting& meeting = s.warpgroups[static_cast<int>(first)];
  const std::uint32_t generation = meeting.generation;
  if (++meeting.arrived < warpgroup_threads) {
    return wait_until("its warpgroup", [&meeting, generation] { return meeting.generation != generation; });
  }
  meeting.arrived = 0;
  ++meeting.generation;
  const std::size_t groups = s.fibers[first].groups.size();
  if (groups <= static_cast<std::size_t>(pending)) return;
  const std::size_t done_groups = groups - static_cast<std::size_t>(pending);
  const std::size_t done = s.fibers[first].groups[done_groups - 1];
  for (std::size_t p = 0; p < done; ++p) s.multiply(first, p);
  for (std::size_t t = first; t < first + warpgroup_threads; ++t) {
    Fiber& fiber = s.fibers[t];
    fiber.products.erase(fiber.products.begin(), fiber.products.begin() + static_cast<std::ptrdiff_t>(done));
    fiber.groups.erase(fiber.groups.begin(), fiber.groups.begin() + static_cast<std::ptrdiff_t>(done_groups));
    for (std::size_t& end : fiber.groups) end -= done;
  }
}

}  // namespace cplab::emulator

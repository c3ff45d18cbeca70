// One thread block of a GPU on one CPU core: threads are fibers that run in a random order, and whatever
// hardware may do late is done as late as it may, or as early. What a real GPU does by chance is found here
// by seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kernels/kernels.hpp"

namespace cplab::emulator {

// Bytes of shared memory, of the address space that shared_address speaks of.
constexpr std::size_t shared_bytes = 228 << 10;

// What the threads of a block do with each other. All but `run` are called by them.
class Machine {
 public:
  // With `late_copies`, bytes arrive only when nothing else can happen; else at once.
  Machine(std::uint64_t seed, bool late_copies);
  ~Machine();

  // Runs the threads of one block, its shared memory at `shared`. Throws std::runtime_error if they hang.
  void run(int threads, unsigned block, unsigned char* shared, const std::function<void()>& thread);

  // The same in pieces, for blocks that wait for each other. advance() runs threads for some rounds, or until
  // nothing can happen in this block alone; both `shared` and `thread` must stay.
  enum class Progress { some, none, finished };
  void start(int threads, unsigned block, unsigned char* shared, const std::function<void()>& thread);
  Progress advance(int rounds);
  std::string waits() const;  // what its warps wait for

  int thread() const;
  unsigned block() const;
  unsigned char* shared() const;

  void wait_until(const char* what, std::function<bool()> holds);
  // All 32 lanes of the calling warp give a value and see all of them; valid until the warp's next but one.
  const std::uint64_t* exchange(std::uint64_t value);
  // Named barrier of so many threads; pass: counts, but does not wait.
  void meet(int id, int threads);
  void pass(int id, int threads);

  void init_barrier(std::uint32_t address, int arrivals);
  void arrive(std::uint32_t address, int arrivals, int expected_bytes);
  void wait_barrier(std::uint32_t address, int parity);
  bool is_over(std::uint32_t address, int parity) const;  // whether it would not wait
  // A copy that will count so many bytes at a barrier.
  void copy(std::uint32_t barrier, int bytes, std::function<void()> move);
  // A copy out of shared memory: `read` returns what writes memory. With `late_copies` it reads when the
  // calling thread waits for that, and writes when the thread waits for that, or else at the block's end.
  void store(std::function<std::function<void()>()> read);
  void tma_store_wait(std::size_t but = 0);  // but so many, the last ones
  void tma_store_wait_until_written();

  // Products of a warpgroup: queued by each of its 128 threads, done by the wait that requires them.
  struct Product {
    float* sums = nullptr;  // [columns / 8][4]
    int columns = 0;
    const std::uint32_t* a_registers = nullptr;  // [4], or
    std::uint64_t a = 0;                         // in shared memory
    std::uint64_t b = 0;
    bool a_mn_major = false, b_mn_major = false;
    bool keep = false;
    kernels::DType dtype = kernels::DType::bf16;  // of both operands
  };
  void queue(const Product& product);
  void commit();
  void wait_products(int pending);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The machine of the running thread.
Machine& machine();

}  // namespace cplab::emulator

// Instructions that only Hopper has (SM 9.0a): mbarriers that count bytes, TMA (bulk copies of tensor tiles,
// started by one thread), registers moved between warpgroups. PTX ISA, "mbarrier", "cp.async.bulk.tensor",
// "setmaxnreg". Names as in CUTLASS where it has one.
//
// tests/emulator has its own version of this file.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace cplab::kernels::cuda::hopper {

constexpr int warpgroup_threads = 128;

// --- barriers -------------------------------------------------------------------------------------------

__device__ __forceinline__ void init_barrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialized barriers visible to TMA.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives once; the phase also waits until `bytes` more have been copied.
__device__ __forceinline__ void arrive_and_expect_tx(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Waits until the phase of that parity is over. On a fresh barrier parity 1 is over at once. Tries that tell
// the hardware how long it may suspend the thread (the operand suspendTimeHint) were not faster on an H200.
__device__ __forceinline__ void wait(std::uint32_t barrier, int parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra finished;\n"
      "bra again;\n"
      "finished:\n"
      "}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// A phase of a barrier. is_over() says whether it is over. wait_for_any() waits until one of three is,
// for threads that have something else to do meanwhile; it polls, and takes issue slots from other
// warps.
struct BarrierPhase {
  std::uint32_t barrier;
  int parity;
};
__device__ __forceinline__ bool is_over(const BarrierPhase& phase) {
  int over;
  asm volatile(
      "{\n"
      ".reg .pred over;\n"
      "mbarrier.test_wait.parity.shared::cta.b64 over, [%1], %2;\n"
      "selp.b32 %0, 1, 0, over;\n"
      "}\n"
      : "=r"(over)
      : "r"(phase.barrier), "r"(phase.parity)
      : "memory");
  return over != 0;
}
__device__ __forceinline__ void wait_for_any(const BarrierPhase& a, const BarrierPhase& b,
                                             const BarrierPhase& c) {
  while (!is_over(a) && !is_over(b) && !is_over(c)) {
  }
}

// Barrier number `id` (1 to 15) of the thread block, for `threads` threads of whole warps.
__device__ __forceinline__ void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Arrives at such a barrier without waiting for it.
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// What this thread wrote to shared memory by ordinary stores becomes visible to wgmma and TMA, once a barrier
// has ordered the two.
__device__ __forceinline__ void fence_view_async_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Returns what the number in device memory was before.
__device__ __forceinline__ int atomic_add_one(std::int32_t* number) {
  int before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(number) : "memory");
  return before;
}

// Adds one without asking what the number was, so that no thread waits for an answer.
__device__ __forceinline__ void add_one(std::int32_t* number) {
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(number) : "memory");
}

// Returns whether a count in device memory, which only grows meanwhile, is `least` or more. If it is,
// this thread sees what the threads that raised it had written and released before.
__device__ __forceinline__ bool reached(const std::int32_t* count, int least, int& now) {
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(count) : "memory");
  return now >= least;
}
__device__ __forceinline__ bool reached(const std::int32_t* count, int least) {
  int now;
  return reached(count, least, now);
}

// Waits until the count is `least` or more. This is for counts that grow by one in a microsecond or
// more: while several are missing it sleeps, for less time than they take.
__device__ __forceinline__ void wait_for_count(const std::int32_t* count, int least) {
  for (int now; !reached(count, least, now);) {
    const int others = least - now - 1;
    if (others > 0) __nanosleep(static_cast<unsigned>(400 * min(others, 64)));  // up to twice as long
  }
}

// Waits for a count that may be complete at any moment, without sleep.
__device__ __forceinline__ void poll_for_count(const std::int32_t* count, int least) {
  while (!reached(count, least)) continue;
}

// Releases what this thread has seen of device memory, before it raises counts.
__device__ __forceinline__ void fence_device_memory() {
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

// What this thread has seen of device memory is seen by copies of TMA that it starts.
__device__ __forceinline__ void fence_view_async_global() {
  asm volatile("fence.proxy.async.global;" ::: "memory");
}

// --- copies ---------------------------------------------------------------------------------------------

// What the L2 cache gives up before, and after, anything else: policies for copies (CUTLASS,
// TMA::CacheHintSm90). `_once` in a name below says evict first: the caller has no more use for that memory.
constexpr std::uint64_t evict_first = 0x12F0000000000000, evict_last = 0x14F0000000000000;

// Loads four sums to which other multiprocessors have added, with evict first. The caller has acquired
// them.
__device__ __forceinline__ float4 load_added(const float* from) {
  return __ldcs(reinterpret_cast<const float4*>(from));
}
template <class Words>
__device__ __forceinline__ void store_once(void* to, const Words& words) {
  __stcs(static_cast<Words*>(to), words);
}

// Prefetches a tensor map, or a cache line of device memory.
__device__ __forceinline__ void prefetch_tensor_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
__device__ __forceinline__ void prefetch_line(const void* pointer) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(pointer) : "memory");
}

// Starts the copy of the tile that begins at (row, head), from column group `group` on, of a map made by
// tensor_map() or accumulator_map(); its bytes are counted at `barrier`. What lies beyond the tensor becomes
// zero. `column`: the first one, of a map of single groups (by_column_groups()).
__device__ __forceinline__ void tma_load(std::uint32_t into, const CUtensorMap& map, int row, int head,
                                         std::uint32_t barrier, int group = 0, int column = 0) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
      "%5}], "
      "[%6];" ::"r"(into),
      "l"(&map), "r"(column), "r"(row), "r"(group), "r"(head), "r"(barrier)
      : "memory");
}

// Starts the same copy with evict first.
__device__ __forceinline__ void tma_load_once(std::uint32_t into, const CUtensorMap& map, int row, int head,
                                              std::uint32_t barrier, int group = 0, int column = 0) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(into),
      "l"(&map), "r"(column), "r"(row), "r"(group), "r"(head), "r"(barrier), "l"(evict_first)
      : "memory");
}

// Starts the copy of the tile that begins at (row, head), of a map made by heads_map().
__device__ __forceinline__ void tma_load_heads(std::uint32_t into, const CUtensorMap& map, int row, int head,
                                               std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
      "[%4];" ::"r"(into),
      "l"(&map), "r"(head), "r"(row), "r"(barrier)
      : "memory");
}

// Starts to write a tile to the tensor, from column group `group` on, less what lies beyond it.
// tma_store_wait() waits until shared memory has been read, for the stores and reductions that the calling
// thread started.
__device__ __forceinline__ void tma_store(const CUtensorMap& map, int row, int head, std::uint32_t from,
                                          int group = 0, int column = 0) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];\n"
      "cp.async.bulk.commit_group;" ::"l"(&map),
      "r"(column), "r"(row), "r"(group), "r"(head), "r"(from)
      : "memory");
}
__device__ __forceinline__ void tma_store_once(const CUtensorMap& map, int row, int head, std::uint32_t from,
                                               int column = 0) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group.L2::cache_hint "
      "[%0, {%1, %2, %3, %4}], [%5], %6;\n"
      "cp.async.bulk.commit_group;" ::"l"(&map),
      "r"(column), "r"(row), "r"(0), "r"(head), "r"(from), "l"(evict_first)
      : "memory");
}
__device__ __forceinline__ void tma_store_wait() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
// Waits until device memory has been written, which the calling thread then sees.
__device__ __forceinline__ void tma_store_wait_until_written() {
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Starts to copy a float to shared memory; 0 if not `inside`. cp_async_wait_group waits for all but the last
// `pending` groups that the thread committed.
__device__ __forceinline__ void cp_async_float(std::uint32_t into, const float* from, bool inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(into), "l"(from), "r"(inside ? 4 : 0)
               : "memory");
}
__device__ __forceinline__ void cp_async_commit_group() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int pending>
__device__ __forceinline__ void cp_async_wait_group() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// Starts to add a tile of the map's rows x 64 floats to the tensor, from 32-column group `group` on,
// without what lies beyond the tensor. Each element is added atomically, with evict last, because
// others will add to the same.
__device__ __forceinline__ void tma_reduce_add(const CUtensorMap& map, int row, int group, int head,
                                               std::uint32_t from, int column = 0) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group.L2::cache_hint "
      "[%0, {%1, %2, %3, %4}], [%5], %6;\n"
      "cp.async.bulk.commit_group;" ::"l"(&map),
      "r"(column), "r"(row), "r"(group), "r"(head), "r"(from), "l"(evict_last)
      : "memory");
}

// Stores four 8x8 matrices of 16 bits, laid out in registers as wgmma's 16 x 16 operand A: lane l says where
// row l % 8 of matrix l / 8 goes.
__device__ __forceinline__ void stmatrix(std::uint32_t to, const std::uint32_t (&values)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(values[0]),
               "r"(values[1]), "r"(values[2]), "r"(values[3])
               : "memory");
}

// Loads four 8x8 matrices of 16 bits, each transposed: lane l says where row l % 8 of matrix l / 8 lies.
__device__ __forceinline__ void ldmatrix_transposed(std::uint32_t (&into)[4], std::uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(into[0]), "=r"(into[1]), "=r"(into[2]), "=r"(into[3])
               : "r"(from)
               : "memory");
}

// Adds to four floats of global memory at a multiple of 16 bytes, each atomically.
__device__ __forceinline__ void red_add_v4(float* to, float x, float y, float z, float w) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x), "f"(y), "f"(z),
               "f"(w)
               : "memory");
}

// --- registers ------------------------------------------------------------------------------------------

template <int registers>
__device__ __forceinline__ void warpgroup_reg_alloc() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

template <int registers>
__device__ __forceinline__ void warpgroup_reg_dealloc() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

// Returns its argument as a value the compiler knows nothing about: what is computed from it is computed anew
// here instead of being kept in registers from an earlier place.
__device__ __forceinline__ int opaque(int value) {
  int copy;
  asm volatile("mov.b32 %0, %1;" : "=r"(copy) : "r"(value));
  return copy;
}

// The number of this thread's warpgroup, by a shuffle, so that the compiler knows it is the same for all
// lanes.
__device__ __forceinline__ int warpgroup_index() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / warpgroup_threads, 0);
}

}  // namespace cplab::kernels::cuda::hopper

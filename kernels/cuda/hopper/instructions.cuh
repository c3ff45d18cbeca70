// Hopper's own instructions (SM 9.0a): barriers in shared memory that count bytes, copies of tensor tiles by
// one thread, registers handed from warpgroup to warpgroup. PTX ISA, "mbarrier", "cp.async.bulk.tensor",
// "setmaxnreg".
#pragma once

#include <cuda.h>

#include <cstdint>

namespace cplab::kernels::cuda::hopper {

constexpr int warpgroup_threads = 128;

// --- barriers -------------------------------------------------------------------------------------------

__device__ __forceinline__ void init_barrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Initialized barriers become visible to the copy engine.
__device__ __forceinline__ void fence_barrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// One arrival; the phase also waits until `bytes` have been copied.
__device__ __forceinline__ void arrive_expecting(std::uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// Returns when the phase of that parity is over: at once on a fresh barrier for parity 1.
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

// Among `threads` threads of some warps; `id` from 1 to 15.
__device__ __forceinline__ void sync_threads_of(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// What ordinary instructions of this thread wrote to shared memory becomes visible to wgmma and to the copy
// engine, once a barrier has ordered the two.
__device__ __forceinline__ void fence_shared_writes() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Adds 1 to a number in device memory; returns what it was.
__device__ __forceinline__ int add_one(std::int32_t* number) {
  int before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(number) : "memory");
  return before;
}

// --- copies ---------------------------------------------------------------------------------------------

// Brings a tensor map, or a line of device memory, nearer to who will soon need it.
__device__ __forceinline__ void prefetch_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
__device__ __forceinline__ void prefetch_line(const void* pointer) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(pointer) : "memory");
}

// Starts the copy of the tile at (column, row, half, head) of a map that tensor_map() made; its bytes count
// at `barrier`. What lies beyond the tensor becomes zero.
__device__ __forceinline__ void copy_tile(std::uint32_t into, const CUtensorMap& map, int row, int head,
                                          std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
      "%5}], "
      "[%6];" ::"r"(into),
      "l"(&map), "r"(0), "r"(row), "r"(0), "r"(head), "r"(barrier)
      : "memory");
}

// The other way: starts to write a tile to the tensor, less what lies beyond it. `finish_stores` waits until
// shared memory has been read; both are for the same thread.
__device__ __forceinline__ void store_tile(const CUtensorMap& map, int row, int head, std::uint32_t from) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];\n"
      "cp.async.bulk.commit_group;" ::"l"(&map),
      "r"(0), "r"(row), "r"(0), "r"(head), "r"(from)
      : "memory");
}
__device__ __forceinline__ void finish_stores() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

// Adds to four floats of global memory at a multiple of 16 bytes, each add by itself indivisible.
__device__ __forceinline__ void add_four(float* to, float x, float y, float z, float w) {
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x), "f"(y), "f"(z),
               "f"(w)
               : "memory");
}

// --- registers ------------------------------------------------------------------------------------------

template <int registers>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

template <int registers>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

// The warpgroup of this thread, known to the compiler as the same for all lanes.
__device__ __forceinline__ int warpgroup_index() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / warpgroup_threads, 0);
}

}  // namespace cplab::kernels::cuda::hopper

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

// Counts at such a barrier without waiting for it.
__device__ __forceinline__ void arrive_threads_of(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
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

// Starts to copy a float to shared memory; 0 if not `inside`. The thread waits for all but its last `pending`
// committed batches.
__device__ __forceinline__ void copy_float(std::uint32_t into, const float* from, bool inside) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(into), "l"(from), "r"(inside ? 4 : 0)
               : "memory");
}
__device__ __forceinline__ void commit_float_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int pending>
__device__ __forceinline__ void wait_for_float_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

// Starts to add a tile of 64 rows x 64 floats to the tensor, from 32-column group `group` on, less what lies
// beyond it; each add by itself is indivisible.
__device__ __forceinline__ void add_tile(const CUtensorMap& map, int row, int group, int head,
                                         std::uint32_t from) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2, %3, %4}], [%5];\n"
      "cp.async.bulk.commit_group;" ::"l"(&map),
      "r"(0), "r"(row), "r"(group), "r"(head), "r"(from)
      : "memory");
}

// Four 8x8 matrices of 16 bits, as wgmma's operand A holds 16 x 16, to shared memory: lane l says where row
// l % 8 of matrix l / 8 goes.
__device__ __forceinline__ void store_matrices(std::uint32_t to, const std::uint32_t (&values)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(values[0]),
               "r"(values[1]), "r"(values[2]), "r"(values[3])
               : "memory");
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

// The same value, which the compiler believes to be a new one: what is derived from it is computed again
// instead of being held in registers.
__device__ __forceinline__ int anew(int value) {
  int copy;
  asm volatile("mov.b32 %0, %1;" : "=r"(copy) : "r"(value));
  return copy;
}

// The warpgroup of this thread, known to the compiler as the same for all lanes.
__device__ __forceinline__ int warpgroup_index() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / warpgroup_threads, 0);
}

}  // namespace cplab::kernels::cuda::hopper

// Products of a warpgroup (wgmma, SM 9.0a): 64 rows x N columns of fp32 sums, in registers. A lies in shared
// memory or in registers, B in shared memory; both 16-bit, in tiles of 64 columns (128 bytes) a row with the
// 128-byte swizzle that copy_tile writes. PTX ISA, "wgmma.mma_async", "Matrix descriptor".
//
// tests/emulator has its own version of this file.
//
// Sums: float d[N / 8][4]; lane l of warp w holds rows 16 w + l / 4 (d[n][0], d[n][1]) and 8 more (d[n][2],
// d[n][3]), columns 8 n + 2 (l % 4) and one more: as the 16-row sums of mma.cuh.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace cplab::kernels::cuda::hopper {

// Everything that other instructions did to the registers of products to come is done.
__device__ __forceinline__ void fence_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// All but the last `pending` committed batches are complete.
template <int pending>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// The compiler keeps reads of sums behind the wait, and writes before the fence.
template <int n_tiles>
__device__ __forceinline__ void pin(float (&sums)[n_tiles][4]) {
#pragma unroll
  for (int n = 0; n < n_tiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(sums[n][e])::"memory");
}

template <int n>
__device__ __forceinline__ void pin(float (&values)[n]) {
#pragma unroll
  for (int at = 0; at < n; ++at) asm volatile("" : "+f"(values[at])::"memory");
}

#define CPLAB_SUMS_4(d, n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define CPLAB_SUMS_16(d, n) \
  CPLAB_SUMS_4(d, n), CPLAB_SUMS_4(d, n + 1), CPLAB_SUMS_4(d, n + 2), CPLAB_SUMS_4(d, n + 3)
#define CPLAB_SUMS_32(d) CPLAB_SUMS_16(d, 0), CPLAB_SUMS_16(d, 4)
#define CPLAB_SUMS_64(d) CPLAB_SUMS_32(d), CPLAB_SUMS_16(d, 8), CPLAB_SUMS_16(d, 12)
#define CPLAB_NAMES_32                                                      \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define CPLAB_NAMES_64                                                               \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "          \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"

// d (+)= A B. `keep` 0: what d held does not count. Both operands are contiguous (descriptor.cuh) in
// multiply_shared and strided in multiply_strided; in multiply_registers A holds 64 rows x 16 columns as
// pairs (16-bit, the layout of mma.sync's A), and B is strided.
template <class T, int N>
struct Wgmma;

#define CPLAB_WGMMA(TYPE, PTX, N, REGS, A, B, KEEP, A0, A1, A2, A3, B4, KEEP5)                              \
  template <>                                                                                               \
  struct Wgmma<TYPE, N> {                                                                                   \
    static __device__ __forceinline__ void multiply_shared(float (&d)[N / 8][4], std::uint64_t a,           \
                                                           std::uint64_t b, int keep) {                     \
      asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, " KEEP                                           \
                   ", 0;\n"                                                                                 \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PTX "." PTX " " CPLAB_NAMES_##REGS     \
                   ", " A ", " B ", keep, 1, 1, 0, 0;\n}\n"                                                 \
                   : CPLAB_SUMS_##REGS(d)                                                                   \
                   : "l"(a), "l"(b), "r"(keep));                                                            \
    }                                                                                                       \
    static __device__ __forceinline__ void multiply_strided(float (&d)[N / 8][4], std::uint64_t a,          \
                                                            std::uint64_t b, int keep) {                    \
      asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, " KEEP                                           \
                   ", 0;\n"                                                                                 \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PTX "." PTX " " CPLAB_NAMES_##REGS     \
                   ", " A ", " B ", keep, 1, 1, 1, 1;\n}\n"                                                 \
                   : CPLAB_SUMS_##REGS(d)                                                                   \
                   : "l"(a), "l"(b), "r"(keep));                                                            \
    }                                                                                                       \
    static __device__ __forceinline__ void multiply_registers(float (&d)[N / 8][4],                         \
                                                              const std::uint32_t (&a)[4], std::uint64_t b, \
                                                              int keep) {                                   \
      asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, " KEEP5                                          \
                   ", 0;\n"                                                                                 \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PTX "." PTX " " CPLAB_NAMES_##REGS     \
                   ", {" A0 ", " A1 ", " A2 ", " A3 "}, " B4 ", keep, 1, 1, 1;\n}\n"                        \
                   : CPLAB_SUMS_##REGS(d)                                                                   \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));                        \
    }                                                                                                       \
  }

CPLAB_WGMMA(__nv_bfloat16, "bf16", 64, 32, "%32", "%33", "%34", "%32", "%33", "%34", "%35", "%36", "%37");
CPLAB_WGMMA(__nv_bfloat16, "bf16", 128, 64, "%64", "%65", "%66", "%64", "%65", "%66", "%67", "%68", "%69");
CPLAB_WGMMA(__half, "f16", 64, 32, "%32", "%33", "%34", "%32", "%33", "%34", "%35", "%36", "%37");
CPLAB_WGMMA(__half, "f16", 128, 64, "%64", "%65", "%66", "%64", "%65", "%66", "%67", "%68", "%69");

#undef CPLAB_WGMMA
#undef CPLAB_NAMES_32
#undef CPLAB_NAMES_64
#undef CPLAB_SUMS_64
#undef CPLAB_SUMS_32
#undef CPLAB_SUMS_16
#undef CPLAB_SUMS_4

}  // namespace cplab::kernels::cuda::hopper

// wgmma, the matrix product of a warpgroup (SM 9.0a): 64 rows x N columns of fp32 accumulators in registers.
// A lies in shared memory or in registers, B in shared memory; both are 16-bit, in tiles with rows of 64
// columns (128 bytes) and the 128-byte swizzle that tma_load writes. PTX ISA, "wgmma.mma_async", "Matrix
// descriptor". Names as in CUTLASS.
//
// tests/emulator has its own version of this file.
//
// Accumulators: float d[N / 8][4]. Warp w has rows 16 w to 16 w + 15, laid out as in accumulators.cuh.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace cplab::kernels::cuda::hopper {

// Before the first product: orders it after whatever wrote the registers that it uses.
__device__ __forceinline__ void warpgroup_arrive() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void warpgroup_commit_batch() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until all but the last `pending` committed batches are complete.
template <int pending>
__device__ __forceinline__ void warpgroup_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// An empty instruction that reads and writes the registers: C++ does not know that a product changes them
// later, and would otherwise read them before the wait or write them after warpgroup_arrive().
template <int n_tiles>
__device__ __forceinline__ void warpgroup_fence_operand(float (&sums)[n_tiles][4]) {
#pragma unroll
  for (int n = 0; n < n_tiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(sums[n][e])::"memory");
}

template <int n>
__device__ __forceinline__ void warpgroup_fence_operand(float (&values)[n]) {
#pragma unroll
  for (int at = 0; at < n; ++at) asm volatile("" : "+f"(values[at])::"memory");
}

// An empty instruction that reads the registers of an operand A. Behind the wait for its product, where that
// is in another iteration of a loop than the product: the compiler may give them to something else before.
template <int steps>
__device__ __forceinline__ void warpgroup_keep_operand(const std::uint32_t (&a)[steps][4]) {
#pragma unroll
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (int part = 0; part < 4; ++part) asm volatile("" ::"r"(a[step][part]) : "memory");
}

#define CPLAB_TILE(d, n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define CPLAB_TILES_4(d, n) CPLAB_TILE(d, n), CPLAB_TILE(d, n + 1), CPLAB_TILE(d, n + 2), CPLAB_TILE(d, n + 3)
#define CPLAB_TILES_8(d, n) CPLAB_TILES_4(d, n), CPLAB_TILES_4(d, n + 4)
#define CPLAB_SUMS_16(d) CPLAB_TILES_4(d, 0)
#define CPLAB_SUMS_32(d) CPLAB_TILES_8(d, 0)
#define CPLAB_SUMS_40(d) CPLAB_SUMS_32(d), CPLAB_TILE(d, 8), CPLAB_TILE(d, 9)
#define CPLAB_SUMS_64(d) CPLAB_SUMS_32(d), CPLAB_TILES_8(d, 8)
#define CPLAB_SUMS_96(d) CPLAB_SUMS_64(d), CPLAB_TILES_8(d, 16)
#define CPLAB_SUMS_128(d) CPLAB_SUMS_96(d), CPLAB_TILES_8(d, 24)
#define CPLAB_NAMES_16 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}"
#define CPLAB_NAMES_32                                                      \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}"
#define CPLAB_NAMES_40                                                               \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "          \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39}"
#define CPLAB_NAMES_64                                                               \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "          \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}"
#define CPLAB_NAMES_96                                                               \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "          \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}"
#define CPLAB_NAMES_128                                                                          \
  "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                      \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "             \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}"

// d = A B, or d += A B if `keep` is not 0. Operands in shared memory are given by descriptors (operands.cuh):
//   multiply_ss            A and B k_major
//   multiply_ss_mn_major   A and B mn_major
//   multiply_ss_b_mn_major A k_major, B mn_major
//   multiply_rs            A in registers, 64 rows x 16 columns as pairs (the layout of mma.sync's A), B
//   mn_major
//   multiply_rs_b_k_major  likewise, B k_major
template <class T, int N>
struct Wgmma;

#define CPLAB_WGMMA(TYPE, PTX, N, REGS, A, B, KEEP, A0, A1, A2, A3, B4, KEEP5)                            \
  template <>                                                                                             \
  struct Wgmma<TYPE, N> {                                                                                 \
    static __device__ __forceinline__ void multiply_ss(float (&d)[N / 8][4], std::uint64_t a,             \
                                                       std::uint64_t b, int keep) {                       \
      asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, " KEEP                                         \
                   ", 0;\n"                                                                               \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PTX "." PTX " " CPLAB_NAMES_##REGS   \
                   ", " A ", " B ", keep, 1, 1, 0, 0;\n}\n"                                               \
                   : CPLAB_SUMS_##REGS(d)                                                                 \
                   : "l"(a), "l"(b), "r"(keep));                                                          \
    }                                                                                                     \
    static __device__ __forceinline__ void multiply_ss_mn_major(float (&d)[N / 8][4], std::uint64_t a,    \
                                                                std::uint64_t b, int keep) {              \
      asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, " KEEP                                         \
                   ", 0;\n"                                                                               \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PTX "." PTX " " CPLAB_NAMES_##REGS   \
                   ", " A ", " B ", keep, 1, 1, 1, 1;\n}\n"                                               \
                   : CPLAB_SUMS_##REGS(d)                                                                 \
                   : "l"(a), "l"(b), "r"(keep));                                                          \
    }                                                                                                     \
    static __device__ __forceinline__ void multiply_ss_b_mn_major(float (&d)[N / 8][4], std::uint64_t a,  \
                                                                  std::uint64_t b, int keep) {            \
      asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, " KEEP                                         \
                   ", 0;\n"                                                                               \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PTX "." PTX " " CPLAB_NAMES_##REGS   \
                   ", " A ", " B ", keep, 1, 1, 0, 1;\n}\n"                                               \
                   : CPLAB_SUMS_##REGS(d)                                                                 \
                   : "l"(a), "l"(b), "r"(keep));                                                          \
    }                                                                                                     \
    static __device__ __forceinline__ void multiply_rs(float (&d)[N / 8][4], const std::uint32_t (&a)[4], \
                                                       std::uint64_t b, int keep) {                       \
      asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, " KEEP5                                        \
                   ", 0;\n"                                                                               \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PTX "." PTX " " CPLAB_NAMES_##REGS   \
                   ", {" A0 ", " A1 ", " A2 ", " A3 "}, " B4 ", keep, 1, 1, 1;\n}\n"                      \
                   : CPLAB_SUMS_##REGS(d)                                                                 \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));                      \
    }                                                                                                     \
    static __device__ __forceinline__ void multiply_rs_b_k_major(float (&d)[N / 8][4],                    \
                                                                 const std::uint32_t (&a)[4],             \
                                                                 std::uint64_t b, int keep) {             \
      asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, " KEEP5                                        \
                   ", 0;\n"                                                                               \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." PTX "." PTX " " CPLAB_NAMES_##REGS   \
                   ", {" A0 ", " A1 ", " A2 ", " A3 "}, " B4 ", keep, 1, 1, 0;\n}\n"                      \
                   : CPLAB_SUMS_##REGS(d)                                                                 \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep));                      \
    }                                                                                                     \
  }

CPLAB_WGMMA(__nv_bfloat16, "bf16", 32, 16, "%16", "%17", "%18", "%16", "%17", "%18", "%19", "%20", "%21");
CPLAB_WGMMA(__nv_bfloat16, "bf16", 64, 32, "%32", "%33", "%34", "%32", "%33", "%34", "%35", "%36", "%37");
CPLAB_WGMMA(__nv_bfloat16, "bf16", 80, 40, "%40", "%41", "%42", "%40", "%41", "%42", "%43", "%44", "%45");
CPLAB_WGMMA(__nv_bfloat16, "bf16", 128, 64, "%64", "%65", "%66", "%64", "%65", "%66", "%67", "%68", "%69");
CPLAB_WGMMA(__nv_bfloat16, "bf16", 192, 96, "%96", "%97", "%98", "%96", "%97", "%98", "%99", "%100", "%101");
CPLAB_WGMMA(__nv_bfloat16, "bf16", 256, 128, "%128", "%129", "%130", "%128", "%129", "%130", "%131", "%132",
            "%133");
CPLAB_WGMMA(__half, "f16", 32, 16, "%16", "%17", "%18", "%16", "%17", "%18", "%19", "%20", "%21");
CPLAB_WGMMA(__half, "f16", 64, 32, "%32", "%33", "%34", "%32", "%33", "%34", "%35", "%36", "%37");
CPLAB_WGMMA(__half, "f16", 80, 40, "%40", "%41", "%42", "%40", "%41", "%42", "%43", "%44", "%45");
CPLAB_WGMMA(__half, "f16", 128, 64, "%64", "%65", "%66", "%64", "%65", "%66", "%67", "%68", "%69");
CPLAB_WGMMA(__half, "f16", 192, 96, "%96", "%97", "%98", "%96", "%97", "%98", "%99", "%100", "%101");
CPLAB_WGMMA(__half, "f16", 256, 128, "%128", "%129", "%130", "%128", "%129", "%130", "%131", "%132", "%133");

#undef CPLAB_WGMMA
#undef CPLAB_NAMES_128
#undef CPLAB_NAMES_96
#undef CPLAB_NAMES_64
#undef CPLAB_NAMES_40
#undef CPLAB_NAMES_32
#undef CPLAB_NAMES_16
#undef CPLAB_SUMS_128
#undef CPLAB_SUMS_96
#undef CPLAB_SUMS_64
#undef CPLAB_SUMS_40
#undef CPLAB_SUMS_32
#undef CPLAB_SUMS_16
#undef CPLAB_TILES_8
#undef CPLAB_TILES_4
#undef CPLAB_TILE

}  // namespace cplab::kernels::cuda::hopper

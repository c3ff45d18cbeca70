// The emulator's version of kernels/families/parts/hopper/wgmma.cuh: sums change when a wait demands it, not
// before.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace cplab::kernels::cuda::hopper {

inline void warpgroup_arrive() {}
inline void warpgroup_commit_batch() {
  emulator::machine().commit();
}
template <int pending>
inline void warpgroup_wait() {
  emulator::machine().wait_products(pending);
}
template <int n_tiles>
inline void warpgroup_fence_operand(float (&)[n_tiles][4]) {}
template <int n>
inline void warpgroup_fence_operand(float (&)[n]) {}
template <int steps>
inline void warpgroup_keep_operand(const std::uint32_t (&)[steps][4]) {}

template <class T, int N>
struct Wgmma {
  static void multiply_ss(float (&d)[N / 8][4], std::uint64_t a, std::uint64_t b, int keep) {
    queue(d, nullptr, a, b, false, false, keep);
  }
  static void multiply_ss_mn_major(float (&d)[N / 8][4], std::uint64_t a, std::uint64_t b, int keep) {
    queue(d, nullptr, a, b, true, true, keep);
  }
  static void multiply_ss_b_mn_major(float (&d)[N / 8][4], std::uint64_t a, std::uint64_t b, int keep) {
    queue(d, nullptr, a, b, false, true, keep);
  }
  static void multiply_rs(float (&d)[N / 8][4], const std::uint32_t (&a)[4], std::uint64_t b, int keep) {
    queue(d, a, 0, b, false, true, keep);
  }
  static void multiply_rs_b_k_major(float (&d)[N / 8][4], const std::uint32_t (&a)[4], std::uint64_t b,
                                    int keep) {
    queue(d, a, 0, b, false, false, keep);
  }

 private:
  static void queue(float (&d)[N / 8][4], const std::uint32_t* a_registers, std::uint64_t a, std::uint64_t b,
                    bool a_mn_major, bool b_mn_major, int keep) {
    emulator::machine().queue({.sums = &d[0][0],
                               .columns = N,
                               .a_registers = a_registers,
                               .a = a,
                               .b = b,
                               .a_mn_major = a_mn_major,
                               .b_mn_major = b_mn_major,
                               .keep = keep != 0,
                               .dtype = std::is_same_v<T, __nv_bfloat16> ? DType::bf16 : DType::fp16});
  }
};

}  // namespace cplab::kernels::cuda::hopper

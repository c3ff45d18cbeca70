// The attention kernels of this build: calls.cpp takes the first variant that fits a call, cuts its rows into
// tiles of that variant's height, and launches it.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/params.hpp"

struct CUstream_st;

namespace cplab::kernels::cuda {

struct AttendVariant {
  const char* name;  // "attend mma bf16 128"
  std::int32_t q_tile_rows;
  bool (*fits)(const Attend&);
  void (*launch)(const AttendParams&, CUstream_st*);  // cudaGetLastError says whether it went
  const void* const* kernels;                         // the __global__ functions, null at the end
  std::int64_t shared_bytes;                          // dynamic, per block
};

struct AttendBackwardVariant {
  const char* name;
  std::int32_t q_tile_rows;  // of by_q (dq)
  std::int32_t k_tile_rows;  // of by_k (dk, dv)
  bool (*fits)(const AttendBackward&);
  void (*launch)(const AttendBackwardParams&, CUstream_st*);
  const void* const* kernels;
  const std::int64_t* shared_bytes;  // by kernel
};

// In the order of preference; the general ones, which fit everything, are last.
std::span<const AttendVariant> attend_variants();
std::span<const AttendBackwardVariant> attend_backward_variants();

}  // namespace cplab::kernels::cuda

// The attention kernels of this build: calls.cpp takes the first variant that fits a call, cuts its rows into
// tiles of that variant's height, and launches it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "kernels/work/params.hpp"
#include "kernels/work/tile_cuts.hpp"

struct CUstream_st;

namespace cplab::kernels::cuda {

// Queues a call on a stream; cudaGetLastError says whether it went.
using Launch = std::function<void(CUstream_st*)>;

// A kernel that needs nothing beyond the parameters. They stay where they are as long as the launch is used,
// and the pointers to tables in them are set before its first use.
template <auto launch, class Params>
Launch bind_parameters(const Params& params) {
  return [&params](CUstream_st* stream) { launch(params, stream); };
}

// sm_major: the only architecture that a variant has code for (9: Hopper); 0: every one of this build.
struct AttendVariant {
  const char* name;  // "attend mma bf16 128"
  int sm_major;
  std::int32_t q_tile_rows;
  // Of several variants for one call that say what a tile costs, in a unit of their own, the one that is done
  // first is taken (cheapest_tiles()); 0: the first that fits is taken, its rows cut every q_tile_rows.
  TileCosts tile_costs;
  bool (*fits)(const Attend&);
  Launch (*bind)(const AttendParams&);
  const void* const* kernels;  // the __global__ functions, null at the end
  std::int64_t shared_bytes;   // dynamic, per block
  bool counts_tiles = false;   // takes uneven tiles by AttendParams::tile_counter
};

struct AttendBackwardVariant {
  const char* name;
  int sm_major;
  bool deterministic;        // the same bits in every run
  std::int32_t q_tile_rows;  // of by_q (dq)
  std::int32_t k_tile_rows;  // of by_k (dk, dv)
  bool (*fits)(const AttendBackward&);
  Launch (*bind)(const AttendBackwardParams&);
  const void* const* kernels;
  const std::int64_t* shared_bytes;  // by kernel
  bool counts_tiles = false;         // takes tiles of keys by AttendBackwardParams::tile_counter
};

// In the order of preference; the general ones, which fit everything, are last.
std::span<const AttendVariant> attend_variants();
std::span<const AttendBackwardVariant> attend_backward_variants();

}  // namespace cplab::kernels::cuda

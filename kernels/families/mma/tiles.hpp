// The mma.sync attention kernels: which head sizes they have, their tiles and their names. Keys and
// values may differ in size.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/families/architectures.hpp"
#include "kernels/families/head_sizes.hpp"
#include "kernels/tiles/measured_constants.hpp"

namespace cplab::kernels::cuda {

constexpr auto mma_tile_rows = static_cast<std::int32_t>(measured("mma_rows"));

// Query rows of a tile of the forward, and of half as many where the accumulators of 32 rows are more than a
// warp's registers.
constexpr std::int32_t mma_forward_rows(int value_size) {
  return value_size > 128 ? mma_tile_rows / 2 : mma_tile_rows;
}

// dk and dv of keys beyond 96 take more than the 99 KiB that thread blocks of 8.6 and 8.9 have: there is a
// second kernel, with small tiles, for these. Architectures that have room for both prefer the large ones.
constexpr bool has_small_tiles(const HeadSizes& sizes) {
  return sizes.key > 96;
}

// Whether dk and dv of 16 keys are more than a warp's registers: two warps then have the same keys.
constexpr bool mma_shares_keys(const HeadSizes& sizes) {
  return sizes.key > 192;
}

// Keys of a tile for dk and dv, and queries of one for dq. FlashAttention 3 has 64 queries x 64 keys at key
// size 192 and 32 x 64 at 256 on SM 8.6 and 8.9 (hopper/flash_bwd_launch_template.h).
constexpr std::int32_t mma_backward_rows(const HeadSizes& sizes, bool small_tiles) {
  return sizes.key > 192 || (small_tiles && sizes.key > 128) ? mma_tile_rows / 2 : mma_tile_rows;
}

// Queries that a tile of keys walks over at a time.
constexpr int mma_backward_queries(const HeadSizes& sizes, bool small_tiles) {
  if (sizes.key > 192) return small_tiles ? 16 : 32;
  return small_tiles || sizes.key > 128 ? 32 : 64;
}

// Keys that a tile of queries walks over at a time, for dq.
constexpr int mma_dq_keys(int key_size) {
  return key_size <= 64 ? 64 : key_size <= 192 ? 32 : 16;
}

// K, V and two stages of Q and dO are 129 KiB at head size 128, 121 at 192 and 128, 129 at 256.
constexpr Claim mma_dkv_claim(const HeadSizes& sizes, bool small_tiles) {
  return has_small_tiles(sizes) && !small_tiles ? Claim::large_shared : Claim::all;
}

// Q, dO and two stages of K and V are 121 KiB for 128 queries at head sizes 192 and 128.
constexpr Claim mma_dq_claim(int key_size, std::int32_t rows) {
  return key_size > 128 && rows > mma_tile_rows / 2 ? Claim::large_shared : Claim::all;
}

constexpr int mma_dkv_threads(const HeadSizes& sizes, bool small_tiles) {
  const int warps = mma_backward_rows(sizes, small_tiles) / (sizes.key > 64 ? 16 : 32);
  return 32 * (mma_shares_keys(sizes) ? 2 * warps : warps);
}
constexpr int mma_dq_threads(int key_size, std::int32_t rows) {
  return rows / (key_size > 128 ? 16 : 32) * 32;
}

std::string mma_forward_name(DType dtype, const HeadSizes& sizes);  // "attend mma bf16 192x128"
std::string mma_backward_name(DType dtype, const HeadSizes& sizes, bool small_tiles);

// us for a FLOP of one multiprocessor that is never idle.
struct Rates;
double mma_flop_us(bool forward, const HeadSizes& sizes, const Rates& rates);

}  // namespace cplab::kernels::cuda

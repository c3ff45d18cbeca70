// Launches of the scan of a keep mask; see scan.cuh.
#include "kernels/families/masked/scan.cuh"

#include <cstdint>

#include "kernels/families/masked/masked.hpp"

namespace cplab::kernels::cuda {
namespace {

bool eight_keys_together(const DevicePairMask& mask) {
  const DeviceView& keep = mask.keep;
  if (bytes_of(keep.dtype) != 2 || mask.columns != nullptr) return false;
  const auto first =
      reinterpret_cast<std::uintptr_t>(keep.data) + 2 * static_cast<std::uintptr_t>(mask.first_column);
  return first % 16 == 0 && keep.row_stride % 8 == 0 && (keep.heads == 1 || keep.head_stride % 8 == 0);
}

dim3 grid_of(std::int32_t x, std::int32_t y, std::int32_t z) {
  return {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
}

}  // namespace

void launch_mask_scan(const DevicePairMask& mask, CUstream_st* stream) {
  if (mask.by_q.words == nullptr || mask.q_rows == 0 || mask.k_rows == 0 || mask.keep.heads == 0) return;
  const CellBits& by_q = mask.by_q;
  const std::int32_t heads = mask.keep.heads;
  if (!mask.full)
    mask_scan_keys<<<grid_of(by_q.row_words, heads, 1), scan_threads, 0, stream>>>(mask);
  else if (eight_keys_together(mask))
    mask_scan_eight_keys<<<grid_of(by_q.rows, by_q.row_words, heads), scan_threads, 0, stream>>>(mask);
  else
    mask_scan_pairs<<<grid_of(by_q.rows, by_q.row_words, heads), scan_threads, 0, stream>>>(mask);
  if (mask.by_k.words == nullptr) return;
  mask_scan_transpose<<<grid_of(by_q.row_words, mask.by_k.row_words, heads), 32, 0, stream>>>(mask);
}

std::span<const NamedKernel> mask_scans() {
  constexpr KernelShape threads = {.threads = scan_threads};
  static const NamedKernel list[] = {
      {"mask_scan", "pairs vector", kernel_function<mask_scan_eight_keys>(threads)},
      {"mask_scan", "pairs", kernel_function<mask_scan_pairs>(threads)},
      {"mask_scan", "keys", kernel_function<mask_scan_keys>(threads)},
      {"mask_scan", "transpose", kernel_function<mask_scan_transpose>({.threads = 32})}};
  return list;
}

}  // namespace cplab::kernels::cuda

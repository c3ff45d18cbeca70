// Which calls the tensor-core attention kernels take, and the list of those kernels.
#include "kernels/cuda/attend_mma.hpp"

#include <cmath>
#include <cstdint>

namespace cplab::kernels::cuda {
namespace {

constexpr std::int64_t chunk_elements = 8;  // 16 bytes
constexpr std::int64_t most_heads = 65535;  // the y extent of a grid

bool loads_in_chunks(const View& view, DType dtype, std::int64_t width) {
  return view.dtype == dtype && view.width == width &&
         reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 && view.row_stride % chunk_elements == 0 &&
         (view.heads <= 1 || view.head_stride % chunk_elements == 0);
}

bool is_result(const View& view) {
  return view.dtype == DType::bf16 || view.dtype == DType::fp16 || view.dtype == DType::fp32;
}

// The kernels work with scale * log2(e) in fp32.
bool is_plain(double scale) {
  const double magnitude = std::abs(scale);
  return magnitude < 1e30 && magnitude > 1e-30;
}

}  // namespace

bool fits_attend_mma(const Attend& call, DType dtype, std::int64_t width) {
  return loads_in_chunks(call.q, dtype, width) && loads_in_chunks(call.k, dtype, width) &&
         loads_in_chunks(call.v, dtype, width) && is_result(call.out) && call.lse.dtype == DType::fp32 &&
         call.q.heads <= most_heads && call.scale > 0 && is_plain(call.scale);
}

bool fits_attend_backward_mma(const AttendBackward& call, DType dtype, std::int64_t width) {
  return loads_in_chunks(call.q, dtype, width) && loads_in_chunks(call.k, dtype, width) &&
         loads_in_chunks(call.v, dtype, width) && loads_in_chunks(call.dout, dtype, width) &&
         call.lse.dtype == DType::fp32 && call.delta.dtype == DType::fp32 && is_result(call.dq) &&
         is_result(call.dk) && is_result(call.dv) && call.q.heads <= most_heads && is_plain(call.scale);
}

std::span<const AttendVariant> attend_mma_variants() {
  static const AttendVariant variants[] = {
      attend_mma_bf16_128(), attend_mma_bf16_64(), attend_mma_fp16_128(), attend_mma_fp16_64(),
#ifdef CPLAB_FULL_KERNELS
      attend_mma_bf16_96(),  attend_mma_bf16_32(), attend_mma_fp16_96(),  attend_mma_fp16_32(),
#endif
  };
  return variants;
}

std::span<const AttendBackwardVariant> attend_backward_mma_variants() {
  static const AttendBackwardVariant variants[] = {
      attend_backward_mma_bf16_128(), attend_backward_mma_bf16_64(),
      attend_backward_mma_fp16_128(), attend_backward_mma_fp16_64(),
#ifdef CPLAB_FULL_KERNELS
      attend_backward_mma_bf16_96(),  attend_backward_mma_bf16_32(),
      attend_backward_mma_fp16_96(),  attend_backward_mma_fp16_32(),
#endif
  };
  return variants;
}

}  // namespace cplab::kernels::cuda

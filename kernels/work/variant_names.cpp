// Names of variants; see variants.hpp and masked_variants.hpp.
#include <string>

#include "kernels/work/masked_variants.hpp"
#include "kernels/work/variants.hpp"

namespace cplab::kernels::cuda {
namespace {

// " bf16 128"
std::string suffix(DType dtype, int head_size) {
  return (dtype == DType::bf16 ? " bf16 " : " fp16 ") + std::to_string(head_size);
}
// " bf16 192x128"
std::string suffix(DType dtype, const HeadSizes& sizes) {
  const std::string keys = suffix(dtype, sizes.key);
  return sizes.value == sizes.key ? keys : keys + "x" + std::to_string(sizes.value);
}

}  // namespace

std::string general_forward_name(DType accumulator) {
  return accumulator == DType::fp64 ? "attend general fp64" : "attend general";
}
std::string general_backward_name(DType accumulator) {
  return accumulator == DType::fp64 ? "attend_backward general fp64" : "attend_backward general";
}
std::string mma_forward_name(DType dtype, const HeadSizes& sizes) {
  return "attend mma" + suffix(dtype, sizes);
}
std::string mma_backward_name(DType dtype, const HeadSizes& sizes, bool small_tiles) {
  return "attend_backward mma" + suffix(dtype, sizes) + (small_tiles ? ", small tiles" : "");
}
std::string hopper_forward_name(DType dtype, int head_size, int warpgroups) {
  const std::string name = "attend hopper" + suffix(dtype, head_size);
  if (warpgroups == hopper_forward_warpgroups(head_size)) return name;
  return name + ", " + std::to_string(64 * warpgroups) + " rows";
}
std::string hopper_backward_fused_name(DType dtype, int head_size, std::int32_t tile_rows) {
  const std::string name = "attend_backward hopper fused" + suffix(dtype, head_size);
  return tile_rows == hopper_backward_tile_rows ? name : name + ", " + std::to_string(tile_rows) + " keys";
}
std::string hopper_backward_ordered_name(DType dtype, int head_size) {
  return "attend_backward hopper ordered" + suffix(dtype, head_size);
}
std::string hopper_backward_chains_name(DType dtype, int head_size) {
  return "attend_backward hopper chains" + suffix(dtype, head_size);
}
std::string hopper_backward_deterministic_name(DType dtype, int head_size) {
  return "attend_backward hopper" + suffix(dtype, head_size);
}
std::string masked_forward_name(DType dtype, int head_size) {
  return "attend masked mma" + suffix(dtype, head_size);
}
std::string masked_backward_name(DType dtype, int head_size) {
  return "attend_backward masked mma" + suffix(dtype, head_size);
}
std::string general_masked_forward_name(DType accumulator) {
  return accumulator == DType::fp64 ? "attend masked general fp64" : "attend masked general";
}
std::string general_masked_backward_name(DType accumulator) {
  return accumulator == DType::fp64 ? "attend_backward masked general fp64"
                                    : "attend_backward masked general";
}

}  // namespace cplab::kernels::cuda

// Names of variants, as results have them.
#pragma once

#include <string>

#include "kernels/families/head_sizes.hpp"
#include "kernels/kernels.hpp"

namespace cplab::kernels::cuda {

// " bf16 128"
inline std::string of_sizes(DType dtype, int head_size) {
  return (dtype == DType::bf16 ? " bf16 " : " fp16 ") + std::to_string(head_size);
}
// " bf16 192x128"
inline std::string of_sizes(DType dtype, const HeadSizes& sizes) {
  const std::string keys = of_sizes(dtype, sizes.key);
  return sizes.value == sizes.key ? keys : keys + "x" + std::to_string(sizes.value);
}

}  // namespace cplab::kernels::cuda

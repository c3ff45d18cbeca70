// The names of dtypes, as in files.
#pragma once

#include <string_view>

#include "kernels/kernels.hpp"

namespace cplab::kernels {

inline std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::fp64: return "fp64";
    case DType::fp32: return "fp32";
    case DType::bf16: return "bf16";
    case DType::fp16: break;
  }
  return "fp16";
}

}  // namespace cplab::kernels

// A __global__ function of a variant, as the table of its family names it.
#pragma once

#include <cstdint>
#include <typeinfo>

#include "kernels/families/architectures.hpp"

namespace cplab::kernels::cuda {

// As in kernels/families/kernel_entries.hpp, but from the code; compiled.cpp holds the two against each
// other.
struct KernelShape {
  int threads = 0;
  int tile_rows = 0, tile_columns = 0, stages = 0;
  constexpr bool operator==(const KernelShape&) const = default;
};

struct KernelFunction {
  const void* address = nullptr;
  const std::type_info* tag = nullptr;  // of KernelTag<the function>: its name without a device
  KernelShape shape;
  std::int64_t shared_bytes = 0;  // dynamic, of a thread block: the most that a call can need
  Claim claim = Claim::all;
};

template <auto kernel>
struct KernelTag {};

template <auto kernel, std::int64_t shared_bytes = 0, Claim claim = Claim::all>
KernelFunction kernel_function(const KernelShape& shape) {
  static_assert(shared_bytes <= shared_bytes_of(claim),
                "more shared memory than an architecture that is claimed gives a thread block");
  return {reinterpret_cast<const void*>(kernel), &typeid(KernelTag<kernel>), shape, shared_bytes, claim};
}

}  // namespace cplab::kernels::cuda

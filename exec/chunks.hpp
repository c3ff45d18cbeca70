// Two tensors of one shape as runs of bytes that are contiguous in both: what a message is on the wire, and
// what a device can move without a kernel.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/kernels.hpp"

namespace cplab {

struct Chunk {
  const std::byte* from = nullptr;
  std::byte* into = nullptr;
  std::size_t bytes = 0;
};

// In the order of compact rows, then heads; as few as possible. Shapes and dtypes are equal.
std::vector<Chunk> contiguous_chunks(const kernels::View& from, const kernels::View& into);

}  // namespace cplab

// Two tensors of one shape as runs of bytes that are contiguous in both: what a device can move without a
// kernel.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/kernels.hpp"

namespace cplab {

struct ByteRun {
  const std::byte* from = nullptr;
  std::byte* into = nullptr;
  std::size_t bytes = 0;
};

// `count` runs of `bytes` each, one after another at these distances: what a device moves in one call.
struct ByteBlock {
  const std::byte* from = nullptr;
  std::byte* into = nullptr;
  std::size_t bytes = 0, count = 1, from_stride = 0, into_stride = 0;
};

// As few as possible: head by head where the rows of one head lie nearer to each other in both tensors than
// the heads of one row (an LSE), else row by row. Shapes and dtypes are equal.
std::vector<ByteRun> contiguous_byte_runs(const kernels::View& from, const kernels::View& into);

}  // namespace cplab

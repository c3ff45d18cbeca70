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

// The runs in their order, neighbours of one length at one distance taken together; a stride is at least the
// length, so that rows do not overlap, and at most `most_stride`, which CUDA takes for one call.
constexpr std::ptrdiff_t most_stride = (std::ptrdiff_t{1} << 31) - 1;
std::vector<ByteBlock> strided_blocks(const std::vector<ByteRun>& runs);

// As few as possible: head by head where the rows of one head lie nearer to each other in both tensors than
// the heads of one row (an LSE), else row by row. Shapes and dtypes are equal.
std::vector<ByteRun> contiguous_byte_runs(const kernels::View& from, const kernels::View& into);

}  // namespace cplab

// Two views that one row-wise launch can do: planes of one buffer, or heads behind each other.
#pragma once

#include <optional>

#include "kernels/kernels.hpp"

namespace cplab::kernels::cuda {

// Both as one view, if `second` is as `first` is and begins where its last head ends, or its last row, and a
// launch can have so many.
std::optional<View> joined(const View& first, const View& second);

}  // namespace cplab::kernels::cuda

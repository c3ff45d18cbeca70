// Where an element of a buffer lies: the one formula of the layouts that plan.hpp describes.
//
// Slots lie one after the other. A slot is [rows, heads, width] (rows_first) or [heads, rows, width]
// (heads_first); with planes it is two such tensors, first that of the columns [0, planes), then the rest.
#pragma once

#include <cstdint>

#include "plan/plan.hpp"

namespace cplab {

// The columns of a buffer that are stored together.
struct Plane {
  std::int64_t begin = 0;
  std::int64_t width = 0;
};
Plane plane_of(const Buffer&, std::int64_t column);  // all columns if the buffer has no planes

// Counted in elements from the first of the buffer.
std::int64_t element_of(const Buffer&, std::int64_t slot, std::int64_t row, std::int64_t head,
                        std::int64_t column);

// Whether boxes of `rows` x `heads` in the two buffers have one order as messages (plan.hpp, struct View):
// the layouts are the same, or one row or head leaves nothing to nest.
bool nest_alike(const Buffer&, const Buffer&, std::int64_t rows, std::int64_t heads);

}  // namespace cplab

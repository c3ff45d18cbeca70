// The layouts of a buffer as a formula; see layout.hpp.
#include "plan/layout.hpp"

namespace cplab {

Plane plane_of(const Buffer& buffer, std::int64_t column) {
  if (buffer.planes == 0) return {0, buffer.width};
  if (column < buffer.planes) return {0, buffer.planes};
  return {buffer.planes, buffer.width - buffer.planes};
}

std::int64_t element_of(const Buffer& buffer, std::int64_t slot, std::int64_t row, std::int64_t head,
                        std::int64_t column) {
  const Plane plane = plane_of(buffer, column);
  const std::int64_t line =
      buffer.layout == Layout::rows_first ? row * buffer.heads + head : head * buffer.rows + row;
  return (slot * buffer.width + plane.begin) * buffer.rows * buffer.heads + line * plane.width +
         (column - plane.begin);
}

bool nest_alike(const Buffer& a, const Buffer& b, std::int64_t rows, std::int64_t heads) {
  return a.layout == b.layout || rows <= 1 || heads <= 1;
}

}  // namespace cplab

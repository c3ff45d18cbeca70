// Views that one launch can do instead of two.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "kernels/tiles/joined_views.hpp"

namespace cplab::testing {

using namespace kernels;
using kernels::cuda::joined;

namespace {

// Of a plane of a slot.
constexpr std::int64_t plane_rows = 6, plane_heads = 2, plane_width = 4;
std::array<float, 4 * plane_rows * plane_heads * plane_width> slot;

View view_at(std::int64_t element, std::int64_t row_stride, std::int64_t head_stride) {
  return {.data = slot.data() + element,
          .dtype = DType::fp32,
          .rows = plane_rows,
          .heads = plane_heads,
          .width = plane_width,
          .row_stride = row_stride,
          .head_stride = head_stride,
          .runs = {}};
}

// Whether element (row, head, x) of both is where that of the views was, one behind the other.
void check_both(const View& both, const View& first, const View& second) {
  const auto place = [](const View& v, std::int64_t row, std::int64_t head) {
    return static_cast<const float*>(v.data) + row * v.row_stride + head * v.head_stride;
  };
  CHECK(both.rows * both.heads == 2 * plane_rows * plane_heads);
  std::vector<const float*> found, expected;
  for (std::int64_t row = 0; row < both.rows; ++row)
    for (std::int64_t head = 0; head < both.heads; ++head) found.push_back(place(both, row, head));
  for (const View* view : {&first, &second})
    for (std::int64_t row = 0; row < plane_rows; ++row)
      for (std::int64_t head = 0; head < plane_heads; ++head) expected.push_back(place(*view, row, head));
  std::sort(found.begin(), found.end());
  std::sort(expected.begin(), expected.end());
  CHECK(found == expected);
}

}  // namespace

// Planes of a slot, with rows first and heads first; and 2 + 2 heads of the same rows.
TEST_CASE("views are joined where the second begins at the end of the first") {
  struct Case {
    std::int64_t second, row_stride, head_stride;
  };
  for (const Case& c : {Case{plane_rows * plane_heads * plane_width, plane_heads * plane_width, plane_width},
                        Case{plane_rows * plane_heads * plane_width, plane_width, plane_rows * plane_width},
                        Case{plane_heads * plane_width, 2 * plane_heads * plane_width, plane_width}}) {
    const View first = view_at(0, c.row_stride, c.head_stride),
               second = view_at(c.second, c.row_stride, c.head_stride);
    const auto both = joined(first, second);
    REQUIRE(both);
    check_both(*both, first, second);
    CHECK(!joined(second, first));
  }
}

TEST_CASE("views are not joined if they overlap, leave a gap, or are not alike") {
  const View first = view_at(0, plane_heads * plane_width, plane_width),
             second = view_at(plane_rows * plane_heads * plane_width, plane_heads * plane_width, plane_width);
  REQUIRE(joined(first, second));
  CHECK(!joined(first, first));
  CHECK(!joined(first, view_at(plane_rows * plane_heads * plane_width + plane_width,
                               plane_heads * plane_width, plane_width)));
  View other = second;
  other.dtype = DType::bf16;
  CHECK(!joined(first, other));
  other = second;
  other.width -= 1;
  CHECK(!joined(first, other));
  other = second;
  other.row_stride *= 2;
  CHECK(!joined(first, other));
  const std::vector<RowRun> runs = {{0, plane_rows, 1}};
  other = second;
  other.runs = runs;
  CHECK(!joined(first, other));
  View none = first;
  none.rows = none.heads = 0;
  CHECK(!joined(none, none));
}

}  // namespace cplab::testing

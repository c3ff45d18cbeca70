// Where elements lie: by hand, and no two at one place.
#include "plan/layout.hpp"

#include <doctest/doctest.h>

#include <vector>

namespace cplab {
namespace {

Buffer buffer(Layout layout, std::int64_t planes) {
  Buffer b;
  b.layout = layout;
  b.slots = 2;
  b.rows = 3;
  b.heads = 4;
  b.width = 5;
  b.planes = planes;
  return b;
}

TEST_CASE("an element of every layout, by hand") {
  // Slot 1 begins behind 3 x 4 x 5 = 60 elements; row 2, head 3, column 4 is the last of all.
  CHECK(element_of(buffer(Layout::rows_first, 0), 1, 2, 3, 4) == 119);
  CHECK(element_of(buffer(Layout::heads_first, 0), 1, 2, 3, 4) == 119);
  // Row 1, head 2, column 3: line 1*4 + 2 = 6 or 2*3 + 1 = 7 of 5 columns each.
  CHECK(element_of(buffer(Layout::rows_first, 0), 1, 1, 2, 3) == 60 + 6 * 5 + 3);
  CHECK(element_of(buffer(Layout::heads_first, 0), 1, 1, 2, 3) == 60 + 7 * 5 + 3);
  // Planes of 2 and 3 columns: the second begins behind 3 x 4 x 2 = 24 elements; column 3 is its second.
  CHECK(element_of(buffer(Layout::rows_first, 2), 1, 1, 2, 1) == 60 + 6 * 2 + 1);
  CHECK(element_of(buffer(Layout::rows_first, 2), 1, 1, 2, 3) == 60 + 24 + 6 * 3 + 1);
  CHECK(element_of(buffer(Layout::heads_first, 2), 1, 1, 2, 3) == 60 + 24 + 7 * 3 + 1);
}

TEST_CASE("planes part the columns") {
  const Buffer two = buffer(Layout::rows_first, 2), one = buffer(Layout::rows_first, 0);
  CHECK(plane_of(two, 1).begin == 0);
  CHECK(plane_of(two, 1).width == 2);
  CHECK(plane_of(two, 2).begin == 2);
  CHECK(plane_of(two, 2).width == 3);
  CHECK(plane_of(one, 2).begin == 0);
  CHECK(plane_of(one, 2).width == 5);
}

TEST_CASE("every element has a place of its own, without gaps") {
  for (const Layout layout : {Layout::rows_first, Layout::heads_first}) {
    for (const std::int64_t planes : {0, 1, 4}) {
      const Buffer b = buffer(layout, planes);
      std::vector<int> found(static_cast<std::size_t>(b.slots * b.rows * b.heads * b.width));
      for (std::int64_t slot = 0; slot < b.slots; ++slot)
        for (std::int64_t row = 0; row < b.rows; ++row)
          for (std::int64_t head = 0; head < b.heads; ++head)
            for (std::int64_t column = 0; column < b.width; ++column)
              ++found.at(static_cast<std::size_t>(element_of(b, slot, row, head, column)));
      CHECK(found == std::vector<int>(found.size(), 1));
    }
  }
}

}  // namespace
}  // namespace cplab

// Views as contiguous pieces: by hand, and every element once, in message order.
#include "derive/pieces.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "plan/layout.hpp"
#include "tests/hand_plans/hand_plans.hpp"

namespace cplab {
namespace {

using hand::At;

struct OneBuffer {
  explicit OneBuffer(Layout layout, std::int64_t slots, std::int64_t rows, std::int64_t heads,
                     std::int64_t width, std::int64_t planes = 0, Role role = Role::nominal)
      : plan(hand::ranks_in_one_group(1, "all", DType::bf16)), rank(plan, 0) {
    Buffer buffer{"b", role, Category::working, layout, slots, rows, heads, width, planes};
    index = rank.buffer(buffer);
  }
  std::vector<Piece> of(const At& at) { return of(rank.view(at)); }
  std::vector<Piece> of(hand::ViewIndex view) {
    const auto pieces = contiguous_pieces(rank.plan(), rank.plan().views[view], DType::bf16);
    CHECK(count_contiguous_pieces(rank.plan(), rank.plan().views[view], DType::bf16) ==
          static_cast<std::int64_t>(pieces.size()));
    return pieces;
  }
  Plan plan;
  hand::Rank rank;
  std::uint32_t index = 0;
};

using Pieces = std::vector<Piece>;

TEST_CASE("pieces of keys and values: a slot is one, rows of it one for each plane, heads one for each row") {
  // 2 slots x 6 rows x 4 heads x (3 + 2) columns of 2 bytes; K of a slot: 144 bytes, V: 96.
  OneBuffer kv(Layout::rows_first, 2, 6, 4, 5, 3);
  CHECK(kv.of(At{kv.index}) == Pieces{{0, 240}});
  CHECK(kv.of(At{kv.index, 1}) == Pieces{{240, 240}});
  At both{kv.index};
  both.slots = 2;
  CHECK(kv.of(both) == Pieces{{0, 480}});
  // Rows 2 and 3: of K at 2 x 24, of V behind K at 2 x 16.
  CHECK(kv.of(At{kv.index, 0, 2, 2}) == Pieces{{48, 48}, {144 + 32, 32}});
  // The last rows of K touch the first of V.
  CHECK(kv.of(kv.rank.view(At{kv.index}, {{4, 2, 1}})).size() == 2);
  // Planes that lie apart: two pieces of a slot, that of V counted as if it lay behind K.
  OneBuffer apart(Layout::rows_first, 1, 6, 4, 5, 3);
  apart.plan.ranks[0].buffers[apart.index].apart = true;
  CHECK(apart.of(At{apart.index}) == Pieces{{0, 144}, {144, 96}});
  // One head: 6 rows of 6 bytes, 24 apart, then 6 of 4 bytes, 16 apart.
  At head{kv.index};
  head.head_begin = 1, head.head_end = 2;
  const Pieces one_head = kv.of(head);
  REQUIRE(one_head.size() == 12);
  CHECK(one_head[1] == Piece{24 + 6, 6});
  CHECK(one_head[6] == Piece{144 + 4, 4});
  // Some columns of K: a piece for every row and head.
  At columns{kv.index};
  columns.width_begin = 1, columns.width_end = 3;
  CHECK(kv.of(columns).size() == 24);
}

TEST_CASE("pieces of an LSE: heads outermost, so one for every head and range of rows") {
  // 128K tokens on 8 ranks, 64 heads, fp32: in a trade of tokens for heads a rank sends 8 heads of its own
  // rows to each peer, which is one piece, and receives its 8 heads of the peer's rows among everybody's.
  constexpr std::int64_t rows = 131072 / 8;
  OneBuffer lse(Layout::heads_first, 1, rows, 64, 1, 0, Role::wide);
  At heads{lse.index};
  heads.head_begin = 8, heads.head_end = 16;
  CHECK(lse.of(heads) == Pieces{{8 * rows * 4, 8 * rows * 4}});
  OneBuffer joined(Layout::heads_first, 1, 8 * rows, 8, 1, 0, Role::wide);
  CHECK(joined.of(At{joined.index, 0, 3 * rows, rows}).size() == 8);
  // Zigzag: two ranges of rows.
  const auto halves = joined.rank.view(At{joined.index}, {{0, rows / 2, 1}, {7 * rows, rows / 2, 1}});
  CHECK(joined.of(halves).size() == 16);
  // Strided rows are single.
  CHECK(joined.of(joined.rank.view(At{joined.index}, {{0, rows, 8}})).size() == 8 * rows);
}

TEST_CASE("pieces of a row map are in its order, neighbours joined") {
  OneBuffer b(Layout::rows_first, 1, 8, 1, 1);
  CHECK(b.of(b.rank.view(At{b.index}, {{4, 2, 1}, {6, 2, 1}, {0, 1, 1}, {2, 1, 1}, {1, 1, 1}})) ==
        Pieces{{8, 8}, {0, 2}, {4, 2}, {2, 2}});
  CHECK(b.of(b.rank.view(At{b.index}, {{0, 4, 2}, {1, 1, 1}})).size() == 5);
  CHECK(b.of(b.rank.view(At{b.index}, {{3, 0, 1}})).empty());
}

TEST_CASE("pieces hold every element of a view once, in the order of its layout") {
  for (const Layout layout : {Layout::rows_first, Layout::heads_first}) {
    for (const std::int64_t planes : {0, 2}) {
      OneBuffer b(layout, 3, 7, 4, 5, planes);
      At at{b.index, 1};
      at.slots = 2, at.head_begin = 1, at.head_end = 3, at.width_begin = 1, at.width_end = 5;
      const std::vector<RowRange> rows{{5, 2, 1}, {0, 2, 2}, {4, 1, 1}};
      const std::vector<std::int64_t> numbers{5, 6, 0, 2, 4};
      const Buffer& buffer = b.rank.plan().buffers[b.index];
      std::vector<std::int64_t> expected, found;
      const std::int64_t border = planes > 0 ? planes : 5;
      for (std::int64_t slot = 1; slot < 3; ++slot) {
        for (const auto& [first, last] : {std::pair<std::int64_t, std::int64_t>{1, border}, {border, 5}}) {
          const std::int64_t outer = layout == Layout::rows_first ? 5 : 2, inner = 7 - outer;
          for (std::int64_t i = 0; i < outer; ++i) {
            for (std::int64_t j = 0; j < inner; ++j) {
              const auto row = static_cast<std::size_t>(layout == Layout::rows_first ? i : j);
              const std::int64_t head = 1 + (layout == Layout::rows_first ? j : i);
              for (std::int64_t x = first; x < last; ++x)
                expected.push_back(element_of(buffer, slot, numbers[row], head, x));
            }
          }
        }
      }
      for (const Piece& piece : b.of(b.rank.view(at, rows)))
        for (std::int64_t i = 0; i < piece.bytes; i += 2) found.push_back((piece.offset + i) / 2);
      CHECK(found == expected);
    }
  }
}

}  // namespace
}  // namespace cplab

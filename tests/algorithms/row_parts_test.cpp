// Rows cut into parts: where, by hand.
#include "algorithms/core/row_parts.hpp"

#include <doctest/doctest.h>

#include "algorithms/core/tile.hpp"

using namespace cplab;

namespace {

// Sequences of two runs each, as zigzag has them, one after the other.
std::vector<TokenRun> zigzag(const std::vector<std::int64_t>& rows_of_run) {
  std::vector<TokenRun> runs;
  std::int64_t row = 0, sequence = 0;
  for (const std::int64_t rows : rows_of_run) {
    for (int chunk = 0; chunk < 2; ++chunk, row += rows)
      runs.push_back({sequence, row, rows, rows, chunk == 0 ? 0 : 3 * rows, 1, 1});
    ++sequence;
  }
  return runs;
}

std::vector<std::int64_t> ends(const std::vector<Rows>& parts) {
  std::vector<std::int64_t> list;
  std::int64_t end = 0;
  for (const Rows& part : parts) list.push_back(end += part.count());
  return list;
}

}  // namespace

TEST_CASE("parts of rows: at a border of runs if one is near, else a multiple of 128 from the run's begin") {
  using List = std::vector<std::int64_t>;
  CHECK(ends(cut_in_parts(zigzag({2048}), 2, CutAt::rows)) == List{2048, 4096});
  CHECK(ends(cut_in_parts(zigzag({2048}), 4, CutAt::rows)) == List{1024, 2048, 3072, 4096});
  // A third of 4096 is 1365.3: 1365 - 1280 = 85, so 1408 is nearer. Two thirds are 2730, 682 into the second
  // run: 640.
  CHECK(ends(cut_in_parts(zigzag({2048}), 3, CutAt::rows)) == List{1408, 2688, 4096});
  // Half of 2 x (1000 + 1100) is 2100: 100 rows into the third run, and a border within 2100 / 4 is near.
  CHECK(ends(cut_in_parts(zigzag({1000, 1100}), 2, CutAt::rows)) == List{2000, 4200});
  // More parts than rows: some are empty.
  CHECK(ends(cut_in_parts(zigzag({1}), 4, CutAt::rows)) == List{0, 1, 1, 2});
  CHECK(ends(cut_in_parts({}, 2, CutAt::rows)) == List{0, 0});
}

TEST_CASE("parts of rows: whole sequences lie in the part that has more of them") {
  using List = std::vector<std::int64_t>;
  CHECK(ends(cut_in_parts(zigzag({64, 64, 64, 64}), 2, CutAt::sequences)) == List{256, 512});
  CHECK(ends(cut_in_parts(zigzag({2048}), 2, CutAt::sequences)) == List{4096, 4096});
  // Borders 200, 800, 1000; half is 500, in the middle of the second: it goes to the first part.
  CHECK(ends(cut_in_parts(zigzag({100, 300, 100}), 2, CutAt::sequences)) == List{800, 1000});
  // Borders 220, 800, 1000: 500 is nearer to 220 than to 800.
  CHECK(ends(cut_in_parts(zigzag({110, 290, 100}), 2, CutAt::sequences)) == List{220, 1000});
}

TEST_CASE("runs within rows keep sequence and position, and are tokens as far as the run's tokens go") {
  const TokenRun run{3, 10, 8, 5, 100, 2, 1};  // rows 10 .. 17, tokens in the first five
  Rows rows = Rows::range(0, 12);              // 10, 11
  rows.append(14, 2);                          // 14, of which 14 is the last token, and 15
  rows.append(17, 9);
  const std::vector<TokenRun> cut = runs_within(std::vector{run}, rows);
  REQUIRE(cut.size() == 3);
  const std::int64_t expected[3][4] = {{10, 2, 2, 100}, {14, 2, 1, 108}, {17, 1, 0, 114}};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(cut[i].sequence == 3);
    CHECK(cut[i].row == expected[i][0]);
    CHECK(cut[i].rows == expected[i][1]);
    CHECK(cut[i].valid == expected[i][2]);
    CHECK(cut[i].position == expected[i][3]);
    CHECK(cut[i].stride == 2);
  }
}

TEST_CASE("a tile of some keys has them all, and of the queries the runs that see one") {
  // Chunks of 4 of a sequence of 16: queries 0 .. 3 and 12 .. 15, keys 4 .. 7, of which one row more is
  // padding.
  const std::vector<TokenRun> q{{0, 0, 4, 4, 0, 1, 1}, {0, 4, 4, 4, 12, 1, 1}};
  const std::vector<TokenRun> k{{0, 0, 5, 4, 4, 1, 1}};
  const Tile tile = row_tile(q, k, Window{-1, 0}, Take::keys);
  CHECK(tile.k_rows == Rows::range(0, 5));
  CHECK(tile.q_rows == Rows::range(4, 4));
  CHECK(tile.segments == std::vector<Segment>{{0, 4, 0, 4, 0, -1, -1}});
}

// Placements and tiles against a brute-force oracle over tokens.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>

#include "algorithms/core/placement.hpp"
#include "algorithms/core/tile.hpp"
#include "plan/live_pairs.hpp"
#include "tests/algorithms/row_list.hpp"
#include "tests/algorithms/scenarios.hpp"

using namespace cplab;
using testing::row_list;

namespace {

struct PlacedToken {
  std::int64_t sequence = -1, position = -1;
  bool valid = false;
};

// Local rows of a rank, token by token, from the definition of the placement alone. Placement hybrid: what
// other ranks have more rows is no token.
std::vector<PlacedToken> placed_tokens_of(const Scenario& s, int rank) {
  const std::int64_t P = s.parallel.ranks;
  std::vector<PlacedToken> rows;
  for (std::size_t b = 0; b < s.problem.lengths.size(); ++b) {
    const std::int64_t home = s.parallel.homes.empty() ? -1 : s.parallel.homes[b];
    const bool zigzag = s.placement == "zigzag" || s.placement == "hybrid";
    const std::int64_t unit = home >= 0 ? 1 : zigzag ? 2 * P : P;
    std::int64_t padded = s.problem.padded_lengths[b];
    while (padded % unit != 0) ++padded;
    const std::int64_t n = home < 0 ? padded / P : home == rank ? padded : 0;
    for (std::int64_t i = 0; i < n; ++i) {
      std::int64_t position = i;
      if (s.placement == "contiguous") position = rank * n + i;
      if (s.placement == "striped") position = rank + i * P;
      if (zigzag && home < 0) {
        const std::int64_t m = n / 2;
        position = i < m ? rank * m + i : (2 * P - 1 - rank) * m + (i - m);
      }
      rows.push_back({static_cast<std::int64_t>(b), position, position < s.problem.lengths[b]});
    }
  }
  return rows;
}

bool visible(Window w, const PlacedToken& q, const PlacedToken& k) {
  const std::int64_t d = k.position - q.position;
  return q.valid && k.valid && q.sequence == k.sequence && (w.left < 0 || d >= -w.left) &&
         (w.right < 0 || d <= w.right);
}

void compare(const Scenario& s) {
  const Placement placement(s.problem, s.parallel, s.placement, 0);
  const int P = static_cast<int>(s.parallel.ranks);
  const Window w = s.problem.band();
  // What all ranks together see: asked one after the other, the later ones about what is left.
  for (int k_rank = 0; k_rank < P; ++k_rank) {
    const auto keys = placement.runs(k_rank);
    std::vector<TokenRun> unseen(keys.begin(), keys.end());
    Rows seen, one_by_one;
    for (int q_rank = 0; q_rank < P; ++q_rank) {
      seen = seen.united(live_key_rows(placement.runs(q_rank), keys, w));
      one_by_one = one_by_one.united(take_seen(placement.runs(q_rank), unseen, w));
      REQUIRE(one_by_one == seen);
    }
  }
  for (int q_rank = 0; q_rank < P; ++q_rank) {
    std::vector<PlacedToken> q = placed_tokens_of(s, q_rank);
    if (s.placement == "hybrid") q.resize(static_cast<std::size_t>(placement.rows()));
    REQUIRE(static_cast<std::int64_t>(q.size()) == placement.rows());
    for (int k_rank = 0; k_rank < P; ++k_rank) {
      std::vector<PlacedToken> k = placed_tokens_of(s, k_rank);
      if (s.placement == "hybrid") k.resize(static_cast<std::size_t>(placement.rows()));
      std::set<std::pair<std::int64_t, std::int64_t>> live, covered;
      for (std::size_t i = 0; i < q.size(); ++i)
        for (std::size_t j = 0; j < k.size(); ++j)
          if (visible(w, q[i], k[j])) live.emplace(i, j);
      for (const Take take : {Take::live, Take::queries, Take::all}) {
        const Tile tile = row_tile(placement.runs(q_rank), placement.runs(k_rank), w, take);
        const auto q_rows = row_list(tile.q_rows.ranges()), k_rows = row_list(tile.k_rows.ranges());
        if (take != Take::live) REQUIRE(q_rows.size() == q.size());
        if (take == Take::all) REQUIRE(k_rows.size() == k.size());
        covered.clear();
        double pairs = 0;
        for (const Segment& g : tile.segments) {
          pairs += live_pairs(g);
          REQUIRE(g.q_begin + g.q_count <= static_cast<std::int64_t>(q_rows.size()));
          REQUIRE(g.k_begin + g.k_count <= static_cast<std::int64_t>(k_rows.size()));
          for (std::int64_t i = 0; i < g.q_count; ++i) {
            for (std::int64_t j = 0; j < g.k_count; ++j) {
              const std::int64_t d = j - (i + g.offset);
              if ((g.left >= 0 && d < -g.left) || (g.right >= 0 && d > g.right)) continue;
              const bool fresh = covered
                                     .emplace(q_rows[static_cast<std::size_t>(g.q_begin + i)],
                                              k_rows[static_cast<std::size_t>(g.k_begin + j)])
                                     .second;
              REQUIRE_MESSAGE(fresh, "a pair is covered twice");
            }
          }
        }
        REQUIRE(covered == live);
        REQUIRE(pairs == static_cast<double>(live.size()));
        if (take == Take::all) continue;
        REQUIRE(live_key_rows(placement.runs(q_rank), placement.runs(k_rank), w) == tile.k_rows);
        REQUIRE(any_live(placement.runs(q_rank), placement.runs(k_rank), w) == !live.empty());
        // Of every run the first and the last key row are live.
        for (const std::int64_t row : tile.k_rows.empty()
                                          ? std::vector<std::int64_t>()
                                          : std::vector<std::int64_t>{k_rows.front(), k_rows.back()})
          REQUIRE(
              std::any_of(live.begin(), live.end(), [&](const auto& pair) { return pair.second == row; }));
      }
    }
  }
}

}  // namespace

TEST_CASE("tiles cover exactly the live pairs, for every placement, mask and length") {
  const std::vector<Window> windows{{-1, -1}, {-1, 0}, {0, 0},  {3, 0}, {3, 3},
                                    {2, 20},  {-1, 2}, {5, -1}, {0, -1}};
  for (const char* placement : {"contiguous", "zigzag", "striped", "hybrid"}) {
    for (const int P : {1, 2, 3, 4, 5, 8}) {
      const std::int64_t p = P;
      const std::vector<std::vector<std::int64_t>> shapes{
          {4 * p}, {0}, {1}, {2 * p - 1, 2 * p + 1}, {7, 0, 13}, {2 * p, 1, 4 * p + 3}};
      for (const auto& lengths : shapes) {
        for (const Window window : windows) {
          testing::Shape shape;
          shape.ranks = P;
          shape.placement = placement;
          shape.lengths = lengths;
          shape.causal = false;
          shape.window = window;
          CAPTURE(placement);
          CAPTURE(P);
          CAPTURE(window.left);
          CAPTURE(window.right);
          compare(testing::without_algorithm(shape));
        }
      }
    }
  }
}

namespace {

// Lists of runs at any strides of tokens and rows, in any order, several sequences mixed.
std::vector<TokenRun> random_runs(std::mt19937& random, bool one_stride) {
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(n));
  };
  std::vector<TokenRun> runs;
  std::int64_t row = 0;
  for (std::int64_t i = 0, count = 1 + below(4); i < count; ++i) {
    TokenRun run;
    run.sequence = below(2);
    run.stride = one_stride ? 2 : 1 + below(4);
    run.row_step = 1 + below(3);
    run.rows = below(7);
    run.valid = run.rows == 0 ? 0 : below(run.rows + 1);
    run.position = 100 * i + below(12);  // no token twice
    if (i % 2 == 1) run.position -= 100;
    run.row = row;
    row += run.rows * run.row_step + below(3);
    runs.push_back(run);
  }
  return runs;
}

std::map<std::int64_t, PlacedToken> tokens_by_row(const std::vector<TokenRun>& runs) {
  std::map<std::int64_t, PlacedToken> tokens;
  for (const TokenRun& run : runs)
    for (std::int64_t i = 0; i < run.rows; ++i)
      tokens[run.row + i * run.row_step] = {run.sequence, run.position + i * run.stride, i < run.valid};
  return tokens;
}

}  // namespace

TEST_CASE("tiles between any two lists of rows cover exactly the live pairs, once") {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    const bool one_stride = round % 3 == 0, whole = round % 2 == 0;
    const std::vector<TokenRun> q = random_runs(random, one_stride), k = random_runs(random, one_stride);
    const Window window{static_cast<std::int64_t>(random() % 9) - 1,
                        static_cast<std::int64_t>(random() % 9) - 1};
    const ListTile tile = tile_between(q, k, window, whole ? Take::all : Take::live);
    const auto listed = [](const std::vector<RowRange>& ranges) {
      std::vector<std::int64_t> rows;
      for (const RowRange& r : ranges)
        for (std::int64_t i = 0; i < r.count; ++i) rows.push_back(r.begin + i * r.step);
      return rows;
    };
    const std::vector<std::int64_t> q_rows = listed(tile.q_rows), k_rows = listed(tile.k_rows);
    std::map<std::pair<std::int64_t, std::int64_t>, int> covered;
    double pairs = 0;
    for (const Segment& s : tile.segments) {
      pairs += live_pairs(s);
      for (std::int64_t i = 0; i < s.q_count; ++i) {
        for (std::int64_t j = 0; j < s.k_count; ++j) {
          const std::int64_t d = j - (i + s.offset);
          if ((s.left >= 0 && d < -s.left) || (s.right >= 0 && d > s.right)) continue;
          ++covered[{q_rows.at(static_cast<std::size_t>(s.q_begin + i)),
                     k_rows.at(static_cast<std::size_t>(s.k_begin + j))}];
        }
      }
    }
    const auto q_tokens = tokens_by_row(q), k_tokens = tokens_by_row(k);
    int live = 0;
    bool right = true;
    for (const auto& [i, x] : q_tokens) {
      for (const auto& [j, y] : k_tokens) {
        const int want = visible(window, x, y) ? 1 : 0;
        live += want;
        const auto at = covered.find({i, j});
        right = right && (at == covered.end() ? 0 : at->second) == want;
      }
    }
    CHECK(right);
    CHECK(pairs == live);
    if (whole) {  // every row is there, so that a first store defines it
      CHECK(q_rows.size() == q_tokens.size());
      CHECK(k_rows.size() == k_tokens.size());
    }
  }
}

TEST_CASE("whole chunks of padding stay out of every segment") {
  testing::Shape shape;
  shape.placement = "zigzag";
  shape.ranks = 2;
  shape.lengths = {9, 8, 8, 12, 8, 12};  // TransformerEngine issue 2186
  shape.padded_lengths = {12, 8, 8, 12, 8, 12};
  compare(testing::without_algorithm(shape));
  shape.lengths = {3, 1, 0};
  shape.padded_lengths = {32, 16, 8};
  shape.ranks = 4;
  for (const char* placement : {"contiguous", "zigzag", "striped", "hybrid"}) {
    shape.placement = placement;
    compare(testing::without_algorithm(shape));
  }
}

TEST_CASE("zigzag causal: every rank has m(S+1) live pairs, in one segment a tile") {
  // Chunks have m = S/2P rows. A row of chunk c sees the m c keys of the chunks before and, on average, half
  // of its own chunk and half a key more, (m + 1)/2. A rank has chunks c and 2P-1-c, so its pairs are m (m
  // (2P - 1) + m + 1) = m (S + 1).
  testing::Shape shape;
  shape.placement = "zigzag";
  shape.ranks = 8;
  shape.lengths = {512};
  const Scenario s = testing::without_algorithm(shape);
  const Placement placement(s.problem, s.parallel, s.placement, 0);
  for (int r = 0; r < 8; ++r) {
    double pairs = 0;
    for (int o = 0; o < 8; ++o) {
      const Tile tile = row_tile(placement.runs(r), placement.runs(o), s.problem.band());
      // One segment is enough also for a rank's own two chunks: chunk 2P-1-c sees all of chunk c and itself
      // causally, and one diagonal through both of them says that.
      REQUIRE(tile.segments.size() == 1);
      if (o == r) CHECK(tile.segments[0] == Segment{0, 64, 0, 64, 0, -1, 0});
      for (const Segment& g : tile.segments) pairs += live_pairs(g);
    }
    CHECK(pairs == 32 * 513);
  }
}

TEST_CASE("live pairs of a segment, counted one by one") {
  for (std::int64_t nq = 1; nq <= 5; ++nq) {
    for (std::int64_t nk = 1; nk <= 5; ++nk) {
      for (std::int64_t offset = -7; offset <= 7; ++offset) {
        for (std::int64_t left = -1; left <= 6; ++left) {
          for (std::int64_t right = -1; right <= 6; ++right) {
            int count = 0;
            for (std::int64_t i = 0; i < nq; ++i)
              for (std::int64_t j = 0; j < nk; ++j)
                count += (left < 0 || j - i - offset >= -left) && (right < 0 || j - i - offset <= right);
            CHECK(live_pairs({0, nq, 0, nk, offset, left, right}) == count);
          }
        }
      }
    }
  }
}

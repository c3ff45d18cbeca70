// Masks of rectangles, groups, prefixes and chunks, beside windows, of self-attention and cross attention, in
// every placement: tiles and checker against the definition, pair by pair.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/core/pieces.hpp"
#include "algorithms/core/placement.hpp"
#include "algorithms/core/resolve.hpp"
#include "algorithms/core/tile.hpp"
#include "check/check.hpp"
#include "plan/live_pairs.hpp"
#include "plan/tensors.hpp"
#include "plan/visible.hpp"
#include "tests/algorithms/row_list.hpp"
#include "tests/scenarios/seen_pairs.hpp"

namespace cplab {
namespace {

using testing::row_list;
using testing::sees;
using Random = std::mt19937_64;

std::int64_t draw(Random& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
}

struct Token {
  std::int64_t sequence = -1, index = -1;  // -1: padding
};

std::vector<Token> tokens_of(const Problem& p, const Placement& placement, int rank, Side side) {
  std::vector<Token> rows(static_cast<std::size_t>(placement.rows()));
  for (const TokenRun& run : placement.runs(rank))
    for (std::int64_t n = 0; n < run.valid; ++n) {
      const std::int64_t position = run.position + n * run.stride;
      const auto b = static_cast<std::size_t>(run.sequence);
      rows[static_cast<std::size_t>(run.row + n)] = {
          run.sequence, side == Side::queries ? position - p.first_query_at(b) : position};
    }
  return rows;
}

void compare_tiles(const Scenario& s) {
  const Problem& p = s.problem;
  const Placement queries(p, s.parallel, s.placement, 0), keys(p, s.parallel, s.placement, 0, Side::keys);
  const Visible visible(p);
  for (int q_rank = 0; q_rank < s.parallel.ranks; ++q_rank) {
    const std::vector<Token> q = tokens_of(p, queries, q_rank, Side::queries);
    for (int k_rank = 0; k_rank < s.parallel.ranks; ++k_rank) {
      const std::vector<Token> k =
          tokens_of(p, p.is_cross() ? keys : queries, k_rank, p.is_cross() ? Side::keys : Side::queries);
      const auto q_runs = queries.runs(q_rank), k_runs = (p.is_cross() ? keys : queries).runs(k_rank);
      std::set<std::pair<std::int64_t, std::int64_t>> live, covered;
      for (std::size_t i = 0; i < q.size(); ++i)
        for (std::size_t j = 0; j < k.size(); ++j)
          if (q[i].index >= 0 && k[j].index >= 0 && q[i].sequence == k[j].sequence &&
              sees(p, static_cast<std::size_t>(q[i].sequence), q[i].index, k[j].index))
            live.emplace(i, j);
      const Tile tile = row_tile(q_runs, k_runs, visible);
      const auto q_rows = row_list(tile.q_rows.ranges()), k_rows = row_list(tile.k_rows.ranges());
      for (const Segment& g : tile.segments)
        for (std::int64_t i = 0; i < g.q_count; ++i)
          for (std::int64_t j = 0; j < g.k_count; ++j) {
            const std::int64_t d = j - (i + g.offset);
            if ((g.left >= 0 && d < -g.left) || (g.right >= 0 && d > g.right)) continue;
            const bool fresh = covered
                                   .emplace(q_rows.at(static_cast<std::size_t>(g.q_begin + i)),
                                            k_rows.at(static_cast<std::size_t>(g.k_begin + j)))
                                   .second;
            REQUIRE_MESSAGE(fresh, "a pair is covered twice");
          }
      REQUIRE(covered == live);
      REQUIRE(any_live(q_runs, k_runs, visible) == !live.empty());
      // Of keys exactly those rows that somebody sees.
      std::set<std::int64_t> wanted, found;
      for (const auto& pair : live) wanted.insert(pair.second);
      for (const TokenRun& run : seen_runs(q_runs, k_runs, visible))
        for (std::int64_t n = 0; n < run.rows; ++n) found.insert(run.row + n * run.row_step);
      REQUIRE(found == wanted);
    }
  }
  double pairs = 0;
  for (std::size_t b = 0; b < p.lengths.size(); ++b)
    for (std::int64_t i = 0; i < p.lengths[b]; ++i)
      for (std::int64_t j = 0; j < p.lengths_of(Side::keys)[b]; ++j) pairs += sees(p, b, i, j);
  double counted = 0;
  for (std::size_t b = 0; b < p.lengths.size(); ++b) counted += visible_pairs(p, b);
  REQUIRE(counted == pairs);
}

void draw_lengths(Random& random, Problem& p) {
  p.packed = draw(random, 0, 1) == 0;
  const std::int64_t sequences = draw(random, 1, p.packed ? 4 : 2), length = draw(random, 1, 40);
  const bool cross = draw(random, 0, 2) == 0;
  for (std::int64_t b = 0; b < sequences; ++b) {
    p.lengths.push_back(p.packed ? draw(random, 0, 30) : length);
    p.padded_lengths.push_back(p.lengths.back() + (p.packed ? draw(random, 0, 4) : 0));
    if (!cross) continue;
    p.kv_lengths.push_back(p.packed ? draw(random, 0, 30) : length / 2 + 3);
    p.kv_padded_lengths.push_back(p.kv_lengths.back() + (p.packed ? draw(random, 0, 4) : 0));
  }
  p.format = p.packed ? Format::thd : Format::bshd;
  if (!p.packed) p.batch = sequences, p.sequence = length, p.kv_sequence = cross ? p.kv_lengths.front() : 0;
  p.align = draw(random, 0, 1) == 0 ? Diagonal::top_left : Diagonal::bottom_right;
}

// Adds it, unless it overlaps what is there or leaves its sequence.
void add_rectangle(Problem& p, const MaskRectangle& r) {
  p.rectangles.push_back(r);
  try {
    require_sizes(p, {});
  } catch (const ScenarioError&) {
    p.rectangles.pop_back();
  }
}

void draw_mask(Random& random, Problem& p) {
  const std::int64_t queries = std::max<std::int64_t>(1, total_tokens(p)),
                     keys = std::max<std::int64_t>(1, total_tokens(p, Side::keys));
  p.causal = draw(random, 0, 1) == 0;
  if (draw(random, 0, 2) == 0) p.window = {draw(random, -1, 12), draw(random, -1, 6)};
  if (draw(random, 0, 3) == 0) p.chunk = draw(random, 1, 12);
  if (draw(random, 0, 3) == 0) p.prefix = draw(random, 1, 9);
  if (draw(random, 0, 4) == 0) p.only_rectangles = true, p.causal = false, p.window = {}, p.chunk = 0;
  using enum MaskRectangle::Form;
  for (std::int64_t n = draw(random, 0, 6); n > 0; --n) {
    const std::int64_t q = draw(random, 0, queries - 1), k = draw(random, 0, keys - 1);
    add_rectangle(p,
                  {q, q + draw(random, 1, 14), k, k + draw(random, 1, 14),
                   std::vector{full, causal, inverse_causal}[static_cast<std::size_t>(draw(random, 0, 2))]});
  }
  for (std::int64_t n = draw(random, 0, 3); n > 0 && !p.is_cross(); --n) {
    const std::int64_t begin = draw(random, 0, queries - 1);
    p.groups.emplace_back(begin, begin + draw(random, 1, 9));
    try {
      require_sizes(p, {});
    } catch (const ScenarioError&) {
      p.groups.pop_back();
    }
  }
}

Scenario try_draw(Random& random) {
  Scenario s;
  Problem& p = s.problem;
  p.heads = p.kv_heads = 4, p.head_size = p.value_size = 2, p.scale = 1;
  const std::vector<std::string> softmax{"all_gather",   "ring", "all_to_all",    "head_strided",
                                         "hierarchical", "usp",  "bidirectional", "double_ring",
                                         "pass_q",       "mesh", "tree"};
  s.algorithm = softmax[static_cast<std::size_t>(draw(random, 0, std::ssize(softmax) - 1))];
  s.parallel.ranks = std::int64_t{1} << draw(random, 0, 2);
  draw_lengths(random, p);
  draw_mask(random, p);
  const auto& placements = find_algorithm(s.algorithm)->placements;
  s.placement = placements[static_cast<std::size_t>(draw(random, 0, std::ssize(placements) - 1))];
  if (p.is_cross() && in_pieces(s.placement)) s.placement = "zigzag";
  if (s.algorithm == "all_gather" && draw(random, 0, 1) == 0) s.schedule.set("gather", std::string("needed"));
  return resolve(s);
}

Scenario draw_scenario(Random& random) {
  for (;;) {
    try {
      return try_draw(random);
    } catch (const ScenarioError&) {
      continue;  // the algorithm refuses the combination
    }
  }
}

TEST_CASE("every drawn mask: tiles cover each pair that is seen once, and no other") {
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const Scenario s = draw_scenario(random);
    CAPTURE(s.algorithm);
    CAPTURE(s.placement);
    compare_tiles(s);
  }
}

TEST_CASE("every drawn mask: plans are proved, and not for a mask with a rectangle more or less") {
  int changed = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Plan plan = build_plan(draw_scenario(random));
    const CheckResult result = check(plan);
    for (const Finding& finding : result.findings) FAIL_CHECK(finding.message);
    Problem& p = plan.scenario.problem;
    if (p.rectangles.empty()) continue;
    const std::size_t sequences = p.lengths.size();
    double with = 0, without = 0;
    for (std::size_t b = 0; b < sequences; ++b) with += visible_pairs(p, b);
    p.rectangles.pop_back();
    for (std::size_t b = 0; b < sequences; ++b) without += visible_pairs(p, b);
    if (with == without) continue;
    ++changed;
    CHECK_FALSE(check(plan).findings.empty());
  }
  CHECK(changed > 50);
}

TEST_CASE("regions: their boxes share no pair that is seen") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    std::vector<VisibleRegion> drawn;
    for (std::int64_t n = draw(random, 1, 6); n > 0; --n) {
      VisibleRegion r;
      r.q_begin = draw(random, 0, 30), r.q_end = r.q_begin + draw(random, 1, 20);
      r.k_begin = draw(random, 0, 30), r.k_end = r.k_begin + draw(random, 1, 20);
      if (draw(random, 0, 1) == 0) r.low = draw(random, -20, 20);
      if (draw(random, 0, 1) == 0) r.high = draw(random, -20, 20);
      drawn.push_back(r);
    }
    const auto has = [](const VisibleRegion& r, std::int64_t q, std::int64_t k) {
      return q >= r.q_begin && q < r.q_end && k >= r.k_begin && k < r.k_end && k - q >= r.low &&
             k - q <= r.high;
    };
    const std::vector<VisibleRegion> regions = apart(drawn);
    for (std::int64_t q = 0; q < 55; ++q) {
      for (std::int64_t k = 0; k < 55; ++k) {
        const bool seen = std::ranges::any_of(drawn, [&](auto& r) { return has(r, q, k); });
        const auto in_band = std::ranges::count_if(regions, [&](auto& r) { return has(r, q, k); });
        const auto in_box = std::ranges::count_if(regions, [&](const VisibleRegion& r) {
          return q >= r.q_begin && q < r.q_end && k >= r.k_begin && k < r.k_end;
        });
        REQUIRE(in_band == seen);
        if (seen) REQUIRE(in_box == 1);
      }
    }
  }
}

// 16 tokens, causal, the first 4 a prefix: rows 0 to 3 see 4 keys, row i from 4 on i + 1: 4 * 4 + (5 + ... +
// 16) = 16 + 126.
TEST_CASE("closed forms: prefix, a group, chunks") {
  Problem p;
  p.batch = 1, p.sequence = 16, p.lengths = p.padded_lengths = {16};
  p.causal = true;
  p.prefix = 4;
  CHECK(visible_pairs(p, 0) == 142);
  // 136 of the triangle, and 3 + 2 + 1 above the diagonal of a group of 4.
  p.prefix = 0, p.groups = {{6, 10}};
  CHECK(visible_pairs(p, 0) == 142);
  // Four triangles of 4: 4 * 10.
  p.groups.clear(), p.chunk = 4;
  CHECK(visible_pairs(p, 0) == 40);
  CHECK(Visible(p).of(0).size() == 4);
}

// Chunks of 32 of a causal sequence, two documents: a rank's pairs differ by less than a chunk's from its
// share.
TEST_CASE("balanced: equal rows, and pairs level to 2 %, dynamic: groups by length") {
  Scenario s;
  Problem& p = s.problem;
  p.heads = p.kv_heads = 1, p.head_size = p.value_size = 8, p.scale = 1, p.packed = true,
  p.format = Format::thd;
  p.lengths = p.padded_lengths = {6000, 300, 1500, 392};
  p.causal = true;
  s.parallel.ranks = 8;
  s.algorithm = "all_gather", s.placement = "balanced";
  const Scenario balanced = resolve(s);
  const Placement placement(balanced.problem, balanced.parallel, "balanced", 0);
  CHECK(placement.rows() == 8192 / 8);
  const std::vector<double> flops = check(build_plan(balanced)).flops;
  const auto [least, most] = std::ranges::minmax(flops);
  CHECK(most / least < 1.02);

  s.placement = "dynamic";
  s.parallel.tokens_per_rank = 1500;  // 6000: 4 ranks; the others one each
  const Scenario dynamic = resolve(s);
  for (std::int64_t b = 0; b < 4; ++b) {
    std::set<int> ranks;
    for (const Parallel::Piece& piece : dynamic.parallel.pieces)
      if (piece.sequence == b) ranks.insert(piece.position);
    CHECK(ranks.size() == (b == 0 ? 4 : 1));
  }
  CHECK(check(build_plan(dynamic)).findings.empty());
}

}  // namespace
}  // namespace cplab

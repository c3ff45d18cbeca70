// Routes as values, and what the plans that follow them send, against closed forms.
#include "algorithms/core/route.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "algorithms/core/build.hpp"
#include "check/check.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/algorithms/scenarios.hpp"

using namespace cplab;
using testing::Options;
using testing::Shape;

namespace {

// n rows a rank; bf16: 2 bytes, LSE, delta and sums in fp32 4.
constexpr std::int64_t n = 6, D = 16, E = 8, H = 8, G = 4, kv = n * G * (D + E);

struct Sent {
  std::int64_t bytes = 0, messages = 0, rounds = 0;  // of a rank; of a rank; of all
};

// Every query sees every key, so that every row goes everywhere.
void check_sent(const std::string& algorithm, int P, const Options& options, const Sent& forward,
                const Sent& backward) {
  CAPTURE(algorithm);
  CAPTURE(P);
  Shape shape{.ranks = P, .lengths = {n * P}, .causal = false, .heads = H, .kv_heads = G, .head_size = D};
  shape.value_size = E, shape.options = options, shape.algorithm = algorithm, shape.backward = false;
  const CheckResult there = check(build_plan(testing::scenario(shape)));
  shape.backward = true;
  const CheckResult both = check(build_plan(testing::scenario(shape)));
  INFO(hand::text(there) << hand::text(both));
  REQUIRE(there.ok());
  REQUIRE(both.ok());
  CHECK(there.messages == forward.messages * P);
  CHECK(both.messages == (forward.messages + backward.messages) * P);
  CHECK(there.rounds == forward.rounds);
  CHECK(both.rounds == forward.rounds + backward.rounds);
  for (std::size_t r = 0; r < static_cast<std::size_t>(P); ++r) {
    CHECK(there.sent_bytes[r] == forward.bytes);
    CHECK(both.sent_bytes[r] == forward.bytes + backward.bytes);
  }
}

std::int64_t rounds_of_queries(std::int64_t P) {
  return P == 1 ? 0 : P == 2 ? 2 : P + 1;
}

std::int64_t hops_of_tree(std::int64_t P) {
  std::int64_t hops = 0;
  for (std::int64_t reached = 1; reached < P; reached *= 2) ++hops;
  return hops;
}

}  // namespace

TEST_CASE("route: a ring hands on from visit to visit, and mirrored goes back to the owner") {
  const Route there = ring_route(5), back = there.mirrored();
  CHECK(there.one_chain());
  for (int place = 0; place < 5; ++place)
    for (int v = 0; v < 5; ++v) {
      CHECK(there.owner(place, v) == (place - v + 5) % 5);
      CHECK(there.holder(there.owner(place, v), v) == place);
      CHECK(back.owner(place, v) == there.owner(place, 4 - v));
      if (v == 0) continue;
      CHECK(there.giver(place, v) == (place + 4) % 5);
      CHECK(there.taker(place, v) == (place + 1) % 5);
      CHECK(there.taker(there.giver(place, v), v) == place);
    }
  CHECK(back.owner(3, 4) == 3);
}

// Six members in rows of three. 1 hands on to 2 and, to the next row, to 3, which stands before 4 in the list
// and hands on to it. Without visit 1 its rows come from the owner.
TEST_CASE("route: on a grid, a tree, what is left out hands its source on") {
  const Route tree(6, 3,
                   {{.home = true},
                    {.shift = 1, .source = 0, .beside = 0},
                    {.shift = 2, .source = 1, .beside = 1, .home = true},
                    {.shift = 4, .source = 1, .beside = 1, .lane = 1, .home = true}});
  CHECK(!tree.one_chain());
  CHECK(tree.owner(0, 1) == 2);  // in its own row, one to the left
  CHECK(tree.owner(0, 3) == 5);  // one row and one place to the left
  CHECK(tree.holder(5, 3) == 0);
  CHECK(tree.giver(0, 3) == 3);  // who holds the rows of 5 at visit 1
  CHECK(tree.taker(3, 3) == 0);
  CHECK(tree.continues(2));
  CHECK(!tree.continues(3));
  CHECK(std::ranges::equal(tree.beside(1), std::vector<int>{2, 3}));
  const Route some = tree.kept({1, 0, 1, 1});
  REQUIRE(some.visits() == 3);
  CHECK(some[1].source == 0);
  CHECK(some[2].source == 0);
  CHECK(some[2].beside == 0);
  CHECK(tree.kept({1, 1, 0, 1})[1].home);  // the sum that ended at what is left out ends before it
}

// Forward each visit but the own one is a message. The inner hops follow each other on one lane, A - 1 for
// each of the N nodes; those across nodes go beside them. Backward as many of K and V, and of each node's
// sums all but what the owner adds itself: A - 1 of the own node's, A of every other one's. With at least
// three ranks in a node a hop or a sum goes on the inner lane at each of the steps 0 to P.
TEST_CASE("closed form, double_ring: the bytes of a ring in fewer rounds") {
  for (const auto& [P, A] : {std::pair(6, 3), {8, 4}, {12, 3}, {12, 4}, {15, 5}, {15, 3}}) {
    const std::int64_t N = P / A;
    check_sent("double_ring", P, {{"node_ranks", std::int64_t{A}}}, {(P - 1) * kv * 2, P - 1, N * (A - 1)},
               {(P - 1) * kv * (2 + 4), 2 * (P - 1), P + 1});
  }
}

// Two messages where a ring has one, of half of the key heads each or of half of the keys, beside each other.
TEST_CASE("closed form, bidirectional: the bytes and rounds of a ring, in twice as many messages") {
  for (const char* halves : {"heads", "keys"})
    for (int P = 1; P <= 9; ++P)
      check_sent("bidirectional", P, {{"rotation", std::string("whole")}, {"halves", std::string(halves)}},
                 {(P - 1) * kv * 2, 2 * (P - 1), P - 1},
                 {(P - 1) * kv * (2 + 4), 4 * (P - 1), P == 1 ? 0 : P});
}

// q to each other rank, out and LSE home from it: P - 1 hops, and the last way home. Backward q, dout, LSE
// and delta, and dq home in fp32.
TEST_CASE("closed form, pass_q: queries around the ring, results home") {
  for (int P = 1; P <= 9; ++P)
    check_sent("pass_q", P, {}, {(P - 1) * n * H * (2 * D + 2 * E + 4), 3 * (P - 1), rounds_of_queries(P)},
               {(P - 1) * n * H * (2 * D + 2 * E + 8 + 4 * D), 5 * (P - 1), rounds_of_queries(P)});
}

// Queries as in pass_q among the Q neighbours of a row, K and V from the K = P / Q ranks of a column, in one
// round; their gradients the same way back in fp32.
TEST_CASE("closed form, mesh: queries of a row, keys of a column") {
  for (const auto& [P, Q] : {std::pair(4, 2), {6, 2}, {6, 3}, {8, 2}, {9, 3}, {12, 4}}) {
    const std::int64_t K = P / Q, results = n * H * (2 * D + 2 * E + 4);
    check_sent("mesh", P, {{"query_ranks", std::int64_t{Q}}, {"backward_gather", std::string("keep")}},
               {(K - 1) * kv * 2 + (Q - 1) * results, K - 1 + 3 * (Q - 1), 1 + rounds_of_queries(Q)},
               {(K - 1) * kv * 4 + (Q - 1) * n * H * (2 * D + 2 * E + 8 + 4 * D), K - 1 + 5 * (Q - 1),
                rounds_of_queries(Q) + 1});
  }
}

// Every other rank's queries come once and its results go back once, out in fp32, merged on the way: a tree
// out and the same one back, which double what they reach with each hop.
TEST_CASE("closed form, tree: all queries out, all results back in the rounds of a tree") {
  for (int P = 1; P <= 17; ++P) {
    const std::int64_t hops = hops_of_tree(P);
    check_sent("tree", P, {}, {(P - 1) * n * H * (2 * D + 4 * E + 4), 3 * hops, 2 * hops},
               {(P - 1) * n * H * (2 * D + 2 * E + 8 + 4 * D), 5 * hops, 2 * hops});
  }
}

// Out as in tree. Each pair trades partial results of a P-th of the heads, of the rows of all; then each
// rank's heads of the other's own rows.
TEST_CASE("closed form, helix: results trade heads in two rounds") {
  for (const int P : {1, 2, 4, 8}) {
    const std::int64_t hops = hops_of_tree(P), share = H / P, results = share * (4 * E + 4);
    check_sent("helix", P, {},
               {(P - 1) * (n * H * 2 * D + n * P * results + n * results), hops + 4 * (P - 1),
                P == 1 ? 0 : hops + 2},
               {(P - 1) * n * H * (2 * D + 2 * E + 8 + 4 * D), 5 * hops, 2 * hops});
  }
}

// A cache of keys, cut over the ranks, and one new token, which rank 0 holds: it alone sends queries, on the
// tree to all others, and gets results back.
TEST_CASE("closed form, decode: one query goes out and one result comes back") {
  for (const int P : {1, 2, 3, 8}) {
    Shape shape{.ranks = P, .placement = "contiguous", .lengths = {1}, .heads = H, .kv_heads = G};
    shape.head_size = D, shape.value_size = E, shape.backward = false;
    Scenario s = testing::without_algorithm(shape);
    s.algorithm = "tree";
    s.problem.kv_lengths = s.problem.kv_padded_lengths = {n * P};
    s.problem.align = Diagonal::bottom_right;
    const CheckResult result = check(build_plan(resolve(s)));
    INFO(hand::text(result));
    REQUIRE(result.ok());
    std::int64_t bytes = 0;
    for (const std::int64_t sent : result.sent_bytes) bytes += sent;
    CHECK(bytes == (P - 1) * H * (2 * D + 4 * E + 4));
    CHECK(result.messages == 3 * (P - 1));
    CHECK(result.rounds == 2 * hops_of_tree(P));
  }
}

// The checker on gradients of key heads that several operations and ranks sum up, each from some of the query
// heads (grouped heads): whatever is complete is right, in any order and association, and a query head that
// is missing, counted twice or of another key head is found.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "check/check.hpp"
#include "derive/edits.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/hand_plans/attention_plans.hpp"
#include "tests/hand_plans/replica_plans.hpp"

using namespace cplab;
using namespace cplab::hand;

namespace {

// The n-th operation of that kind.
std::size_t nth_index(const Plan& plan, int rank, OpKind kind, int n) {
  const std::vector<Operation>& list = plan.ranks[static_cast<std::size_t>(rank)].operations;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i].kind == kind && n-- == 0) return i;
  FAIL("no such operation");
  return 0;
}

Operation& nth_op(Plan& plan, int rank, OpKind kind, int n) {
  return plan.ranks[static_cast<std::size_t>(rank)].operations[nth_index(plan, rank, kind, n)];
}

View& view_of(Plan& plan, int rank, const Operation& op, Operand operand) {
  RankPlan& p = plan.ranks[static_cast<std::size_t>(rank)];
  return p.views[p.find(op, operand)->view];
}

// A finding of coverage whose message has these words.
void require_coverage_words(const Plan& plan, int rank, const std::string& words) {
  const CheckResult result = check(plan);
  INFO("expected \"" << words << "\", found:\n" << text(result));
  CHECK(std::ranges::any_of(result.findings, [&](const Finding& f) {
    return f.kind == FindingKind::coverage && f.rank == rank && f.message.find(words) != std::string::npos;
  }));
}

struct HeadCounts {
  std::int32_t heads, kv_heads;
  int ranks;
};
constexpr HeadCounts head_counts[] = {{8, 2, 4}, {6, 3, 2}, {8, 1, 4}, {12, 4, 3}, {4, 4, 2}, {12, 3, 6}};

// One rank, causal, H = 4: the tiles [begin, end) of query heads, each with the key heads that it needs;
// their dK and dV into parts of their own, which `sums` adds up: (from, into), counted in tiles.
struct HeadTile {
  std::int32_t begin, end, key_begin, key_end;
};
Plan tiled(std::int32_t kv_heads, const std::vector<HeadTile>& tiles,
           const std::vector<std::pair<int, int>>& sums) {
  Plan plan = empty_plan(1, 6, true, Direction::forward_backward, DType::fp64);
  plan.scenario.problem.kv_heads = kv_heads;
  Rank rank(plan, 0);
  const Tensors t = tensors(plan, rank);
  const Segment causal{0, 6, 0, 6, 0, -1, 0};
  const auto of = [&](std::uint32_t buffer, const HeadTile& x) {
    return rank.view(heads_of(buffer, x.begin, x.end));
  };
  for (const HeadTile& x : tiles) {
    const At kv = heads_of(t.kv, x.key_begin, x.key_end);
    rank.attend(compute,
                {of(t.q, x), keys(plan, rank, kv), values(plan, rank, kv), of(t.out, x), of(t.lse, x)},
                {causal});
  }
  rank.phase(Phase::backward);
  rank.row_dot(compute, rank.view({t.dout}), rank.view({t.out}), rank.view({t.delta}));
  std::vector<std::uint32_t> parts;
  for (const HeadTile& x : tiles) {
    const At kv = heads_of(t.kv, x.key_begin, x.key_end);
    parts.push_back(rank.buffer("part" + std::to_string(parts.size()), Role::wide, Category::working, 1, 6,
                                kv_heads, 14));
    const At dkv = heads_of(parts.back(), x.key_begin, x.key_end);
    rank.fill(compute, rank.view({parts.back()}));
    rank.attend_backward(
        compute,
        {of(t.q, x), keys(plan, rank, kv), values(plan, rank, kv), of(t.dout, x), of(t.lse, x),
         of(t.delta, x), of(t.dq, x), keys(plan, rank, dkv), values(plan, rank, dkv), store, add},
        {causal});
  }
  for (const auto& [from, into] : sums)
    rank.add_to(compute, rank.view({parts[static_cast<std::size_t>(from)]}),
                rank.view({parts[static_cast<std::size_t>(into)]}));
  rank.cast(compute, rank.view({parts[0]}), rank.view({t.dkv}));
  return plan;
}

}  // namespace

TEST_CASE("check: key heads on several ranks, each with some of their query heads") {
  for (const HeadCounts& s : head_counts) {
    for (const Home home : {Home::reduce_scatter, Home::exchange, Home::all_reduce}) {
      if (home == Home::all_reduce && s.ranks % s.kv_heads != 0) continue;
      for (const std::int32_t at_once : {0, 1, 2}) {
        CAPTURE(s.heads);
        CAPTURE(s.kv_heads);
        CAPTURE(s.ranks);
        CAPTURE(static_cast<int>(home));
        CAPTURE(at_once);
        require_right(replicated({s.heads, s.kv_heads, s.ranks, 4, home, at_once}));
        require_right(replicated({s.heads, s.kv_heads, s.ranks, 35, home, at_once, DType::bf16}));
      }
    }
  }
}

TEST_CASE("check: query heads one by one, their dK summed in any association") {
  const std::vector<HeadTile> ones{{0, 1, 0, 1}, {1, 2, 0, 1}, {2, 3, 0, 1}, {3, 4, 0, 1}};
  require_right(tiled(1, ones, {{1, 0}, {2, 0}, {3, 0}}));
  require_right(tiled(1, ones, {{3, 2}, {2, 1}, {1, 0}}));
  require_right(tiled(1, ones, {{3, 1}, {2, 0}, {1, 0}}));
  const std::vector<HeadTile> uneven{{1, 4, 0, 1}, {0, 1, 0, 1}};
  require_right(tiled(1, uneven, {{1, 0}}));
}

TEST_CASE("check: a query head that is missing, or there twice") {
  const std::vector<HeadTile> ones{{0, 1, 0, 1}, {1, 2, 0, 1}, {2, 3, 0, 1}, {3, 4, 0, 1}};
  require_coverage_words(
      tiled(1, ones, {{1, 0}, {3, 0}}), 0,
      "lacks 21 live (query, key) pairs of the keys tokens 0..5 of sequence 0 with query head 2");
  require_coverage_words(tiled(1, ones, {{3, 0}}), 0, "with query heads 1..2");
  require_coverage_words(tiled(1, ones, {{1, 0}, {2, 0}, {3, 2}, {2, 0}}), 0,
                         "cover a pair twice, for tokens 0..5 of sequence 0 with query head 2");
  require_coverage_words(tiled(1, ones, {{1, 0}, {2, 1}, {3, 1}, {1, 0}}), 0, "cover a pair twice");
  // Heads of the second key head are called by their own numbers.
  const std::vector<HeadTile> halves{{0, 2, 0, 1}, {2, 3, 1, 2}, {3, 4, 1, 2}};
  require_right(tiled(2, halves, {{1, 0}, {2, 0}}));
  require_coverage_words(tiled(2, halves, {{1, 0}}), 0, "with query head 3");
  require_coverage_words(tiled(2, halves, {{2, 0}}), 0, "with query head 2");
}

TEST_CASE("check: sums of other queries for other query heads") {
  // Query heads 0..1 and 2..3 of one key head, queries 0..2 and 3..5: four parts, of which no two of a sum
  // have both in common. Of the 21 live pairs of a head, 6 have a query below 3.
  const auto quarters = [](const std::vector<std::pair<int, int>>& sums) {
    Plan plan = empty_plan(1, 6, true, Direction::forward_backward, DType::fp64);
    plan.scenario.problem.kv_heads = 1;
    Rank rank(plan, 0);
    const Tensors t = tensors(plan, rank);
    rank.attend(compute,
                {rank.view({t.q}), keys(plan, rank, {t.kv}), values(plan, rank, {t.kv}), rank.view({t.out}),
                 rank.view({t.lse})},
                {{0, 6, 0, 6, 0, -1, 0}});
    rank.phase(Phase::backward);
    rank.row_dot(compute, rank.view({t.dout}), rank.view({t.out}), rank.view({t.delta}));
    const auto parts = rank.buffer("parts", Role::wide, Category::working, 4, 6, 1, 14);
    for (std::int32_t i = 0; i < 4; ++i) {
      const auto of = [&](std::uint32_t buffer) {
        At at = heads_of(buffer, i % 2 * 2, i % 2 * 2 + 2);
        at.row = i / 2 * 3, at.rows = 3;
        return rank.view(at);
      };
      const At into{parts, i};
      rank.attend_backward(
          compute,
          {of(t.q), keys(plan, rank, {t.kv}), values(plan, rank, {t.kv}), of(t.dout), of(t.lse), of(t.delta),
           of(t.dq), keys(plan, rank, into), values(plan, rank, into)},
          {{0, 3, 0, 6, i / 2 * 3, -1, 0}});
    }
    for (const auto& [from, into] : sums)
      rank.add_to(compute, rank.view(At{parts, from}), rank.view(At{parts, into}));
    rank.cast(compute, rank.view(At{parts, 0}), rank.view({t.dkv}));
    return plan;
  };
  require_right(quarters({{3, 0}, {2, 1}, {1, 0}}));
  require_right(quarters({{1, 0}, {3, 2}, {2, 0}}));
  require_coverage_words(
      quarters({{3, 0}, {2, 0}}), 0,
      "lacks 6 live (query, key) pairs of the keys tokens 0..5 of sequence 0 with query heads 2..3");
  require_coverage_words(
      quarters({{3, 0}, {1, 0}}), 0,
      "lacks 15 live (query, key) pairs of the keys tokens 0..5 of sequence 0 with query heads 0..1");
  require_coverage_words(quarters({{3, 2}, {3, 1}, {2, 1}, {1, 0}}), 0,
                         "cover a pair twice, for tokens 0..5 of sequence 0 with query heads 2..3");
}

TEST_CASE("check: a tile that begins inside a group of query heads and ends inside the next") {
  // H / G = 2: query heads 1 and 2 are of key heads 0 and 1, as the tile pairs them.
  const std::vector<HeadTile> straddling{{1, 3, 0, 2}, {0, 1, 0, 1}, {3, 4, 1, 2}};
  require_right(tiled(2, straddling, {{1, 0}, {2, 0}}));
  require_coverage_words(tiled(2, straddling, {{1, 0}}), 0, "with query head 3");
  // With one key head for both, query head 2 has another's.
  require_coverage_words(tiled(2, {{1, 3, 0, 1}, {0, 1, 0, 1}, {3, 4, 1, 2}}, {{1, 0}, {2, 0}}), 0,
                         "takes query heads 1..2 with key heads 0..0, which are not their group");
  // H / G = 1, and two query heads for each key head.
  require_coverage_words(tiled(4, {{0, 4, 0, 2}}, {}), 0, "which are not their group");
  require_coverage_words(tiled(4, {{0, 3, 1, 4}, {3, 4, 3, 4}}, {{1, 0}}), 0, "which are not their group");
}

TEST_CASE("check: heads of an operation that lie in several columns of their buffers") {
  // q in two copies of different heads: the tile's pieces have 3 and 1 query heads of one key head, and with
  // two key heads the first piece has one of them whole and half of the other.
  for (const std::int32_t kv_heads : {1, 2}) {
    for (const bool whole : {true, false}) {
      Plan plan = tiled(kv_heads, {{0, 4, 0, kv_heads}}, {});
      RankPlan& rank = plan.ranks[0];
      Rank more(plan, 0);
      const auto q = more.buffer("q_copied", Role::nominal, Category::working, 1, 6, 4, 8);
      const std::size_t before = rank.operations.size();
      more.copy(compute, more.view(heads_of(more.find("q"), 0, 3)), more.view(heads_of(q, 0, 3)));
      more.copy(compute, more.view(heads_of(more.find("q"), whole ? 3 : 2, whole ? 4 : 3)),
                more.view(heads_of(q, 3, 4)));
      for (const std::size_t from : {before, before + 1}) {
        const Operation copy = rank.operations[from];
        remove_operation(rank, from);
        insert_operation(rank, 0, copy);
      }
      for (Operation& op : rank.operations)
        if (op.kind == OpKind::attend || op.kind == OpKind::attend_backward)
          view_of(plan, 0, op, Operand::q).buffer = q;
      for (Operation& op : rank.operations) op.phase = op.kind == OpKind::copy ? Phase::forward : op.phase;
      if (whole)
        require_right(plan);
      else
        require_anywhere(plan, FindingKind::coverage);
    }
  }
}

TEST_CASE("check: replicas of a key head are each counted once") {
  for (const HeadCounts& s : head_counts) {
    if (s.heads == s.kv_heads) continue;
    CAPTURE(s.heads);
    CAPTURE(s.kv_heads);
    CAPTURE(s.ranks);
    const Plan right = replicated({s.heads, s.kv_heads, s.ranks, 4, Home::exchange});
    Plan missing = right;  // the part of rank 0 is never added
    remove_operation(missing.ranks[1], nth_index(missing, 1, OpKind::add, s.ranks - 1));
    require_anywhere(missing, FindingKind::coverage);
    const std::int32_t group = s.heads / s.kv_heads, last = std::min(s.heads / s.ranks, group) - 1;
    const std::string heads =
        last == 0 ? " with query head 0" : " with query heads 0.." + std::to_string(last);
    require_coverage_words(missing, 1,
                           "of the keys tokens 4..7 of sequence 0" + (last + 1 < group ? heads : ""));

    Plan twice = right;
    const std::size_t at = nth_index(twice, 1, OpKind::add, s.ranks - 1);
    const Operation copy = twice.ranks[1].operations[at];
    insert_operation(twice.ranks[1], at + 1, copy);
    require_coverage_words(twice, 1, "cover a pair twice");

    Plan other = right;  // added to the gradient of another key head
    if (s.kv_heads > 1) {
      Operation& sum = nth_op(other, 1, OpKind::add, s.ranks - 1);
      View& into = view_of(other, 1, sum, Operand::into);
      const bool up = into.head_end < s.kv_heads;
      into.head_begin += up ? 1 : -1, into.head_end += up ? 1 : -1;
      require_finding(other, FindingKind::coverage, 1, operation_id(other.ranks[1], sum));
    }
    Plan piece = right;  // a replica that computes another's query heads
    Operation& tile = nth_op(piece, s.ranks - 1, OpKind::attend_backward, 0);
    tile.head_begin -= 1, tile.head_end -= 1;
    require_finding(piece, FindingKind::coverage, s.ranks - 1,
                    operation_id(piece.ranks[static_cast<std::size_t>(s.ranks) - 1], tile));
  }
}

TEST_CASE("check: sums over ranks that hold other key heads, or that hold the whole sum already") {
  Plan wrong = replicated({8, 2, 4, 4, Home::all_reduce});
  require_right(wrong);
  wrong.groups[2].ranks = {0, 2};
  wrong.groups[3].ranks = {1, 3};
  for (const int r : {1, 2}) nth_op(wrong, r, OpKind::all_reduce, 0).group = r == 1 ? 3 : 2;
  require_coverage_words(wrong, 0, "adds dk");

  // All replicas have the sum of all: adding up what every rank holds counts each head twice.
  Plan twice = replicated({8, 2, 4, 4, Home::exchange});
  twice.groups.push_back({"low", {0, 1}});
  twice.groups.push_back({"high", {2, 3}});
  for (int r = 0; r < 4; ++r) {
    Rank rank(twice, r);
    rank.phase(Phase::backward);
    const ViewIndex whole = rank.view({rank.find("dkv_heads")});
    const std::uint32_t i =
        rank.all_reduce(comm, whole, whole, {}, Reduction::sum, static_cast<std::uint16_t>(2 + r / 2));
    const Operation sum = rank.op(i);
    remove_operation(rank.plan(), i);
    insert_operation(rank.plan(), nth_index(twice, r, OpKind::exchange, 0), sum);
  }
  require_coverage_words(with_edges(twice), 0, "cover a pair twice");
}

TEST_CASE("check: a query head with the key head of another") {
  // Rank 0 has query heads 0..2 and key heads 0 and 1: query head 2 belongs to the second of these.
  for (const OpKind kind : {OpKind::attend, OpKind::attend_backward}) {
    Plan plan = replicated({6, 3, 2, 4, Home::exchange});
    Operation& tile = nth_op(plan, 0, kind, 1);
    for (const Operand operand : {Operand::k, Operand::v}) {
      View& view = view_of(plan, 0, tile, operand);
      view.head_begin = 0, view.head_end = 1;
    }
    require_finding(plan, FindingKind::coverage, 0, operation_id(plan.ranks[0], tile));
    require_coverage_words(plan, 0, "takes query heads 2..2 with key heads 0..0, which are not their group");
  }
}

TEST_CASE("check: sums of some query heads keep their meaning through row maps, slots and head ranges") {
  for (const bool right : {true, false}) {
    Plan plan = empty_plan(1, 6, true, Direction::forward_backward, DType::fp64);
    plan.scenario.problem.kv_heads = 1;
    Rank rank(plan, 0);
    const Tensors t = tensors(plan, rank);
    const Segment causal{0, 6, 0, 6, 0, -1, 0};
    rank.attend(compute,
                {rank.view({t.q}), keys(plan, rank, {t.kv}), values(plan, rank, {t.kv}), rank.view({t.out}),
                 rank.view({t.lse})},
                {causal});
    rank.phase(Phase::backward);
    rank.row_dot(compute, rank.view({t.dout}), rank.view({t.out}), rank.view({t.delta}));
    const auto part = rank.buffer("part", Role::wide, Category::working, 2, 6, 1, 14);
    const auto moved = rank.buffer("moved", Role::wide, Category::working, 3, 8, 3, 14);
    const auto sum = rank.buffer("sum", Role::wide, Category::working, 1, 6, 1, 14);
    for (std::int32_t half = 0; half < 2; ++half) {
      const auto of = [&](std::uint32_t b) { return rank.view(heads_of(b, 2 * half, 2 * half + 2)); };
      const At into{part, half};
      rank.attend_backward(
          compute,
          {of(t.q), keys(plan, rank, {t.kv}), values(plan, rank, {t.kv}), of(t.dout), of(t.lse), of(t.delta),
           of(t.dq), keys(plan, rank, into), values(plan, rank, into)},
          {causal});
    }
    // Odd rows before even ones, in another slot, head and place; and back.
    const std::vector<RowRange> map{{1, 3, 2}, {0, 3, 2}}, other{{0, 3, 2}, {1, 3, 2}};
    At place{moved, 2, 1, 6};
    place.head_begin = 2, place.head_end = 3;
    rank.copy(compute, rank.view(At{part, 1}, map), rank.view(place));
    rank.copy(compute, rank.view(At{part, 0}), rank.view({sum}));
    rank.add_to(compute, rank.view(place), rank.view({sum}, right ? map : other));
    rank.cast(compute, rank.view({sum}), rank.view({t.dkv}));
    if (right)
      require_right(plan);
    else
      require_anywhere(plan, FindingKind::coverage);
  }
}

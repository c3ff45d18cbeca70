// Wrong plans that a checker might easily accept, and right ones that it might easily refuse. Each is written
// by hand, and beside each wrong plan stands a right one that differs in that one thing.
#include <doctest/doctest.h>

#include <algorithm>

#include <string>
#include <vector>

#include "check/check.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/hand_plans/attention_plans.hpp"
#include "tests/hand_plans/collective_plans.hpp"

using namespace cplab;
using namespace cplab::hand;

namespace {

// A plan of one rank under construction: attention over all its tokens, full mask, with the steps of forward
// and backward as calls.
struct One {
  explicit One(std::int64_t tokens, Direction direction = Direction::forward_backward)
      : plan(empty_plan(1, tokens, false, direction)), rank(plan, 0), t(tensors(plan, rank)), n(tokens) {}

  std::uint32_t kv(std::uint32_t buffer, bool value) {
    return value ? values(plan, rank, {buffer}) : keys(plan, rank, {buffer});
  }
  void forward(const std::vector<Segment>& segments) {
    rank.attend(compute,
                {rank.view({t.q}), kv(t.kv, false), kv(t.kv, true), rank.view({t.out}), rank.view({t.lse})},
                segments);
  }
  void row_dot() {
    rank.phase(Phase::backward);
    rank.row_dot(compute, rank.view({t.dout}), rank.view({t.out}), rank.view({t.delta}));
  }
  // The backward tile of the given query rows (of q, dout, lse and delta); their dq goes into buffer `dq`.
  std::uint32_t backward(const std::vector<RowRange>& rows, std::uint32_t dq, const Segment& segment,
                         WriteMode dk_mode = store) {
    const auto of = [&](std::uint32_t b) { return rank.view({b}, rows); };
    return rank.attend_backward(compute,
                                {of(t.q), kv(t.kv, false), kv(t.kv, true), of(t.dout), of(t.lse), of(t.delta),
                                 rank.view({dq}), kv(t.dkv, false), kv(t.dkv, true), store, dk_mode},
                                {segment});
  }
  std::string id(std::uint32_t i) { return operation_id(rank.plan(), rank.op(i)); }

  Plan plan;
  Rank rank;
  Tensors t;
  std::int64_t n;
};

Segment full(std::int64_t queries, std::int64_t keys_count) {
  return {0, queries, 0, keys_count, 0, -1, -1};
}

}  // namespace

TEST_CASE("check: hand-made plans with collectives, sub-groups and row maps are right") {
  require_right(traded(4, DType::bf16));
  require_right(reduced(4, DType::bf16));
  require_right(in_place(3, 4, DType::bf16));
  require_right(permuted(6, DType::bf16));
  require_right(permuted(5, DType::fp64));
}

TEST_CASE("check: queries that come twice count twice for their keys") {
  for (const bool twice : {false, true}) {
    One one(8);
    one.forward({full(8, 8)});
    one.row_dot();
    const auto rows = one.rank.buffer("dq_rows", Role::nominal, Category::working, 1, twice ? 16 : 8, 4, 8);
    const std::vector<RowRange> map =
        twice ? std::vector<RowRange>{{0, 8, 1}, {0, 8, 1}} : std::vector<RowRange>{{0, 8, 1}};
    const std::uint32_t tile = one.backward(map, rows, full(twice ? 16 : 8, 8));
    At first{rows};
    first.rows = 8;
    one.rank.copy(compute, one.rank.view(first), one.rank.view({one.t.dq}));
    if (twice)
      require_finding(one.plan, FindingKind::coverage, 0, one.id(tile));
    else
      require_right(one.plan);
  }
}

TEST_CASE("check: row_dot takes all columns") {
  One one(8);
  one.forward({full(8, 8)});
  one.row_dot();
  const std::string id = one.id(1);
  for (View& view : one.rank.plan().views)
    if ((view.buffer == one.t.dout || view.buffer == one.t.out) && &view > &one.rank.plan().views[4])
      view.width_end = 3;
  one.backward({{0, 8, 1}}, one.t.dq, full(8, 8));
  require_finding(one.plan, FindingKind::coverage, 0, id);
}

TEST_CASE("check: strided rows must be complete as well") {
  One one(8);
  one.forward({full(8, 4)});  // half of the keys
  one.rank.phase(Phase::backward);
  for (const std::int64_t odd : {0, 1}) {
    const std::vector<RowRange> rows{{odd, 4, 2}};
    const std::uint32_t i =
        one.rank.row_dot(compute, one.rank.view({one.t.dout}, rows), one.rank.view({one.t.out}, rows),
                         one.rank.view({one.t.delta}, rows));
    require_finding(one.plan, FindingKind::coverage, 0, one.id(i));
  }
}

TEST_CASE("check: rows that begin alike but step otherwise are not the same rows") {
  for (const bool same : {true, false}) {
    One one(8);
    one.forward({full(8, 8)});
    one.row_dot();
    // dq of the even rows, twice over half of the keys each; the second is added to the rows 0..3.
    const auto part = one.rank.buffer("dq_part", Role::wide, Category::working, 1, 4, 4, 8);
    const auto sum = one.rank.buffer("dq_sum", Role::wide, Category::working, 1, 8, 4, 8);
    one.rank.fill(compute, one.rank.view({sum}));
    one.backward({{0, 4, 2}}, part, full(4, 8), store);
    const std::vector<RowRange> into =
        same ? std::vector<RowRange>{{0, 4, 2}} : std::vector<RowRange>{{0, 4, 1}};
    one.rank.add_to(compute, one.rank.view({part}), one.rank.view({sum}, into));
    one.backward({{1, 4, 2}}, part, full(4, 8), add);
    one.rank.add_to(compute, one.rank.view({part}), one.rank.view({sum}, {{1, 4, 2}}));
    one.rank.cast(compute, one.rank.view({sum}), one.rank.view({one.t.dq}));
    if (same)
      require_right(one.plan);
    else
      require_anywhere(one.plan, FindingKind::coverage);
  }
}

TEST_CASE("check: a maximum over ranks is that of equal contents, or a finding") {
  enum class What : std::uint8_t { equal, incomplete, unwritten, other };
  for (const What what : {What::equal, What::incomplete, What::unwritten, What::other}) {
    CAPTURE(static_cast<int>(what));
    Plan plan = ring(2, 4, Merge::incremental, Direction::forward);
    for (int r = 0; r < 2; ++r) {
      Rank rank(plan, r);
      const auto copy = rank.buffer("copies", Role::nominal, Category::working, 1, 4, 4, 6);
      const std::uint32_t out = rank.find("out");
      // What `copies` holds when it is reduced. equal, incomplete: rank 0's out on both ranks; other: each
      // rank's own out; unwritten: nothing on rank 0.
      if (r == 0 && what != What::unwritten) rank.copy(compute, rank.view({out}), rank.view({copy}));
      if (r == 1 && what == What::other)
        rank.copy(compute, rank.view({out}), rank.view({copy}));
      else
        rank.communicate(compute, OpKind::exchange,
                         {r == 0 ? send(rank.view({copy}), 1) : receive(rank.view({copy}), 0)});
      const std::uint32_t view = rank.view({copy});
      const std::uint32_t max = rank.all_reduce(compute, view, view);
      rank.op(max).reduction = Reduction::max;
      if (r == 0) rank.copy(compute, view, rank.view({out}));
    }
    if (what == What::other)  // then rank 0 sends nothing
      for (Operation& op : plan.ranks[0].operations)
        if (op.kind == OpKind::exchange && op.lane == compute) op.kind = OpKind::host_sync, op.parts = {};
    if (what == What::incomplete) {  // the second tile is never merged into rank 0's out
      std::vector<Operation>& list = plan.ranks[0].operations;
      for (Operation& op : list)
        if (op.kind == OpKind::merge) op.kind = OpKind::host_sync, op.reads = op.writes = {};
    }
    const CheckResult result = check(plan);
    INFO(text(result));
    bool coverage = false, unwritten = false, lost = false;
    for (const Finding& f : result.findings) {
      coverage = coverage || f.kind == FindingKind::coverage;
      unwritten = unwritten || f.kind == FindingKind::uninitialised;
      lost = lost || f.message.find("lost track") != std::string::npos;
    }
    CHECK_FALSE(lost);
    CHECK((coverage || unwritten) == (what != What::equal));
  }
}

TEST_CASE("check: inputs are read-only") {
  Plan plan = single(8);
  Rank rank(plan, 0);
  rank.phase(Phase::backward);
  const std::uint32_t fill = rank.fill(compute, rank.view({rank.find("q")}));
  require_finding(plan, FindingKind::lifetime, 0, operation_id(rank.plan(), rank.op(fill)));
  CHECK(text(check(plan)).find("writes into input q: inputs are read-only") != std::string::npos);

  Plan received = ring(2, 4, Merge::incremental, Direction::forward);
  for (int r = 0; r < 2; ++r) {
    Rank other(received, r);
    const std::uint32_t kv = other.view({other.find("kv")});
    other.communicate(compute, OpKind::exchange, {r == 0 ? send(kv, 1) : receive(kv, 0)});
  }
  require_anywhere(received, FindingKind::lifetime);
}

TEST_CASE("check: buffers lie in the arena with all their bytes, and their planes within the width") {
  const auto changed = [](auto change) {
    Plan plan = ring(3, 4);
    Rank rank(plan, 1);
    change(rank.plan().buffers[rank.find("kv_slots")]);
    return plan;
  };
  require_finding(changed([](Buffer& b) { b.bytes = 0; }), FindingKind::lifetime, 1, "");
  require_finding(changed([](Buffer& b) { b.planes = b.width + 1; }), FindingKind::lifetime, 1, "");
  require_finding(changed([](Buffer& b) { b.planes = -1; }), FindingKind::lifetime, 1, "");
  require_finding(changed([](Buffer& b) { b.name = "kv"; }), FindingKind::lifetime, 1, "");
  // Planes that only one end of a message has change what its bytes mean; a view of K or V may not cross the
  // border between two planes.
  require_anywhere(changed([](Buffer& b) { b.planes = 8; }), FindingKind::unmatched);
  require_anywhere(changed([](Buffer& b) { b.planes = 4; }), FindingKind::coverage);
}

TEST_CASE("check: both ends of a message go over one transport") {
  Plan plan = ring(3, 4);
  require_right(plan);
  find(plan, 2, OpKind::exchange, Phase::forward, 0).transport = Transport::copy;
  require_anywhere(plan, FindingKind::unmatched);
}

TEST_CASE("check: LSEs and row sums are kept wide, and nothing goes through integers") {
  for (const Role role : {Role::wide, Role::nominal, Role::integer}) {
    Plan plan = single(8);
    Rank rank(plan, 0);
    const auto other = rank.buffer("other", role, Category::working, 1, 8, 4, 1);
    const std::uint32_t lse = rank.find("lse");
    std::vector<Operation>& list = rank.plan().operations;
    rank.cast(compute, rank.view({lse}), rank.view({other}));
    rank.cast(compute, rank.view({other}), rank.view({lse}));
    std::rotate(list.begin() + 1, list.end() - 2, list.end());  // between forward and backward
    if (role == Role::wide)
      require_right(plan);
    else
      require_anywhere(plan, FindingKind::coverage);
  }
}

TEST_CASE("check: what a peer has not written is reported on the rank that reads it") {
  Plan plan = ring(2, 4, Merge::incremental, Direction::forward);
  for (int r = 0; r < 2; ++r) {
    Rank rank(plan, r);
    if (r == 1)  // indices of buffers that rank 0 does not have
      for (int i = 0; i < 40; ++i)
        rank.buffer("spare" + std::to_string(i), Role::nominal, Category::working, 1, 4, 1, 1);
    const auto sum = rank.buffer("sum", Role::wide, Category::working, 1, 4, 1, 1);
    if (r == 0) rank.fill(compute, rank.view({sum}));
    const std::uint32_t view = rank.view({sum});
    rank.all_reduce(compute, view, view);
  }
  require_anywhere(plan, FindingKind::uninitialised);
}

TEST_CASE("check: delta head by head before a tile of grouped heads") {
  One one(8);
  one.forward({full(8, 8)});
  one.rank.phase(Phase::backward);
  one.rank.fill(compute, one.rank.view({one.t.delta}));
  one.rank.fill(compute, one.rank.view({one.t.dkv}));
  const auto one_head = one.rank.buffer("delta_of_head", Role::wide, Category::working, 1, 8, 1, 1);
  for (std::int32_t h = 0; h < 4; ++h) {
    const auto of = [&](std::uint32_t b, std::vector<RowRange> rows) {
      At at{b};
      at.head_begin = h, at.head_end = h + 1;
      return one.rank.view(at, std::move(rows));
    };
    // The rows of odd heads come in two runs: the contents are those of the even heads, in other pieces.
    for (const RowRange& r :
         h % 2 ? std::vector<RowRange>{{0, 3, 1}, {3, 5, 1}} : std::vector<RowRange>{{0, 8, 1}}) {
      one.rank.row_dot(compute, of(one.t.dout, {r}), of(one.t.out, {r}), one.rank.view({one_head}, {r}));
      one.rank.add_to(compute, one.rank.view({one_head}, {r}), of(one.t.delta, {r}));
    }
  }
  one.backward({{0, 8, 1}}, one.t.dq, full(8, 8), add);
  require_right(one.plan);
}

TEST_CASE("check: small files that name very many rows are refused, not followed") {
  One one(std::int64_t{1} << 26, Direction::forward);
  const std::int64_t n = one.n;
  const auto copy = one.rank.buffer("copy", Role::nominal, Category::working, 1, n, 4, 8);
  one.rank.copy(compute, one.rank.view({one.t.q}, {{0, n / 2, 2}, {1, n / 2, 2}}), one.rank.view({copy}));
  CHECK_THROWS_AS(check(one.plan), PlanTooLarge);
}

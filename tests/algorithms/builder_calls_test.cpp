// The builder's calls act where they stand: each operation is what its call said, whatever is called next.
#include <doctest/doctest.h>

#include <vector>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/core/scope.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/scenarios/any_scenario.hpp"

using namespace cplab;
using namespace cplab::hand;

namespace {

constexpr Lane only_lane{LaneKind::compute, 0};

// Forward and backward of one rank. `at_once`: the tile of the backward computes delta and rounds dq.
void build_one_tile(Builder& b, bool at_once) {
  const Scope s(b);
  const Problem& p = b.problem();
  const Tile t = s.tile(0, Take::all);
  const auto of_queries = [&](const char* name, Role role, Category category, std::int64_t width) {
    return s.query_buffer(name, role, category, 1, s.rows, width);
  };
  const Box q = of_queries("q", Role::nominal, Category::input, p.head_size);
  const Box kv = s.kv_buffer("kv", Role::nominal, Category::input, 1, s.rows);
  const Box out = of_queries("out", Role::nominal, Category::output, p.value_size);
  const Box lse = s.lse_buffer("lse", Category::output, 1, s.rows);
  b.attend(only_lane, {q, keys(b, kv), values(b, kv), out, lse, t.segments});
  b.phase(Phase::backward);
  const Box dout = of_queries("dout", Role::nominal, Category::input, p.value_size);
  const Box dq = of_queries("dq", Role::nominal, Category::output, p.head_size);
  const Box dkv = s.dkv_buffer("dkv", Role::nominal, Category::output, 1, s.rows);
  const Box delta = s.lse_buffer("delta", Category::working, 1, s.rows);
  const Box sum = of_queries("dq_sum", Role::wide, Category::working, p.head_size);
  if (!at_once) {
    b.row_dot(only_lane, dout, out, delta);
    CHECK(b.last() == 1);
  }
  b.attend_backward(only_lane, {q,
                                keys(b, kv),
                                values(b, kv),
                                dout,
                                lse,
                                delta,
                                sum,
                                keys(b, dkv),
                                values(b, dkv),
                                t.segments,
                                WriteMode::store,
                                WriteMode::store,
                                {},
                                at_once ? out : Box(),
                                at_once ? dq : Box()});
  if (!at_once) b.cast(only_lane, sum, dq);
}

Plan one_tile(void (*build)(Builder&)) {
  Algorithm algorithm = *find_algorithm("ring");
  algorithm.build = build;
  Scenario s = testing::any_scenario(1, "ring");
  s.problem.dtype = DType::bf16;
  return build_plan(s, algorithm);
}

std::vector<OpKind> kinds_of(const Plan& plan) {
  std::vector<OpKind> kinds;
  for (const Operation& op : plan.ranks[0].operations) kinds.push_back(op.kind);
  return kinds;
}

using EmittedKinds = std::vector<OpKind>;

}  // namespace

TEST_CASE("builder: a tile between row_dot and a cast takes the work of neither") {
  const Plan plan = one_tile([](Builder& b) { build_one_tile(b, false); });
  require_right(plan);
  CHECK(kinds_of(plan) ==
        EmittedKinds{OpKind::attend, OpKind::row_dot, OpKind::attend_backward, OpKind::cast});
  const RankPlan& rank = plan.ranks[0];
  CHECK(rank.find(rank.operations[2], Operand::out) == nullptr);
  CHECK(rank.find(rank.operations[2], Operand::rounded_dq) == nullptr);
}

TEST_CASE("builder: a tile that is told to computes delta and rounds dq") {
  const Plan plan = one_tile([](Builder& b) { build_one_tile(b, true); });
  require_right(plan);
  CHECK(kinds_of(plan) == EmittedKinds{OpKind::attend, OpKind::attend_backward});
}

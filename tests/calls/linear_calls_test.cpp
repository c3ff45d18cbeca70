// Operations of linear attention to calls: operands by name, chunks, slopes of the operation's heads, modes.
#include <doctest/doctest.h>

#include <vector>

#include "calls/converter.hpp"
#include "tests/hand_plans/hand_plans.hpp"
#include "tests/hand_plans/two_rank_linear.hpp"

namespace cplab {
namespace {

using enum Operand;
using kernels::Write;

struct Bound {
  explicit Bound(Plan plan_) : plan(std::move(plan_)) {}

  // The n-th operation of that kind, as the call that it becomes.
  template <class Call>
  Call call(OpKind kind, int n = 0, std::vector<Place>* places = nullptr) {
    for (const Operation& op : plan.ranks[1].operations) {
      if (op.kind != kind || n-- > 0) continue;
      std::vector<PlacedCall> calls = converter.calls(op);
      REQUIRE(calls.size() == 1);
      CHECK(views_of(calls[0].call).size() == calls[0].places.size());
      if (places != nullptr) *places = calls[0].places;
      return std::get<Call>(calls[0].call);
    }
    FAIL("no such operation");
    return {};
  }
  std::uint32_t buffer(const char* name) { return hand::Rank(plan, 1).find(name); }

  Plan plan;
  CallConverter converter{plan.ranks[1], DType::fp64, plan.scenario.problem.slopes};
};

bool equal(const kernels::View& view, std::int64_t rows, std::int64_t heads, std::int64_t width) {
  return view.rows == rows && view.heads == heads && view.width == width;
}

}  // namespace

// Rank 1 of the plan: chunks of 4, 1 and 2 tokens, H = 2, D = 4, E = 3.
TEST_CASE("operations of linear attention become calls on the operands that they have") {
  Bound b(hand::two_rank_linear());
  std::vector<Place> places;

  const auto local = b.call<kernels::LinearLocal>(OpKind::local, 1, &places);  // of head 1
  CHECK(equal(local.q, 7, 1, 4));
  CHECK(equal(local.v, 7, 1, 3));
  REQUIRE(local.state);
  CHECK(equal(*local.state, 12, 1, 3));
  CHECK(local.state->dtype == kernels::DType::fp64);
  CHECK(!local.carry);
  CHECK(!local.log_decay);
  CHECK(!local.final_state);
  CHECK(local.write == Write::store);
  CHECK(local.chunks.work == kernels::ChunkWork::blocked);
  // q, k, v, state, out, in this order; head 1 of D or E elements of 8 bytes.
  CHECK(places == std::vector<Place>{{b.buffer("q"), 32},
                                     {b.buffer("k"), 32},
                                     {b.buffer("v"), 24},
                                     {b.buffer("state"), 24},
                                     {b.buffer("out"), 24}});
  REQUIRE(local.chunks.slopes.size() == 1);
  CHECK(local.chunks.slopes[0] == 2);
  REQUIRE(local.chunks.list.size() == 3);
  const kernels::Chunk& c = local.chunks.list[1];
  CHECK(c.row == 4);
  CHECK(c.count == 1);
  CHECK(c.state == 1);
  CHECK(c.left == 0);
  CHECK(c.right == 0);
  CHECK(c.left_exponent == 4);
  CHECK(c.right_exponent == 2);
  CHECK(!c.resets);

  const auto inter = b.call<kernels::LinearInter>(OpKind::inter, 0, &places);
  CHECK(inter.write == Write::add);
  CHECK(inter.chunks.slopes.size() == 2);
  REQUIRE(inter.carry);
  CHECK(equal(*inter.carry, 4, 2, 3));
  CHECK(!inter.state);
  CHECK(!inter.dq);
  CHECK(places == std::vector<Place>{{b.buffer("q"), 0}, {b.buffer("carry"), 0}, {b.buffer("out"), 0}});

  const auto state = b.call<kernels::LinearState>(OpKind::state, 1, &places);
  CHECK(state.reverse);
  CHECK(!state.k);
  CHECK(places == std::vector<Place>{{b.buffer("q"), 0}, {b.buffer("dout"), 0}, {b.buffer("dstate"), 0}});
  CHECK(!b.call<kernels::LinearState>(OpKind::state).reverse);

  CHECK(!b.call<kernels::LinearScan>(OpKind::scan).reverse);
  const auto scan = b.call<kernels::LinearScan>(OpKind::scan, 1, &places);
  CHECK(scan.reverse);
  REQUIRE(scan.final_state);
  CHECK(places == std::vector<Place>{{b.buffer("dstate"), 0}, {b.buffer("dleaving"), 0}});

  const auto combine = b.call<kernels::LinearCombine>(OpKind::combine, 0, &places);
  CHECK(combine.write == Write::add);
  REQUIRE(combine.chunks.list.size() == 1);
  CHECK(combine.chunks.list[0].count == 7);
  CHECK(places == std::vector<Place>{{b.buffer("carry"), 0}, {b.buffer("last_state"), 0}});

  const auto backward = b.call<kernels::LinearLocalBackward>(OpKind::local_backward, 0, &places);
  CHECK(backward.carry);
  CHECK(!backward.dcarry);
  CHECK(backward.state);
  CHECK(backward.dstate);
  CHECK(backward.write == Write::store);
  std::vector<Place> expected;
  for (const char* name : {"q", "k", "v", "dout", "state", "carry", "dstate", "dq", "dk", "dv"})
    expected.push_back({b.buffer(name), 0});
  CHECK(places == expected);
}

TEST_CASE("a converter that was told no slopes gives none") {
  const Plan plan = hand::two_rank_linear();
  const CallConverter converter(plan.ranks[1], DType::fp64);
  for (const Operation& op : plan.ranks[1].operations) {
    if (op.kind != OpKind::local) continue;
    CHECK(std::get<kernels::LinearLocal>(converter.calls(op)[0].call).chunks.slopes.empty());
  }
}

// A delta rule on one rank, every optional operand of its operations there.
TEST_CASE("transitions, strengths and the cut of the work reach the calls") {
  Plan plan = hand::ranks_in_one_group(1);
  hand::Rank rank(plan, 0);
  const auto buffer = [&](const char* name, std::int64_t rows, std::int64_t width, Role role = Role::wide) {
    return rank.view(rank.buffer(name, role, Category::working, 1, rows, 2, width));
  };
  rank.plan().chunks = {{.row = 0, .count = 6, .state = 0}};
  const auto keys = buffer("k", 6, 4, Role::nominal), values = buffer("v", 6, 3, Role::nominal);
  const auto queries = buffer("q", 6, 4, Role::nominal), gradients = buffer("dout", 6, 3, Role::nominal);
  const auto g = buffer("g", 6, 4), b = buffer("b", 6, 1), s = buffer("s", 4, 3), r = buffer("r", 4, 3);
  const auto t = buffer("t", 4, 4), dg = buffer("dg", 6, 4), db = buffer("db", 6, 1);
  const auto dqs = buffer("dq", 6, 4, Role::nominal), dks = buffer("dk", 6, 4, Role::nominal);
  const auto dvs = buffer("dv", 6, 3, Role::nominal), left = buffer("left", 4, 3);
  const auto add_op = [&](OpKind kind, const std::vector<Access>& reads, const std::vector<Access>& writes) {
    Operation& op = rank.op(rank.operation(hand::compute, kind, reads, writes));
    op.chunks = {0, 1};
    op.head_end = 2;
    op.chunk_work = ChunkWork::sliced;
    return op;
  };
  const Operation of_keys = add_op(
      OpKind::state,
      {{keys, hand::store, k}, {values, hand::store, v}, {g, hand::store, log_decay}, {b, hand::store, beta}},
      {{s, hand::store, state}, {t, hand::store, transition}});
  const Operation of_queries = add_op(OpKind::state,
                                      {{queries, hand::store, q},
                                       {gradients, hand::store, dout},
                                       {keys, hand::store, k},
                                       {g, hand::store, log_decay},
                                       {b, hand::store, beta}},
                                      {{r, hand::store, dstate}});
  const Operation passed =
      add_op(OpKind::combine, {{s, hand::store, from}, {t, hand::store, transition}}, {{r, hand::add, into}});
  const Operation back = add_op(OpKind::local_backward,
                                {{queries, hand::store, q},
                                 {keys, hand::store, k},
                                 {values, hand::store, v},
                                 {gradients, hand::store, dout},
                                 {g, hand::store, log_decay},
                                 {b, hand::store, beta}},
                                {{dqs, hand::add, dq},
                                 {dks, hand::add, dk},
                                 {dvs, hand::add, dv},
                                 {dg, hand::store, dlog_decay},
                                 {db, hand::store, dbeta},
                                 {left, hand::store, final_state}});
  const CallConverter converter(rank.plan(), DType::fp64);
  const auto keys_call = std::get<kernels::LinearState>(converter.calls(of_keys)[0].call);
  CHECK((keys_call.log_decay && keys_call.beta && keys_call.transition && !keys_call.k));
  CHECK(equal(*keys_call.transition, 4, 2, 4));
  CHECK(keys_call.chunks.work == kernels::ChunkWork::sliced);
  const auto queries_call = std::get<kernels::LinearState>(converter.calls(of_queries)[0].call);
  CHECK((queries_call.reverse && queries_call.k && equal(*queries_call.k, 6, 2, 4)));
  const auto combine_call = std::get<kernels::LinearCombine>(converter.calls(passed)[0].call);
  CHECK((combine_call.transition && equal(*combine_call.transition, 4, 2, 4)));
  const auto back_call = std::get<kernels::LinearLocalBackward>(converter.calls(back)[0].call);
  CHECK(back_call.write == Write::add);
  CHECK((back_call.dlog_decay && equal(*back_call.dlog_decay, 6, 2, 4)));
  CHECK((back_call.dbeta && equal(*back_call.dbeta, 6, 2, 1)));
  CHECK((back_call.final_state && equal(*back_call.final_state, 4, 2, 3)));
}

}  // namespace cplab

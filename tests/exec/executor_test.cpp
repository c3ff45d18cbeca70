// The executor on plans made by hand: collectives move and sum what they should; a missing edge becomes a
// wrong number in some order, and a right plan gives one result in all of them; hangs are reported.
#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <vector>

#include "exec/cpu/executor.hpp"
#include "tests/hand_plans/hand_plans.hpp"

namespace cplab {
namespace {

using hand::column;
using hand::comm;
using hand::compute;
using hand::compute1;

constexpr std::uint64_t order_count = 20;

CpuOptions random_order(std::uint64_t seed) {
  CpuOptions options;
  options.order = {true, seed};
  return options;
}

// The values of a buffer of rank `rank` after each of 20 random orders and the program's.
std::set<std::vector<double>> results(
    const Plan& plan, int rank, const char* buffer,
    const std::vector<std::pair<const char*, std::vector<double>>>& inputs = {}) {
  std::set<std::vector<double>> all;
  for (std::uint64_t seed = 0; seed <= order_count; ++seed) {
    CpuExecutor executor(plan, seed == order_count ? CpuOptions{} : random_order(seed));
    for (const RankPlan& r : plan.ranks) {
      for (const auto& [name, values] : inputs) {
        if (executor.has(r.rank, name)) executor.write(r.rank, name, values);
      }
    }
    executor.run();
    std::vector<double> values = executor.read(rank, buffer);
    for (double& v : values) v = std::isnan(v) ? -1 : v;  // sets need an order; -1 stands for NaN
    all.insert(values);
  }
  return all;
}

// fill a = 1, copy a to b on another lane, fill a = 2.
Plan two_lanes(bool read_after_write, bool write_after_read) {
  Plan plan = hand::ranks_in_one_group(1);
  hand::Rank rank(plan, 0);
  const auto a = rank.buffer(column("a", 2)), b = rank.buffer(column("b", 2, Category::output));
  const auto all_a = rank.view(a), all_b = rank.view(b);
  const auto first = rank.fill(compute, all_a, 1);
  std::vector<std::uint32_t> after;
  if (read_after_write) after = {first};
  const auto copy = rank.copy(compute1, all_a, all_b, after);
  after.clear();
  if (write_after_read) after = {copy};
  rank.fill(compute, all_a, 2, after);
  return plan;
}

TEST_CASE("missing edges between lanes become wrong numbers") {
  using Values = std::set<std::vector<double>>;
  CHECK(results(two_lanes(true, true), 0, "b") == Values{{1, 1}});
  CHECK(results(two_lanes(true, false), 0, "b") == Values{{1, 1}, {2, 2}});
  // Without the first edge the copy may come first: it reads fresh memory, which is NaN.
  CHECK(results(two_lanes(false, true), 0, "b") == Values{{1, 1}, {-1, -1}});
}

TEST_CASE("a missing edge on the reuse of memory becomes a wrong number") {
  const auto build = [](bool edge) {
    Plan plan = hand::ranks_in_one_group(1);
    hand::Rank rank(plan, 0);
    const auto a = rank.buffer(column("a", 1)), b = rank.buffer(column("b", 1, Category::output));
    const auto c = rank.buffer(column("c", 1), 0);  // where a lies
    const auto all_a = rank.view(a), all_b = rank.view(b), all_c = rank.view(c);
    rank.fill(compute, all_a, 1);
    const auto copy = rank.copy(compute, all_a, all_b);
    std::vector<std::uint32_t> after;
    if (edge) after = {copy};
    rank.fill(compute1, all_c, 3, after);
    return plan;
  };
  CHECK(results(build(true), 0, "b") == std::set<std::vector<double>>{{1}});
  const auto raced = results(build(false), 0, "b");
  CHECK(raced.size() > 1);
  CHECK(raced.count({3}) == 1);
}

// Rank 0 sends a to rank 1 on its comm lane and overwrites it; rank 1 reads what it receives into b.
Plan send_and_overwrite(bool sender_waits, bool reader_waits) {
  Plan plan = hand::ranks_in_one_group(2);
  hand::Rank zero(plan, 0), one(plan, 1);
  const auto a = zero.buffer(column("a", 1));
  const auto all_a = zero.view(a);
  const auto fill = zero.fill(compute, all_a, 1);
  const auto sent = zero.communicate(comm, OpKind::exchange, {{all_a, 1, true}}, {fill});
  std::vector<std::uint32_t> after;
  if (sender_waits) after = {sent};
  zero.fill(compute, all_a, 2, after);

  const auto r = one.buffer(column("r", 1)), b = one.buffer(column("b", 1, Category::output));
  const auto received = one.communicate(comm, OpKind::exchange, {{one.view(r), 0, false}});
  after.clear();
  if (reader_waits) after = {received};
  one.copy(compute, one.view(r), one.view(b), after);
  return plan;
}

TEST_CASE("races with a transfer under way become wrong numbers") {
  using Values = std::set<std::vector<double>>;
  CHECK(results(send_and_overwrite(true, true), 1, "b") == Values{{1}});
  CHECK(results(send_and_overwrite(false, true), 1, "b") == Values{{1}, {2}});
  CHECK(results(send_and_overwrite(true, false), 1, "b") == Values{{1}, {-1}});
}

TEST_CASE("host_sync holds back everything issued after it") {
  Plan plan = hand::ranks_in_one_group(1);
  hand::Rank rank(plan, 0);
  const auto a = rank.buffer(column("a", 1)), b = rank.buffer(column("b", 1, Category::output));
  rank.fill(compute, rank.view(a), 4);
  rank.host_sync(compute);
  rank.copy(compute1, rank.view(a), rank.view(b));
  CHECK(results(plan, 0, "b") == std::set<std::vector<double>>{{4}});
}

TEST_CASE("exchange parts of one pair match in order, several peers at once") {
  constexpr int P = 4;
  Plan plan = hand::ranks_in_one_group(P);
  for (int r = 0; r < P; ++r) {
    hand::Rank rank(plan, r);
    const auto x = rank.buffer(column("x", 2)), y = rank.buffer(column("y", 4, Category::output));
    const auto x0 = rank.view(x, {{0, 1, 1}}), x1 = rank.view(x, {{1, 1, 1}});
    rank.fill(compute, x0, 10 * r);
    const auto ready = rank.fill(compute, x1, 10 * r + 1);
    const int right = (r + 1) % P, left = (r + P - 1) % P;
    // Two messages to the right and one to each side more; received in the order in which they are sent.
    rank.communicate(comm, OpKind::exchange,
                     {{x0, right, true},
                      {x1, right, true},
                      {x0, left, true},
                      {rank.view(y, {{0, 1, 1}}), left, false},
                      {rank.view(y, {{1, 1, 1}}), left, false},
                      {rank.view(y, {{2, 1, 1}}), right, false}},
                     {ready});
    rank.fill(compute1, rank.view(y, {{3, 1, 1}}), 7);
  }
  for (int r = 0; r < P; ++r) {
    const double left = 10 * ((r + P - 1) % P), right = 10 * ((r + 1) % P);
    CHECK(results(plan, r, "y") == std::set<std::vector<double>>{{left, left + 1, right, 7}});
  }
}

TEST_CASE("all_gather and all_to_all of uneven parts, own part included") {
  constexpr int P = 3;
  for (const OpKind kind : {OpKind::all_gather, OpKind::all_to_all}) {
    Plan plan = hand::ranks_in_one_group(P);
    for (int r = 0; r < P; ++r) {
      hand::Rank rank(plan, r);
      const auto x = rank.buffer(column("x", 6)), y = rank.buffer(column("y", 3 * (r + 1), Category::output));
      std::uint32_t filled = 0;
      for (int i = 0; i < 6; ++i) {
        filled = rank.fill(compute, rank.view(x, {{i, 1, 1}}), 100 * r + i);
      }
      std::vector<Part> parts;
      for (int peer = 0; peer < P; ++peer) {  // to peer p go p + 1 rows, from row p on
        parts.push_back({rank.view(x, {{kind == OpKind::all_gather ? 0 : peer, peer + 1, 1}}), peer, true});
        parts.push_back({rank.view(y, {{peer * (r + 1), r + 1, 1}}), peer, false});
      }
      rank.communicate(comm, kind, parts, {filled});
    }
    for (int r = 0; r < P; ++r) {
      std::vector<double> expected;
      for (int from = 0; from < P; ++from) {
        for (int i = 0; i <= r; ++i)
          expected.push_back(100 * from + (kind == OpKind::all_gather ? 0 : r) + i);
      }
      CHECK(results(plan, r, "y") == std::set<std::vector<double>>{expected});
    }
  }
}

// In bf16, 256 + 1 rounds to 256: adding ones to 256 one by one changes nothing, adding them up first does.
// So the result tells the order of the additions.
TEST_CASE("reduce_scatter sums in the order of the group, whatever order the parts arrive in") {
  constexpr int P = 4;
  Plan plan = hand::ranks_in_one_group(P, "all", DType::bf16);
  plan.groups[0].ranks = {2, 0, 3, 1};
  const std::vector<double> of_rank{1, 1, 256, 3};
  for (int r = 0; r < P; ++r) {
    hand::Rank rank(plan, r);
    const auto x = rank.buffer(column("x", P)), y = rank.buffer(column("y", 1, Category::output));
    const auto filled = rank.fill(compute, rank.view(x), of_rank[static_cast<std::size_t>(r)]);
    std::vector<Part> parts;
    const auto into = rank.view(y);
    for (int peer = 0; peer < P; ++peer) {
      parts.push_back({rank.view(x, {{peer, 1, 1}}), peer, true});
      parts.push_back({into, peer, false});
    }
    rank.communicate(comm, OpKind::reduce_scatter, parts, {filled});
  }
  // Group order: 256, 1, 3, 1. 256 + 1 = 257 is a tie between 256 and 258 and goes to even, 256; 256 + 3 =
  // 259, between 258 and 260, a tie again, goes to 260 (even significand); 260 + 1 = 261 goes to 260.
  for (int r = 0; r < P; ++r) CHECK(results(plan, r, "y") == std::set<std::vector<double>>{{260}});
}

TEST_CASE("all_reduce, sum and max, in place") {
  constexpr int P = 3;
  for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
    Plan plan = hand::ranks_in_one_group(P);
    for (int r = 0; r < P; ++r) {
      hand::Rank rank(plan, r);
      const auto x = rank.buffer(column("x", 2, Category::output));
      const auto all = rank.view(x);
      const auto filled = rank.fill(compute, all, r == 1 ? -5 : r);
      const auto op = rank.all_reduce(comm, all, all, {filled});
      plan.ranks[static_cast<std::size_t>(r)].operations[op].reduction = reduction;
      rank.communicate(comm, OpKind::barrier, {});
    }
    const double expected = reduction == Reduction::sum ? -3 : 2;
    for (int r = 0; r < P; ++r) {
      CHECK(results(plan, r, "x") == std::set<std::vector<double>>{{expected, expected}});
    }
  }
}

TEST_CASE("a hang names its ranks and operations") {
  Plan plan = hand::ranks_in_one_group(3);
  for (int r = 0; r < 3; ++r) {  // everybody receives before it sends
    hand::Rank rank(plan, r);
    const auto x = rank.buffer(column("x", 1)), y = rank.buffer(column("y", 1));
    rank.fill(compute, rank.view(x));
    rank.communicate(compute, OpKind::exchange, {{rank.view(y), (r + 2) % 3, false}});
    rank.communicate(compute, OpKind::exchange, {{rank.view(x), (r + 1) % 3, true}});
  }
  for (const CpuOptions& options : {CpuOptions{}, random_order(1)}) {
    CpuExecutor executor(plan, options);
    try {
      executor.run();
      FAIL("a cycle of receives has ended");
    } catch (const ExecutionHang& hang) {
      CHECK_FALSE(hang.timed_out);
      CHECK(hang.ranks == std::vector<int>{0, 1, 2});
      CHECK(hang.operations == std::vector<std::string>{"0/forward/1", "1/forward/1", "2/forward/1"});
      CHECK(std::string(hang.what()).find("rank 2") != std::string::npos);
    }
  }
}

TEST_CASE("the time limit ends an execution") {
  CpuOptions options;
  options.timeout_s = 0;
  const Plan plan = two_lanes(true, true);
  CpuExecutor executor(plan, options);
  try {
    executor.run();
    FAIL("no time, and yet it ended");
  } catch (const ExecutionHang& hang) {
    CHECK(hang.timed_out);
    CHECK(hang.ranks == std::vector<int>{0});
  }
}

TEST_CASE("repetitions are timed, and the timeline respects the edges") {
  const Plan plan = send_and_overwrite(true, true);
  CpuOptions options = random_order(5);
  options.warmup = 2;
  options.iterations = 4;
  CpuExecutor executor(plan, options);
  const ExecutionResult result = executor.run();
  CHECK(result.times_s.size() == 4);
  CHECK(result.time_s > 0);
  CHECK(result.phases.empty());  // a forward alone
  CHECK(result.overrun_ranks.empty());
  CHECK_FALSE(result.timeline.predicted);
  REQUIRE(result.timeline.ranks.size() == 2);
  for (const RankPlan& rank : plan.ranks) {
    const auto& times = result.timeline.ranks[static_cast<std::size_t>(rank.rank)];
    REQUIRE(times.size() == rank.operations.size());
    for (std::size_t i = 0; i < times.size(); ++i) {
      CHECK(times[i].start_s <= times[i].end_s);
      CHECK(times[i].wait_s <= times[i].end_s - times[i].start_s);
      for (const std::uint32_t before : rank.after(rank.operations[i]))
        CHECK(times[before].end_s <= times[i].start_s);
    }
  }
}

// The executor puts guard zones around the arena; a kernel that writes into one is found afterwards.
TEST_CASE("a tile that writes outside the arena is reported") {
  static kernels::Tiles stray = kernels::cpu_tiles();
  stray.rowwise = [](const kernels::Rowwise& call) {
    if (call.kind == kernels::Rowwise::Kind::fill)
      kernels::store_element(call.into.data, call.into.dtype, -1, call.value);
    kernels::cpu_tiles().rowwise(call);
  };
  Plan plan = hand::ranks_in_one_group(1);
  hand::Rank rank(plan, 0);
  const auto a = rank.buffer(column("a", 1));
  rank.fill(compute, rank.view(a), 1);
  CpuOptions options;
  options.tiles = &stray;
  CpuExecutor executor(plan, options);
  CHECK(executor.run().overrun_ranks == std::vector<int>{0});
}

TEST_CASE("orders are read from text") {
  CHECK(parse_order("program")->random == false);
  CHECK(parse_order("random:17")->random);
  CHECK(parse_order("random:17")->seed == 17);
  for (const char* wrong :
       {"", "random", "random:", "random:-1", "random:1x", "Program", "random:99999999999999999999"})
    CHECK_FALSE(parse_order(wrong).has_value());
}

}  // namespace
}  // namespace cplab

// The checker on sinks, tables and biases of positions: plans of every algorithm, and single mistakes in
// them.
#include <doctest/doctest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "derive/edges.hpp"
#include "derive/edits.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/scenarios/any_scenario.hpp"

using namespace cplab;
using namespace cplab::hand;

namespace {

void take(Problem& p, BiasForm bias, double softcap, bool sink) {
  p.bias = bias, p.softcap = softcap, p.sink = sink;
  if (bias == BiasForm::alibi) p.slopes = {0.5, 0.25};
  if (bias == BiasForm::buckets) p.buckets = 8, p.max_distance = 20;
}

Plan of(const std::string& algorithm, int P, BiasForm bias, bool sink, double softcap = 0) {
  Scenario s = testing::any_scenario(P, algorithm);
  take(s.problem, bias, softcap, sink);
  return build_plan(testing::resolve_with_heads(s));
}

// Every read of that operand by the first attend of that rank that has it, changed.
void change(RankPlan& rank, OpKind kind, Operand operand,
            const std::function<void(std::vector<Access>&, Access&)>& by) {
  for (Operation& op : rank.operations) {
    if (op.kind != kind || !rank.find(op, operand)) continue;
    std::vector<Access> reads(rank.reads(op).begin(), rank.reads(op).end());
    for (std::size_t i = 0; i < reads.size(); ++i)
      if (reads[i].operand == operand) {
        by(reads, reads[i]);
        break;
      }
    op.reads = add_accesses(rank, reads);
    return derive_edges(rank);
  }
  FAIL("no operation has that operand");
}

bool says(const Plan& plan, const std::string& what) {
  const CheckResult result = check(plan);
  INFO(text(result));
  CHECK_FALSE(result.ok());
  return text(result).find(what) != std::string::npos;
}

}  // namespace

TEST_CASE("sinks, softcaps and biases: every algorithm of softmax attention, with every form") {
  // What they refuse they say: which key, and what is legal.
  const auto takes = [](const std::string& name, BiasForm bias, bool sink) {
    try {
      (void)of(name, 2, bias, sink);
      return true;
    } catch (const ScenarioError& error) {
      CHECK((error.key == "problem.sink" || error.key == "problem.bias"));
      CHECK(std::string(error.what()).find("legal here: ") != std::string::npos);
      return false;
    }
  };
  for (const char* all : {"ring", "all_gather", "all_to_all", "head_strided", "hierarchical", "usp"})
    CHECK(takes(all, BiasForm::full, true));
  for (const char* passes_queries : {"pass_q", "mesh", "tree", "helix"})
    CHECK(takes(passes_queries, BiasForm::full, true));
  for (const Algorithm& algorithm : algorithms()) {
    const std::string name(algorithm.name);
    if (testing::attention_of(name) != Attention::softmax) continue;
    const bool sinks = takes(name, BiasForm::none, true);
    CAPTURE(name);
    for (const int P : {1, 2, 3, 4, 5}) {
      CAPTURE(P);
      for (const BiasForm bias :
           {BiasForm::none, BiasForm::alibi, BiasForm::buckets, BiasForm::keys, BiasForm::full}) {
        CAPTURE(static_cast<int>(bias));
        if (takes(name, bias, sinks)) require_right(of(name, P, bias, sinks, P % 2 == 0 ? 30 : 0));
      }
    }
  }
}

TEST_CASE("a sink that is never counted, or that of other heads, is a finding") {
  Plan plan = of("ring", 3, BiasForm::none, true);
  change(plan.ranks[1], OpKind::attend, Operand::sink, [](std::vector<Access>& reads, Access& sink) {
    reads.erase(reads.begin() + (&sink - reads.data()));
  });
  CHECK(says(plan, "lacks the sinks of the queries"));

  plan = of("ring", 3, BiasForm::none, true);
  RankPlan& rank = plan.ranks[1];
  change(rank, OpKind::attend, Operand::sink, [&](std::vector<Access>&, Access& sink) {
    // The rank's gradient buffer in its place: nobody has written it yet.
    for (std::uint32_t v = 0; v < rank.views.size(); ++v)
      if (rank.buffers[rank.views[v].buffer].name == "dsink") sink.view = v;
  });
  CHECK(says(plan, "nobody has written"));
}

TEST_CASE("a gradient of sinks that lacks a rank's queries, or has them twice, is a finding") {
  Plan plan = of("all_gather", 3, BiasForm::none, true);
  for (RankPlan& rank : plan.ranks)
    for (std::size_t i = rank.operations.size(); i-- > 0;)
      if (rank.operations[i].kind == OpKind::all_reduce) {
        remove_operation(rank, i);
        break;
      }
  CHECK(says(plan, "lacks contributions of the queries"));

  plan = of("all_gather", 3, BiasForm::none, true);
  for (RankPlan& rank : plan.ranks)
    for (std::size_t i = rank.operations.size(); i-- > 0;)
      if (rank.operations[i].kind == OpKind::all_reduce) {
        insert_operation(rank, i + 1, rank.operations[i]);  // and what is complete once more
        derive_edges(rank);
        break;
      }
  CHECK(says(plan, "that are there already"));
}

TEST_CASE("a gradient of sinks that sums up rows of padding is a finding") {
  Scenario s = testing::any_scenario(2, "ring");
  take(s.problem, BiasForm::none, 0, true);
  s.problem.sequence = 13;  // in zigzag four chunks of 4, of which the last has one token
  for (std::vector<std::int64_t>* lengths : {&s.problem.lengths, &s.problem.padded_lengths})
    lengths->assign(lengths->size(), 13);
  Plan plan = build_plan(testing::resolve_with_heads(s));
  REQUIRE(check(plan).ok());
  RankPlan& rank = plan.ranks[0];
  for (const Operand operand : {Operand::lse, Operand::delta})
    change(rank, OpKind::sink_gradient, operand, [&](std::vector<Access>&, Access& access) {
      View all = rank.views[access.view];
      const std::int64_t rows = rank.buffers[all.buffer].rows;
      REQUIRE(row_count(rank.rows_of(all)) < rows);
      all.ranges = add_ranges(rank, {{0, rows, 1}});
      access.view = add_view(rank, all);
    });
  CHECK(says(plan, "sums up rows of padding"));
}

TEST_CASE("positions of other keys or queries than the tile's are a finding") {
  for (const BiasForm bias : {BiasForm::alibi, BiasForm::buckets}) {
    for (const bool of_queries : {false, true}) {
      Plan plan = of("ring", 2, bias, false);
      RankPlan& rank = plan.ranks[1];
      for (Operation& op : rank.operations) {
        if (op.kind != OpKind::attend) continue;
        std::vector<RowRange> columns(rank.columns_of(op).begin(), rank.columns_of(op).end());
        (of_queries ? columns.back() : columns.front()).begin += 1;
        op.columns = add_ranges(rank, columns);
        break;
      }
      CHECK(says(plan, "reads the biases of other keys"));
    }
    Plan plan = of("ring", 2, bias, false);
    for (Operation& op : plan.ranks[0].operations)
      if (op.kind == OpKind::attend) {
        op.bias = BiasForm::none;
        break;
      }
    CHECK_FALSE(check(plan).ok());
  }
}

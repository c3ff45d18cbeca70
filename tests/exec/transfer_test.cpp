// Transfers of random distributions, executed: every row comes from whom it should, and the adjoint brings
// back the sum of what the members have, in the order of the team.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "algorithms/core/build.hpp"
#include "algorithms/core/transfer.hpp"
#include "check/check.hpp"
#include "exec/cpu/executor.hpp"
#include "tests/exec/scenarios.hpp"
#include "tests/scenarios/random_distribution.hpp"

namespace cplab {
namespace {

using testing::rows_of;
using testing::Token;
using testing::tokens_of;

constexpr std::int64_t tensor_width = 3;

// What the algorithm below does; algorithms are functions and hold nothing.
struct Wanted {
  Distribution from, to;
  bool adjoint = false;
  Layout from_layout = Layout::rows_first, to_layout = Layout::rows_first;
  std::int64_t planes = 0, most_pieces = 16;
};
const Wanted* wanted_transfer = nullptr;

// One tensor from "source" to "target".
void build_transfer(Builder& b) {
  const Wanted& w = *wanted_transfer;
  const Redistribution how(w.from, w.to);
  const auto buffer = [&](const char* name, Category category, const Holding& holding, Layout layout) {
    return b.buffer({name, Role::nominal, category, 1, holding.rows(), holding.heads.count(), tensor_width,
                     w.planes, layout, holding.heads.begin});
  };
  const auto place = static_cast<std::size_t>(b.position());
  const Holding &from = w.from.members[place], &to = w.to.members[place];
  const Box source = w.adjoint ? buffer("source", Category::input, to, w.to_layout)
                               : buffer("source", Category::input, from, w.from_layout);
  const Box target = w.adjoint ? buffer("target", Category::output, from, w.from_layout)
                               : buffer("target", Category::output, to, w.to_layout);
  if (!w.adjoint) b.fill({LaneKind::compute, 0}, target, 0);  // a member may get nothing at all
  TransferOptions options;
  options.adjoint = w.adjoint;
  options.most_pieces = w.most_pieces;
  Transfer(b, b.everyone(), options, {{"t", &how, source, target}})
      .all({LaneKind::compute, 0}, {LaneKind::comm, 0});
}

// Of a buffer as an executor reads and writes it, slot by slot, row by row, head by head.
std::size_t element_index(const Holding& h, std::int64_t row, std::int64_t head, std::int64_t column) {
  return static_cast<std::size_t>((row * h.heads.count() + head - h.heads.begin) * tensor_width + column);
}

// A number of its own for every element of every member, with bits to the last place.
double value(int member, Token token, std::int64_t head, std::int64_t column) {
  std::mt19937_64 random(static_cast<std::uint64_t>(member * 1000003 + token.first * 10007 +
                                                    token.second * 101 + head * 7 + column));
  return std::ldexp(static_cast<double>(random() >> 11), -53) - 0.5;
}

int giver_of(const Distribution& from, int receiver, Token token, std::int64_t head) {
  const auto holds = [&](int member) {
    return head >= from[member].heads.begin && head < from[member].heads.end &&
           rows_of(from[member]).contains(token);
  };
  if (holds(receiver)) return receiver;
  for (int member = 0; member < from.size(); ++member)
    if (holds(member)) return member;
  return -1;
}

void check_transfer(const Wanted& w, std::uint64_t seed) {
  wanted_transfer = &w;
  ScenarioSpec spec;
  spec.ranks = w.from.size();
  Algorithm algorithm;
  algorithm.name = "transfer";
  algorithm.build = build_transfer;
  Scenario s = scenario(spec);
  const Plan plan = build_plan(s, algorithm);
  CpuOptions options;
  options.order = {seed % 2 == 1, seed};
  CpuExecutor executor(plan, options);
  const Distribution& sources = w.adjoint ? w.to : w.from;
  const Distribution& targets = w.adjoint ? w.from : w.to;
  for (int member = 0; member < sources.size(); ++member) {
    if (!executor.has(member, "source")) continue;
    const Holding& h = sources[member];
    std::vector<double> values(static_cast<std::size_t>(h.rows() * h.heads.count() * tensor_width), 1e6);
    for (const auto& [row, token] : tokens_of(h))
      for (std::int64_t head = h.heads.begin; head < h.heads.end; ++head)
        for (std::int64_t c = 0; c < tensor_width; ++c)
          values[element_index(h, row, head, c)] = value(member, token, head, c);
    executor.write(member, "source", values);
  }
  executor.run();
  for (int member = 0; member < targets.size(); ++member) {
    const Holding& h = targets[member];
    std::vector<double> values;
    if (executor.has(member, "target")) values = executor.read(member, "target");
    const auto tokens = tokens_of(h);
    for (std::int64_t row = 0; row < h.rows(); ++row) {
      for (std::int64_t head = h.heads.begin; head < h.heads.end; ++head) {
        const bool held = tokens.contains(row);
        for (std::int64_t c = 0; c < tensor_width; ++c) {
          if (!w.adjoint) {
            const int giver = held ? giver_of(w.from, member, tokens.at(row), head) : -1;
            if (giver >= 0)
              CHECK(values.at(element_index(h, row, head, c)) == value(giver, tokens.at(row), head, c));
            continue;
          }
          // The sum in the order of the team; rows that nobody took, or that hold no token, are 0.
          double sum = 0;
          bool first = true;
          for (int taker = 0; taker < w.to.size() && held; ++taker) {
            const Token token = tokens.at(row);
            if (head < w.to[taker].heads.begin || head >= w.to[taker].heads.end ||
                !rows_of(w.to[taker]).contains(token) || giver_of(w.from, taker, token, head) != member)
              continue;
            const double addend = value(taker, token, head, c);
            sum = first ? addend : sum + addend;
            first = false;
          }
          CHECK(values.at(element_index(h, row, head, c)) == sum);
        }
      }
    }
  }
}

TEST_CASE("transfer: random distributions, layouts and limits, there and back") {
  std::mt19937_64 random(3);
  int cases = 0;  // where every member holds something
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    testing::RandomDistribution shape;
    shape.members = 1 + i % 4;
    for (int n = 1 + i % 3; n > 0; --n) shape.lengths.push_back(static_cast<std::int64_t>(random() % 14));
    shape.lengths.push_back(5);
    const auto one = [&](bool replicated) {
      shape.parts_heads = random() % 2 == 0;
      shape.replicated = replicated;
      shape.rows_in_order = random() % 2 == 0;
      return testing::random_distribution(shape, random);
    };
    Wanted w;
    w.from = one(i % 5 == 0);
    w.to = one(random() % 2 == 0);
    w.from_layout = random() % 2 == 0 ? Layout::rows_first : Layout::heads_first;
    w.to_layout = random() % 2 == 0 ? Layout::rows_first : Layout::heads_first;
    w.planes = random() % 2 == 0 ? 2 : 0;
    w.most_pieces = static_cast<std::int64_t>(random() % 3 * 8);
    const auto empty = [](const Holding& h) { return h.rows() == 0; };
    if (std::ranges::any_of(w.from.members, empty) || std::ranges::any_of(w.to.members, empty)) continue;
    ++cases;
    for (const bool adjoint : {false, true}) {
      CAPTURE(adjoint);
      w.adjoint = adjoint;
      check_transfer(w, static_cast<std::uint64_t>(i));
    }
  }
  CHECK(cases > 200);
}

// All get everything, in equal parts: one all_gather, and its adjoint one reduce_scatter that sums in order.
TEST_CASE("transfer: gathers and sums by the collectives that are made for it") {
  for (const int P : {2, 3, 4}) {
    for (const char* placement : {"contiguous", "zigzag", "striped"}) {
      ScenarioSpec spec;
      spec.ranks = P;
      const Scenario s = scenario(spec);
      const Distribution tokens = placed(s.problem, Placement(s.problem, s.parallel, placement, 0), P);
      Wanted w;
      w.from = tokens;
      w.to = all_tokens(tokens);
      for (const bool adjoint : {false, true}) {
        w.adjoint = adjoint;
        check_transfer(w, 1);
        Algorithm algorithm;
        algorithm.build = build_transfer;
        for (const RankPlan& rank : build_plan(s, algorithm).ranks) {
          int communications = 0;
          for (const Operation& op : rank.operations) {
            if (!is_communication(op.kind)) continue;
            ++communications;
            CHECK(op.kind == (adjoint ? OpKind::reduce_scatter : OpKind::all_gather));
          }
          CHECK(communications == 1);
        }
      }
      // Heads for tokens and back.
      if (4 % P != 0) continue;
      w.to = split_heads(tokens);
      for (const bool adjoint : {false, true}) {
        w.adjoint = adjoint;
        check_transfer(w, 2);
      }
    }
  }
}

}  // namespace
}  // namespace cplab

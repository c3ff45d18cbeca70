// Exposed communication split into waiting for peers and transfer: by hand, and against counting seconds.
#include <doctest/doctest.h>

#include <random>

#include "report/figures.hpp"
#include "report/peers.hpp"
#include "tests/hand_plans/hand_plans.hpp"
#include "tests/report/hand_plan.hpp"

using namespace cplab;

namespace {

constexpr std::int64_t rows = 4;

// Appends an exchange of one part each way with every peer.
std::uint32_t trade(Plan& plan, int r, const std::vector<int>& peers, Lane lane = hand::comm,
                    OpKind kind = OpKind::exchange) {
  hand::Rank rank(plan, r);
  std::vector<Part> parts;
  for (const int peer : peers) {
    parts.push_back(hand::send(rank.view({0}), peer));
    parts.push_back(hand::receive(rank.view({0}), peer));
  }
  return rank.communicate(lane, kind, parts);
}

void compute(Plan& plan, int r) {
  hand::Rank rank(plan, r);
  rank.operation(hand::compute, OpKind::copy, {}, {});
}

Plan of_ranks(int ranks) {
  Plan plan = hand::ranks_in_one_group(ranks, "all", DType::bf16);
  for (int r = 0; r < ranks; ++r) hand::Rank(plan, r).buffer(hand::column("bytes", rows));
  return plan;
}

RankFigures figures_of(const Plan& plan, const Timeline& timeline, std::size_t rank) {
  return derive_figures(plan, timeline, std::vector<MemoryPlan>(plan.ranks.size())).ranks[rank];
}

void check_split(const RankFigures& rank, double wait_s, double transfer_s) {
  CHECK(rank.exposed_wait_s == wait_s);
  CHECK(rank.exposed_transfer_s == transfer_s);
  CHECK(rank.exposed_communication_s == wait_s + transfer_s);
}

}  // namespace

TEST_CASE("exposed: waiting until the last peer has come, then transfer, less what is computed meanwhile") {
  // Rank 0 trades with ranks 1 and 2, which come at 3 and at 6; it computes 0-2 and 7-8, and ends at 10:
  //   0-2 hidden, 2-6 waiting, 6-7 transfer, 7-8 hidden, 8-10 transfer
  Plan plan = of_ranks(3);
  trade(plan, 0, {1, 2});
  compute(plan, 0);
  compute(plan, 0);
  for (const int r : {1, 2}) trade(plan, r, {0});
  Timeline timeline;
  timeline.ranks = {{from_to(0, 10), from_to(0, 2), from_to(7, 8)}, {from_to(3, 4)}, {from_to(6, 10)}};
  check_split(figures_of(plan, timeline, 0), 4, 3);
  check_split(figures_of(plan, timeline, 1), 0, 1);
  check_split(figures_of(plan, timeline, 2), 0, 4);
  CHECK(peers_came_s(plan, timeline) == std::vector<std::vector<double>>{{6, 0, 0}, {3}, {6}});
}

TEST_CASE("exposed: of several communications under way one that moves data makes it transfer") {
  // Lane 0 waits 0-8 for rank 1; lane 1 trades with rank 2, which is there, 2-5.
  Plan plan = of_ranks(3);
  trade(plan, 0, {1});
  trade(plan, 0, {2}, {LaneKind::comm, 1});
  trade(plan, 1, {0});
  trade(plan, 2, {0});
  Timeline timeline;
  timeline.ranks = {{from_to(0, 9), from_to(2, 5)}, {from_to(8, 9)}, {from_to(1, 5)}};
  check_split(figures_of(plan, timeline, 0), 2 + 3, 3 + 1);
  // Nothing but one communication that waits to its end: all of it is waiting.
  timeline.ranks = {{from_to(0, 8), from_to(8, 8)}, {from_to(8, 9)}, {from_to(8, 8)}};
  check_split(figures_of(plan, timeline, 0), 8, 0);
}

TEST_CASE("exposed: collectives wait for their last member, with parts or without") {
  for (const OpKind kind : {OpKind::all_gather, OpKind::all_to_all, OpKind::all_reduce, OpKind::barrier}) {
    CAPTURE(name(kind));
    Plan plan = of_ranks(3);
    for (int r = 0; r < 3; ++r) {
      if (kind == OpKind::all_gather || kind == OpKind::all_to_all)
        trade(plan, r, {0, 1, 2}, hand::comm, kind);
      else
        hand::Rank(plan, r).operation(hand::comm, kind, {}, {});
    }
    Timeline timeline;
    timeline.ranks = {{from_to(1, 9)}, {from_to(4, 9)}, {from_to(6, 9)}};
    check_split(figures_of(plan, timeline, 0), 5, 3);
    check_split(figures_of(plan, timeline, 1), 2, 3);
    check_split(figures_of(plan, timeline, 2), 0, 3);
  }
}

TEST_CASE("exposed: starts that clocks put behind the end of a peer leave no negative time") {
  Plan plan = of_ranks(2);
  trade(plan, 0, {1});
  trade(plan, 1, {0});
  Timeline timeline;
  timeline.ranks = {{from_to(0, 5)}, {from_to(6, 7)}};
  check_split(figures_of(plan, timeline, 0), 5, 0);
  check_split(figures_of(plan, timeline, 1), 0, 1);
}

TEST_CASE("exposed: the k-th exchange of a lane waits for the k-th of its peer") {
  Plan plan = of_ranks(2);
  Timeline timeline;
  timeline.ranks = {{from_to(0, 3), from_to(3, 9)}, {from_to(1, 3), from_to(7, 9)}};
  for (int r = 0; r < 2; ++r)
    for (int i = 0; i < 2; ++i) trade(plan, r, {1 - r});
  check_split(figures_of(plan, timeline, 0), 1 + 4, 2 + 2);
  check_split(figures_of(plan, timeline, 1), 0, 2 + 2);
}

// Rank 0 lists a send that waits for its copy (lane 0), then one that does not (lane 1), which is therefore
// posted first; rank 1 receives twice on one lane. So the second send meets the first receive.
TEST_CASE("exposed: sends of one channel on two lanes match as they are posted") {
  Plan plan = of_ranks(2);
  hand::Rank sender(plan, 0), receiver(plan, 1);
  const std::uint32_t before = sender.operation(hand::compute, OpKind::copy, {}, {});
  const auto send = [&](Lane lane, const hand::After& after) {
    sender.communicate(lane, OpKind::exchange, {hand::send(sender.view({0}), 1)}, after);
  };
  send(hand::comm, {before});
  send({LaneKind::comm, 1}, {});
  for (int i = 0; i < 2; ++i)
    receiver.communicate(hand::comm, OpKind::exchange, {hand::receive(receiver.view({0}), 0)});
  Timeline timeline;
  timeline.ranks = {{from_to(0, 5), from_to(5, 9), from_to(1, 3)}, {from_to(2, 3), from_to(4, 9)}};
  CHECK(peers_came_s(plan, timeline) == std::vector<std::vector<double>>{{0, 5, 2}, {2, 5}});
}

// Messages of two groups between drawn ranks, themselves among them, each group on a lane of its own: what a
// rank sends to another at a step it receives at the same step, in the same order.
TEST_CASE("exposed: drawn messages come when the n-th of their channel does") {
  constexpr int most_ranks = 5;
  std::mt19937 random(3);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 50; ++round) {
    CAPTURE(round);
    const int ranks = 1 + below(most_ranks);
    Plan plan = of_ranks(ranks);
    plan.groups.push_back(plan.groups[0]);
    Timeline timeline;
    timeline.ranks.resize(static_cast<std::size_t>(ranks));
    std::vector<std::vector<double>> came(static_cast<std::size_t>(ranks));
    for (int step = 0; step < 8; ++step) {
      double starts[most_ranks][2] = {}, latest[most_ranks][2] = {};
      std::vector<Part> parts[most_ranks][2];
      for (int r = 0; r < ranks; ++r)
        for (int g = 0; g < 2; ++g) starts[r][g] = latest[r][g] = 10 * step + below(10);
      for (int n = below(3 * ranks); n >= 0; --n) {
        const int from = below(ranks), into = below(ranks), g = below(2);
        parts[from][g].push_back(hand::send(hand::Rank(plan, from).view({0}), into));
        parts[into][g].push_back(hand::receive(hand::Rank(plan, into).view({0}), from));
        latest[from][g] = std::max(latest[from][g], starts[into][g]);
        latest[into][g] = std::max(latest[into][g], starts[from][g]);
      }
      for (int r = 0; r < ranks; ++r) {
        for (int g = 0; g < 2; ++g) {
          hand::Rank(plan, r).communicate({LaneKind::comm, static_cast<std::uint8_t>(g)}, OpKind::exchange,
                                          parts[r][g], {}, static_cast<std::uint16_t>(g));
          timeline.ranks[static_cast<std::size_t>(r)].push_back(from_to(starts[r][g], 10 * step + 20));
          came[static_cast<std::size_t>(r)].push_back(latest[r][g]);
        }
      }
    }
    CHECK(peers_came_s(plan, timeline) == came);
  }
}

// Three ranks; two lanes, each with its own group, of exchanges with both others, in whole seconds.
TEST_CASE("exposed waiting and transfer against counting") {
  std::mt19937 random(11);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  constexpr int ranks = 3, lanes = 2, each = 5, horizon = 60;
  for (int round = 0; round < 100; ++round) {
    Plan plan = of_ranks(ranks);
    plan.groups.push_back(plan.groups[0]);
    Timeline timeline;
    timeline.ranks.resize(ranks);
    int starts[ranks][lanes][each], ends[ranks][lanes][each];
    bool busy[ranks][horizon] = {};
    for (int r = 0; r < ranks; ++r) {
      for (int l = 0; l < lanes; ++l) {
        int now = 0;
        for (int i = 0; i < each; ++i) {
          const auto op = trade(plan, r, {(r + 1) % ranks, (r + 2) % ranks},
                                {LaneKind::comm, static_cast<std::uint8_t>(l)});
          plan.ranks[static_cast<std::size_t>(r)].operations[op].group = static_cast<std::uint16_t>(l);
          starts[r][l][i] = now + below(4);
          now = ends[r][l][i] = starts[r][l][i] + below(8);
          timeline.ranks[static_cast<std::size_t>(r)].push_back(from_to(starts[r][l][i], ends[r][l][i]));
        }
      }
      for (int i = 0, now = 0; i < 6; ++i) {
        compute(plan, r);
        const int start = now + below(6);
        now = start + below(4);
        for (int t = start; t < now; ++t) busy[r][t] = true;
        timeline.ranks[static_cast<std::size_t>(r)].push_back(from_to(start, now));
      }
    }
    for (int r = 0; r < ranks; ++r) {
      int wait = 0, transfer = 0;
      for (int t = 0; t < horizon; ++t) {
        bool under_way = false, moves = false;
        for (int l = 0; l < lanes; ++l) {
          for (int i = 0; i < each; ++i) {
            if (t < starts[r][l][i] || t >= ends[r][l][i]) continue;
            under_way = true;
            int last = 0;
            for (const auto& of_rank : starts) last = std::max(last, of_rank[l][i]);
            moves = moves || t >= last;
          }
        }
        if (busy[r][t] || !under_way) continue;
        ++(moves ? transfer : wait);
      }
      check_split(figures_of(plan, timeline, static_cast<std::size_t>(r)), wait, transfer);
    }
  }
}

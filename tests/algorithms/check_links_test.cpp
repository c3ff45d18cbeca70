// Mistakes of communication that a fast or a slow link may hide: parts of one collective that touch each
// other's memory, launches that the ranks issue in orders that do not fit together, collectives on lanes that
// nothing orders. Beside each wrong plan stands a right one that differs in that one thing.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "check/check.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/hand_plans/attention_plans.hpp"

using namespace cplab;
using namespace cplab::hand;

TEST_CASE("check: parts of one collective share a view only where nothing moves") {
  // An all_gather of K and V: the own part is copied, stays where it is, or is written while it is sent.
  enum class Own : std::uint8_t { copied, in_place, overwritten };
  for (const Own own : {Own::copied, Own::in_place, Own::overwritten}) {
    CAPTURE(static_cast<int>(own));
    Plan plan = gathered(3, 4);
    for (int r = 0; r < 3; ++r) {
      Rank rank(plan, r);
      Operation& gather = find(plan, r, OpKind::all_gather, Phase::forward, 0);
      if (own == Own::copied) continue;
      const std::uint32_t all = rank.find("kv_all");
      At at{all};
      at.row = 4 * r, at.rows = 4;
      const std::uint32_t slice = rank.view(at);
      std::vector<Part> parts(rank.plan().parts_of(gather).begin(), rank.plan().parts_of(gather).end());
      for (Part& p : parts) {
        if (p.send && (own == Own::in_place || p.peer != r)) p.view = slice;
        if (!p.send && p.peer == r) p.view = slice;
      }
      gather.parts = {static_cast<std::uint32_t>(rank.plan().parts.size()),
                      static_cast<std::uint32_t>(parts.size())};
      rank.plan().parts.insert(rank.plan().parts.end(), parts.begin(), parts.end());
      // Before it: the own rows are put in their place.
      std::vector<Operation>& list = rank.plan().operations;
      const std::uint32_t copy = rank.copy(comm, rank.view({rank.find("kv")}), slice);
      Operation first = list[copy];
      list.pop_back();
      list.insert(list.begin(), first);
      for (std::uint32_t i = 0, f = 0, b = 0; i < list.size(); ++i)
        list[i].ordinal = list[i].phase == Phase::forward ? f++ : b++;
    }
    const Plan ordered = with_edges(plan);
    if (own == Own::overwritten)
      require_anywhere(ordered, FindingKind::race);
    else
      require_right(ordered);
  }
}

TEST_CASE("check: a sum over ranks that begins where its own part lies") {
  for (const bool sent_elsewhere : {false, true}) {
    Plan plan = gathered(3, 4);
    for (int r = 0; r < 3; ++r) {
      Rank rank(plan, r);
      Operation& scatter = find(plan, r, OpKind::reduce_scatter, Phase::backward, 0);
      std::vector<Part> parts(rank.plan().parts_of(scatter).begin(), rank.plan().parts_of(scatter).end());
      std::uint32_t own = 0;
      for (const Part& p : parts)
        if (p.send && p.peer == r) own = p.view;
      for (Part& p : parts)
        if (!p.send || (sent_elsewhere && p.peer == (r + 1) % 3)) p.view = own;
      scatter.parts = {static_cast<std::uint32_t>(rank.plan().parts.size()),
                       static_cast<std::uint32_t>(parts.size())};
      rank.plan().parts.insert(rank.plan().parts.end(), parts.begin(), parts.end());
      for (Operation& op : rank.plan().operations)  // the sum is read where it lies now
        if (op.kind == OpKind::cast) rank.plan().accesses[op.reads.first].view = own;
      RankPlan& p = rank.plan();
      p.buffers[rank.find("dkv_sum")].category =
          Category::output;  // nobody uses it now, which would be a finding (leak) of its own
    }
    const CheckResult result = check(with_edges(plan));
    INFO(text(result));
    bool race = false, coverage = false;
    for (const Finding& f : result.findings) {
      race = race || f.kind == FindingKind::race;
      coverage = coverage || f.kind == FindingKind::coverage;
    }
    CHECK(race == sent_elsewhere);
    if (!sent_elsewhere) CHECK_FALSE(coverage);
  }
}

TEST_CASE("check: launches of three ranks that go round") {
  // Each pair of ranks meets once, every meeting on a lane of its own. Either each rank begins with the next
  // one, so that every rank waits for another pair; or all keep the order 0-1, 1-2, 2-0.
  for (const bool round : {true, false}) {
    Plan plan = ring(3, 4, Merge::incremental, Direction::forward);
    plan.groups.push_back({"pairs", {0, 1, 2}});
    for (int r = 0; r < 3; ++r) {
      Rank rank(plan, r);
      const auto inbox = rank.buffer("inbox", Role::nominal, Category::working, 2, 4, 2, 14);
      const std::uint32_t kv = rank.view({rank.find("kv")});
      const auto meet = [&](int peer, std::int32_t slot) {
        rank.communicate({LaneKind::comm, static_cast<std::uint8_t>(1 + slot)}, OpKind::exchange,
                         {send(kv, peer), receive(rank.view({inbox, slot}), peer)}, {}, 1);
      };
      const int next = (r + 1) % 3, before = (r + 2) % 3;
      const bool next_first = round || r == 0;
      meet(next_first ? next : before, 0);
      meet(next_first ? before : next, 1);
    }
    const CheckResult result = check(with_edges(plan));
    INFO(text(result));
    bool order = false;
    for (const Finding& f : result.findings)
      order = order || (f.kind == FindingKind::order && f.message.find("0 -> ") != std::string::npos &&
                        f.message.find("launches") != std::string::npos);
    CHECK(order == round);
    CHECK(result.ok() != round);
  }
}

TEST_CASE("check: collectives of one group on lanes that nothing orders") {
  for (const bool ordered : {true, false}) {
    Plan plan = ring(2, 4, Merge::incremental, Direction::forward);
    for (int r = 0; r < 2; ++r) {
      Rank rank(plan, r);
      const std::uint32_t first = rank.communicate({LaneKind::comm, 1}, OpKind::barrier, {});
      std::vector<std::uint32_t> after;
      if (ordered) after.push_back(first);
      rank.communicate({LaneKind::comm, 2}, OpKind::barrier, {}, after);
    }
    if (ordered)
      require_right(plan);
    else
      require_anywhere(plan, FindingKind::order);
  }
}

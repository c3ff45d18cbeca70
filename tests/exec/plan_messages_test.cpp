// Messages of plans as runs of bytes: how many, in which order, and which ends do not fit each other.
#include "exec/plan_messages.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "check/check.hpp"
#include "exec/bind.hpp"
#include "exec/cpu/executor.hpp"
#include "tests/hand_plans/communication_plans.hpp"
#include "tests/hand_plans/hand_plans.hpp"

namespace cplab {
namespace {

using hand::comm;
using hand::trade_of_lse;

// What the checker says of messages; these plans compute no attention, which it says too.
std::vector<std::string> unmatched(const Plan& plan) {
  std::vector<std::string> messages;
  for (const Finding& finding : check(plan).findings)
    if (finding.kind == FindingKind::unmatched) messages.push_back(finding.message);
  return messages;
}

TEST_CASE("an LSE of 128K tokens that is traded for heads is one run for each head and peer") {
  constexpr int P = 8;
  constexpr std::int32_t H = 64;
  constexpr std::int64_t rows = 131072 / P;
  const Plan plan = trade_of_lse(P, rows, H, Layout::heads_first, Layout::heads_first);
  std::vector<std::size_t> sent(P);
  for (const PlanMessage& message : plan_messages(plan)) {
    REQUIRE(message.from.size() == message.into.size());
    // Contiguous where it leaves; P runs of rows apart from each other where it arrives.
    CHECK(message.from.size() == H / P);
    for (const Piece& run : message.from) CHECK(run.bytes == rows * 4);
    sent[message.match.sender.rank] += message.from.size();
  }
  // 64 runs instead of a number for every row and head: 64 * 16384 = 1,048,576 of 4 bytes.
  CHECK(sent == std::vector<std::size_t>(P, H));
}

TEST_CASE("which layout carries a message changes no number") {
  const auto result = [](Layout layout) {
    const Plan plan = trade_of_lse(4, 6, 8, layout, layout);
    CHECK(unmatched(plan).empty());
    CpuExecutor executor(plan, {});
    std::vector<double> values(6 * 8);
    for (int r = 0; r < 4; ++r) {
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<double>(100 * r + static_cast<int>(i));
      executor.write(r, "tokens", values);
    }
    executor.run();
    std::vector<std::vector<double>> all;
    for (int r = 0; r < 4; ++r) all.push_back(executor.read(r, "heads"));
    return all;
  };
  const auto rows_first = result(Layout::rows_first), heads_first = result(Layout::heads_first);
  CHECK(rows_first == heads_first);
  // Rank 2 has heads 4 and 5; its row 13 is row 1 of rank 2.
  CHECK(heads_first[2][13 * 2 + 1] == 200 + 1 * 8 + 5);
}

TEST_CASE("ends that nest rows and heads otherwise do not fit each other") {
  const Plan plan = trade_of_lse(2, 3, 4, Layout::heads_first, Layout::rows_first);
  const std::vector<std::string> findings = unmatched(plan);
  REQUIRE(!findings.empty());
  CHECK(findings[0].find("nests rows and heads otherwise than the one that") != std::string::npos);
  const auto refusal = [](const Plan& wrong) -> std::string {
    try {
      plan_messages(wrong);
    } catch (const BadPlan& bad) {
      CHECK(bad.kind == FindingKind::unmatched);
      return bad.what();
    }
    return "";
  };
  CHECK(refusal(plan).find("sends 1 x 3 x 2 x 1 of wide, heads_first and ") != std::string::npos);
  CHECK_THROWS_AS(CpuExecutor(plan, {}).run(), BadPlan);
  // One head, or one row, nests either way.
  for (const Plan& flat : {trade_of_lse(4, 3, 4, Layout::heads_first, Layout::rows_first),
                           trade_of_lse(2, 1, 4, Layout::rows_first, Layout::heads_first)}) {
    CHECK(unmatched(flat).empty());
    CHECK(refusal(flat) == "");
  }
}

TEST_CASE("lists are cut where one of them is") {
  std::vector<std::vector<Piece>> lists{{{0, 10}}, {{100, 4}, {200, 6}}, {{50, 6}, {80, 4}}};
  cut_alike(lists);
  CHECK(lists[0] == std::vector<Piece>{{0, 4}, {4, 2}, {6, 4}});
  CHECK(lists[1] == std::vector<Piece>{{100, 4}, {200, 2}, {202, 4}});
  CHECK(lists[2] == std::vector<Piece>{{50, 4}, {54, 2}, {80, 4}});
  std::vector<std::vector<Piece>> empty(2);
  cut_alike(empty);
  CHECK(empty[0].empty());
}

// Rank 0 sends a, then b, in two parts to rank 1, then c to rank 2; who receives posts in another order.
TEST_CASE("parts are posted in the order of the plan, whatever order they meet in") {
  Plan plan = hand::ranks_in_one_group(3);
  for (int r = 0; r < 3; ++r) {
    hand::Rank rank(plan, r);
    const auto numbers =
        rank.buffer("numbers", Role::nominal, r == 0 ? Category::input : Category::output, 1, 6, 1, 1);
    const auto at = [&](std::int64_t row) { return rank.view(hand::rows_of(numbers, row, 2)); };
    std::vector<Part> parts;
    if (r == 0) {
      parts = {hand::send(at(4), 2), hand::send(at(0), 1), hand::send(at(2), 1)};
    } else if (r == 1) {
      parts = {hand::receive(at(2), 0), hand::receive(at(0), 0)};
    } else {
      parts = {hand::receive(at(4), 0)};
    }
    rank.communicate(comm, OpKind::exchange, parts);
  }
  const auto messages = plan_messages(plan);
  REQUIRE(messages.size() == 3);
  const auto posted = posted_parts(plan, messages);
  const RankPlan& first = plan.ranks[0];
  const PostedParts& sent = posted[0][0];
  REQUIRE(sent.sends.size() == 3);
  CHECK(sent.receives.empty());
  for (std::uint32_t k = 0; k < 3; ++k)
    CHECK(messages[sent.sends[k]].match.send_part == first.operations[0].parts.first + k);
  const PostedParts& received = posted[1][0];
  REQUIRE(received.receives.size() == 2);
  for (std::uint32_t k = 0; k < 2; ++k)
    CHECK(messages[received.receives[k]].match.receive_part == plan.ranks[1].operations[0].parts.first + k);
  // The first of rank 0's parts to rank 1 meets the first of rank 1's.
  CHECK(messages[received.receives[0]].match.send_part == first.operations[0].parts.first + 1);
  CHECK(messages[received.receives[0]].into.front().offset == 2 * 8);
}

}  // namespace
}  // namespace cplab

// Plans as JSON: round trips (tests/properties has those of every algorithm), and what is said about files
// that are no plan.
#include "report/plan_json.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/core/resolve.hpp"
#include "tests/report/hand_plan.hpp"
#include "tests/scenarios/any_scenario.hpp"
#include "tests/scenarios/same_plan.hpp"

using namespace cplab;
using OrderedJson = nlohmann::ordered_json;

namespace {

std::string plan_text(const Plan& plan) {
  std::ostringstream out;
  write_plan_json(out, plan, {{"cplab", "0.1.0"}, {"commit", "abc"}});
  return out.str();
}

void check_round_trip(const Plan& plan) {
  const std::string text = plan_text(plan);
  const Plan again = read_plan_json(text, "plan.json");
  CHECK(plan_text(again) == text);
  CHECK(testing::difference(plan, again) == "");
}

// The message for a plan with one change, or "" when it is read.
std::string message(const std::string& text) {
  try {
    read_plan_json(text, "p.json");
  } catch (const PlanFileError& error) {
    return error.what();
  }
  return "";
}

// As message, after setting the value at a JSON pointer.
std::string message_with(const char* pointer, const OrderedJson& value) {
  OrderedJson plan = OrderedJson::parse(plan_text(hand_plan()));
  plan.at(OrderedJson::json_pointer(pointer)) = value;
  return message(plan.dump());
}

std::string message_without(const char* pointer, const char* key) {
  OrderedJson plan = OrderedJson::parse(plan_text(hand_plan()));
  plan.at(OrderedJson::json_pointer(pointer)).erase(key);
  return message(plan.dump());
}

}  // namespace

TEST_CASE("a plan made by hand survives") {
  check_round_trip(hand_plan());
}

TEST_CASE("a packed plan with replicas and a window survives") {
  Scenario scenario = testing::any_scenario(2);
  Problem& problem = scenario.problem;
  problem.packed = true;
  problem.format = Format::thd;
  problem.batch = problem.sequence = 0;
  problem.lengths = {7, 0, 30, 16, 1};
  problem.padded_lengths = {8, 4, 30, 16, 3};
  problem.window = {5, -1};
  scenario.parallel.replicas = 2;
  scenario.parallel.groups = {{0, 2}, {1, 3}};
  check_round_trip(build_plan(resolve(scenario)));
}

TEST_CASE("homes of placement hybrid survive, and are there for each sequence or not at all") {
  Scenario scenario = testing::any_scenario(2);
  scenario.problem.packed = true;
  scenario.problem.format = Format::thd;
  scenario.problem.batch = scenario.problem.sequence = 0;
  scenario.problem.lengths = scenario.problem.padded_lengths = {9, 20, 4};
  scenario.placement = "hybrid";
  scenario.parallel.homes = {1, -1, 0};
  const Plan plan = build_plan(resolve(scenario));
  check_round_trip(plan);
  const OrderedJson json = OrderedJson::parse(plan_text(plan));
  CHECK(json["scenario"]["parallel"]["homes"] == OrderedJson::array({1, -1, 0}));
  const auto has = [](const std::string& text, const char* part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  const auto with = [&](const char* key, const OrderedJson& value) {
    OrderedJson changed = json;
    changed["scenario"]["parallel"][key] = value;
    return message(changed.dump());
  };
  has(with("homes", OrderedJson::array({1, -1})), "/scenario/parallel/homes: a list of 2 entries");
  has(with("homes", OrderedJson::array({1, -1, 2})), "/scenario/parallel/homes/2: 2 is out of range");
  has(with("homes", OrderedJson::array({1, -2, 0})), "/scenario/parallel/homes/1");
  has(with("homes", "balanced"), "/scenario/parallel/homes: this is a string");
  has(with("placement", "zigzag"), "/scenario/parallel/homes: only placement hybrid has them");
  OrderedJson without = json;
  without["scenario"]["parallel"].erase("homes");
  has(message(without.dump()), "/scenario/parallel: the key \"homes\" is missing");
}

TEST_CASE("the JSON has the keys that DESIGN lists") {
  const OrderedJson plan = OrderedJson::parse(plan_text(hand_plan()));
  CHECK(plan["schema"] == "cplab.plan.1");
  CHECK(plan["command"] == "show");
  CHECK(plan["versions"]["commit"] == "abc");
  CHECK(plan["scenario"]["problem"]["mask"] == "causal");
  CHECK(plan["scenario"]["problem"]["window"] == OrderedJson::array({-1, -1}));
  CHECK(plan["scenario"]["schedule"]["kv_slots"] == 2);
  CHECK(plan["scenario"]["schedule"]["overlap"] == true);
  const OrderedJson& rank = plan["ranks"][1];
  CHECK(rank["buffers"][1]["axes"][3] == OrderedJson{{"name", "width"}, {"size", 8}});
  for (const OrderedJson& op : rank["operations"])
    for (const char* key : {"id", "phase", "step", "lane", "kind", "transport", "group", "reads", "writes",
                            "parts", "segments", "heads", "after"})
      CHECK_MESSAGE(op.contains(key), key);
  const OrderedJson& exchange = rank["operations"][0];
  CHECK(exchange["id"] == "1/forward/0");
  CHECK(exchange["group"] == "cp0");
  CHECK(exchange["lane"] == OrderedJson{{"kind", "comm"}, {"index", 0}});
  CHECK(exchange["parts"][0]["send"] == true);
  CHECK(exchange["parts"][0]["peer"] == 0);
  CHECK(exchange["parts"][0]["view"]["box"]["rows"] == OrderedJson::parse("[[0, 4, 1]]"));
  const OrderedJson& attend = rank["operations"][2];
  CHECK(attend["group"].is_null());
  CHECK(attend["after"] == OrderedJson::array({"1/forward/0"}));
  CHECK(attend["segments"][1] ==
        OrderedJson::parse(R"({"q":[2,2],"k":[0,4],"offset":2,"left":3,"right":0})"));
  CHECK(attend["heads"] == OrderedJson::array({0, 2}));
  CHECK(attend["value"] == 0.5);
  CHECK(rank["operations"][3]["writes"][0]["mode"] == "merge");
  CHECK(rank["operations"][4]["value"] == "-inf");
  CHECK(rank["operations"][4]["writes"][0]["box"]["rows"] == OrderedJson::parse("[[1, 2, 2]]"));
  CHECK(rank["operations"][5]["reduction"] == "max");
}

TEST_CASE("operands go by name, and a file without names keeps the order of cplab.plan.1") {
  const Plan plan = hand_plan();
  OrderedJson json = OrderedJson::parse(plan_text(plan));
  const auto read = [&] { return read_plan_json(json.dump(), "p.json"); };
  OrderedJson& attend = json["ranks"][0]["operations"][1];
  REQUIRE(attend["reads"][1]["operand"] == "k");
  SUBCASE("names may come in any order") {
    std::swap(attend["reads"][0], attend["reads"][2]);
    std::swap(attend["writes"][0], attend["writes"][1]);
    const RankPlan got = read().ranks[0];
    const RankPlan& want = plan.ranks[0];
    for (const Operand o : {Operand::q, Operand::k, Operand::v, Operand::out, Operand::lse}) {
      INFO(name(o));
      CHECK(got.view_of(got.operations[1], o).buffer == want.view_of(want.operations[1], o).buffer);
      CHECK(got.view_of(got.operations[1], o).width_begin == want.view_of(want.operations[1], o).width_begin);
    }
  }
  SUBCASE("without names the order counts") {
    for (OrderedJson& rank : json["ranks"])
      for (OrderedJson& op : rank["operations"])
        for (const char* key : {"reads", "writes"})
          for (OrderedJson& access : op[key]) access.erase("operand");
    const Plan got = read();
    for (std::size_t r = 0; r < plan.ranks.size(); ++r)
      CHECK(testing::difference(plan.ranks[r], got.ranks[r]) == "");
  }
  SUBCASE("a name for some of them is none") {
    attend["reads"][1].erase("operand");
    CHECK_THROWS(read());
  }
  SUBCASE("an unknown name is an error") {
    attend["reads"][1]["operand"] = "keys";
    CHECK_THROWS(read());
  }
}

TEST_CASE("what a file asks to be derived is what the builder derived") {
  Scenario s = hand_plan().scenario;
  s.parallel.ranks = 3;
  s.parallel.groups.clear();
  s.algorithm = algorithms().front().name;
  s.placement.clear();
  s.problem.sequence = 24;
  s.problem.lengths = s.problem.padded_lengths = {24};
  const Plan plan = build_plan(resolve(s));
  OrderedJson json = OrderedJson::parse(plan_text(plan));
  json["derive"] = OrderedJson::array({"after", "offset"});
  for (OrderedJson& rank : json["ranks"]) {
    rank.erase("arena_bytes");
    for (OrderedJson& buffer : rank["buffers"]) buffer.erase("offset");
    for (OrderedJson& op : rank["operations"]) op.erase("after");
  }
  const Plan got = read_plan_json(json.dump(), "p.json");
  for (std::size_t r = 0; r < plan.ranks.size(); ++r)
    CHECK(testing::difference(plan.ranks[r], got.ranks[r]) == "");
  json["derive"] = OrderedJson::array({"segments"});
  CHECK_THROWS(read_plan_json(json.dump(), "p.json"));
}

TEST_CASE("slabs and edges that wait for a start survive") {
  Plan plan = hand_plan();
  RankPlan& rank = plan.ranks[0];
  rank.buffers.back().slab = "shared";
  rank.operations[2].after_started = {static_cast<std::uint32_t>(rank.edges.size()), 1};
  rank.edges.push_back(0);
  const Plan got = read_plan_json(plan_text(plan), "p.json");
  CHECK(got.ranks[0].buffers.back().slab == "shared");
  REQUIRE(got.ranks[0].operations[2].after_started.count == 1);
  CHECK(got.ranks[0].after_started(got.ranks[0].operations[2])[0] == 0);
}

TEST_CASE("equal views, accesses and segments are stored once") {
  const Plan plan = read_plan_json(plan_text(hand_plan()), "plan.json");
  const RankPlan& rank = plan.ranks[0];
  CHECK(rank.row_ranges.size() == 2);
  CHECK(rank.segments.size() == 2);  // both attends have the same two
  // kv and kv_slots whole and as K and V, q, out, lse, part_out, part_lse whole and striped, lse_max.
  CHECK(rank.views.size() == 13);
}

TEST_CASE("syntax errors name line and column") {
  CHECK(message("").find("p.json:1:1: no JSON: ") == 0);
  CHECK(message("{\n \"schema\": \"x\",\n \"a\": tru\n}").find("p.json:3:") == 0);
  CHECK(message("{\"a\": 1").find("p.json:1:8: ") == 0);
  CHECK(message("[1e999]").find("p.json: ") == 0);
  CHECK(message("{\"a\": 1, \"a\": 2}") == "p.json: the key \"a\" occurs twice in one object");
  CHECK(message(std::string(100000, '[')).find("p.json: values nested deeper than 64 levels") == 0);
  CHECK(message("\x7f"
                "ELF\x01")
            .find("p.json:1:1: ") == 0);
}

TEST_CASE("a truncated plan is no plan, wherever it ends") {
  const std::string text = plan_text(hand_plan());
  for (std::size_t length = 0; length + 2 < text.size(); length += 101) {
    INFO(length);
    CHECK(message(text.substr(0, length)) != "");
  }
}

TEST_CASE("errors name the place and what is legal") {
  const auto has = [](const std::string& text, const char* part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  };
  has(message("[]"), "p.json: /: this is a list; legal: an object");
  has(message_with("/schema", "cplab.run.1"), "/schema: \"cplab.run.1\" is no plan; legal: cplab.plan.1");
  has(message_with("/ranks/0/operations/2/after/0", "0/forward/9"),
      "p.json: /ranks/0/operations/2/after/0: no operation of this rank has the id \"0/forward/9\"; legal: "
      "ids of");
  has(message_with("/ranks/0/operations/2/after/0", "1/forward/0"), "/ranks/0/operations/2/after/0");
  has(message_with("/ranks/0/operations/2/after/0", 0), "this is a whole number; legal: a string");
  has(message_with("/ranks/1/operations/1/reads/1/buffer", "vk"),
      "/ranks/1/operations/1/reads/1/buffer: this rank has no buffer \"vk\"; legal: q, kv, out, lse,");
  has(message_with("/ranks/1/operations/0/parts/1/view/buffer", ""), "/parts/1/view/buffer");
  has(message_with("/ranks/1/operations/0/parts/1/peer", 2),
      "parts/1/peer: 2 is out of range; legal: whole numbers from 0 to 1");
  has(message_with("/ranks/1/operations/0/parts/1/peer", -1), "parts/1/peer");
  has(message_with("/ranks/1/operations/0/group", "tp"),
      "operations/0/group: no group is named \"tp\"; legal: cp0");
  has(message_with("/ranks/1/operations/0/group", nullptr),
      "operations/0/group: this is null; legal: a string");
  has(message_with("/ranks/1/operations/1/group", "cp0"),
      "operations/1/group: only communication has a group");
  has(message_with("/ranks/1/operations/0/kind", "send"),
      "kind: \"send\" is unknown; legal: attend, attend_backward");
  has(message_with("/ranks/1/operations/0/lane/kind", "gpu"), "legal: compute, comm, copy, host");
  has(message_with("/ranks/1/operations/0/lane/index", 256), "legal: whole numbers from 0 to 255");
  has(message_with("/ranks/1/operations/0/step", -1), "operations/0/step");
  has(message_with("/ranks/1/operations/0/step", 0.5), "this is a number; legal: a whole number");
  has(message_with("/ranks/1/operations/0/phase", "backward"), "operations/0/phase: the id says forward");
  has(message_with("/ranks/1/operations/0/id", "0/forward/0"), "operations/0/id: legal: 1/PHASE/NUMBER");
  has(message_with("/ranks/1/operations/0/id", "1/forward/00"), "operations/0/id");
  has(message_with("/ranks/1/operations/0/id", "1/forward/1"),
      "operations/1/id: another operation has this id");
  has(message_with("/ranks/1/operations/4/value", "none"), "operations/4/value: legal: a number, \"inf\"");
  has(message_with("/ranks/1/operations/3/writes/0/mode", "min"), "legal: store, add, merge, max");
  has(message_with("/ranks/1/operations/3/writes/0/box/slot", OrderedJson::array({0})),
      "box/slot: a list of 1 entries");
  has(message_with("/ranks/1/operations/3/writes/0/box/rows/0", 7),
      "box/rows/0: this is a whole number; legal: a list");
  has(message_with("/ranks/1/operations/3/writes", OrderedJson::object()),
      "operations/3/writes: this is an object");
  has(message_with("/ranks/1/buffers/2/name", "q"),
      "buffers/2/name: this rank has another buffer named \"q\"");
  has(message_with("/ranks/1/buffers/2/role", "fp32"),
      "buffers/2/role: \"fp32\" is unknown; legal: nominal, wide, integer");
  has(message_with("/ranks/1/buffers/2/axes/0/name", "rows"), "axes/0/name: legal: slot");
  has(message_with("/ranks/1/buffers/2/bytes", -5), "buffers/2/bytes");
  has(message_with("/ranks/1/buffers/2/bytes", 18446744073709551615u), "buffers/2/bytes");
  has(message_with("/ranks/1/rank", 0), "/ranks/1/rank: 0 is out of range");
  has(message_with("/ranks", OrderedJson::array()),
      "/ranks: a list of 0 entries; legal: every rank of the world, 2 entries");
  has(message_with("/groups/0/ranks/0", 1), "/groups/0/ranks/1: a rank is in a group once");
  has(message_with("/groups", OrderedJson::array()), "/groups: ");
  has(message_with("/scenario/problem/dtype", "fp8"),
      "/scenario/problem/dtype: \"fp8\" is unknown; legal: fp64, fp32, bf16, fp16");
  has(message_with("/scenario/problem/kv_heads", 3),
      "/scenario/problem/kv_heads: legal: divisors of heads, which is 2");
  has(message_with("/scenario/problem/heads", 1 << 20), "/scenario/problem");
  has(message_with("/scenario/problem/sequence", std::int64_t{1} << 60), "/scenario/problem/sequence");
  has(message_with("/scenario/problem/mask", "band"), "legal: full, causal");
  has(message_with("/scenario/parallel/groups/0/1", 0),
      "/scenario/parallel/groups/0/1: a rank is a member of one group");
  has(message_with("/scenario/parallel/ranks", 3), "/scenario/parallel/groups/0: a list of 2 entries");
  has(message_with("/scenario/schedule/overlap", nullptr), "/scenario/schedule/overlap: this is null");
  has(message_without("/ranks/0/operations/2", "after"),
      "p.json: /ranks/0/operations/2: the key \"after\" is missing");
  has(message_without("/scenario", "schedule"), "/scenario: the key \"schedule\" is missing");
  OrderedJson plan = OrderedJson::parse(plan_text(hand_plan()));
  plan["ranks"][0]["operations"][2]["befor"] = OrderedJson::array();
  has(message(plan.dump()), "/ranks/0/operations/2/befor: unknown key; legal: id, phase, step,");
}

TEST_CASE("what is well formed but wrong is left to the checker") {
  CHECK(message_with("/ranks/0/operations/2/after", OrderedJson::array()) == "");
  CHECK(message_with("/ranks/0/operations/2/after", OrderedJson::array({"0/backward/0"})) ==
        "");  // later: a circle
  CHECK(message_with("/ranks/0/operations/1/reads", OrderedJson::array()) == "");
  CHECK(message_with("/ranks/0/operations/1/writes/0/box/rows", OrderedJson::parse("[[1, 4, 1]]")) == "");
  CHECK(message_with("/ranks/0/operations/1/segments/0/offset", 1) == "");
  CHECK(message_with("/ranks/0/buffers/3/offset", 0) == "");
  CHECK(message_with("/ranks/0/buffers/3/bytes", 1) == "");
  CHECK(message_with("/ranks/0/operations", OrderedJson::array()) == "");
}

// Random damage may leave a plan or not, but nothing other than a PlanFileError may come of it.
TEST_CASE("damaged bytes never do worse than an error") {
  const std::string good = plan_text(hand_plan());
  std::mt19937 random(11);
  int refused = 0;
  for (int round = 0; round < 500; ++round) {
    std::string bad = good;
    for (int i = 0; i < 3; ++i) bad[random() % bad.size()] = static_cast<char>(random() % 256);
    refused += message(bad) != "";
  }
  CHECK(refused > 250);
}

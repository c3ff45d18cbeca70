// Traces: valid JSON, and every rule that a viewer or HTA depends on.
#include "report/trace.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <tuple>
#include <vector>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/core/resolve.hpp"
#include "report/output_file.hpp"
#include "tests/empty_folder.hpp"
#include "tests/report/hand_plan.hpp"
#include "tests/scenarios/any_scenario.hpp"

using namespace cplab;
using Json = nlohmann::json;

namespace {

std::string file_text(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::vector<Json> traces_of(const Plan& plan, const Timeline& timeline) {
  const testing::EmptyFolder folder;
  write_traces((folder.path / "deep" / "er").string(), plan, timeline, memory_of(plan));
  std::vector<Json> traces;
  for (const RankPlan& rank : plan.ranks)
    traces.push_back(Json::parse(
        file_text(folder.path / "deep" / "er" / ("rank" + std::to_string(rank.rank) + "_trace.json"))));
  return traces;
}

std::int64_t ns(const Json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000);
}

Json whole_trace_of(const Plan& plan, const Timeline& timeline) {
  const testing::EmptyFolder folder;
  const std::string file = (folder.path / "all.json").string();
  write_trace(file, plan, timeline, memory_of(plan));
  return Json::parse(file_text(file));
}

using Track = std::pair<int, int>;  // rank, lane
Track track_of(const Json& event) {
  return {event["pid"].get<int>(), event["tid"].get<int>()};
}

// Slices of a track are disjoint, and in order.
void check_tracks(const Json& trace) {
  std::map<Track, std::int64_t> free_from;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const std::int64_t start = ns(event["ts"]);
    CHECK(start >= free_from[track_of(event)]);
    free_from[track_of(event)] = start + ns(event["dur"]);
  }
}

// Every arrow of the file has one tail and one head in it, on the right ranks, each inside a slice of its
// track.
std::size_t check_arrows(const Json& trace) {
  struct Ends {
    int tails = 0, heads = 0, from = -1, to = -1;
    std::int64_t left = 0, arrived = 0;
  };
  std::map<std::int64_t, Ends> arrows;
  std::map<Track, std::map<std::int64_t, std::int64_t>> slices;  // start to end
  for (const Json& event : trace["traceEvents"])
    if (event["ph"] == "X" && event["dur"] > 0)
      slices[track_of(event)][ns(event["ts"])] = ns(event["ts"]) + ns(event["dur"]);
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "s" && event["ph"] != "f") continue;
    Ends& ends = arrows[event["id"]];
    const std::int64_t at = ns(event["ts"]);
    if (event["ph"] == "s") {
      ++ends.tails;
      ends.from = event["pid"];
      ends.left = at;
    } else {
      ++ends.heads;
      ends.to = event["pid"];
      ends.arrived = at;
      CHECK(event["bp"] == "e");
    }
    const auto& track = slices[track_of(event)];
    const auto after = track.upper_bound(at);
    CHECK((after != track.begin() && at < std::prev(after)->second));
  }
  for (const auto& [id, ends] : arrows) {
    INFO(id);
    CHECK(ends.tails == 1);
    CHECK(ends.heads == 1);
    CHECK(ends.from != ends.to);
    CHECK(ends.left <= ends.arrived);
  }
  return arrows.size();
}

}  // namespace

TEST_CASE("the trace of the plan made by hand") {
  const std::vector<Json> traces = traces_of(hand_plan(), hand_timeline());
  const Json& trace = traces[1];
  CHECK(trace["displayTimeUnit"] == "ns");
  CHECK(trace["baseTimeNanoseconds"] == 0);
  CHECK(trace["distributedInfo"] == Json{{"rank", 1}, {"world_size", 2}});
  std::map<std::string, std::vector<Json>> by_name;
  for (const Json& event : trace["traceEvents"]) {
    CHECK(event["pid"] == 1);
    by_name[event["name"]].push_back(event);
  }
  REQUIRE(by_name["attend"].size() == 2);
  const Json& attend = by_name["attend"][1];
  CHECK(attend["cat"] == "kernel");
  CHECK(attend["ts"] == 5e6);
  CHECK(attend["dur"] == 3e6);
  CHECK(attend["args"]["op"] == "1/forward/2");
  CHECK(attend["args"]["step"] == 1);
  CHECK(attend["args"]["flops"] == 512);
  CHECK(attend["args"]["bytes"] == 224);
  CHECK(attend["args"]["predicted_s"] == 3);
  CHECK(attend["args"]["origin"] == "measured");
  CHECK(attend["args"]["device"] == 1);
  CHECK(attend["args"]["stream"] == attend["tid"]);
  CHECK(attend["args"]["correlation"] == 3);
  REQUIRE(by_name["nccl_exchange"].size() == 1);
  CHECK(by_name["nccl_exchange"][0]["args"]["group"] == "cp0");
  CHECK(by_name["nccl_exchange"][0]["tid"] != attend["tid"]);
  CHECK(by_name["nccl_all_reduce"].size() == 1);
  CHECK(by_name["host_sync"].size() == 1);
  CHECK_FALSE(by_name["host_sync"][0]["args"].contains("stream"));
  CHECK(by_name["wait for peers"].empty());  // rank 1 came last
  CHECK(by_name["thread_name"].size() == 2);
  CHECK(by_name["thread_name"][0]["args"]["name"] == "compute 0");

  std::vector<Json> waits;
  for (const Json& event : traces[0]["traceEvents"])
    if (event["name"] == "wait for peers") waits.push_back(event);
  REQUIRE(waits.size() == 1);
  CHECK(waits[0]["ts"] == 1e6);
  CHECK(waits[0]["dur"] == 1e6);
  CHECK_FALSE(waits[0]["args"].contains("stream"));

  for (const Json& each : traces) {
    check_tracks(each);
    CHECK(check_arrows(each) == 0);  // their other ends are in other files
  }
  const Json whole = whole_trace_of(hand_plan(), hand_timeline());
  check_tracks(whole);
  CHECK(check_arrows(whole) == 2);
}

TEST_CASE("live bytes by category follow births and deaths in time") {
  const Json trace = traces_of(hand_plan(), hand_timeline())[0];
  std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>> counters;
  for (const Json& event : trace["traceEvents"])
    if (event["ph"] == "C") {
      const Json& live = event["args"];
      counters.push_back({ns(event["ts"]) / 1'000'000'000,
                          {live["input"], live["output"], live["working"], live["workspace"]}});
    }
  // Program order: inputs and kv_slots with the exchange at 1, out and lse with the first attend, which
  // starts before it at 0; part_out and part_lse at 6; kv_slots dies at 8, part_out at 9; lse_max is born at
  // 10; part_lse dies at 11.
  const decltype(counters) expected = {{0, {0, 96, 0, 0}},     {1, {128, 96, 64, 0}}, {6, {128, 96, 128, 32}},
                                       {8, {128, 96, 64, 32}}, {9, {128, 96, 0, 32}}, {10, {128, 128, 0, 32}},
                                       {11, {128, 128, 0, 0}}};
  CHECK(counters == expected);
}

TEST_CASE("the file reads as HTA reads it: line by line, a blank after the colon") {
  const testing::EmptyFolder folder;
  const Plan plan = hand_plan();
  write_traces(folder.path.string(), plan, hand_timeline(), memory_of(plan));
  std::istringstream lines(file_text(folder.path / "rank1_trace.json"));
  const std::regex rank_of("\"rank\":\\s+(\\d+)");
  std::vector<std::string> found;
  std::string line;
  std::smatch match;
  while (std::getline(lines, line))
    if (std::regex_search(line, match, rank_of)) found.push_back(match[1]);
  CHECK(found == std::vector<std::string>{"1"});
}

TEST_CASE("a measured trace says so, and a lane whose clock ran backwards stays in order") {
  Timeline timeline = hand_timeline();
  timeline.predicted = false;
  timeline.ranks[0][2].start_s = 1.9999;  // the first attend ends at 2
  const std::vector<Json> traces = traces_of(hand_plan(), timeline);
  check_tracks(traces[0]);
  for (const Json& event : traces[0]["traceEvents"])
    if (event["ph"] == "X" && event["cat"] != "wait") CHECK(event["args"].contains("measured_s"));
}

TEST_CASE("arrows and tracks of built plans, every algorithm and both transports") {
  for (const Algorithm& algorithm : algorithms()) {
    for (const int ranks : {1, 2, 3, 5}) {
      for (const char* transport : {"nccl", "copy"}) {
        Scenario scenario = testing::any_scenario(ranks, std::string(algorithm.name));
        scenario.schedule.set("transport", std::string(transport));
        const Plan plan = build_plan(resolve(scenario));
        const Timeline timeline = millisecond_timeline(plan);
        const Json trace = whole_trace_of(plan, timeline);
        const std::int64_t messages = derive_figures(plan, timeline, memory_of(plan)).messages;
        CHECK(check_arrows(trace) == static_cast<std::size_t>(messages));
        const bool copies = std::string(transport) == "copy";
        check_tracks(trace);
        for (const Json& event : trace["traceEvents"]) {
          if (event["ph"] != "X" || event["cat"] == "wait") continue;
          const std::string name = event["name"];
          const bool exchange = name.find("exchange") != std::string::npos;
          if (exchange) CHECK((name.rfind("nccl_", 0) == 0) == !copies);
          if (exchange) CHECK((name.rfind("Memcpy PtoP", 0) == 0) == copies);
        }
      }
    }
  }
}

TEST_CASE("multiprocessors of kernels and of communication are counters, where the timeline has them") {
  Timeline timeline = hand_timeline();
  timeline.multiprocessors = {{{0, 100, 0}, {1, 90, 10}, {5, 0, 0}}, {{0, 132, 0}}};
  const Json trace = whole_trace_of(hand_plan(), timeline);
  std::vector<std::tuple<int, std::int64_t, int, int>> counters;
  for (const Json& event : trace["traceEvents"])
    if (event["ph"] == "C" && event["name"] == "multiprocessors")
      counters.emplace_back(event["pid"], ns(event["ts"]), event["args"]["kernels"],
                            event["args"]["communication"]);
  CHECK(counters == std::vector<std::tuple<int, std::int64_t, int, int>>{
                        {0, 0, 100, 0}, {0, 1000000000, 90, 10}, {0, 5000000000, 0, 0}, {1, 0, 132, 0}});
}

TEST_CASE("a file of some ranks has the arrows between them alone, and many operations lead to three ranks") {
  const Plan plan = build_plan(resolve(testing::any_scenario(5, "ring")));
  const Timeline timeline = millisecond_timeline(plan);
  const testing::EmptyFolder folder;
  const std::string file = (folder.path / "some.json").string();
  write_trace(file, plan, timeline, memory_of(plan), std::vector<std::size_t>{0, 1, 3});
  const Json trace = Json::parse(file_text(file));
  std::set<int> ranks;
  for (const Json& event : trace["traceEvents"]) ranks.insert(event["pid"].get<int>());
  CHECK(ranks == std::set<int>{0, 1, 3});
  std::size_t between = 0;
  for (const RankPlan& rank : plan.ranks)
    for (const Operation& op : rank.operations)
      for (const Part& part : rank.parts_of(op))
        between += part.send && ranks.contains(rank.rank) && ranks.contains(part.peer);
  CHECK(between > 0);
  CHECK(check_arrows(trace) == between);

  const Figures figures = derive_figures(plan, timeline, memory_of(plan));
  CHECK(ranks_of_trace(plan, figures).size() == 5);
  Plan many = plan;
  many.ranks[0].operations.resize(most_operations_of_a_trace);
  const std::vector<NotableRank> chosen = ranks_of_trace(many, figures);
  REQUIRE(chosen.size() == 3);
  CHECK(chosen[0].role == "worst");
  CHECK(figures.ranks[chosen[0].rank].time_s >= figures.ranks[chosen[2].rank].time_s);
}

TEST_CASE("memory as CSV") {
  const Plan plan = hand_plan();
  std::ostringstream out;
  write_memory_csv(out, plan, hand_timeline(), memory_of(plan));
  CHECK(out.str().find("time_s,rank,operation,buffer,category,bytes\n"
                       "0.000000000,0,0/forward/1,out,output,64\n") == 0);
  CHECK(out.str().find("8.000000000,0,0/forward/2,kv_slots,working,-64\n") != std::string::npos);
}

TEST_CASE("a folder that cannot be made is an error that names it") {
  const Plan plan = hand_plan();
  try {
    write_traces("/dev/null/traces", plan, hand_timeline(), memory_of(plan));
    FAIL("no error");
  } catch (const OutputError& error) {
    CHECK(std::string(error.what()).find("/dev/null/traces: cannot be created: ") == 0);
  }
  Timeline other = hand_timeline();
  other.ranks[0].pop_back();
  CHECK_THROWS_AS(write_traces("/dev/null/traces", plan, other, memory_of(plan)), std::invalid_argument);
}

// The JSON of every command: keys of DESIGN section 6, values, and what JSON has no number for.
#include "report/json.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "report/json_writer.hpp"
#include "tests/report/hand_plan.hpp"

using namespace cplab;
using OrderedJson = nlohmann::ordered_json;

namespace {

template <class Report>
OrderedJson parsed(const Report& report) {
  std::ostringstream out;
  write_json(out, report);
  return OrderedJson::parse(out.str());
}

void check_keys(const OrderedJson& object, std::initializer_list<const char*> keys) {
  for (const char* key : keys) CHECK_MESSAGE(object.contains(key), key);
}

ResultHeader header() {
  ResultHeader header;
  header.versions = {{"cplab", "0.1.0"}, {"commit", "abc"}, {"compiler", "g++ 12"}};
  header.scenario = hand_plan().scenario;
  header.sections = {{"simulate", {{"cuda_graph", false}, {"collective_model", std::string("curve")}}},
                     {"hardware", {{"file", std::string("hardware/x.toml")}, {"gpu.copy_bytes_s", 1.5e12}}}};
  return header;
}

}  // namespace

TEST_CASE("simulate: every key of the contract") {
  const Plan plan = hand_plan();
  const Timeline timeline = hand_timeline();
  SimulateReport report;
  report.header = header();
  report.figures = derive_figures(plan, timeline, memory_of(plan));
  report.fit = fit(report.figures, 10000, 1000);
  report.low_s = 10.5;
  report.high_s = 12.25;
  report.chain = {0.5, 0.25, 0.125, 0.125};
  OrderedJson json = parsed(report);
  check_keys(json, {"schema", "command", "scenario", "versions", "time_s", "phases", "ranks", "peak_bytes",
                    "peak_rank", "peak_buffers", "capacity_bytes", "fits", "headroom_bytes", "messages",
                    "host_syncs", "origins", "low_s", "high_s", "chain"});
  CHECK(json["schema"] == "cplab.simulate.1");
  CHECK(json["command"] == "simulate");
  CHECK(json["versions"] == OrderedJson{{"cplab", "0.1.0"}, {"commit", "abc"}, {"compiler", "g++ 12"}});
  CHECK(json["scenario"]["simulate"]["cuda_graph"] == false);
  CHECK(json["scenario"]["hardware"]["gpu.copy_bytes_s"] == 1.5e12);
  CHECK(json["time_s"] == 11);
  CHECK(json["low_s"] == 10.5);
  CHECK(json["chain"] ==
        OrderedJson{{"attention", 0.5}, {"other_kernels", 0.25}, {"communication", 0.125}, {"host", 0.125}});
  CHECK(json["phases"] ==
        OrderedJson::parse(R"([{"name":"forward","time_s":9},{"name":"backward","time_s":2}])"));
  check_keys(json["ranks"][1], {"rank", "replica", "position", "time_s", "compute_s", "communication_s",
                                "exposed_communication_s", "exposed_wait_s", "exposed_transfer_s",
                                "peak_bytes", "arena_bytes", "sent_bytes", "received_bytes"});
  CHECK(json["ranks"][1]["compute_s"] == 7.5);
  CHECK(json["peak_buffers"][0] == OrderedJson{{"name", "q"}, {"category", "input"}, {"bytes", 64}});
  CHECK(json["fits"] == true);
  CHECK(json["origins"].size() == 4);
  CHECK_FALSE(json.contains("operations"));

  report.fit.reset();
  report.operations = OperationTimes{&plan, &timeline};
  json = parsed(report);
  CHECK(json["capacity_bytes"].is_null());
  CHECK(json["fits"].is_null());
  REQUIRE(json["operations"].size() == 14);
  const OrderedJson& exchange = json["operations"][0];
  check_keys(exchange,
             {"id", "rank", "lane", "kind", "start_s", "end_s", "wait_s", "bytes", "flops", "origin"});
  CHECK(exchange["id"] == "0/forward/0");
  CHECK(exchange["lane"] == OrderedJson{{"kind", "comm"}, {"index", 0}});
  CHECK(exchange["wait_s"] == 1);
  CHECK(exchange["bytes"] == 64);
  CHECK(exchange["origin"] == "assumed");
  CHECK(json["operations"][8]["id"] == "1/forward/1");
  CHECK(!exchange.contains("variant"));
  Timeline carried = timeline;
  for (const RankPlan& rank : plan.ranks) carried.variants.emplace_back(rank.operations.size());
  carried.variants[0][0] = "ncclSend/ncclRecv";
  report.operations = OperationTimes{&plan, &carried};
  json = parsed(report);
  CHECK(json["operations"][0]["variant"] == "ncclSend/ncclRecv");
  CHECK(!json["operations"][1].contains("variant"));
}

TEST_CASE("run: times of iterations beside the figures") {
  const Plan plan = hand_plan();
  RunReport report;
  report.header = header();
  report.device = "cpu";
  report.time_s = 2;
  report.times_s = {1, 2, 3.5};
  report.figures = derive_figures(plan, hand_timeline(), memory_of(plan));
  const OrderedJson json = parsed(report);
  CHECK(json["schema"] == "cplab.run.1");
  CHECK(json["device"] == "cpu");
  CHECK(json["time_s"] == 2);
  CHECK(json["times_s"] == OrderedJson::array({1, 2, 3.5}));
  check_keys(json, {"phases", "ranks", "peak_bytes", "peak_rank", "peak_buffers", "capacity_bytes", "fits",
                    "headroom_bytes", "messages", "host_syncs", "origins"});
  CHECK_FALSE(json.contains("low_s"));
  for (const char* key : {"environment", "launch", "ranks_per_gpu", "links", "graph", "clock_residual_s",
                          "instrumented_s", "memory", "allocation_log_equals_plan"})
    CHECK_FALSE_MESSAGE(json.contains(key), key);
}

TEST_CASE("run on GPUs: environment in order, launch, memory by rank") {
  const Plan plan = hand_plan();
  RunReport report;
  report.header = header();
  report.device = "gpu";
  report.time_s = 10.5;
  report.times_s = {10.5};
  report.figures = derive_figures(plan, hand_timeline(), memory_of(plan));
  GpuRun gpu;
  gpu.environment = {{"gpu", "NVIDIA H200"}, {"driver", "580.1"}, {"cuda", "13.0"}, {"NCCL_ALGO", "Ring"}};
  gpu.launch = "processes";
  gpu.ranks_per_gpu = 2;
  gpu.links = {{"nccl", "P2P"}, {"copy", "peer access"}};
  gpu.cuda_graph = true;
  gpu.clock_residual_s = 1e-6;
  gpu.memory = {{0, 500, 60, 7, 448, 1020, 5}, {1, 500, 60, 7, 448, 1015, 0}};
  gpu.allocation_log_equals_plan = true;
  report.gpu = gpu;
  const OrderedJson json = parsed(report);
  CHECK(json["environment"] ==
        OrderedJson{{"gpu", "NVIDIA H200"}, {"driver", "580.1"}, {"cuda", "13.0"}, {"NCCL_ALGO", "Ring"}});
  CHECK(json["environment"].begin().key() == "gpu");
  CHECK(json["launch"] == "processes");
  CHECK(json["ranks_per_gpu"] == 2);
  CHECK(json["links"] == OrderedJson{{"nccl", "P2P"}, {"copy", "peer access"}});
  CHECK(json["graph"] == true);
  CHECK(json["clock_residual_s"] == 1e-6);
  CHECK(json["time_s"] == 10.5);
  CHECK(json["instrumented_s"] == 11);
  CHECK(json["memory"][0] == OrderedJson{{"rank", 0},
                                         {"context_bytes", 500},
                                         {"communicator_bytes", 60},
                                         {"tables_bytes", 7},
                                         {"arena_bytes", 448},
                                         {"growth_bytes", 1020},
                                         {"unexplained_bytes", 5}});
  CHECK(json["memory"].size() == 2);
  CHECK(json["allocation_log_equals_plan"] == true);
}

TEST_CASE("verify and check: findings, nulls where there is nothing") {
  VerifyReport verify;
  verify.header = header();
  verify.device = "cpu";
  verify.tensors = {{1, "dq", 1e-3, std::nan(""), 2e-3, false}};
  verify.findings = {{FindingKind::race, 1, "1/forward/2", "kv_slots", "said \"so\""},
                     {FindingKind::order, -1, "", "", "nobody in particular"}};
  OrderedJson json = parsed(verify);
  CHECK(json["schema"] == "cplab.verify.1");
  CHECK(json["ok"] == false);
  CHECK(json["injected"].is_null());
  check_keys(json["tensors"][0], {"rank", "tensor", "rel_l2", "max_abs", "tolerance", "ok"});
  CHECK(json["tensors"][0]["max_abs"].is_null());
  CHECK(json["tensors"][0]["rel_l2"] == 1e-3);
  CHECK(json["findings"][0] == OrderedJson{{"kind", "race"},
                                           {"rank", 1},
                                           {"operation", "1/forward/2"},
                                           {"buffer", "kv_slots"},
                                           {"message", "said \"so\""}});
  CHECK(json["findings"][1]["rank"].is_null());
  CHECK(json["findings"][1]["operation"].is_null());

  CheckReport check;
  check.header = header();
  check.result.rounds = 5;
  check.result.messages = 12;
  check.result.flops = {1e18, 3};
  check.result.sent_bytes = {std::int64_t{1} << 60, 0};
  json = parsed(check);
  CHECK(json["schema"] == "cplab.check.1");
  CHECK(json["ok"] == true);
  CHECK(json["rounds"] == 5);
  CHECK(json["messages"] == 12);
  CHECK(json["flops"][0].get<double>() == 1e18);
  CHECK(json["sent_bytes"][0].get<std::int64_t>() == std::int64_t{1} << 60);
  check.result.findings = verify.findings;
  CHECK(parsed(check)["ok"] == false);
}

TEST_CASE("compare, reproduce") {
  CompareReport compare;
  compare.scenario = hand_plan().scenario;
  compare.time_error = -0.25;
  compare.segments = {{"forward", 3, 4, -0.25, 1, 2, -0.5}, {"backward", 1, 0, std::nan("")}};
  compare.terms = {{"forward/attend", 3, 2.5}};
  compare.memory_error_bytes = -512;
  compare.predicted = {"a.json", "simulate", "h100x8", "H100 SXM 80GB", 3, 3.5, 1024};
  compare.measured = {"b.json", "run", "NVIDIA H200", "NVIDIA H200", 4, 4, 1536};
  compare.notes = {"said \"so\""};
  OrderedJson json = parsed(compare);
  CHECK(json["predicted"] == OrderedJson{{"file", "a.json"},
                                         {"command", "simulate"},
                                         {"machine", "h100x8"},
                                         {"gpu", "H100 SXM 80GB"},
                                         {"time_s", 3},
                                         {"operations_s", 3.5},
                                         {"peak_bytes", 1024},
                                         {"versions", OrderedJson::object()}});
  CHECK(json["measured"]["machine"] == "NVIDIA H200");
  CHECK(json["rank_memory_error_bytes"] == 0);
  CHECK(json["notes"] == OrderedJson::array({"said \"so\""}));
  CHECK(json["time_error"] == -0.25);
  CHECK(json["segments"][0] == OrderedJson{{"name", "forward"},
                                           {"predicted_s", 3},
                                           {"measured_s", 4},
                                           {"error", -0.25},
                                           {"absolute_s", 1},
                                           {"null_s", 2},
                                           {"null_error", -0.5}});
  CHECK_FALSE(json["segments"][1].contains("null_s"));
  CHECK(json["terms"] ==
        OrderedJson::array({OrderedJson{
            {"name", "forward/attend"}, {"predicted_s", 3}, {"measured_s", 2.5}, {"difference_s", 0.5}}}));
  CHECK(json["segments"][1]["error"].is_null());
  CHECK(json["memory_error_bytes"] == -512);

  ReproduceReport reproduce;
  reproduce.header = header();
  reproduce.name = "te-p2p-memory";
  reproduce.rows = {{"C=4 total", 24112, 24112, 0, true, "MiB"},
                    {"C=4 o1/total", {}, 12.5, {}, false, "MiB"}};
  reproduce.notes = {"6.3 GB is 6272 MiB / 1000"};
  json = parsed(reproduce);
  CHECK(json["schema"] == "cplab.reproduce.1");
  CHECK(json["name"] == "te-p2p-memory");
  CHECK(json["rows"][0] == OrderedJson{{"label", "C=4 total"},
                                       {"published", 24112},
                                       {"ours", 24112},
                                       {"error", 0},
                                       {"derived", true},
                                       {"unit", "MiB"}});
  CHECK(json["rows"][1]["published"].is_null());
  CHECK(json["rows"][1]["error"].is_null());
  CHECK(json["notes"].size() == 1);
}

TEST_CASE("list: the registered things with their legal values") {
  ListReport report;
  report.algorithms =
      std::vector<ListedAlgorithm>{{"walk",
                                    {"stroll"},
                                    "a way",
                                    {"zigzag"},
                                    {{"pace", {OptionValue(true)}, false, false, "", "", "how"}}}};
  OrderedJson json = parsed(report);
  CHECK(json["schema"] == "cplab.list.1");
  CHECK_FALSE(json.contains("faults"));
  REQUIRE(json["algorithms"].size() == 1);
  for (const OrderedJson& algorithm : json["algorithms"]) {
    check_keys(algorithm, {"name", "aliases", "summary", "placements", "options"});
    for (const OrderedJson& option : algorithm["options"])
      check_keys(option, {"key", "legal", "default", "help"});
  }
  ListedFault fault;
  fault.name = "dropped-edge";
  fault.form = "mutation";
  fault.devices = {"cpu"};
  fault.expected = ExpectedFinding{FindingKind::race, -1, ""};
  ListedFault identity;
  identity.name = "identity";
  identity.form = "identity";
  ListReport faults;
  faults.faults = std::vector<ListedFault>{fault, identity};
  faults.hardware = std::vector<ListedFile>{{"h100x8", "hardware/h100x8.toml", "eight"}};
  json = parsed(faults);
  CHECK(json["faults"][0]["expected"] ==
        OrderedJson{{"kind", "race"}, {"rank", nullptr}, {"operation", nullptr}});
  CHECK(json["faults"][0]["devices"] == OrderedJson::array({"cpu"}));
  CHECK(json["faults"][1]["expected"].is_null());
  CHECK(json["faults"][1]["form"] == "identity");
  CHECK(json["hardware"][0]["file"] == "hardware/h100x8.toml");
  ListReport models;
  ListedModel model;
  model.name = "small";
  model.attention = {{"window 128", 2}, {"global", 1}};
  model.active_parameters = 7;
  models.models = std::vector<ListedModel>{model};
  json = parsed(models);
  check_keys(json["models"][0],
             {"name", "file", "layers", "hidden", "heads", "kv_heads", "vocabulary", "attention", "experts",
              "experts_per_token", "parameters", "active_parameters", "unread"});
  CHECK(json["models"][0]["attention"][0] == OrderedJson{{"kind", "window 128"}, {"layers", 2}});
}

TEST_CASE("the writer: escapes, bad UTF-8, numbers that round trip") {
  std::ostringstream out;
  {
    JsonWriter json(out);
    json.begin_array();
    json.value("quote \" backslash \\ tab \t bell \x07 ü € 😀");
    json.value("cut \xe2\x82 overlong \xc0\xaf surrogate \xed\xa0\x80 end");
    json.value(0.1 + 0.2);
    json.value(-0.0);
    json.value(std::numeric_limits<double>::denorm_min());
    json.value(std::numeric_limits<double>::max());
    json.value(std::numeric_limits<std::int64_t>::min());
    json.value(std::numeric_limits<double>::infinity());
    json.begin_object();
    json.end_object();
    json.begin_array(JsonWriter::Style::line);
    json.begin_object();
    json.field("a", 1);
    json.field("b", true);
    json.end_object();
    json.end_array();
    json.end_array();
  }
  const OrderedJson json = OrderedJson::parse(out.str());
  CHECK(json[0] == "quote \" backslash \\ tab \t bell \x07 ü € 😀");
  CHECK(json[1] == "cut \uFFFD\uFFFD overlong \uFFFD\uFFFD surrogate \uFFFD\uFFFD\uFFFD end");
  CHECK(json[2].get<double>() == 0.1 + 0.2);
  CHECK(json[4].get<double>() == std::numeric_limits<double>::denorm_min());
  CHECK(json[5].get<double>() == std::numeric_limits<double>::max());
  CHECK(json[6].get<std::int64_t>() == std::numeric_limits<std::int64_t>::min());
  CHECK(json[7].is_null());
  CHECK(out.str().ends_with(" {},\n [{\"a\": 1, \"b\": true}]\n]\n"));
}

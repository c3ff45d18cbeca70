// The comparison of two result files, from files that our own writers made.
#include "report/compare.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "report/json.hpp"
#include "tests/report/hand_plan.hpp"

using namespace cplab;

namespace {

std::string simulated(const Plan& plan, const Timeline& timeline, bool operations) {
  SimulateReport report;
  report.header.scenario = plan.scenario;
  report.figures = derive_figures(plan, timeline, memory_of(plan));
  if (operations) report.operations = OperationTimes{&plan, &timeline};
  std::ostringstream out;
  write_json(out, report);
  return out.str();
}

std::string measured(const Plan& plan, const Timeline& timeline, double time_s, std::int64_t extra_bytes,
                     const std::optional<GpuRun>& gpu = {}) {
  RunReport report;
  report.header.scenario = plan.scenario;
  report.device = gpu ? "gpu" : "cpu";
  report.gpu = gpu;
  report.time_s = time_s;
  report.figures = derive_figures(plan, timeline, memory_of(plan));
  report.figures.ranks[1].peak_bytes += extra_bytes;
  report.operations = OperationTimes{&plan, &timeline};
  std::ostringstream out;
  write_json(out, report);
  return out.str();
}

const CompareSegment& segment(const CompareReport& report, const std::string& name) {
  for (const CompareSegment& each : report.segments)
    if (each.name == name) return each;
  throw std::out_of_range(name);
}

}  // namespace

TEST_CASE("errors of time, segments and memory") {
  const Plan plan = hand_plan();
  Timeline real = hand_timeline();
  real.ranks[0][1].end_s = 4;  // the first attend of rank 0 took 4 s instead of 2
  real.ranks[0][5] = {0, 10, 10, 0, Origin::measured};
  real.ranks[1][5] = {0, 10, 10, 0, Origin::measured};
  const ResultFile predicted = read_result_json(simulated(plan, hand_timeline(), true), "a.json");
  const CompareReport report =
      compare_results(predicted, read_result_json(measured(plan, real, 8, 100), "b.json"));
  CHECK(report.time_error == doctest::Approx(11.0 / 8 - 1).epsilon(1e-15));
  CHECK(report.predicted.command == "simulate");
  CHECK(report.predicted.machine.empty());
  CHECK(report.measured.command == "run");
  CHECK(report.measured.machine == "cpu");
  // Rank 0 has the peak in both files; rank 1 is where they differ.
  CHECK(report.memory_error_bytes == 0);
  CHECK(report.rank_memory_error_bytes == -100);
  std::vector<std::string> names;
  for (const CompareSegment& each : report.segments) names.push_back(each.name);
  CHECK(names == std::vector<std::string>{"total", "forward", "backward", "compute", "communication",
                                          "exposed_communication", "exposed_wait", "exposed_transfer",
                                          "backward/all_reduce", "backward/all_reduce/transfer",
                                          "backward/all_reduce/wait", "backward/fill", "backward/host_sync",
                                          "forward/attend", "forward/exchange", "forward/exchange/transfer",
                                          "forward/exchange/wait", "forward/merge"});
  CHECK(segment(report, "total").predicted_s == 11);
  CHECK(segment(report, "total").measured_s == 8);
  CHECK(segment(report, "forward").predicted_s == 9);
  CHECK(segment(report, "backward").predicted_s == 2);
  // Predicted, rank 0: compute 0-2, 6-10, communication 1-5, 10-11; rank 1: compute 0-3, 5-8.5, 9-10,
  // communication 2-5, 10-11. Measured: compute 0-4, 6-10 on rank 0, and no all_reduce.
  CHECK(segment(report, "compute").predicted_s == (6 + 7.5) / 2);
  CHECK(segment(report, "compute").measured_s == (8 + 7.5) / 2);
  CHECK(report.compute_alone_s == 7.5);
  CHECK(report.compute_alone_error == doctest::Approx(7.5 / 8 - 1).epsilon(1e-15));
  CHECK(segment(report, "communication").predicted_s == (5.0 + 4) / 2);
  CHECK(segment(report, "communication").measured_s == (4.0 + 3) / 2);
  CHECK(segment(report, "exposed_communication").predicted_s == (4.0 + 3) / 2);
  CHECK(segment(report, "exposed_communication").measured_s == (1.0 + 2) / 2);
  // attend: predicted (2 + 2) + (3 + 3), measured (4 + 2) + (3 + 3); mean of two ranks.
  CHECK(segment(report, "forward/attend").predicted_s == 5);
  CHECK(segment(report, "forward/attend").measured_s == 6);
  CHECK(segment(report, "forward/attend").error == doctest::Approx(5.0 / 6 - 1).epsilon(1e-15));
  CHECK(std::isnan(segment(report, "backward/all_reduce").error));
  // One attend is 2 s shorter than it was, on one of two ranks.
  CHECK(segment(report, "forward/attend").absolute_s == 1);
  // Exchanges of 4 and 3 s, of which the first waits 1.
  CHECK(segment(report, "forward/exchange").predicted_s == 3.5);
  CHECK(segment(report, "forward/exchange/wait").predicted_s == 0.5);
  CHECK(segment(report, "forward/exchange/transfer").predicted_s == 3);
  // Rank 1 computes longest in the forward, 0-3 and 5-8.5; in the backward each 9-10.
  CHECK(segment(report, "total").null_s == 7.5);
  CHECK(segment(report, "forward").null_s == 6.5);
  CHECK(segment(report, "forward").null_error == doctest::Approx(6.5 / 9 - 1).epsilon(1e-15));
  CHECK(segment(report, "backward").null_s == 1);
  CHECK_FALSE(segment(report, "compute").null_s.has_value());
  REQUIRE(report.notes.size() == 2);  // of the two machines; operations until 11 s beside a time of 8 s
  CHECK(report.notes[1].starts_with("b.json: its operations ended after 11000.000 ms"));
}

TEST_CASE("terms take the time of the last rank apart, and sum to it") {
  const Plan plan = hand_plan();
  Timeline real = hand_timeline();
  real.ranks[0][1].end_s = 4;
  real.ranks[0][5] = {0, 10, 10, 0, Origin::measured};
  real.ranks[1][5] = {0, 10, 10, 0, Origin::measured};
  const CompareReport report =
      compare_results(read_result_json(simulated(plan, hand_timeline(), true), "a.json"),
                      read_result_json(measured(plan, real, 8, 0), "b.json"));
  CHECK(report.predicted.last_rank == 0);  // both end at 11
  // Rank 0, predicted: attend 0-2, the exchange from 2 (until then it waits, beside attend) to 5, nothing
  // 5-6, attend 6-8, merge 8-9, fill 9-10, all_reduce 10-11. Measured: attend 0-4, so the exchange 4-5; at
  // the end nothing from 10 until the host_sync at 11.
  const std::vector<std::tuple<std::string, double, double>> expected{{"backward/all_reduce/transfer", 1, 0},
                                                                      {"backward/fill", 1, 1},
                                                                      {"backward/launch", 0, 1},
                                                                      {"forward/attend", 4, 6},
                                                                      {"forward/exchange/transfer", 3, 1},
                                                                      {"forward/launch", 1, 1},
                                                                      {"forward/merge", 1, 1}};
  REQUIRE(report.terms.size() == expected.size());
  double ours = 0, theirs = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(report.terms[i].name == std::get<0>(expected[i]));
    CHECK(report.terms[i].predicted_s == std::get<1>(expected[i]));
    CHECK(report.terms[i].measured_s == std::get<2>(expected[i]));
    ours += report.terms[i].predicted_s;
    theirs += report.terms[i].measured_s;
  }
  CHECK(ours == report.predicted.operations_s);
  CHECK(theirs == report.measured.operations_s);
}

TEST_CASE("phases of a run are those of its undisturbed iterations, where it says them") {
  const Plan plan = hand_plan();
  std::string text = measured(plan, hand_timeline(), 10, 0);
  const std::string key = "\"time_s\":";
  text.insert(text.find(key),
              "\"undisturbed_phases\": [{\"name\": \"forward\", \"time_s\": 8.5}, {\"name\": "
              "\"backward\", \"time_s\": 1.5}], ");
  const CompareReport report = compare_results(
      read_result_json(simulated(plan, hand_timeline(), true), "a.json"), read_result_json(text, "b.json"));
  CHECK(segment(report, "forward").measured_s == 8.5);
  CHECK(segment(report, "backward").measured_s == 1.5);
  CHECK(segment(report, "forward").predicted_s == 9);
  CHECK(report.notes.back().find("every segment but total and phases is of the instrumented iteration") !=
        std::string::npos);
}

TEST_CASE("two predictions of different plans are compared term by term") {
  const Plan plan = hand_plan();
  Plan longer = plan;
  longer.scenario.problem.sequence = 16;
  longer.ranks[0].operations[3].kind = OpKind::add;
  longer.ranks[1].operations[3].kind = OpKind::add;
  const ResultFile a = read_result_json(simulated(plan, hand_timeline(), true), "a.json");
  const ResultFile b = read_result_json(simulated(longer, hand_timeline(), true), "b.json");
  const CompareReport report = compare_results(a, b);
  CHECK_FALSE(report.same_plan);
  CHECK(segment(report, "forward/merge").predicted_s == 0.75);  // 1 and 0.5 s on two ranks
  CHECK(segment(report, "forward/merge").measured_s == 0);
  CHECK(segment(report, "forward/add").measured_s == 0.75);
  double sum = 0;
  for (const CompareTerm& term : report.terms) sum += term.predicted_s - term.measured_s;
  CHECK(sum == doctest::Approx(a.side.operations_s - b.side.operations_s));
  CHECK(report.notes[1] ==
        "two plans, whose operations are not joined: problem.sequence is 8 in a.json, 16 in b.json");
  // A measurement is of the plan that was predicted.
  CHECK_THROWS_WITH_AS(
      compare_results(a, read_result_json(measured(longer, hand_timeline(), 11, 0), "c.json")),
      doctest::Contains("problem.sequence is 8"), JsonFileError);
}

TEST_CASE("a result compared with itself differs in nothing") {
  const Plan plan = hand_plan();
  const ResultFile file = read_result_json(simulated(plan, hand_timeline(), true), "a.json");
  const CompareReport report = compare_results(file, file);
  CHECK(report.time_error == 0);
  CHECK(report.memory_error_bytes == 0);
  CHECK(report.rank_memory_error_bytes == 0);
  for (const CompareSegment& each : report.segments) CHECK(each.predicted_s == each.measured_s);
  CHECK(report.notes == std::vector<std::string>{"both files are predictions"});
}

TEST_CASE("what a GPU adds to a run is read where it matters, the rest is let pass") {
  const Plan plan = hand_plan();
  GpuRun gpu;
  gpu.environment = {{"gpu", "NVIDIA H200"}, {"driver", "580.1"}};
  gpu.launch = "threads";
  gpu.ranks_per_gpu = 2;
  gpu.memory = {{.rank = 0, .arena_bytes = 448}, {.rank = 1, .arena_bytes = 448}};
  const ResultFile a = read_result_json(simulated(plan, hand_timeline(), true), "a.json");
  const CompareReport report =
      compare_results(a, read_result_json(measured(plan, hand_timeline(), 11, 0, gpu), "b.json"));
  CHECK(report.measured.machine == "NVIDIA H200");
  CHECK(report.measured.operations_s == 11);
  REQUIRE(report.notes.size() == 1);
  CHECK(report.notes[0].starts_with("b.json: 2 ranks shared a GPU"));
}

TEST_CASE("a file that does not say an option is of another scenario") {
  Plan now = hand_plan();
  now.scenario.schedule.set("rotation", std::string("whole"));
  const ResultFile a = read_result_json(simulated(now, hand_timeline(), true), "a.json");
  const ResultFile without = read_result_json(measured(hand_plan(), hand_timeline(), 11, 0), "b.json");
  CHECK_THROWS_WITH_AS(compare_results(a, without), doctest::Contains("schedule.rotation is "),
                       JsonFileError);
}

TEST_CASE("what cannot be compared") {
  const Plan plan = hand_plan();
  const ResultFile a = read_result_json(simulated(plan, hand_timeline(), true), "a.json");
  const auto refused = [&](const ResultFile& other, const std::string& why) {
    CHECK_THROWS_WITH_AS(compare_results(a, other),
                         ("a.json and " + other.side.file + " cannot be compared: " + why).c_str(),
                         JsonFileError);
  };

  Plan longer = plan;
  longer.scenario.problem.sequence = 16;
  refused(
      read_result_json(measured(longer, hand_timeline(), 11, 0), "b.json"),
      "problem.sequence is " + std::to_string(plan.scenario.problem.sequence) + " in a.json, 16 in b.json");
  Plan scheduled = plan;
  scheduled.scenario.schedule.set("kv_slots", std::int64_t{7});
  scheduled.scenario.problem.causal = !plan.scenario.problem.causal;
  const ResultFile two = read_result_json(measured(scheduled, hand_timeline(), 11, 0), "b.json");
  CHECK_THROWS_WITH_AS(compare_results(a, two), doctest::Contains("problem.mask is "), JsonFileError);
  CHECK_THROWS_WITH_AS(compare_results(a, two), doctest::Contains("; schedule.kv_slots is "), JsonFileError);

  Plan other = plan;
  other.ranks[0].operations[3].kind = OpKind::add;
  refused(read_result_json(simulated(other, hand_timeline(), true), "c.json"),
          "the plans differ: operation 0/forward/3 is merge in a.json, add in c.json");
  Plan smaller = plan;
  smaller.ranks[1].operations[0].bytes = 32;
  refused(read_result_json(simulated(smaller, hand_timeline(), true), "c.json"),
          "the plans differ: operation 1/forward/0 (exchange) moves 64 bytes in a.json, 32 in c.json");

  Plan shorter = plan;
  shorter.ranks[1].operations.pop_back();
  Timeline fewer = hand_timeline();
  fewer.ranks[1].pop_back();
  const ResultFile c = read_result_json(simulated(shorter, fewer, true), "c.json");
  refused(c, "the plans differ: operation 1/backward/2 (host_sync) is in a.json only");
  CHECK_THROWS_WITH_AS(compare_results(c, a), doctest::Contains("1/backward/2 (host_sync) is in a.json only"),
                       JsonFileError);

  const ResultFile bare = read_result_json(simulated(plan, hand_timeline(), false), "d.json");
  const char* missing =
      "d.json: no operations in it; write it with cplab simulate ... --operations --json FILE";
  CHECK_THROWS_WITH_AS(compare_results(a, bare), missing, JsonFileError);
  CHECK_THROWS_WITH_AS(compare_results(bare, a), missing, JsonFileError);

  const ResultFile run = read_result_json(measured(plan, hand_timeline(), 11, 0), "e.json");
  CHECK_THROWS_WITH_AS(compare_results(run, a), doctest::Contains("the prediction comes first"),
                       JsonFileError);

  CHECK_THROWS_WITH_AS(read_result_json("{\"schema\": \"cplab.plan.1\"}", "d.json"),
                       "d.json: /schema: \"cplab.plan.1\"; legal: cplab.simulate.1, cplab.run.1",
                       JsonFileError);
  CHECK_THROWS_AS(read_result_json("{\"schema\": \"cplab.run.1\"}", "d.json"), JsonFileError);
}

// The comparison of two result files, from files that our own writers made.
#include "report/compare.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <sstream>

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

std::string measured(const Plan& plan, const Timeline& timeline, double time_s, std::int64_t extra_bytes) {
  RunReport report;
  report.header.scenario = plan.scenario;
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
  CHECK(report.memory_error_bytes == -100);
  CHECK(segment(report, "forward").predicted_s == 9);
  // attend: predicted (2 + 2) + (3 + 3), measured (4 + 2) + (3 + 3); mean of two ranks.
  CHECK(segment(report, "forward/attend").predicted_s == 5);
  CHECK(segment(report, "forward/attend").measured_s == 6);
  CHECK(segment(report, "forward/attend").error == doctest::Approx(5.0 / 6 - 1).epsilon(1e-15));
  CHECK(std::isnan(segment(report, "backward/all_reduce").error));
}

TEST_CASE("without operations there are only phases") {
  const Plan plan = hand_plan();
  const ResultFile file = read_result_json(simulated(plan, hand_timeline(), false), "a.json");
  const CompareReport report = compare_results(file, file);
  CHECK(report.segments.size() == 2);
  CHECK(report.time_error == 0);
  CHECK(report.memory_error_bytes == 0);
}

TEST_CASE("what cannot be compared") {
  const Plan plan = hand_plan();
  const ResultFile a = read_result_json(simulated(plan, hand_timeline(), true), "a.json");
  Plan longer = plan;
  longer.scenario.problem.sequence = 16;
  const ResultFile b = read_result_json(simulated(longer, hand_timeline(), true), "b.json");
  CHECK_THROWS_WITH_AS(compare_results(a, b), "a.json and b.json cannot be compared: the sequences differ",
                       JsonFileError);
  Plan other = plan;
  other.ranks[0].operations[3].kind = OpKind::add;
  const ResultFile c = read_result_json(simulated(other, hand_timeline(), true), "c.json");
  CHECK_THROWS_WITH_AS(compare_results(a, c),
                       "c.json: operation 0/forward/3 is add, in a.json it is merge: the plans differ",
                       JsonFileError);
  CHECK_THROWS_WITH_AS(read_result_json("{\"schema\": \"cplab.plan.1\"}", "d.json"),
                       "d.json: /schema: \"cplab.plan.1\"; legal: cplab.simulate.1, cplab.run.1",
                       JsonFileError);
  CHECK_THROWS_AS(read_result_json("{\"schema\": \"cplab.run.1\"}", "d.json"), JsonFileError);
}

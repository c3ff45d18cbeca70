// Two result files, joined by operation id.
#include "report/compare.hpp"

#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>

#include "report/scenario_json.hpp"

namespace cplab {
namespace {

double relative_error(double predicted, double measured) {
  return measured > 0 ? predicted / measured - 1 : std::numeric_limits<double>::quiet_NaN();
}

void expect_same_problem(const ResultFile& a, const ResultFile& b) {
  const auto differ = [&](const std::string& what) {
    throw JsonFileError(a.file_name + " and " + b.file_name + " cannot be compared: " + what + " differ");
  };
  const Problem &p = a.scenario.problem, &q = b.scenario.problem;
  if (p.lengths != q.lengths || p.padded_lengths != q.padded_lengths) differ("the sequences");
  if (p.heads != q.heads || p.kv_heads != q.kv_heads) differ("the heads");
  if (p.head_size != q.head_size || p.value_size != q.value_size) differ("the head sizes");
  if (p.dtype != q.dtype) differ("the dtypes");
  if (p.causal != q.causal || !(p.window == q.window)) differ("the masks");
  if (p.direction != q.direction) differ("the directions");
  if (a.scenario.algorithm != b.scenario.algorithm) differ("the algorithms");
  if (a.scenario.placement != b.scenario.placement) differ("the placements");
  if (a.peak_bytes.size() != b.peak_bytes.size()) differ("the numbers of ranks");
}

// "3/forward/12" and "attend" make "forward/attend".
std::string segment_name(const std::string& id, const std::string& kind) {
  const std::size_t first = id.find('/'), second = id.find('/', first + 1);
  return id.substr(first + 1, second - first) + kind;
}

void add_operations(const ResultFile& predicted, const ResultFile& measured, CompareReport& report) {
  struct Sums {
    double predicted_s = 0, measured_s = 0;
  };
  std::map<std::string, Sums> sums;
  for (const auto& [id, operation] : predicted.operations) {
    const auto found = measured.operations.find(id);
    if (found == measured.operations.end()) continue;
    if (found->second.kind != operation.kind)
      throw JsonFileError(measured.file_name + ": operation " + id + " is " + found->second.kind + ", in " +
                          predicted.file_name + " it is " + operation.kind + ": the plans differ");
    Sums& sum = sums[segment_name(id, operation.kind)];
    sum.predicted_s += operation.seconds;
    sum.measured_s += found->second.seconds;
  }
  const auto ranks = static_cast<double>(predicted.peak_bytes.size());
  for (const auto& [name, sum] : sums)
    report.segments.push_back({name, sum.predicted_s / ranks, sum.measured_s / ranks,
                               relative_error(sum.predicted_s, sum.measured_s)});
}

}  // namespace

ResultFile read_result_json(const std::string& text, const std::string& file_name) {
  const JsonDocument document(text, file_name);
  const JsonNode root = document.root();
  ResultFile result;
  result.file_name = file_name;
  result.schema = root.at("schema").text();
  if (result.schema != "cplab.simulate.1" && result.schema != "cplab.run.1")
    root.at("schema").fail("\"" + result.schema + "\"; legal: cplab.simulate.1, cplab.run.1");
  result.scenario = read_scenario(root.at("scenario"));
  result.time_s = root.at("time_s").number();
  const JsonNode phases = root.at("phases");
  for (std::size_t i = 0; i < phases.size(); ++i)
    result.phases.emplace_back(phases.at(i).at("name").text(), phases.at(i).at("time_s").number());
  const JsonNode ranks = root.at("ranks");
  for (std::size_t r = 0; r < ranks.size(); ++r)
    result.peak_bytes.push_back(ranks.at(r).at("peak_bytes").integer(0));
  if (!root.has("operations")) return result;
  const JsonNode operations = root.at("operations");
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const JsonNode op = operations.at(i);
    const std::string& id = op.at("id").text();
    const std::size_t first = id.find('/');
    if (first == std::string::npos || id.find('/', first + 1) == std::string::npos)
      op.at("id").fail("legal: RANK/PHASE/NUMBER");
    const double seconds = op.at("end_s").number() - op.at("start_s").number();
    if (!result.operations.emplace(id, ResultFile::Operation{op.at("kind").text(), seconds}).second)
      op.at("id").fail("another operation has this id");
  }
  return result;
}

CompareReport compare_results(const ResultFile& predicted, const ResultFile& measured) {
  expect_same_problem(predicted, measured);
  CompareReport report;
  report.scenario = predicted.scenario;
  report.time_error = relative_error(predicted.time_s, measured.time_s);
  for (const auto& [name, predicted_s] : predicted.phases)
    for (const auto& [other, measured_s] : measured.phases)
      if (name == other)
        report.segments.push_back({name, predicted_s, measured_s, relative_error(predicted_s, measured_s)});
  add_operations(predicted, measured, report);
  for (std::size_t r = 0; r < predicted.peak_bytes.size(); ++r) {
    const std::int64_t error = predicted.peak_bytes[r] - measured.peak_bytes[r];
    if (std::abs(error) > std::abs(report.memory_error_bytes)) report.memory_error_bytes = error;
  }
  return report;
}

}  // namespace cplab

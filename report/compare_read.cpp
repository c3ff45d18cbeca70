// Result files of simulate and run, as compare takes them; see compare.hpp.
#include <algorithm>
#include <string>
#include <unordered_set>

#include "report/compare.hpp"
#include "report/json_parts.hpp"
#include "report/scenario_json.hpp"

namespace cplab {
namespace {

std::string machine_of(const JsonNode& root, bool predicted) {
  if (!predicted) {
    if (root.has("environment") && root.at("environment").has("gpu"))
      return root.at("environment").at("gpu").text();
    return root.at("device").text();
  }
  const JsonNode scenario = root.at("scenario");
  if (!scenario.has("hardware") || !scenario.at("hardware").has("file")) return {};
  return scenario.at("hardware").at("file").text();
}

void read_ranks(const JsonNode& ranks, ResultFile& result) {
  ranks.expect_size(static_cast<std::size_t>(result.scenario.parallel.world()), "every rank of the scenario");
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const JsonNode rank = ranks.at(r);
    result.ranks.push_back({.peak_bytes = rank.at("peak_bytes").integer(0),
                            .compute_s = rank.at("compute_s").number(),
                            .communication_s = rank.at("communication_s").number(),
                            .exposed_communication_s = rank.at("exposed_communication_s").number()});
    result.splits_exposed = rank.has("exposed_wait_s") && rank.has("exposed_transfer_s");
    if (!result.splits_exposed) continue;
    result.ranks.back().exposed_wait_s = rank.at("exposed_wait_s").number();
    result.ranks.back().exposed_transfer_s = rank.at("exposed_transfer_s").number();
  }
}

std::string lane_of(const JsonNode& operation) {
  if (!operation.has("lane")) return {};
  const JsonNode lane = operation.at("lane");
  return lane.at("kind").text() + " " + std::to_string(lane.at("index").integer(0));
}

void read_operations(const JsonNode& operations, ResultFile& result) {
  std::unordered_set<std::string> ids;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const JsonNode op = operations.at(i);
    const std::string& id = op.at("id").text();
    const std::size_t first = id.find('/');
    if (first == std::string::npos || id.find('/', first + 1) == std::string::npos)
      op.at("id").fail("legal: RANK/PHASE/NUMBER");
    if (!ids.insert(id).second) op.at("id").fail("another operation has this id");
    const double start_s = op.at("start_s").number(), end_s = op.at("end_s").number();
    result.operations.push_back({.id = id,
                                 .kind = op.at("kind").text(),
                                 .bytes = op.at("bytes").integer(0),
                                 .seconds = end_s - start_s,
                                 .start_s = start_s,
                                 .wait_s = op.has("wait_s") ? op.at("wait_s").number() : 0,
                                 .rank = static_cast<int>(op.at("rank").integer(0)),
                                 .variant = op.has("variant") ? op.at("variant").text() : "",
                                 .lane = lane_of(op),
                                 .flops = op.has("flops") ? op.at("flops").number() : 0,
                                 .origin = op.has("origin") ? op.at("origin").text() : ""});
    if (result.side.last_rank < 0 || end_s > result.side.operations_s) {
      result.side.operations_s = std::max(result.side.operations_s, end_s);
      result.side.last_rank = result.operations.back().rank;
    }
  }
}

}  // namespace

ResultFile read_result_json(const std::string& text, const std::string& file_name) {
  const JsonDocument document(text, file_name);
  const JsonNode root = document.root();
  ResultFile result;
  result.side.file = file_name;
  const std::string& schema = root.at("schema").text();
  if (schema != "cplab.simulate.1" && schema != "cplab.run.1")
    root.at("schema").fail("\"" + schema + "\"; legal: cplab.simulate.1, cplab.run.1");
  result.predicted = schema == "cplab.simulate.1";
  result.side.command = result.predicted ? "simulate" : "run";
  result.scenario = read_scenario(root.at("scenario"));
  result.side.machine = machine_of(root, result.predicted);
  if (result.predicted && root.has("gpu")) result.side.gpu = root.at("gpu").text();
  if (!result.predicted && root.has("environment")) result.side.gpu = result.side.machine;
  result.side.versions = read_versions(root);
  result.side.given = read_given(root);
  if (root.has("device")) result.device = root.at("device").text();
  for (const auto& [what, version] : read_versions(root))
    if (what == "commit") result.commit = version;
  if (root.has("ranks_per_gpu")) result.ranks_per_gpu = root.at("ranks_per_gpu").integer(1);
  result.side.time_s = root.at("time_s").number();
  result.side.peak_bytes = root.at("peak_bytes").integer(0);
  result.undisturbed = root.has("undisturbed_phases");
  const JsonNode phases = root.at(result.undisturbed ? "undisturbed_phases" : "phases");
  for (std::size_t i = 0; i < phases.size(); ++i)
    result.phases.emplace_back(phases.at(i).at("name").text(), phases.at(i).at("time_s").number());
  read_ranks(root.at("ranks"), result);
  if (root.has("operations")) read_operations(root.at("operations"), result);
  return result;
}

}  // namespace cplab

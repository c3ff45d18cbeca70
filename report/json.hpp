// The results of the commands as JSON, with the keys of DESIGN.md section 6. Plain structs here; cli fills
// them. Keys are in a fixed order and numbers round trip, so equal results are equal files. NaN and
// infinities are null; so are values that a result does not have (a rank of -1, an empty operation id).
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "algorithms/check.hpp"
#include "algorithms/faults.hpp"
#include "algorithms/plan.hpp"
#include "algorithms/registry.hpp"
#include "report/figures.hpp"
#include "report/timeline.hpp"

namespace cplab {

// What wrote the result: "cplab", "commit", "compiler" and, where used, "simgrid", "eigen", "cuda", "nccl".
using Versions = std::vector<std::pair<std::string, std::string>>;

// Sections of the scenario that are not part of `Scenario` ([simulate], [hardware], --set hardware.*).
using SettingValue = std::variant<bool, std::int64_t, double, std::string>;
struct ScenarioSection {
  std::string name;  // "simulate"
  std::vector<std::pair<std::string, SettingValue>> settings;
};

// What every result about one scenario begins with.
struct ResultHeader {
  Versions versions;
  Scenario scenario;                      // as resolved
  std::vector<ScenarioSection> sections;  // after problem, parallel and schedule
};

// Names every operation with its times under `operations` (--operations). Both stay the caller's.
struct OperationTimes {
  const Plan* plan = nullptr;
  const Timeline* timeline = nullptr;
};

struct SimulateReport {
  ResultHeader header;
  Figures figures;
  std::optional<Fit> fit;
  double low_s = 0, high_s = 0;
  std::optional<OperationTimes> operations;
  std::int64_t placement_padding_tokens = 0;  // the plan's
};

struct RunReport {
  ResultHeader header;
  std::string device;           // "cpu", "gpu"
  double time_s = 0;            // the median of times_s
  std::vector<double> times_s;  // one entry an iteration: the maximum over ranks
  Figures figures;              // of the timeline that stands for the run; its time_s is not written
  std::optional<Fit> fit;
  std::optional<OperationTimes> operations;
  std::int64_t placement_padding_tokens = 0;  // the plan's
};

// One tensor of one rank against the reference.
struct TensorFigures {
  int rank = 0;
  std::string tensor;  // out, lse, dq, dk, dv, state
  double rel_l2 = 0;
  double max_abs = 0;
  double tolerance = 0;  // of rel_l2
  bool ok = false;
};

struct VerifyReport {
  ResultHeader header;
  std::string device;
  std::string injected;  // the fault, or empty
  bool ok = false;
  std::vector<TensorFigures> tensors;
  std::vector<Finding> findings;
  std::int64_t placement_padding_tokens = 0;  // the plan's
};

struct CheckReport {
  ResultHeader header;
  CheckResult result;
  std::int64_t placement_padding_tokens = 0;  // the plan's
};

struct CompareSegment {
  std::string name;  // "forward", "forward/attend"
  double predicted_s = 0;
  double measured_s = 0;
  double error = 0;  // predicted / measured - 1; NaN when nothing was measured
};

struct CompareReport {
  Versions versions;
  Scenario scenario;      // of the prediction
  double time_error = 0;  // predicted / measured - 1
  std::vector<CompareSegment> segments;
  std::int64_t memory_error_bytes = 0;  // predicted - measured peak_bytes of the rank where they differ most
};

struct ReproduceRow {
  std::string label;
  std::optional<double> published;
  double ours = 0;
  std::optional<double> error;  // ours / published - 1
  bool derived = false;         // from the plan's buffers or the simulation; else an empirical term
};

struct ReproduceReport {
  ResultHeader header;              // the scenario as the file has it
  std::vector<std::int64_t> ranks;  // the values of parallel.ranks that the rows cover
  std::string name;
  std::vector<ReproduceRow> rows;
  std::vector<std::string> notes;
};

// A file that can be named in a scenario or on the command line.
struct ListedFile {
  std::string name;
  std::string file;  // relative to scenarios/
  std::string summary;
};

// `list KIND` fills one of them, `list` all.
struct ListReport {
  Versions versions;
  std::optional<std::span<const Algorithm>> algorithms;
  std::optional<std::span<const PlacementInfo>> placements;
  std::optional<std::vector<ListedFile>> hardware;
  std::optional<std::span<const Fault>> faults;
  std::optional<std::vector<ListedFile>> published;
};

// When an option of the algorithm has no value, or needs others: "not with merge=fused", "only with a=b";
// empty if it always applies. Found by trying every legal value of every other option beside the defaults.
std::string applies_text(const Algorithm&, const OptionInfo&);

void write_json(std::ostream&, const SimulateReport&);
void write_json(std::ostream&, const RunReport&);
void write_json(std::ostream&, const VerifyReport&);
void write_json(std::ostream&, const CheckReport&);
void write_json(std::ostream&, const CompareReport&);
void write_json(std::ostream&, const ReproduceReport&);
void write_json(std::ostream&, const ListReport&);

}  // namespace cplab

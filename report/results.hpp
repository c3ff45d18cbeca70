// The results of the commands as plain data. cli fills them; json.hpp writes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "plan/finding.hpp"
#include "plan/plan.hpp"
#include "report/chain.hpp"
#include "report/figures.hpp"
#include "report/measured_path.hpp"
#include "report/timeline.hpp"
#include "report/variants.hpp"

namespace cplab {

// What wrote the result: "cplab", "commit", "compiler" and, where used, "simgrid", "eigen", "cuda", "nccl".
using Versions = std::vector<std::pair<std::string, std::string>>;

// Sections of the scenario that are not part of `Scenario` ([simulate], [hardware], --set hardware.*).
using SettingNumber = std::variant<std::int64_t, double>;
using SettingTables = std::vector<std::vector<std::pair<std::string, SettingNumber>>>;  // [[simulate.slow]]
using SettingValue = std::variant<bool, std::int64_t, double, std::string, SettingTables>;
struct ScenarioSection {
  std::string name;  // "simulate"
  std::vector<std::pair<std::string, SettingValue>> settings;
};

// A file that a result depends on, as it was named, and the SHA-256 of what it held.
struct GivenFile {
  std::string option;  // "plan", "hardware", "choices"
  std::string file, sha256;
};

// What the command line gave: with it, the versions and the scenario, a result can be had again
// (`simulate --rerun`).
struct Given {
  std::string scenario;  // as named; empty: a plan
  std::vector<GivenFile> files;
  std::vector<std::string> set, unset;                       // of --set and --unset
  std::vector<std::pair<std::string, std::string>> options;  // the command's own; a switch has no value
  std::vector<std::string> notes;                            // of reading the scenario
};

// What every result about one scenario begins with.
struct ResultHeader {
  Versions versions;
  Scenario scenario;                      // as resolved
  std::vector<ScenarioSection> sections;  // after problem, parallel and schedule
  // What of the command line or the scenario had no effect, and what else a reader must know.
  std::vector<std::string> notes;
  std::optional<Given> given = {};
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
  ChainShares chain;
  ChainParts chain_parts;
  double chain_s = 0;                    // of the whole chain, both phases
  std::vector<VariantFigures> variants;  // that `run` would take
  std::optional<OperationTimes> operations;
  std::int64_t placement_padding_tokens = 0;  // the plan's
  std::string machine, gpu;                   // what the hardware file calls them
};

// Used memory of the GPU of one rank, as the device counts it. Where ranks share a GPU, each entry holds the
// whole GPU's context and the rank's own share of the rest.
struct RankMemory {
  int rank = 0;                         // global
  std::int64_t context_bytes = 0;       // used once the context and the kernels are loaded
  std::int64_t communicator_bytes = 0;  // growth from making and first using the communicators
  std::int64_t tables_bytes = 0;        // segment lists and row maps of the kernels
  std::int64_t arena_bytes = 0;         // what was allocated for the plan's buffers
  std::int64_t growth_bytes = 0;        // of used memory, from before the context to the end of the run
  std::int64_t unexplained_bytes = 0;   // growth less context, communicators, tables and arena
};

// What a run on GPUs says beside its figures; its members are keys of the result, `cuda_graph` as `graph`.
struct GpuRun {
  // gpu, compute_capability, driver, cuda, nccl, clocks, NCCL_* variables, `rates` by whose file kernels were
  // chosen; written in this order.
  std::vector<std::pair<std::string, std::string>> environment;
  std::string launch;     // "threads", "processes"
  int ranks_per_gpu = 1;  // more than 1: for correctness, its times are not those of a GPU a rank
  // What each transport used ran on: {"copy", "peer access"}, {"nccl", "P2P/direct pointer"}.
  std::vector<std::pair<std::string, std::string>> links;
  bool cuda_graph = false;
  int warmup = 0;                  // iterations before those that were timed
  double clock_residual_s = 0;     // the largest error of the clocks that align the ranks' operations
  std::vector<RankMemory> memory;  // by rank
  bool allocation_log_equals_plan = false;  // births and deaths written by the executor, key by key
};

struct RunReport {
  ResultHeader header;
  std::string device;           // "cpu", "gpu"
  double time_s = 0;            // the median of times_s
  std::vector<double> times_s;  // one entry an iteration: the maximum over ranks
  std::optional<GpuRun> gpu;    // absent for the CPU
  // Of the iterations of times_s, whose operations are not timed; empty: one phase, or a CUDA graph.
  std::vector<PhaseTime> undisturbed_phases;
  // Of the timeline that stands for the run. Its time_s is written for a GPU only, as instrumented_s: there
  // operations are timed in iterations of their own, time_s without events between operations.
  Figures figures;
  std::optional<Fit> fit;
  MeasuredPath path;                     // of that timeline
  std::vector<VariantFigures> variants;  // that were taken; empty on a CPU
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
  std::string against;   // the folder of the caller's results, or empty: then nothing was executed
  std::optional<std::int64_t> sampled_rows;  // of every tensor with tokens and of every head; unset: all
  std::int64_t rows = 0;                     // that there are
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
  std::string name;  // "total", "forward", "communication", "forward/attend"; see compare_results
  double predicted_s = 0;
  double measured_s = 0;
  double error = 0;  // predicted / measured - 1; NaN when nothing was measured
  // Of a kind of operation: differences of its operations without their signs, summed, mean over ranks; else
  // the difference without its sign. So what cancels is seen.
  double absolute_s = 0;
  // Of total and phases: the null model (compute alone, of the rank that computes longest there as predicted)
  // and its error beside what was measured.
  std::optional<double> null_s = {};
  double null_error = 0;
};

// A part of the time of the rank that ends last: "forward/attend", "forward/exchange/wait",
// "forward/exchange/transfer", "forward/launch" (nothing runs). The terms of one side sum to its
// operations_s.
struct CompareTerm {
  std::string name;
  double predicted_s = 0, measured_s = 0;
};

// One of the two results that are compared.
struct CompareSide {
  std::string file;     // as named by the user
  std::string command;  // "simulate", "run"
  std::string
      machine;  // of a simulation its hardware file, of a run its device; empty if the result has none
  std::string gpu = {};  // by its name; empty: a CPU, or a prediction of before 0.2.0
  double time_s = 0;
  // The last end of its operations: differs from time_s where a run timed them in iterations of their own.
  double operations_s = 0;
  std::int64_t peak_bytes = 0;
  Versions versions = {};
  std::optional<Given> given = {};  // none: of before 0.2.0
  int last_rank = -1;               // whose last operation that is; -1: the file has no operations
};

struct CompareReport {
  Versions versions;
  Scenario scenario;  // of both
  CompareSide predicted, measured;
  double time_error = 0;  // predicted / measured - 1
  // The null model, which a prediction must beat: compute_s of the rank that computes longest in `predicted`,
  // as if launches, messages and waiting took no time; and its error beside `measured`.
  double compute_alone_s = 0;
  double compute_alone_error = 0;
  std::vector<CompareSegment> segments;
  std::vector<CompareTerm> terms;
  bool same_plan = true;  // else two predictions of different plans, whose operations are not joined
  std::int64_t memory_error_bytes = 0;       // predicted - measured peak_bytes
  std::int64_t rank_memory_error_bytes = 0;  // the same, of the rank where they differ most
  std::vector<std::string> notes;            // what a reader of the errors must know, a sentence each
};

struct ReproduceRow {
  std::string label;
  std::optional<double> published;
  double ours = 0;
  std::optional<double> error;  // ours / published - 1
  bool derived = false;         // from the plan's buffers or the simulation; else an empirical term
  std::string unit = {};        // of published and ours: "MiB", "ms", ...
};

struct ReproduceReport {
  ResultHeader header;              // the scenario as the file has it
  std::vector<std::int64_t> ranks;  // the values of parallel.ranks that the rows cover
  std::string name;
  std::string about;  // what the rows are of, in a line; empty: the scenario
  std::vector<ReproduceRow> rows;
  std::vector<std::string> notes;
};

// A file that can be named in a scenario or on the command line.
struct ListedFile {
  std::string name;
  std::string file;  // relative to scenarios/
  std::string summary;
};

// One option of an algorithm, one algorithm, placement and fault, as `list` shows them.
struct ListedOption {
  std::string_view key;
  std::vector<OptionValue> legal;
  bool any_count = false;  // every integer >= legal[0] too
  OptionValue default_value;
  std::string default_rule;  // in words, where what is taken depends on the scenario; else empty
  std::string applies;       // "not with merge=fused"; empty: always
  std::string_view help;
};
struct ListedAlgorithm {
  std::string_view name;
  std::vector<std::string_view> aliases;
  std::string_view summary;
  std::vector<std::string_view> placements;
  std::vector<ListedOption> options;
};
struct ListedPlacement {
  std::string_view name;
  std::vector<std::string_view> aliases;
  std::string_view help;
};
struct ListedFault {
  std::string_view name;
  std::string_view form;
  std::string_view help;
  std::string_view scenario;
  std::vector<std::string_view> devices;
  std::optional<ExpectedFinding> expected;
};

// A model by its sizes; `attention` is (kind, layers of it).
struct ListedModel {
  std::string name, file;
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, vocabulary = 0;
  std::vector<std::pair<std::string, std::int64_t>> attention;
  std::int64_t experts = 0, experts_per_token = 0;     // 0: no layer has any
  std::int64_t parameters = 0, active_parameters = 0;  // without prediction layers; with both embeddings
  std::vector<std::string> unread;                     // keys of its config that are not known
};

// `list KIND` fills one of them, `list` all.
struct ListReport {
  Versions versions;
  std::optional<std::vector<ListedAlgorithm>> algorithms;
  std::optional<std::vector<ListedPlacement>> placements;
  std::optional<std::vector<ListedFile>> scenarios;
  std::optional<std::vector<ListedFile>> hardware;
  std::optional<std::vector<ListedModel>> models;
  std::optional<std::vector<ListedFault>> faults;
  std::optional<std::vector<ListedFile>> published;
  std::optional<std::vector<ListedFile>> studies;
};

}  // namespace cplab

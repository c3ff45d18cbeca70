// LASP's own test of correctness (OpenNLPLab/LASP, tests/test.py, with the Blelloch scan of petrpan26's pull
// request): mean absolute differences of rank 0's results from those of one rank, which the test printed
// without a threshold. Our plans are executed on the CPU, with the defects of the published code as faults.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "algorithms/core/build.hpp"
#include "algorithms/faults/faults.hpp"
#include "cli/session.hpp"
#include "cli/studies/lasp_tiles.hpp"
#include "cli/studies/reproduce.hpp"
#include "cli/verify/tensors.hpp"
#include "exec/cpu/executor.hpp"

namespace cplab {

namespace {

constexpr std::array tensors{"out", "dq", "dk", "dv"};
using TensorErrors = std::array<double, tensors.size()>;

struct LaspMethod {
  const char* name;
  const char* algorithm;
  bool bf16_numbers = false;  // token numbers, and states of a rank's own tokens, in bf16
  bool down_sweep = false;    // the published one
};
constexpr std::array methods{LaspMethod{"naive", "lasp_naive", true}, LaspMethod{"cache", "lasp_cache", true},
                             LaspMethod{"fuse", "lasp_fuse"},
                             LaspMethod{"fuse_parallel", "lasp_fuse_parallel"},
                             LaspMethod{"blelloch", "lasp_blelloch", false, true}};

struct Job {
  std::int64_t replicas = 1, ranks = 1;
  std::array<TensorErrors, methods.size()> published{};
};

struct ErrorsSource {
  std::int64_t samples = 1;
  std::vector<Job> jobs;
};

ErrorsSource read_errors_source(const Table& root) {
  const Table table = root.table("published");
  ErrorsSource source;
  source.samples = table.integer("samples");
  if (source.samples < 1) table.fail("samples", "must be 1 or more");
  for (const Table& row : table.tables("row")) {
    Job& job = source.jobs.emplace_back();
    job.replicas = row.integer("replicas");
    job.ranks = row.integer("ranks");
    for (std::size_t m = 0; m < methods.size(); ++m) {
      const std::vector<double> figures = row.numbers(methods[m].name);
      if (figures.size() != tensors.size()) row.fail(methods[m].name, "must hold out, dq, dk and dv");
      std::copy(figures.begin(), figures.end(), job.published[m].begin());
    }
  }
  table.finish();
  return source;
}

// The rest is what was published, or means nothing here.
void require_settable(const std::vector<std::string>& sets) {
  constexpr std::array may{"problem.sequence=", "problem.heads=", "problem.head_size=", "problem.value_size=",
                           "problem.slopes=",   "problem.dtype=", "simulate.",          "hardware."};
  for (const std::string& set : sets)
    if (std::ranges::none_of(may, [&](const char* start) { return set.starts_with(start); }))
      throw InputError(
          "--set " + set +
          ": methods and ranks are the published ones; what may be set: problem.sequence, heads, "
          "head_size, value_size, slopes, dtype");
}

class Executions {
 public:
  Executions(const std::string& file, std::vector<std::string> sets, std::int64_t samples)
      : file_(file), sets_(std::move(sets)), samples_(samples) {}

  Outputs run(const std::string& algorithm, std::int64_t ranks, const std::vector<std::string>& more = {},
              bool bf16_numbers = false, const char* mutation = nullptr) const {
    std::vector<std::string> sets = sets_;
    for (const std::string& each :
         {fmt::format("problem.batch={}", samples_), std::string("parallel.replicas=1"),
          fmt::format("parallel.ranks={}", ranks), "parallel.algorithm=" + algorithm})
      sets.push_back(each);
    sets.insert(sets.end(), more.begin(), more.end());
    const ScenarioFile scenario = read_scenario(file_, sets);
    Plan plan = build_plan(scenario.scenario);
    if (mutation) find_fault(mutation)->mutate(plan);
    CpuOptions options;
    options.linear_tiles = &lasp_tiles(bf16_numbers);
    options.keep_log = false;
    CpuExecutor executor(plan, options);
    scatter(plan, random_inputs(scenario.scenario.problem, 1), executor);
    executor.run();
    return gather(plan, executor);
  }

 private:
  std::string file_;
  std::vector<std::string> sets_;
  std::int64_t samples_;
};

// Over the tokens of one rank of so many.
double mean_difference(const Tensor& a, const Tensor& b, std::int64_t rank, std::int64_t ranks) {
  const std::int64_t batch = a.shape[0], rows = a.shape[1] / ranks, width = a.shape[2] * a.shape[3];
  double sum = 0;
  for (std::int64_t s = 0; s < batch; ++s) {
    const std::int64_t first = (s * a.shape[1] + rank * rows) * width;
    for (std::int64_t i = first; i < first + rows * width; ++i)
      sum += std::abs(a.values[static_cast<std::size_t>(i)] - b.values[static_cast<std::size_t>(i)]);
  }
  return sum / static_cast<double>(batch * rows * width);
}

TensorErrors differences(const Outputs& a, const Outputs& b, std::int64_t rank, std::int64_t ranks) {
  TensorErrors figures{};
  for (std::size_t t = 0; t < tensors.size(); ++t)
    figures[t] = mean_difference(a[tensors[t]], b[tensors[t]], rank, ranks);
  return figures;
}

void add_rows(ReproduceReport& report, const std::string& label, const TensorErrors* published,
              const TensorErrors& ours) {
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const std::optional<double> figure = published ? std::optional((*published)[t]) : std::nullopt;
    ReproduceRow row =
        reproduced(label + "/" + tensors[t], figure, ours[t], true, std::string(difference_unit));
    if (row.error && !std::isfinite(*row.error)) row.error.reset();  // of nothing
    report.rows.push_back(std::move(row));
  }
}

// What one rank computes: the kernels of Lightning Attention, whose forward is naive's, and whose backward
// stores the pairs of 64 tokens and adds to them in bf16 what the states hold.
Outputs reference(const Executions& executions) {
  Outputs outputs = executions.run("lasp_naive", 1);
  Outputs backward = executions.run("lasp_blelloch", 1, {"schedule.chunk=64", "schedule.inter=apart"});
  for (const char* name : {"dq", "dk", "dv"}) outputs[name] = std::move(backward[name]);
  return outputs;
}

// blelloch's kernels are fuse_parallel's: blocks of 256 tokens, what states hold apart.
const std::vector<std::string>& blelloch_kernels() {
  static const std::vector<std::string> sets{"schedule.chunk=256", "schedule.inter=apart"};
  return sets;
}

// The ranks whose results the published down-sweep changes, out by the prefix, dk and dv by the suffix.
std::string wrong_ranks(const Outputs& wrong, const Outputs& right, std::int64_t ranks, const char* tensor) {
  constexpr double least_shown = 0.0005;  // other orders of sums change less
  std::string text;
  for (std::int64_t r = 0; r < ranks; ++r) {
    const double by = mean_difference(wrong[tensor], right[tensor], r, ranks);
    if (by >= least_shown) text += fmt::format("{}rank {} by {:.3f}", text.empty() ? "" : ", ", r, by);
  }
  return text.empty() ? "no rank" : text;
}

void add_notes(ReproduceReport& report, const ErrorsSource& source) {
  const auto add = [&](std::string note) { report.notes.push_back(std::move(note)); };
  add("The test printed rank 0 alone and had no threshold. Rank 0's out and dq need no state of other ranks, "
      "so that it never saw the scan of the forward.");
  add("The reference is Lightning Attention on one rank: its forward is naive's kernel in the same blocks of "
      "64 tokens, hence 0; its backward stores pairs and adds what states hold to them, in bf16.");
  add("naive and cache run with the faults bf16-state (a rank's own states) and bf16-index (token numbers, "
      "wrong above 256: 512 tokens a rank on 4 ranks); blelloch with published-down-sweep; the others have "
      "no "
      "fault. \"right scan\" is blelloch without it.");
  add("Rows are multiplied in fp32, as in the source's Triton kernels, and results are rounded to bf16 where "
      "those store them; TF32, in which a GPU may multiply, is not modelled. fuse_parallel's blocks of 256 "
      "tokens "
      "are computed as four of 64, as the reference does: hence out is 0 on 8 ranks.");
  add(fmt::format(
      "{} random sample{} of a replica's 8 or 16, normally distributed: differences depend on the "
      "ranks of a group and not on its replicas.",
      source.samples, source.samples == 1 ? "" : "s"));
}

}  // namespace

ReproduceReport reproduce_lasp_errors(const std::string& file, const std::vector<std::string>& sets,
                                      Progress& progress) {
  require_settable(sets);
  const ScenarioFile given = read_scenario(file, sets);
  const ErrorsSource source = read_errors_source(given.table);
  ReproduceReport report;
  report.header = header_of(given);
  report.name = "lasp-errors";
  report.about = "rank 0 of 8: mean absolute differences from one rank's results, as LASP's test prints them";
  const Executions executions(file, sets, source.samples);
  // The reference, and of every job the methods and the right scan.
  const std::int64_t all = std::ssize(source.jobs) * (std::ssize(methods) + 1) + 1;
  progress.stage("executing", all, "plans");
  std::int64_t done = 0;
  const auto count = [&] { progress.set_done(++done, all); };
  const Outputs one_rank = reference(executions);
  count();
  for (const Job& job : source.jobs) {
    if (given.scenario.problem.sequence % job.ranks != 0)
      given.fail("problem.sequence", fmt::format("must be a multiple of {} ranks", job.ranks));
    report.ranks.push_back(job.ranks);
    const std::string label = fmt::format("DP{} SP{}/", job.replicas, job.ranks);
    for (std::size_t m = 0; m < methods.size(); ++m) {
      const LaspMethod& method = methods[m];
      const auto& kernels = method.down_sweep ? blelloch_kernels() : std::vector<std::string>();
      const Outputs ours = executions.run(method.algorithm, job.ranks, kernels, method.bf16_numbers,
                                          method.down_sweep ? "published-down-sweep" : nullptr);
      count();
      add_rows(report, label + method.name, &job.published[m], differences(ours, one_rank, 0, job.ranks));
      if (!method.down_sweep) continue;
      const Outputs right = executions.run(method.algorithm, job.ranks, kernels);
      count();
      add_rows(report, label + "blelloch, right scan", nullptr, differences(right, one_rank, 0, job.ranks));
      report.notes.push_back(
          fmt::format("On {} ranks the published down-sweep changes out of {}, dk of {}, dv of {}.",
                      job.ranks, wrong_ranks(ours, right, job.ranks, "out"),
                      wrong_ranks(ours, right, job.ranks, "dk"), wrong_ranks(ours, right, job.ranks, "dv")));
    }
  }
  add_notes(report, source);
  return report;
}

}  // namespace cplab

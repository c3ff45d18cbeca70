// Tokens/s of the LASP methods: our plans between the benchmark's own operations, on the published kernels'
// grids. At most four parameters are fitted, on the first table; the others are predictions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "algorithms/core/build.hpp"
#include "algorithms/faults/faults.hpp"
#include "check/check.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/prediction.hpp"
#include "cli/session.hpp"
#include "cli/studies/lasp_benchmark.hpp"
#include "cli/studies/lasp_source.hpp"
#include "cli/studies/reproduce.hpp"
#include "cli/subject.hpp"
#include "exec/repeated.hpp"
#include "report/table.hpp"
#include "sim/simulate.hpp"

namespace cplab {
namespace {

using namespace lasp;

// ---- simulation --------------------------------------------------------------------------------------

// Elements of one rank's tensors.
struct Elements {
  double q = 0, v = 0, state = 0;
};

LaspBenchmark benchmark_of(const Method& method, const Elements& elements) {
  const auto launches = [&](const std::string& place) {
    std::vector<FrameworkLaunch> list;
    for (const Pass& pass : method.passes.at(place)) {
      const double count = pass.shape == "q" ? elements.q : pass.shape == "v" ? elements.v : elements.state;
      list.push_back({pass.shape == "tiny" ? 64 : count * pass.bytes_each, pass.host});
    }
    return list;
  };
  const auto phase = [&](const std::string& p) {
    return FrameworkPhase{launches(p + "_start"), launches(p + "_kernels"), launches(p + "_after"),
                          launches(p + "_combine"), launches(p + "_end")};
  };
  return {{phase("forward"), phase("backward")}};
}

// What a chain of operations that ends last is made of, in seconds.
struct ThroughputRow {
  double tokens_s = 0;
  double seconds = 0;
  UseSeconds chain;
};
struct ThroughputRows {
  ThroughputRow forward, both;
  double message_bytes = 0, link_bytes_s = 0;  // the states of one rank in fp32
  bool with_fault = false;
  CheckResult scan, right_scan;  // of the forward: with the method's fault, and without
};

ThroughputRows simulated(const ScenarioFile& original, const std::vector<std::string>& sets,
                         const PublishedTable& table, const Method& method, const Source& source) {
  std::vector<std::string> with = sets;
  with.insert(with.end(), {fmt::format("parallel.ranks={}", table.ranks),
                           fmt::format("parallel.replicas={}", table.replicas),
                           fmt::format("problem.batch={}", table.batch), "hardware.file=" + table.hardware});
  with.insert(with.end(), method.sets.begin(), method.sets.end());
  ScenarioFile scenario = reread(original, with);
  const Problem& problem = scenario.scenario.problem;
  const std::int64_t rows = problem.sequence / table.ranks;
  // The kernels' own blocks: 256 tokens, or what there is up to 128.
  if (scenario.scenario.schedule.find("chunk")) {
    with.push_back(fmt::format("schedule.chunk={}", rows > 128 ? 256 : rows));
    scenario = reread(original, with);
  }
  Hardware hardware = machine_of(scenario);
  hardware.host.kernel_launch_s = source.value("launch_s");
  hardware.host.communication_launch_s = source.value("communication_s");
  LaspKernels kernels{source.value("iteration_s"), source.value("floor_s"), source.value("host_bytes_s"), 0};
  for (const auto& [dtype, flops_s] : hardware.gpu.peak_flops)
    if (dtype == "fp32") kernels.framework_peak = flops_s;
  const double heads = static_cast<double>(table.batch / table.replicas * problem.heads);
  const Elements elements{heads * static_cast<double>(rows * problem.head_size),
                          heads * static_cast<double>(rows * problem.value_size),
                          heads * static_cast<double>(problem.head_size * problem.value_size)};
  const LaspBenchmark benchmark = benchmark_of(method, elements);
  const double tokens = static_cast<double>(table.batch * problem.sequence);
  ThroughputRows result;
  result.message_bytes = 4 * elements.state;
  result.link_bytes_s = hardware.node.link_bytes_s;
  for (const bool both : {false, true}) {
    Scenario one = scenario.scenario;
    one.problem.direction = both ? Direction::forward_backward : Direction::forward;
    Plan plan = build_plan(one);
    ThroughputRow& row = both ? result.both : result.forward;
    if (!both) result.right_scan = check(plan);
    if (!method.fault.empty() && table.ranks >= method.fault_from_ranks) {
      const Fault* fault = find_fault(method.fault);
      if (fault == nullptr || fault->mutate == nullptr)
        throw InputError(original.argument + ": " + method.fault + " is no fault of plans");
      fault->mutate(plan);
      result.with_fault = true;
    }
    if (!both) result.scan = check(plan);
    bracket(plan, benchmark);
    const Simulation simulation = simulate(plan, hardware, {}, lasp_kernel_cost(hardware, kernels));
    const std::array<double, 2> seconds = bracketed_s(plan, simulation.timeline);
    row.seconds = seconds[0] + (both ? seconds[1] : 0);
    row.tokens_s = tokens / row.seconds;
    row.chain = simulation.critical_use;
  }
  return result;
}

// ---- figures and notes -------------------------------------------------------------------------------

struct Figure {
  std::string label;
  double published = 0, ours = 0;  // million tokens/s
  ThroughputRow row;
  double error() const { return ours / published - 1; }
};

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<double> ranks;
  for (const double value : values)
    ranks.push_back(static_cast<double>(
        std::count_if(values.begin(), values.end(), [&](double other) { return other < value; })));
  return ranks;
}

// Spearman's coefficient; no two values are equal.
double rank_correlation(const std::vector<Figure>& figures) {
  std::vector<double> published, ours;
  for (const Figure& f : figures) published.push_back(f.published), ours.push_back(f.ours);
  const std::vector<double> a = ranks_of(published), b = ranks_of(ours);
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  const auto n = static_cast<double>(a.size());
  return 1 - 6 * squares / (n * (n * n - 1));
}

double median_error(const std::vector<Figure>& figures) {
  std::vector<double> errors;
  for (const Figure& f : figures) errors.push_back(std::abs(f.error()));
  return median(std::move(errors));
}

std::string about_column(const std::string& name, const std::vector<Figure>& figures, bool fitted) {
  return fmt::format("{}: rank correlation {:.2f} over {} rows, median error {} % ({}).", name,
                     rank_correlation(figures), figures.size(), format_percent(median_error(figures)),
                     fitted ? "parameters were fitted on these rows" : "predicted");
}

std::string about_row(const Figure& f, double tokens) {
  const UseSeconds& chain = f.row.chain;
  constexpr double us = 1e6;
  return fmt::format(
      "{}: {} %; {:.0f} us published, {:.0f} ours. The chain that ends last: kernels over tokens and states "
      "{:.0f} us, "
      "framework passes {:.0f}, messages and barriers {:.0f}, host {:.0f}.",
      f.label, format_signed_percent(f.error()), tokens / f.published, f.row.seconds * us,
      chain.attention * us, chain.other_kernels * us, chain.communication * us, chain.host * us);
}

std::string about_parameter(const std::string& name, const Parameter& p) {
  return fmt::format("Parameter {} = {:.3g}, {}: {}.", name, p.value, p.origin, p.source);
}

// What the messages of a forward take at least.
std::string about_wire(const std::string& where, const ThroughputRows& rows, double published_s) {
  constexpr double ms = 1e3;
  return fmt::format(
      "{}: of its messages of {:.1f} MB {} wait for each other in the forward. That is {:.2f} ms at the "
      "{:.1f} GB/s of a "
      "link, without any kernel; published are {:.2f} ms.",
      where, rows.message_bytes / 1e6, rows.scan.rounds,
      static_cast<double>(rows.scan.rounds) * rows.message_bytes / rows.link_bytes_s * ms,
      rows.link_bytes_s / 1e9, published_s * ms);
}

std::string about_fault(const std::string& where, const Method& method, const ThroughputRows& rows) {
  return fmt::format(
      "{}: simulated with the scan that was timed ({}), which gives wrong states from {} ranks on: {} "
      "messages, {} of "
      "them in a chain. The right one sends {}, {} in a chain.",
      where, method.fault, method.fault_from_ranks, rows.scan.messages, rows.scan.rounds,
      rows.right_scan.messages, rows.right_scan.rounds);
}

std::vector<std::string> closing_notes(const std::vector<PublishedTable>& tables) {
  const PublishedTable& h100 = tables.front();
  const auto rate = [&](const char* method, const std::vector<double>& column) {
    const auto at = std::find(h100.methods.begin(), h100.methods.end(), method) - h100.methods.begin();
    return column[static_cast<std::size_t>(at)];
  };
  const auto ratio = [&](const char* other, const std::vector<double>& column) {
    return rate("blelloch", column) / rate(other, column);
  };
  return {
      fmt::format("The source says \"2x over other methods\". Its own table on 8 x H100 does not: blelloch "
                  "over fuse is "
                  "{:.2f} forward and {:.2f} with backward, over fuse_parallel, which has the same kernels, "
                  "{:.2f} and "
                  "{:.2f}.",
                  ratio("fuse", h100.forward), ratio("fuse", h100.both), ratio("fuse_parallel", h100.forward),
                  ratio("fuse_parallel", h100.both)),
      "The source counts 14 steps for 128 ranks, 2 log2 P. Up- and down-sweep are 13 rounds; the shift, "
      "which it "
      "needs, is the 14th.",
      "Not in the model: what Python costs between launches beyond launch_s, clocks of a GPU that idles "
      "between "
      "short kernels, and the streams of NCCL, whose messages stand here on the stream that computes.",
  };
}

}  // namespace

ReproduceReport reproduce_lasp_throughput(const std::string& file, const std::vector<std::string>& sets,
                                          Progress& progress) {
  for (const std::string& set : sets) {
    if ((!set.starts_with("hardware.") || set.starts_with("hardware.file")) && !set.starts_with("schedule."))
      throw InputError(
          "--set " + set +
          ": problem, methods and machines are the published ones; what may be set: hardware.* but not "
          "hardware.file, schedule.*");
  }
  const ScenarioFile original = read_scenario(file, sets);
  require_machine(original);
  const Source source = read_source(original.table);
  const Problem& problem = original.scenario.problem;
  ReproduceReport report;
  report.name = "lasp-throughput";
  report.about = fmt::format("{} tokens a sequence, {} heads of {} and {}, {}; tokens of the whole job",
                             problem.sequence, problem.heads, problem.head_size, problem.value_size,
                             name(problem.dtype));
  std::map<std::pair<bool, bool>, std::vector<Figure>> columns;  // fitted, both
  std::vector<std::string> rows_explained, over_the_wire;
  for (const PublishedTable& table : source.tables) {
    report.ranks.push_back(table.ranks);
    for (std::size_t m = 0; m < table.methods.size(); ++m) {
      const std::string& wanted = table.methods[m];
      const auto method = std::find_if(source.methods.begin(), source.methods.end(),
                                       [&](const Method& each) { return each.name == wanted; });
      if (method == source.methods.end()) throw InputError(file + ": no method is called " + wanted);
      const std::string where =
          fmt::format("{}, DP {} SP {}, {}", table.name, table.replicas, table.ranks, wanted);
      progress.stage(where);
      const double tokens = static_cast<double>(table.batch * problem.sequence);
      const ThroughputRows rows = simulated(original, sets, table, *method, source);
      if (rows.with_fault) over_the_wire.push_back(about_fault(where, *method, rows));
      if (table.ranks > 8) over_the_wire.push_back(about_wire(where, rows, 1e-6 * tokens / table.forward[m]));
      for (const bool both : {false, true}) {
        const ThroughputRow& row = both ? rows.both : rows.forward;
        Figure figure{where + (both ? ", forward+backward" : ", forward"),
                      both ? table.both[m] : table.forward[m], row.tokens_s / 1e6, row};
        report.rows.push_back(reproduced(figure.label, figure.published, figure.ours, true, "Mtok/s"));
        rows_explained.push_back(about_row(figure, tokens));
        columns[{table.fitted_on, both}].push_back(std::move(figure));
      }
    }
  }
  report.header = header_of(original);
  for (const char* name : parameter_names)
    report.notes.push_back(about_parameter(name, source.parameters.at(name)));
  report.notes.push_back(
      "From the hardware files, assumed: launch latency, waking of the host, message curves, barriers, copy "
      "bandwidth.");
  for (const auto& [key, figures] : columns) {
    const std::string column = std::string(figures.front().label.substr(0, figures.front().label.find(','))) +
                               (key.second ? ", forward+backward" : ", forward");
    report.notes.push_back(about_column(column, figures, key.first));
  }
  report.notes.insert(report.notes.end(), rows_explained.begin(), rows_explained.end());
  over_the_wire.emplace_back(
      "That leaves next to nothing for kernels and launches. The source says that its sizes are those of "
      "smaller GPUs, and "
      "not whether the rows of the RTX 5090 used them: absolute times there are uncalibrated, their order is "
      "a shape.");
  over_the_wire.emplace_back(
      "Rows of blelloch with 16 and 8 ranks in a group were timed on wrong results. The source's scan sends "
      "30 + 15 and "
      "14 + 7 messages there; what goes to the last index in the up-sweep, and of which nothing comes, is "
      "left out here.");
  report.notes.insert(report.notes.end(), over_the_wire.begin(), over_the_wire.end());
  const std::vector<std::string> closing = closing_notes(source.tables);
  report.notes.insert(report.notes.end(), closing.begin(), closing.end());
  return report;
}

}  // namespace cplab

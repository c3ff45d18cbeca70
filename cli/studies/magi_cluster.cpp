// Constants of a cluster that nobody here owns, fitted to MagiAttention's times on one node, each method left
// out in turn; and what the machine so found says of 2, 4 and 8 nodes, which no row of theirs was used for.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "algorithms/core/build.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/prediction.hpp"
#include "cli/session.hpp"
#include "cli/studies/least_squares.hpp"
#include "cli/studies/magi_source.hpp"
#include "cli/studies/reproduce.hpp"
#include "exec/repeated.hpp"
#include "report/table.hpp"

namespace cplab {
namespace {

enum ClusterConstant : std::uint8_t { arithmetic, copies, to_all, far_keys, slower, constant_count };
struct ConstantName {
  const char* key;
  const char* unit;
  double scale;  // of what is shown
};
constexpr std::array<ConstantName, constant_count> constant_names{{{"arithmetic", "of copy_bytes_s", 1},
                                                                   {"copies", "of copy_bytes_s", 1},
                                                                   {"all_to_all", "GB/s", 1e-9},
                                                                   {"far_keys", "times the rate", 1},
                                                                   {"slower", "times the time", 1}}};

constexpr double ms = 1e3;
// Two times are in an order if they are further apart than this.
constexpr double apart = 0.02;
constexpr std::int64_t node_ranks = 8;

using Times = std::array<double, magi_charts.size()>;  // by chart, seconds
using TimesOfAll = std::vector<Times>;                 // by method

struct ClusterSource {
  MagiSource magi;
  std::vector<FittedConstant> constants;
  std::vector<std::int64_t> ranks;
  double sigma = 1, startup_s = 0;
};

ClusterSource read_cluster_source(const Table& root) {
  ClusterSource source;
  const Table published = root.table("published"), constants = published.table("constants");
  source.ranks = published.integers("ranks");
  source.sigma = published.number("sigma");
  source.startup_s = published.table("all_to_all").number("startup_s");
  for (const ConstantName& name : constant_names) {
    const std::vector<double> pair = constants.numbers(name.key);
    if (pair.size() != 2 || !(pair[0] > 0) || !(pair[1] > 1))
      constants.fail(name.key, "holds a positive prior and a factor above 1");
    source.constants.push_back({name.key, pair[0], pair[1]});
  }
  source.magi = read_magi_source(read_scenario("published/magi-cp8.toml", {}).table);
  return source;
}

// Of the published kernel of that chart on this cluster. A FLOP's time is linear in 1 / sequence; so longer
// sequences follow from the last two, and far_keys is what the full forward has of that.
KernelTable kernel_with(const ClusterSource& source, const Problem& problem, std::size_t chart,
                        const std::vector<double>& constants) {
  constexpr std::int64_t longest = 16;  // times the longest published
  KernelTable table = magi_kernel(source.magi, problem, chart);
  const MagiChart& of = magi_charts[chart];
  const std::vector<double>& rates = source.magi.tflops[chart];
  const double last = 1 / rates.back(), growth = 1 / rates[rates.size() - 2] - last;
  const bool full_forward = !of.causal && of.phase == Phase::forward;
  for (std::int64_t times = 2; times <= longest; times *= 2) {
    const std::int64_t sequence = times * source.magi.sequence.back();
    double rate = 1e12 / (last - growth * (1 - 1 / static_cast<double>(times)));
    if (full_forward) rate *= constants[far_keys];
    table.points.push_back({1, sequence, problem.heads, magi_flops(problem, of, sequence) / rate});
  }
  for (KernelPoint& point : table.points) point.seconds *= constants[slower];
  table.both_sides = table.kind == OpKind::attend_backward;
  table.provenance = {Origin::assumed, "", "", "", "fitted"};
  return table;
}

// The machine with these constants instead of its own.
Hardware machine_with(const Hardware& machine, const ClusterSource& source, const Problem& problem,
                      const std::vector<double>& constants) {
  Hardware hardware = machine;
  using enum OpKind;
  const double sums = constants[arithmetic], moved = constants[copies];
  hardware.elementwise.efficiency = {{merge, sums}, {add, sums},   {maximum, sums},
                                     {copy, moved}, {cast, moved}, {fill, moved}};
  hardware.elementwise.apart = hardware.elementwise.gathers = true;
  std::erase_if(hardware.kernels, [](const KernelTable& table) { return has_square_points(table.kind); });
  for (std::size_t c = 0; c < magi_charts.size(); ++c)
    hardware.kernels.push_back(kernel_with(source, problem, c, constants));
  for (MessageTable& table : hardware.messages) {
    if (table.kind != OpKind::all_to_all || table.path != Path::intra) continue;
    for (CurvePoint& point : table.points) point.seconds = source.startup_s + point.bytes / constants[to_all];
  }
  return hardware;
}

// The methods on so many ranks, full and causal, planned once.
class Methods {
 public:
  Methods(const std::string& file, const std::vector<std::string>& sets, const MagiSource& source,
          std::int64_t ranks, std::int64_t tokens)
      : source_(source) {
    for (std::size_t m = 0; m < source.methods.size(); ++m) {
      for (const bool causal : {false, true}) {
        std::vector<std::string> with = sets;
        with.insert(with.end(), source.methods[m].sets.begin(), source.methods[m].sets.end());
        with.push_back(std::string("problem.mask=") + (causal ? "causal" : "full"));
        with.push_back("parallel.ranks=" + std::to_string(ranks));
        with.push_back("problem.sequence=" + std::to_string(ranks * tokens));
        ScenarioFile scenario = read_scenario(file, with);
        Plan plan = build_plan(scenario.scenario);
        cases_.push_back({m, causal, std::move(scenario), std::move(plan)});
      }
    }
  }

  // Of the methods for which `wanted` is true; of the others 0.
  TimesOfAll times(const Hardware& hardware, const std::vector<bool>& wanted) const {
    TimesOfAll all(source_.methods.size(), Times{});
    for (const Case& each : cases_) {
      if (!wanted[each.method]) continue;
      const Prediction prediction = predict(each.scenario, each.plan, hardware);
      for (std::size_t c = 0; c < magi_charts.size(); ++c)
        for (const PhaseTime& phase : prediction.figures.phases)
          if (magi_charts[c].causal == each.causal && phase.phase == magi_charts[c].phase)
            all[each.method][c] = phase.time_s;
    }
    return all;
  }

 private:
  struct Case {
    std::size_t method;
    bool causal;
    ScenarioFile scenario;
    Plan plan;
  };
  const MagiSource& source_;
  std::vector<Case> cases_;
};

double published_s(const MagiSource& source, std::size_t method, std::size_t chart) {
  return source.methods[method].published_ms[chart] / ms;
}

std::string label_of(const MagiSource& source, std::size_t method, std::size_t chart) {
  return source.methods[method].name + " " + magi_charts[chart].label;
}

// What a fit is worth: of all times the errors, and of all pairs of methods that are apart how many are in
// the published order.
struct Worth {
  double median = 0, worst = 0;
  int in_order = 0, pairs = 0;
};
Worth worth_of(const MagiSource& source, const TimesOfAll& times) {
  Worth worth;
  std::vector<double> errors;
  const std::size_t n = source.methods.size();
  for (std::size_t c = 0; c < magi_charts.size(); ++c) {
    for (std::size_t a = 0; a < n; ++a) {
      errors.push_back(std::abs(times[a][c] / published_s(source, a, c) - 1));
      for (std::size_t b = 0; b < a; ++b) {
        const double ratio = published_s(source, a, c) / published_s(source, b, c);
        if (std::max(ratio, 1 / ratio) <= 1 + apart) continue;
        ++worth.pairs;
        worth.in_order += (ratio > 1) == (times[a][c] > times[b][c]);
      }
    }
  }
  worth.worst = *std::max_element(errors.begin(), errors.end());
  worth.median = median(std::move(errors));
  return worth;
}

void add_worth(ReproduceReport& report, const std::string& of, const Worth& worth) {
  report.rows.push_back(reproduced(of + " median error", std::nullopt, 100 * worth.median, false, "%"));
  report.rows.push_back(reproduced(of + " largest error", std::nullopt, 100 * worth.worst, false, "%"));
  report.rows.push_back(reproduced(of + " pairs in order", std::nullopt,
                                   100.0 * worth.in_order / std::max(1, worth.pairs), false, "%"));
}

// Fits, and remembers what it needs for that.
class Fitting {
 public:
  Fitting(const Hardware& machine, const ClusterSource& source, const Problem& problem,
          const Methods& methods)
      : machine_(machine), source_(source), problem_(problem), methods_(methods) {}

  // By the times of all methods but `left_out` (as many as there are methods: none).
  LeastSquares without(std::size_t left_out) const {
    std::vector<bool> wanted(source_.magi.methods.size(), true);
    if (left_out < wanted.size()) wanted[left_out] = false;
    return fit_constants(source_.constants, source_.sigma, [&](const std::vector<double>& at) {
      const TimesOfAll times = methods_.times(machine_with(machine_, source_, problem_, at), wanted);
      std::vector<double> residuals;
      for (std::size_t m = 0; m < times.size(); ++m)
        for (std::size_t c = 0; wanted[m] && c < magi_charts.size(); ++c)
          residuals.push_back(std::log(times[m][c] / published_s(source_.magi, m, c)));
      return residuals;
    });
  }
  TimesOfAll times(const std::vector<double>& at) const {
    return methods_.times(machine_with(machine_, source_, problem_, at),
                          std::vector<bool>(source_.magi.methods.size(), true));
  }

 private:
  const Hardware& machine_;
  const ClusterSource& source_;
  const Problem& problem_;
  const Methods& methods_;
};

void add_constants(ReproduceReport& report, const LeastSquares& fit) {
  for (std::size_t i = 0; i < constant_names.size(); ++i) {
    const ConstantName& name = constant_names[i];
    const std::string label = std::string("constant ") + name.key;
    for (const auto& [suffix, values] : {std::pair{"", &fit.at}, {"/low", &fit.low}, {"/high", &fit.high}})
      report.rows.push_back(
          reproduced(label + suffix, std::nullopt, (*values)[i] * name.scale, false, name.unit));
  }
}

std::string constants_text(const std::vector<double>& at) {
  std::string text;
  for (std::size_t i = 0; i < constant_names.size(); ++i)
    text += fmt::format("{}{} {:.3g}", i == 0 ? "" : ", ", constant_names[i].key,
                        at[i] * constant_names[i].scale);
  return text;
}

// "causal backward +4.7 (9.2 %)", of the times that are off by more than 3 %.
std::string remainder_text(const MagiSource& source, const TimesOfAll& times, std::size_t method) {
  std::string text;
  for (std::size_t c = 0; c < magi_charts.size(); ++c) {
    const double published = published_s(source, method, c), missing = published - times[method][c];
    if (std::abs(missing) < 0.03 * published) continue;
    text += fmt::format("{}{} {:+.1f} ms ({:.1f} %)", text.empty() ? "" : ", ", magi_charts[c].label,
                        missing * ms, 100 * std::abs(missing) / published);
  }
  return text;
}

void add_predictions(ReproduceReport& report, const ClusterSource& source, const TimesOfAll& times,
                     std::int64_t ranks) {
  for (std::size_t m = 0; m < times.size(); ++m)
    for (std::size_t c = 0; c < magi_charts.size(); ++c)
      report.rows.push_back(reproduced(fmt::format("cp {} {}", ranks, label_of(source.magi, m, c)),
                                       std::nullopt, times[m][c] * ms, true, "ms"));
}

std::vector<std::string> first_cluster_notes(const ClusterSource& source) {
  return {
      fmt::format(
          "Fitted: {} constants, none of a method, to the times of {} GPUs alone, each held by a prior "
          "(the scenario has it and its factor). \"low\" and \"high\": 90 % of the fits to rows drawn "
          "with repetition.",
          source.constants.size(), node_ranks),
      "\"left out\": predicted with the constants that the other methods' times give.",
      "Links, network, launches, interference and the curves of all_gather and reduce_scatter are those of "
      "hardware/published-h100x64.toml and not fitted. The network is assumed: one NIC of 400 Gb/s a GPU.",
      "Not fitted but read off the authors' program: attention stores what an add behind it sums; before "
      "each attention kernel its operands are gathered, behind it results are scattered into zeros (their "
      "kernels "
      "take any lengths). Rates at 64K and more follow from those of 16K and 32K, 1 / rate linear in 1 / "
      "sequence; of the full forward far_keys is what is left of that."};
}

}  // namespace

ReproduceReport reproduce_magi_cluster(const std::string& file, const std::vector<std::string>& sets,
                                       Progress& progress) {
  for (const std::string& set : sets)
    if (!set.starts_with("hardware.") && !set.starts_with("simulate."))
      throw InputError("--set " + set +
                       ": problem, methods and their schedules are the published ones; what may be set: "
                       "hardware.*, simulate.*");
  const ScenarioFile original = read_scenario(file, sets);
  require_machine(original);
  const ClusterSource source = read_cluster_source(original.table);
  const MagiSource& magi = source.magi;
  const Problem& problem = original.scenario.problem;
  const Hardware machine = machine_of(original);
  ReproduceReport report;
  report.name = "magi-cluster";
  report.header = header_of(original);
  report.ranks = source.ranks;
  report.ranks.insert(report.ranks.begin(), node_ranks);
  const std::int64_t tokens = problem.padded_lengths.front() / node_ranks;
  report.about = fmt::format("8 to {} ranks on {}, {} tokens a rank, {}/{} heads of {}, {}",
                             report.ranks.back(), original.hardware_given, tokens, problem.heads,
                             problem.kv_heads, problem.head_size, name(problem.dtype));
  report.notes = first_cluster_notes(source);

  progress.stage("fitting");
  const Methods node(file, sets, magi, node_ranks, tokens);
  const Fitting fitting(machine, source, problem, node);
  const LeastSquares fit = fitting.without(magi.methods.size());
  const TimesOfAll fitted = fitting.times(fit.at);
  TimesOfAll left_out;
  for (std::size_t m = 0; m < magi.methods.size(); ++m) {
    progress.stage("fitting without " + magi.methods[m].name);
    const LeastSquares others = fitting.without(m);
    left_out.push_back(fitting.times(others.at)[m]);
    report.notes.push_back("Without " + magi.methods[m].name + ": " + constants_text(others.at) + ".");
  }
  for (std::size_t m = 0; m < magi.methods.size(); ++m) {
    for (std::size_t c = 0; c < magi_charts.size(); ++c) {
      const double published = published_s(magi, m, c) * ms;
      const std::string label = label_of(magi, m, c);
      report.rows.push_back(reproduced(label, published, fitted[m][c] * ms, true, "ms"));
      report.rows.push_back(reproduced(label + "/left out", published, left_out[m][c] * ms, true, "ms"));
    }
    if (const std::string text = remainder_text(magi, fitted, m); !text.empty())
      report.notes.push_back(magi.methods[m].name +
                             ": what neither plan nor constants say (published less ours): " + text + ".");
  }
  add_constants(report, fit);
  add_worth(report, "fitted:", worth_of(magi, fitted));
  add_worth(report, "left out:", worth_of(magi, left_out));
  const Hardware cluster = machine_with(machine, source, problem, fit.at);
  const std::vector<bool> all(magi.methods.size(), true);
  for (const std::int64_t ranks : source.ranks) {
    progress.stage(fmt::format("{} ranks", ranks));
    add_predictions(report, source, Methods(file, sets, magi, ranks, tokens).times(cluster, all), ranks);
  }
  return report;
}

}  // namespace cplab

// MagiAttention's charts of context-parallel attention on one node of 8 x H100, simulated with the authors'
// own kernel rates and nothing fitted. Every time is taken apart by what the rank that ends last does at each
// moment, beside the null model: the rank's share of the FLOPs at the rate of the longest published kernel.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "algorithms/core/build.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/prediction.hpp"
#include "cli/session.hpp"
#include "cli/studies/magi_source.hpp"
#include "cli/studies/reproduce.hpp"
#include "report/moments.hpp"
#include "report/peers.hpp"
#include "report/table.hpp"
#include "sim/kernel_cost.hpp"

namespace cplab {

namespace {

// What a time has beside the null model. The parts and the null model sum to it.
enum MagiPart : std::uint8_t { shapes, beside, merges, copies, delta, waits, transfers, idle, part_count };
constexpr std::array<const char*, part_count> part_names{
    "kernel shapes", "beside communication", "merges",           "copies and sums",
    "row_dot",       "exposed waiting",      "exposed transfer", "nothing runs"};
using Parts = std::array<double, part_count>;  // seconds

// The machine of the scenario, with the published kernels instead of its own.
Hardware machine(const ScenarioFile& file, const MagiSource& source) {
  const Problem& problem = file.scenario.problem;
  Hardware hardware = machine_of(file);
  std::erase_if(hardware.kernels, [](const KernelTable& table) { return has_square_points(table.kind); });
  for (std::size_t c = 0; c < magi_charts.size(); ++c)
    hardware.kernels.push_back(magi_kernel(source, problem, c));
  validate(hardware);
  return hardware;
}

MagiPart part_of(OpKind kind) {
  if (kind == OpKind::merge) return merges;
  return kind == OpKind::row_dot ? delta : copies;
}

// What the rank that ends `phase` last does in it.
Parts taken_apart(const Plan& plan, const Prediction& prediction, const Hardware& hardware, Phase phase,
                  double null_s) {
  double begin_s = 0, end_s = 0;
  for (const PhaseTime& each : prediction.figures.phases) {
    begin_s = end_s;
    end_s += each.time_s;
    if (each.phase == phase) break;
  }
  std::size_t last = 0;
  double last_s = -1;
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    double ends_s = 0;
    for (std::size_t i = 0; i < plan.ranks[r].operations.size(); ++i)
      if (plan.ranks[r].operations[i].phase == phase)
        ends_s = std::max(ends_s, prediction.timeline.ranks[r][i].end_s);
    if (ends_s > last_s) {
      last_s = ends_s;
      last = r;
    }
  }
  const RankPlan& rank = plan.ranks[last];
  const CallConverter calls(rank, plan.scenario.problem.dtype);
  const KernelCostFunction cost = standard_kernel_cost(hardware);
  double alone_s = 0, attention_s = 0;
  for (const Operation& op : rank.operations)
    if (op.phase == phase && has_square_points(op.kind)) alone_s += cost(plan, calls, op).seconds;
  const std::vector<double> came_s = peers_came_s(plan, prediction.timeline)[last];
  Parts parts{};
  for (const Moment& moment : moments(rank, prediction.timeline.ranks[last], begin_s, end_s)) {
    const double seconds = moment.end_s - moment.begin_s;
    if (moment.operation == Moment::nothing) {
      parts[idle] += seconds;
      continue;
    }
    const OpKind kind = rank.operations[moment.operation].kind;
    if (is_communication(kind)) {
      const double waited = std::clamp(came_s[moment.operation] - moment.begin_s, 0.0, seconds);
      parts[waits] += waited;
      parts[transfers] += seconds - waited;
    } else if (has_square_points(kind)) {
      attention_s += seconds;
    } else {
      parts[part_of(kind)] += seconds;
    }
  }
  parts[shapes] = alone_s - null_s;
  parts[beside] = attention_s - alone_s;
  return parts;
}

// One of the charts for one method. Seconds.
struct MagiFigure {
  double published = 0, null = 0, ours = 0;
  Parts parts{};
};
using Figures4 = std::array<MagiFigure, magi_charts.size()>;

std::string numbers(const Figures4& figures, const std::function<double(const MagiFigure&)>& of,
                    int decimals) {
  std::string text;
  for (const MagiFigure& each : figures)
    text += fmt::format("{}{:.{}f}", text.empty() ? "" : ", ", of(each), decimals);
  return text;
}

bool beats_null(const MagiFigure& f) {
  return std::abs(f.ours - f.published) < std::abs(f.null - f.published);
}

void add_rows(ReproduceReport& report, const std::string& method, const Figures4& figures) {
  constexpr double ms = 1e3;
  for (std::size_t c = 0; c < magi_charts.size(); ++c) {
    const MagiFigure& f = figures[c];
    const std::string label = method + " " + magi_charts[c].label;
    report.rows.push_back(reproduced(label, f.published * ms, f.ours * ms, true, "ms"));
    report.rows.push_back(reproduced(label + "/null", f.published * ms, f.null * ms, false, "ms"));
    for (std::size_t p = 0; p < part_count; ++p)
      report.rows.push_back(
          reproduced(label + "/" + part_names[p], std::nullopt, f.parts[p] * ms, true, "ms"));
  }
}

void add_notes(ReproduceReport& report, const std::string& method, const Figures4& figures) {
  std::string parts;
  for (std::size_t p = 0; p < part_count; ++p) {
    const auto part = [&](const MagiFigure& f) { return f.parts[p] * 1e3; };
    if (std::all_of(figures.begin(), figures.end(),
                    [&](const MagiFigure& f) { return std::abs(part(f)) < 0.005; }))
      continue;
    parts += fmt::format("{}{} {}", parts.empty() ? "" : "; ", part_names[p], numbers(figures, part, 2));
  }
  report.notes.push_back(fmt::format(
      "{}: published above the null model: {} ms. Our plan's operations account for {} ms: {}.", method,
      numbers(
          figures, [](const MagiFigure& f) { return (f.published - f.null) * 1e3; }, 2),
      numbers(
          figures, [](const MagiFigure& f) { return (f.ours - f.null) * 1e3; }, 2),
      parts));
  std::string errors, not_in;
  std::ptrdiff_t wins = 0;
  for (std::size_t c = 0; c < magi_charts.size(); ++c) {
    const MagiFigure& f = figures[c];
    errors += fmt::format("{}{} % against {} %", c == 0 ? "" : ", ",
                          format_signed_percent(f.ours / f.published - 1),
                          format_signed_percent(f.null / f.published - 1));
    if (beats_null(f))
      ++wins;
    else
      not_in += std::string(not_in.empty() ? "; not in " : ", ") + magi_charts[c].label;
  }
  report.notes.push_back(fmt::format("{}: our error beats that of the null model in {} of {} ({}){}.", method,
                                     wins, magi_charts.size(), errors, not_in));
}

std::string about_ring_steps(const Figures4& figures, std::int64_t ranks) {
  const MagiFigure& f = figures[2];
  const double step = 1e3 / static_cast<double>(ranks);
  return fmt::format(
      "A step of the ring, causal forward: {:.2f} ms published, {:.2f} ours, of which attention on its tiles "
      "{:.2f} (the null model says {:.2f}), merges {:.2f}, copies {:.2f}, exposed communication {:.2f}.",
      f.published * step, f.ours * step, (f.null + f.parts[shapes] + f.parts[beside]) * step, f.null * step,
      f.parts[merges] * step, f.parts[copies] * step, (f.parts[waits] + f.parts[transfers]) * step);
}

std::vector<std::string> first_notes(const MagiSource& source, const ScenarioFile& file) {
  const Problem& problem = file.scenario.problem;
  return {
      fmt::format(
          "Four numbers in a note: full forward, full backward, causal forward, causal backward. Null "
          "model: a rank's share of the FLOPs at the published kernel rate at {} tokens.",
          source.sequence.back()),
      fmt::format(
          "Kernels: published rates at {} to {} tokens, square, batch 1, {} query heads; beyond the "
          "last the rate is held. All-to-all attends {} tokens with {} heads, which nobody published. "
          "Links, copies and launches: {}. Nothing is fitted.",
          source.sequence.front(), source.sequence.back(), problem.heads, problem.padded_lengths.front(),
          problem.heads / file.scenario.parallel.ranks, file.hardware_given),
      "The published backward rates contain delta, the row sums of dout x out, which our plans compute "
      "apart: "
      "row_dot counts twice, and backward times are too long by it.",
      "\"copies and sums\": copy, cast, add and fill. \"kernel shapes\": the rank's attention kernels alone, "
      "less the null model. \"beside communication\": what they lose to multiprocessors that NCCL holds and "
      "to "
      "interference, whose factors are assumed.",
      "LoongTrain at 8 GPUs is all-to-all alone, as usp is; magi-native brings a kernel of its own and "
      "fetches "
      "what each tile needs: neither is simulated. The B200 columns need kernels that were not published "
      "alone.",
  };
}

}  // namespace

ReproduceReport reproduce_magi_cp8(const std::string& file, const std::vector<std::string>& sets,
                                   Progress& progress) {
  for (const std::string& set : sets) {
    if (!set.starts_with("hardware.") && !set.starts_with("simulate."))
      throw InputError("--set " + set +
                       ": problem, methods and their schedules are the published ones; what may be set: "
                       "hardware.*, simulate.*");
  }
  const ScenarioFile original = read_scenario(file, sets);
  require_machine(original);
  const MagiSource source = read_magi_source(original.table);
  const Hardware hardware = machine(original, source);
  const Problem& problem = original.scenario.problem;
  ReproduceReport report;
  report.name = "magi-cp8";
  report.header = header_of(original);
  report.ranks = {original.scenario.parallel.ranks};
  report.about = fmt::format("{} ranks on {}, {} tokens, {}/{} heads of {}, {}", report.ranks.front(),
                             original.hardware_given, problem.padded_lengths.front(), problem.heads,
                             problem.kv_heads, problem.head_size, name(problem.dtype));
  report.notes = first_notes(source, original);
  for (const MagiMethod& method : source.methods) {
    Figures4 figures;
    for (const bool causal : {false, true}) {
      progress.stage(fmt::format("{}, {}", method.name, causal ? "causal" : "full"));
      std::vector<std::string> with = sets;
      with.insert(with.end(), method.sets.begin(), method.sets.end());
      with.push_back(std::string("problem.mask=") + (causal ? "causal" : "full"));
      const ScenarioFile scenario = read_scenario(file, with);
      const Plan plan = build_plan(scenario.scenario);
      const Prediction prediction = predict(scenario, plan, hardware);
      for (std::size_t c = 0; c < magi_charts.size(); ++c) {
        if (magi_charts[c].causal != causal) continue;
        MagiFigure& f = figures[c];
        f.published = method.published_ms[c] * 1e-3;
        f.null = magi_flops(problem, magi_charts[c], problem.padded_lengths.front()) /
                 static_cast<double>(original.scenario.parallel.ranks) / (source.tflops[c].back() * 1e12);
        for (const PhaseTime& each : prediction.figures.phases)
          if (each.phase == magi_charts[c].phase) f.ours = each.time_s;
        f.parts = taken_apart(plan, prediction, hardware, magi_charts[c].phase, f.null);
      }
    }
    add_rows(report, method.name, figures);
    add_notes(report, method.name, figures);
    if (method.name == "ring_p2p") report.notes.push_back(about_ring_steps(figures, report.ranks.front()));
  }
  return report;
}

}  // namespace cplab

// Checking, executing and comparing; see verify.hpp.
#include "cli/verify/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "cli/verify/expected.hpp"
#include "cli/verify/selection.hpp"
#include "cli/verify/states.hpp"
#include "cli/verify/tolerance.hpp"

namespace cplab {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Without the sign of a NaN, which would be printed.
double shown(double value) {
  return std::isnan(value) ? std::abs(value) : value;
}

// One tensor: where it lies in its buffer, and by sequence what it is compared with.
struct Comparison {
  ProblemTensor tensor;
  TokenRow row;
  struct Sequence {
    const ExpectedTensor* expected = nullptr;  // null where there are no tokens
    TokenStrides strides;
  };
  std::vector<Sequence> sequences;  // of a tensor without tokens: the replicas
  std::vector<ExpectedTensor> of_replicas;
};

// The maximum over a replica's sequences. It is off by no more than the worst of them.
ExpectedTensor largest(const Plan& plan, const ProblemTensor& tensor, std::int64_t replica,
                       const std::vector<Expected>& expected) {
  const auto heads = static_cast<std::size_t>(token_row(plan.scenario.problem, tensor).heads);
  const std::vector<double> zeros(heads, 0);
  ExpectedTensor most{std::vector<double>(heads, tensor.padding), {zeros, zeros}};
  const auto raise = [](std::vector<double>& values, const std::vector<double>& by) {
    for (std::size_t h = 0; h < values.size(); ++h) values[h] = std::max(values[h], by[h]);
  };
  const std::int64_t replicas = plan.scenario.parallel.replicas;
  for (std::int64_t b = replica; b < std::ssize(expected); b += replicas) {
    const Expected& sequence = expected[static_cast<std::size_t>(b)];
    if (sequence.empty()) continue;
    const ExpectedTensor& one = sequence.at(tensor.name);
    raise(most.right, one.right);
    raise(most.error.variance, one.error.variance);
    raise(most.error.terms, one.error.terms);
  }
  return most;
}

Comparison comparison_of(const Plan& plan, const ProblemTensor& tensor,
                         const std::vector<Expected>& expected) {
  const Problem& p = plan.scenario.problem;
  Comparison c{tensor, token_row(p, tensor), {}, {}};
  if (!tensor.per_token()) {
    const TokenStrides strides = token_strides(tensor.axes, shape_of(p, tensor));
    for (std::int64_t r = 0; r < plan.scenario.parallel.replicas; ++r)
      c.of_replicas.push_back(largest(plan, tensor, r, expected));
    for (const ExpectedTensor& one : c.of_replicas) c.sequences.push_back({&one, strides});
    return c;
  }
  Problem alone = p;  // one sequence without its padding: as the reference sees it
  alone.packed = false;
  alone.batch = 1;
  for (std::size_t b = 0; b < expected.size(); ++b) {
    Comparison::Sequence& sequence = c.sequences.emplace_back();
    if (expected[b].empty()) continue;
    alone.sequence = p.lengths[b];
    sequence.expected = &expected[b].at(tensor.name);
    sequence.strides = token_strides(tensor.axes, shape_of(alone, tensor));
  }
  return c;
}

// The states of a buffer: their rows, D for each, are positions of an expected tensor [edges,H,D,E].
Comparison comparison_of(const Plan& plan, const StateBuffer& buffer, const std::vector<Expected>& expected) {
  const Problem& p = plan.scenario.problem;
  Comparison c{{}, {p.heads, p.value_size, p.value_size, 0}, {}, {}};
  c.tensor.name = buffer.tensor;
  c.tensor.buffer = buffer.buffer;
  TokenStrides strides;
  strides.position = p.value_size;
  strides.head = p.head_size * p.value_size;
  strides.column = 1;
  for (const Expected& sequence : expected)
    c.sequences.push_back({sequence.empty() ? nullptr : &sequence.at(buffer.expected), strides});
  return c;
}

struct Slice {  // one head
  double error2 = 0, right2 = 0, terms2 = 0, variance = 0;
  double rel_l2 = 0, tolerance = 0;
  double use() const {
    if (std::isnan(rel_l2)) return infinity;
    return tolerance > 0 ? rel_l2 / tolerance : (rel_l2 > 0 ? infinity : 0);
  }
};

struct WorstElement {
  double use = -1;  // |error| / tolerance
  LocalRow row;
  std::int64_t head = 0, column = 0;
  double value = 0, right = 0;
};

class RankComparison {
 public:
  RankComparison(const Plan& plan, const RankPlan& rank, const Executor& executor, VerifyResult& result)
      : plan_(plan),
        rank_(rank),
        executor_(executor),
        result_(result),
        rows_(local_rows(plan.scenario, rank.replica, rank.position)),
        whole_{{.sequence = rank.replica, .valid = true}} {}

  void compare(const Comparison& c) {
    const auto place = [&](const LocalRow& row) {
      return c.tensor.per_token() ? fmt::format("sequence {}, position {}, ", row.sequence, row.position)
                                  : std::string();
    };
    compare(c, c.tensor.per_token() ? rows_ : whole_, place);
  }

  void compare(const Comparison& c, const StateBuffer& buffer, const StateEdges& edges) {
    const std::int64_t D = plan_.scenario.problem.head_size;
    const std::vector<LocalRow> rows = state_rows(plan_.scenario.problem, buffer, edges);
    const auto place = [&](const LocalRow& row) {
      const auto edge = static_cast<std::size_t>(row.position / D / c.row.heads);
      return fmt::format("sequence {}, edge before token {}, row {}, ", row.sequence,
                         edges[static_cast<std::size_t>(row.sequence)][edge], row.position % D);
    };
    compare(c, rows, place);
  }

 private:
  // Says where a row is, for messages.
  using Place = std::function<std::string(const LocalRow&)>;

  void compare(const Comparison& c, const std::vector<LocalRow>& rows, const Place& place) {
    const DType dtype = plan_.scenario.problem.dtype;
    const std::vector<double> values = executor_.read(rank_.rank, c.tensor.buffer);
    std::vector<Slice> slices(static_cast<std::size_t>(c.row.heads));
    WorstElement worst;
    TensorFigures figures;
    figures.rank = rank_.rank;
    figures.tensor = c.tensor.name;
    std::int64_t valid_rows = 0, wrong = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i].valid) continue;
      ++valid_rows;
      for (std::int64_t h = 0; h < c.row.heads; ++h) {
        for (std::int64_t x = 0; x < c.row.width; ++x) {
          const std::int64_t local =
              (static_cast<std::int64_t>(i) * c.row.heads + h) * c.row.buffer_width + c.row.first_column + x;
          const double value = values[static_cast<std::size_t>(local)];
          wrong +=
              compare_element(c, rows[i], h, x, value, slices[static_cast<std::size_t>(h)], worst, figures);
        }
      }
    }
    bool ok = wrong == 0;
    Slice most;
    for (Slice& s : slices) {
      const double scale = std::sqrt(std::max(s.right2, s.terms2));
      const double error = std::sqrt(s.error2);
      s.rel_l2 = error == 0 ? 0 : error / scale;
      s.tolerance = relative_tolerance(dtype, s.variance, scale, valid_rows, c.row.width);
      ok = ok && s.use() <= 1;
      if (&s == &slices.front() || s.use() > most.use()) most = s;
    }
    figures.rel_l2 = shown(most.rel_l2);
    figures.tolerance = shown(most.tolerance);
    figures.max_abs = shown(figures.max_abs);
    figures.ok = ok;
    result_.tensors.push_back(figures);
    if (!ok) report(c, figures, worst, wrong, valid_rows, place);
  }

  // True if the element is beyond its own tolerance, NaN, or not the infinity it should be.
  bool compare_element(const Comparison& c, const LocalRow& row, std::int64_t head, std::int64_t column,
                       double value, Slice& slice, WorstElement& worst, TensorFigures& figures) const {
    const auto& [expected, strides] = c.sequences[static_cast<std::size_t>(row.sequence)];
    const auto index = static_cast<std::size_t>(row.position * strides.position + head * strides.head +
                                                column * strides.column);
    const double right = expected->right[index];
    const ExpectedError& model = expected->error;
    const double error = value == right ? 0 : std::abs(value - right);  // equal infinities included
    const double tolerance = element_tolerance(model.variance[index]);
    slice.error2 += error * error;
    if (std::isfinite(right)) slice.right2 += right * right;  // minus infinity is right or wrong, not near
    slice.terms2 += model.terms[index];
    slice.variance += model.variance[index];
    if (std::isnan(error) || error > figures.max_abs) figures.max_abs = error;  // a NaN stays
    double use = error == 0 ? 0 : error / tolerance;
    if (std::isnan(use)) use = infinity;
    if (use > worst.use) worst = {use, row, head, column, value, right};
    return use > 1;
  }

  void report(const Comparison& c, const TensorFigures& figures, const WorstElement& worst,
              std::int64_t wrong, std::int64_t valid_rows, const Place& place) {
    Finding finding;
    finding.kind = FindingKind::numerics;
    finding.rank = rank_.rank;
    finding.buffer = c.tensor.buffer;
    const std::string element = fmt::format("{}head {} is {} and should be {}", place(worst.row), worst.head,
                                            shown(worst.value), shown(worst.right));
    if (wrong > 0) {
      finding.message = fmt::format(
          "{}: {} of {} elements are beyond their tolerance; relative error {:.3g} (tolerance {:.3g}); "
          "the worst: {}",
          c.tensor.name, wrong, valid_rows * c.row.heads * c.row.width, figures.rel_l2, figures.tolerance,
          element);
    } else {
      finding.message = fmt::format(
          "{}: relative error {:.3g} is {:.2f} times its tolerance {:.3g}; the worst "
          "element: {}",
          c.tensor.name, figures.rel_l2, figures.rel_l2 / figures.tolerance, figures.tolerance, element);
    }
    result_.findings.push_back(std::move(finding));
  }

  const Plan& plan_;
  const RankPlan& rank_;
  const Executor& executor_;
  VerifyResult& result_;
  std::vector<LocalRow> rows_;
  std::vector<LocalRow> whole_;  // the one row of a tensor without tokens, by replica
};

Finding finding_of(const BadPlan& bad) {
  return {bad.kind, bad.rank, bad.operation, bad.buffer, bad.what()};
}

Finding finding_of(const ExecutionHang& hang) {
  Finding finding;
  finding.kind = FindingKind::deadlock;
  if (!hang.ranks.empty()) {
    finding.rank = hang.ranks.front();
    finding.operation = hang.operations.front();
  }
  finding.message = fmt::format("execution hangs: {} of its ranks are unfinished; {}", hang.ranks.size(),
                                one_sentence(hang));
  return finding;
}

}  // namespace

std::string one_sentence(const std::exception& hang) {
  std::istringstream lines(hang.what());
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    if (!text.empty()) text += text.back() == ':' ? " " : "; ";
    text += line;
  }
  return text;
}

void compare_with_reference(const Plan& plan, const Inputs& inputs, const Executor& executor,
                            VerifyResult& result, Progress* progress) {
  const Problem& p = plan.scenario.problem;
  const StateEdges edges = state_edges(plan);
  const std::vector<Expected> expected = expected_results(plan, inputs, edges, progress);
  std::vector<Comparison> comparisons;
  for (const ProblemTensor& tensor : tensors_of(p, Category::output))
    comparisons.push_back(comparison_of(plan, tensor, expected));
  if (progress) progress->stage("comparing", std::ssize(plan.ranks), "ranks");
  for (const RankPlan& rank : plan.ranks) {
    if (progress) progress->set_done(rank.rank, std::ssize(plan.ranks));
    RankComparison comparison(plan, rank, executor, result);
    for (const Comparison& c : comparisons) comparison.compare(c);
    for (const StateBuffer& buffer : state_buffers(plan, rank))
      comparison.compare(comparison_of(plan, buffer, expected), buffer, edges);
  }
}

VerifyResult verify(const Plan& plan, const Inputs& inputs, const VerifyOptions& options) {
  VerifyResult result;
  const auto stage = [&](const char* what, std::int64_t all = 0, const char* unit = "") {
    if (options.progress) options.progress->stage(what, all, unit);
  };
  stage("checking");
  result.findings = check(plan, options.max_findings).findings;
  try {
    std::unique_ptr<Executor> executor;
    GpuExecutor* gpu = nullptr;
    if (options.gpu) {
      auto made = std::make_unique<GpuExecutor>(plan, *options.gpu);
      gpu = made.get();
      executor = std::move(made);
    } else {
      CpuOptions execution = options.execution;
      if (options.progress) execution.progress = options.progress->counter();
      executor = std::make_unique<CpuExecutor>(plan, execution);
    }
    stage("loading the inputs");
    scatter(plan, inputs, *executor);
    if (gpu != nullptr) select_keys_on_gpus(plan, &inputs, 0, *gpu);
    stage("executing", gpu ? 0 : operation_count(plan), "operations");
    const ExecutionResult execution = executor->run();
    if (gpu != nullptr) {
      result.gpu = gpu->facts();
      if (!result.gpu->allocation_log_equals_plan) {
        result.findings.push_back(
            {FindingKind::lifetime, -1, "", "", "the execution's allocation log is not what was predicted"});
      }
    }
    const bool compares =
        !options.gpu || options.gpu->rendezvous == nullptr || options.gpu->rendezvous->rank() == 0;
    if (!compares) return result;
    for (const int rank : execution.overrun_ranks) {
      result.findings.push_back({FindingKind::lifetime, rank, "", "",
                                 "a tile wrote outside the arena of rank " + std::to_string(rank)});
    }
    result.outputs = gather(plan, *executor);
    compare_with_reference(plan, inputs, *executor, result, options.progress);
  } catch (const BadPlan& bad) {
    // What the validator refuses, the checker has reported.
    const auto same = [&](const Finding& f) {
      return f.kind == bad.kind && f.rank == bad.rank && f.operation == bad.operation &&
             f.buffer == bad.buffer;
    };
    if (std::ranges::none_of(result.findings, same)) result.findings.push_back(finding_of(bad));
  } catch (const ExecutionHang& hang) {
    // On the CPU it is known that nothing can move any more; a clock, or a rank that is gone, proves nothing.
    if (options.gpu || hang.timed_out) {
      result.gave_up = one_sentence(hang);
    } else {
      result.findings.push_back(finding_of(hang));
    }
  }
  return result;
}

}  // namespace cplab

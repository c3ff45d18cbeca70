// Every rank's results beside the reference; see comparison.hpp.
#include "cli/verify/comparison.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/verify/expected.hpp"
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

// The maximum over a replica's sequences, which is off by no more than the worst of them; or their sum.
ExpectedTensor over_sequences(const Plan& plan, const ProblemTensor& tensor, std::int64_t replica,
                              std::int64_t replicas, const std::vector<Expected>& expected) {
  const TokenRow row = token_row(plan.scenario.problem, tensor);
  const auto count = static_cast<std::size_t>(row.heads * row.width);
  const std::vector<double> zeros(count, 0);
  ExpectedTensor all{std::vector<double>(count, tensor.padding), {zeros, zeros}};
  const bool sum = tensor.over_tokens == Reduction::sum;
  const auto take = [&](std::vector<double>& values, const std::vector<double>& by) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = sum ? values[i] + by[i] : std::max(values[i], by[i]);
  };
  for (std::int64_t b = replica; b < std::ssize(expected); b += replicas) {
    const Expected& sequence = expected[static_cast<std::size_t>(b)];
    if (sequence.empty()) continue;
    const ExpectedTensor& one = sequence.at(tensor.name);
    take(all.right, one.right);
    take(all.error.variance, one.error.variance);
    take(all.error.terms, one.error.terms);
  }
  return all;
}

// `given`: a tensor without tokens is one for all replicas.
Comparison comparison_of(const Plan& plan, const ProblemTensor& tensor, const std::vector<Expected>& expected,
                         bool given) {
  const Problem& p = plan.scenario.problem;
  Comparison c{tensor, token_row(p, tensor), {}, {}};
  if (!tensor.per_token()) {
    const TokenStrides strides = token_strides(tensor.axes, shape_of(p, tensor));
    for (std::int64_t r = 0; r < plan.scenario.parallel.replicas; ++r)
      c.of_replicas.push_back(
          over_sequences(plan, tensor, given ? 0 : r, given ? 1 : plan.scenario.parallel.replicas, expected));
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
    if (p.is_cross()) alone.kv_sequence = p.kv_lengths[b];
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

// What is right, in global order.
Tensor global_tensor(const Problem& p, const Comparison& c) {
  Tensor tensor;
  tensor.shape = shape_of(p, c.tensor);
  std::size_t count = 1;
  for (const std::int64_t extent : tensor.shape) count *= static_cast<std::size_t>(extent);
  tensor.values.assign(count, c.tensor.padding);
  if (!c.tensor.per_token()) {
    const bool sum = c.tensor.over_tokens == Reduction::sum;
    for (const ExpectedTensor& replica : c.of_replicas)
      for (std::size_t i = 0; i < count; ++i)
        tensor.values[i] =
            sum ? tensor.values[i] + replica.right[i] : std::max(tensor.values[i], replica.right[i]);
    return tensor;
  }
  const TokenStrides strides = token_strides(axes_of(p, c.tensor), tensor.shape);
  std::int64_t token = 0;
  const std::vector<std::int64_t>&lengths = p.lengths_of(c.tensor.side()),
        &padded = p.padded_lengths_of(c.tensor.side());
  for (std::size_t b = 0; b < c.sequences.size(); token += padded[b++]) {
    const auto& [expected, from] = c.sequences[b];
    for (std::int64_t i = 0; expected != nullptr && i < lengths[b]; ++i)
      for (std::int64_t h = 0; h < c.row.heads; ++h)
        for (std::int64_t x = 0; x < c.row.width; ++x)
          tensor.values[static_cast<std::size_t>(static_cast<std::int64_t>(b) * strides.sequence +
                                                 i * strides.position + (token + i) * strides.token +
                                                 h * strides.head + x * strides.column)] =
              expected->right[static_cast<std::size_t>(i * from.position + h * from.head + x * from.column)];
  }
  return tensor;
}

struct Slice {  // one head
  double error2 = 0, right2 = 0, terms2 = 0, variance = 0;
  double rel_l2 = 0, tolerance = 0;
  double sample = 0;  // rows, of those alike one
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
  // The first that is wrong, by sequence and position; head -1: none.
  LocalRow first;
  std::int64_t first_head = -1;
};

class RankComparison {
 public:
  RankComparison(const Plan& plan, const RankPlan& rank, const Executor& executor, VerifyResult& result,
                 const SampledRows* sample)
      : plan_(plan),
        rank_(rank),
        executor_(executor),
        result_(result),
        rows_(wanted_rows(Side::queries, sample)),
        key_rows_(plan.scenario.problem.is_cross() ? wanted_rows(Side::keys, sample) : rows_),
        whole_{{.sequence = rank.replica, .valid = true}} {}

  void compare(const Comparison& c) {
    const auto place = [&](const LocalRow& row) {
      return c.tensor.per_token() ? fmt::format("sequence {}, position {}, ", row.sequence, row.position)
                                  : std::string();
    };
    const bool of_keys = c.tensor.side() == Side::keys;
    compare(c, !c.tensor.per_token() ? whole_ : of_keys ? key_rows_ : rows_, place);
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
  std::vector<LocalRow> wanted_rows(Side side, const SampledRows* sample) const {
    std::vector<LocalRow> rows = local_rows(plan_.scenario, rank_.replica, rank_.position, side);
    for (LocalRow& row : rows) {
      if (sample == nullptr || !row.valid) continue;
      const auto& positions = side == Side::keys && !sample->keys.empty() ? sample->keys : sample->positions;
      row.valid = std::ranges::binary_search(positions[static_cast<std::size_t>(row.sequence)], row.position);
    }
    return rows;
  }

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
        slices[static_cast<std::size_t>(h)].sample += 1 / rows_alike(c, rows[i], h);
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
      s.tolerance = relative_tolerance(dtype, s.variance, scale, sample_of(s, valid_rows), c.row.width);
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

  static double rows_alike(const Comparison& c, const LocalRow& row, std::int64_t head) {
    const ExpectedTensor* expected = c.sequences[static_cast<std::size_t>(row.sequence)].expected;
    const std::vector<double>& alike = expected->error.rows_alike;
    return alike.empty() ? 1 : alike[static_cast<std::size_t>(head)];
  }
  // At least one row, where there are any.
  static std::int64_t sample_of(const Slice& slice, std::int64_t rows) {
    return std::min(rows, std::max<std::int64_t>(1, std::llround(slice.sample)));
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
    if (use > worst.use) {
      worst.use = use;
      worst.row = row;
      worst.head = head;
      worst.column = column;
      worst.value = value;
      worst.right = right;
    }
    const bool earlier =
        std::tie(row.sequence, row.position) < std::tie(worst.first.sequence, worst.first.position);
    if (use > 1 && (worst.first_head < 0 || earlier)) worst.first = row, worst.first_head = head;
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
    const bool first_is_worst = worst.first.sequence == worst.row.sequence &&
                                worst.first.position == worst.row.position && worst.first_head == worst.head;
    const std::string first =
        first_is_worst ? "" : fmt::format(", the first in {}head {}", place(worst.first), worst.first_head);
    if (wrong > 0) {
      finding.message = fmt::format(
          "{}: {} of {} elements are beyond their tolerance{}; relative error {:.3g} (tolerance {:.3g}); the "
          "worst: {}",
          c.tensor.name, wrong, valid_rows * c.row.heads * c.row.width, first, figures.rel_l2,
          figures.tolerance, element);
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
  std::vector<LocalRow> rows_, key_rows_;  // those that are compared are valid
  std::vector<LocalRow> whole_;            // the one row of a tensor without tokens, by replica
};

}  // namespace

void compare_with_reference(const Plan& plan, const Inputs& inputs, const Executor& executor,
                            VerifyResult& result, const ComparisonOptions& options) {
  Progress* const progress = options.progress;
  const Problem& p = plan.scenario.problem;
  const StateEdges edges = state_edges(plan);
  const std::vector<Expected> expected =
      expected_results(plan, inputs, edges, progress, options.sample, options.on_gpu, options.sums);
  std::vector<Comparison> comparisons;
  for (const ProblemTensor& tensor : tensors_of(p, Category::output))
    if (!options.given || options.given->find(tensor.name) != nullptr)
      comparisons.push_back(comparison_of(plan, tensor, expected, options.given != nullptr));
  if (options.reference) {
    for (const Comparison& c : comparisons) options.reference->add(c.tensor.name, global_tensor(p, c));
  }
  if (progress) progress->stage("comparing", std::ssize(plan.ranks), "ranks");
  for (const RankPlan& rank : plan.ranks) {
    if (progress) progress->set_done(rank.rank, std::ssize(plan.ranks));
    RankComparison comparison(plan, rank, executor, result, options.sample);
    for (const Comparison& c : comparisons) comparison.compare(c);
    if (options.given) continue;  // states are a plan's
    for (const StateBuffer& buffer : state_buffers(plan, rank))
      comparison.compare(comparison_of(plan, buffer, expected), buffer, edges);
  }
}

}  // namespace cplab

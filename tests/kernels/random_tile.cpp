// Random tile problems; see random_tile.hpp.
#include "tests/kernels/random_tile.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace cplab::testing {
namespace {

// 0 = cuts[0] <= ... <= cuts[pieces] = count.
std::vector<std::int64_t> random_cuts(std::mt19937& generator, std::int64_t count, std::int64_t pieces) {
  std::vector<std::int64_t> cuts = {0, count};
  for (std::int64_t piece = 1; piece < pieces; ++piece) cuts.push_back(draw(generator, 0, count));
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

Tensor laid_out(const Layout& layout, DType dtype, std::int64_t rows, std::int64_t heads, std::int64_t width,
                const std::vector<double>& values) {
  Tensor tensor(dtype, rows, heads, width, layout);
  if (!values.empty()) tensor.assign(values);
  return tensor;
}

Layout of_operand(std::mt19937& generator, const TileLayouts& layouts, const std::vector<RowRun>& runs,
                  std::int64_t rows) {
  return runs.empty() ? random_layout(rows, generator, layouts.gap_unit, layouts.one_run)
                      : list_layout(runs, generator, layouts.gap_unit);
}

Layout of_result(std::mt19937& generator, const TileLayouts& layouts, const std::vector<RowRun>& runs,
                 std::int64_t rows) {
  if (runs.empty() || layouts.results_alike || draw(generator, 0, 1) == 0)
    return of_operand(generator, layouts, runs, rows);
  if (draw(generator, 0, 1) == 0) return random_layout(rows, generator, layouts.gap_unit, true);
  return list_layout(random_runs(rows, generator, 100), generator, layouts.gap_unit);
}

Layout of_lse_delta(std::mt19937& generator, const TileLayouts& layouts, const Sizes& sizes) {
  if (layouts.lse_delta) return *layouts.lse_delta;
  Layout layout = of_result(generator, {}, layouts.q_runs, sizes.nq);
  if (draw(generator, 0, 1) == 0) return layout;
  layout.heads_outside = false;
  layout.width_gap = 0;
  layout.before_heads = 4 * draw(generator, 0, 1);
  layout.behind_heads = (sizes.H + 3) / 4 * 4 - sizes.H + 4 * draw(generator, 0, 1);
  return layout;
}

void erase_row(std::vector<double>& values, std::int64_t row, std::int64_t row_size) {
  std::fill_n(values.begin() + row * row_size, row_size, nan);
}

}  // namespace

std::int64_t draw(std::mt19937& generator, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(generator);
}

Sizes random_sizes(std::mt19937& generator, std::int64_t largest) {
  const std::int64_t G = draw(generator, 1, 3);
  return {.nq = draw(generator, 1, largest),
          .nk = draw(generator, 1, largest),
          .H = G * draw(generator, 1, 3),
          .G = G,
          .D = draw(generator, 1, 24),
          .E = draw(generator, 1, 24)};
}

std::vector<std::int32_t> random_tile_cuts(std::mt19937& generator, std::int64_t rows, std::int64_t most) {
  std::vector<std::int32_t> cuts = {0};
  while (cuts.back() < rows)
    cuts.push_back(static_cast<std::int32_t>(std::min(rows, cuts.back() + draw(generator, 1, most))));
  return cuts;
}

std::vector<Segment> random_segments(std::mt19937& generator, std::int64_t nq, std::int64_t nk) {
  std::vector<Segment> segments;
  const std::vector<std::int64_t> key_cuts = random_cuts(generator, nk, draw(generator, 1, 4));
  for (std::size_t key = 0; key + 1 < key_cuts.size(); ++key) {
    const std::vector<std::int64_t> cuts = random_cuts(generator, nq, draw(generator, 1, 4));
    for (std::size_t query = 0; query + 1 < cuts.size(); ++query) {
      if (draw(generator, 0, 4) == 0) continue;
      Segment segment{.q_begin = cuts[query],
                      .q_count = cuts[query + 1] - cuts[query],
                      .k_begin = key_cuts[key],
                      .k_count = key_cuts[key + 1] - key_cuts[key]};
      const std::int64_t span = std::max(segment.q_count, segment.k_count) + 2;
      segment.offset = draw(generator, -span, span);
      segment.left = draw(generator, 0, 1) == 0 ? -1 : draw(generator, 0, span);
      segment.right = draw(generator, 0, 1) == 0 ? -1 : draw(generator, 0, span);
      segments.push_back(segment);
    }
  }
  std::shuffle(segments.begin(), segments.end(), generator);
  return segments;
}

std::vector<double> random_values(std::mt19937& generator, std::int64_t count, DType dtype) {
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = rounded(uniform(generator), dtype);
  return values;
}

Problem random_problem(std::mt19937& generator, const Sizes& sizes, std::vector<Segment> segments,
                       DType dtype) {
  Problem problem{
      .sizes = sizes, .scale = 1, .segments = std::move(segments), .q = {}, .k = {}, .v = {}, .dout = {}};
  // From nearly uniform weights to sharp ones, of either sign.
  const double sharpness[] = {0.1, 1.0, 5.0, -1.0};
  problem.scale = sharpness[draw(generator, 0, 3)] / std::sqrt(static_cast<double>(sizes.D));
  problem.q = random_values(generator, sizes.nq * sizes.H * sizes.D, dtype);
  problem.k = random_values(generator, sizes.nk * sizes.G * sizes.D, dtype);
  problem.v = random_values(generator, sizes.nk * sizes.G * sizes.E, dtype);
  problem.dout = random_values(generator, sizes.nq * sizes.H * sizes.E, dtype);
  const std::vector<int> visible = visible_pairs(problem);
  const auto pair = [&](std::int64_t i, std::int64_t j) {
    return visible[static_cast<std::size_t>(i * sizes.nk + j)] != 0;
  };
  for (std::int64_t i = 0; i < sizes.nq; ++i) {
    bool sees = false;
    for (std::int64_t j = 0; j < sizes.nk; ++j) sees = sees || pair(i, j);
    if (sees) continue;
    erase_row(problem.q, i, sizes.H * sizes.D);
    erase_row(problem.dout, i, sizes.H * sizes.E);
  }
  for (std::int64_t j = 0; j < sizes.nk; ++j) {
    bool seen = false;
    for (std::int64_t i = 0; i < sizes.nq; ++i) seen = seen || pair(i, j);
    if (seen) continue;
    erase_row(problem.k, j, sizes.G * sizes.D);
    erase_row(problem.v, j, sizes.G * sizes.E);
  }
  return problem;
}

Tensor random_tensor(std::mt19937& generator, DType dtype, std::int64_t rows, std::int64_t heads,
                     std::int64_t width, const std::vector<double>& values, std::int64_t gap_unit,
                     bool one_run) {
  return laid_out(random_layout(rows, generator, gap_unit, one_run), dtype, rows, heads, width, values);
}

kernels::AttendBackward with_delta(kernels::AttendBackward call) {
  if (call.out) kernels::cpu_tiles().row_dot(call.dout, *call.out, call.delta);
  call.out.reset();
  return call;
}

// A tensor that is not there draws from a generator of its own, so that the others lie as without it.
static std::mt19937& only_if(bool there, std::mt19937& generator) {
  static std::mt19937 other(1);
  return there ? generator : other;
}

// In a layout of its own, whatever else is drawn.
static Tensor sink_tensor(DType dtype, const Problem& problem) {
  std::mt19937 generator(static_cast<unsigned>(problem.sizes.H));
  return random_tensor(generator, dtype, 1, problem.sizes.H, 1, problem.sinks);
}

TileTensors::TileTensors(std::mt19937& generator, const Problem& problem, const TileDTypes& dtypes,
                         const TileLayouts& layouts)
    : q(laid_out(of_operand(generator, layouts, layouts.q_runs, problem.sizes.nq), dtypes.nominal,
                 problem.sizes.nq, problem.sizes.H, problem.sizes.D, problem.q)),
      k(laid_out(of_operand(generator, layouts, layouts.k_runs, problem.sizes.nk), dtypes.nominal,
                 problem.sizes.nk, problem.sizes.G, problem.sizes.D, problem.k)),
      v(laid_out(of_operand(generator, layouts, layouts.k_runs, problem.sizes.nk), dtypes.nominal,
                 problem.sizes.nk, problem.sizes.G, problem.sizes.E, problem.v)),
      dout(laid_out(of_operand(generator, layouts, layouts.q_runs, problem.sizes.nq), dtypes.nominal,
                    problem.sizes.nq, problem.sizes.H, problem.sizes.E, problem.dout)),
      out(laid_out(of_result(generator, layouts, layouts.q_runs, problem.sizes.nq), dtypes.out,
                   problem.sizes.nq, problem.sizes.H, problem.sizes.E, {})),
      lse(laid_out(of_lse_delta(generator, layouts, problem.sizes), dtypes.lse, problem.sizes.nq,
                   problem.sizes.H, 1, {})),
      delta(laid_out(of_lse_delta(generator, layouts, problem.sizes), dtypes.lse, problem.sizes.nq,
                     problem.sizes.H, 1, {})),
      dq(laid_out(of_result(generator, {.gap_unit = layouts.gap_unit, .results_alike = layouts.results_alike},
                            layouts.q_runs, problem.sizes.nq),
                  dtypes.rounds_dq ? dtypes.lse : dtypes.out, problem.sizes.nq, problem.sizes.H,
                  problem.sizes.D, {})),
      dk(laid_out(of_result(generator, layouts, layouts.k_runs, problem.sizes.nk),
                  dtypes.rounds_dkv ? dtypes.lse : dtypes.out, problem.sizes.nk, problem.sizes.G,
                  problem.sizes.D, {})),
      dv(laid_out(of_result(generator, layouts, layouts.k_runs, problem.sizes.nk),
                  dtypes.rounds_dkv ? dtypes.lse : dtypes.out, problem.sizes.nk, problem.sizes.G,
                  problem.sizes.E, {})),
      rounded_dq(laid_out(of_result(generator, layouts, layouts.q_runs, problem.sizes.nq), dtypes.out,
                          dtypes.rounds_dq ? problem.sizes.nq : 0, problem.sizes.H, problem.sizes.D, {})),
      rounded_dk(laid_out(
          of_result(only_if(dtypes.rounds_dkv, generator), layouts, layouts.k_runs, problem.sizes.nk),
          dtypes.out, dtypes.rounds_dkv ? problem.sizes.nk : 0, problem.sizes.G, problem.sizes.D, {})),
      rounded_dv(laid_out(
          of_result(only_if(dtypes.rounds_dkv, generator), layouts, layouts.k_runs, problem.sizes.nk),
          dtypes.out, dtypes.rounds_dkv ? problem.sizes.nk : 0, problem.sizes.G, problem.sizes.E, {})),
      max_logit(random_tensor(generator, dtypes.lse, 1, problem.sizes.H, 1,
                              std::vector<double>(static_cast<std::size_t>(problem.sizes.H), -infinity))),
      sink(sink_tensor(dtypes.lse, problem)),
      rounds_dq(dtypes.rounds_dq),
      rounds_dkv(dtypes.rounds_dkv) {}

kernels::Attend TileTensors::attend(const Problem& problem, kernels::Write write) {
  inputs_before_ = input_memory();
  std::optional<kernels::View> raised;
  if (asks_max_logit) raised = max_logit.view();
  return {.q = q.view(),
          .k = k.view(),
          .v = v.view(),
          .out = out.view(),
          .lse = lse.view(),
          .segments = problem.segments,
          .scale = problem.scale,
          .write = write,
          .max_logit = raised,
          .sink = problem.sinks.empty() ? std::nullopt : std::optional(sink.view())};
}

kernels::AttendBackward TileTensors::backward(const Problem& problem, kernels::Write write_dq,
                                              kernels::Write write_dk) {
  inputs_before_ = input_memory();
  inputs_before_.push_back(lse.memory());
  inputs_before_.push_back(computes_delta ? out.memory() : delta.memory());
  return {.q = q.view(),
          .k = k.view(),
          .v = v.view(),
          .dout = dout.view(),
          .lse = lse.view(),
          .delta = delta.view(),
          .dq = dq.view(),
          .dk = dk.view(),
          .dv = dv.view(),
          .segments = problem.segments,
          .scale = problem.scale,
          .write_dq = write_dq,
          .write_dk = write_dk,
          .rounded_dq = rounds_dq ? std::optional(rounded_dq.view()) : std::nullopt,
          .rounded_dk = rounds_dkv ? std::optional(rounded_dk.view()) : std::nullopt,
          .rounded_dv = rounds_dkv ? std::optional(rounded_dv.view()) : std::nullopt,
          .out = computes_delta ? std::optional(out.view()) : std::nullopt};
}

std::vector<double> TileTensors::choose_out(std::mt19937& generator, const Problem& problem) {
  std::vector<double> values = random_values(generator, std::ssize(problem.dout), out.dtype());
  std::vector<double> sums(static_cast<std::size_t>(problem.sizes.nq * problem.sizes.H));
  const auto width = static_cast<std::size_t>(problem.sizes.E);
  for (std::size_t x = 0; x < values.size(); ++x) {
    values[x] = std::copysign(values[x], problem.dout[x]);
    sums[x / width] += values[x] * problem.dout[x];
  }
  out.assign(values);
  delta.assign(std::vector<double>(sums.size(), nan));
  return sums;
}

std::vector<Tensor*> TileTensors::all() {
  return {&q,  &k,  &v,          &dout,       &out,        &lse,       &delta, &dq,
          &dk, &dv, &rounded_dq, &rounded_dk, &rounded_dv, &max_logit, &sink};
}

std::string TileTensors::touched_gap() const {
  const std::pair<const char*, const Tensor*> tensors[] = {{"q", &q},
                                                           {"k", &k},
                                                           {"v", &v},
                                                           {"dout", &dout},
                                                           {"out", &out},
                                                           {"lse", &lse},
                                                           {"delta", &delta},
                                                           {"dq", &dq},
                                                           {"dk", &dk},
                                                           {"dv", &dv},
                                                           {"rounded_dq", &rounded_dq},
                                                           {"rounded_dk", &rounded_dk},
                                                           {"rounded_dv", &rounded_dv},
                                                           {"max_logit", &max_logit},
                                                           {"sink", &sink}};
  for (const auto& [name, tensor] : tensors)
    if (const std::string text = tensor->touched_gap(); !text.empty()) return name + (": " + text);
  return "";
}

std::vector<std::vector<std::byte>> TileTensors::input_memory() const {
  return {q.memory(), k.memory(), v.memory(), dout.memory()};
}

bool TileTensors::inputs_unchanged() {
  std::vector<std::vector<std::byte>> now = input_memory();
  if (inputs_before_.size() > now.size()) {
    now.push_back(lse.memory());
    now.push_back(computes_delta ? out.memory() : delta.memory());
  }
  return now == inputs_before_;
}

}  // namespace cplab::testing

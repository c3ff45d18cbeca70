// Random and hard cases of dynamic mask attention; see masked_cases.hpp.
#include "tests/kernels/masked_cases.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "tests/kernels/tile_case.hpp"

namespace cplab::testing {
namespace {

using kernels::Write;

struct Drawn {
  TileCase tile;
  MaskedProblem masked;
  DType dbias = DType::fp32;
};

// The key columns: all of them from some column on, or two stretches in the other order, or every second.
std::vector<RowRun> random_columns(std::mt19937& g, std::int64_t nk, std::int64_t columns) {
  const std::int64_t spare = columns - nk;
  switch (draw(g, 0, 3)) {
    case 0: return {{draw(g, 0, spare), nk, 1}};
    case 1: {
      const std::int64_t half = nk / 2;
      return {{nk - half, half, 1}, {0, nk - half, 1}};
    }
    case 2: {
      const std::int64_t even = (nk + 1) / 2;
      return {{0, even, 2}, {1, nk - even, 2}};
    }
    default: return {{0, nk, 1}};
  }
}

// What is kept, by row and column of a head: nothing in whole cells, mostly.
std::vector<double> random_keep(std::mt19937& g, std::int64_t rows, std::int64_t heads, std::int64_t columns,
                                bool full) {
  std::vector<double> keep(static_cast<std::size_t>(rows * heads * columns));
  const std::int64_t kind = draw(g, 0, 4), cell = full ? draw(g, 1, 70) : draw(g, 1, 90);
  const double density = kind == 0 ? 0 : kind == 1 ? 0.02 : kind == 2 ? 0.3 : 0.9;
  std::bernoulli_distribution kept(density), whole(0.4);
  std::vector<char> cells;
  for (std::int64_t n = 0; n < (rows / cell + 1) * (columns / cell + 1) * heads; ++n)
    cells.push_back(whole(g));
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t c = 0; c < columns; ++c) {
        const auto of = static_cast<std::size_t>(((r / cell) * (columns / cell + 1) + c / cell) * heads + h);
        const bool is = kind == 4 || (cells[of] != 0 && kept(g));
        keep[static_cast<std::size_t>((r * heads + h) * columns + c)] = is                   ? 1
                                                                        : draw(g, 0, 5) == 0 ? -0.0
                                                                                             : 0;
      }
  return keep;
}

// NaN in bias and keep wherever no pair reads them, and in whole rows of q and dout without any kept key.
void poison_unread(MaskedProblem& m, const MaskedExpected& right) {
  const Sizes& s = m.problem.sizes;
  const std::vector<int> visible = visible_pairs(m.problem);
  std::vector<bool> seen(m.keep.size());
  for (std::int64_t i = 0; i < s.nq; ++i)
    for (std::int64_t j = 0; j < s.nk; ++j)
      for (std::int64_t h = 0; h < s.H && !m.keep.empty(); ++h)
        if (visible[static_cast<std::size_t>(i * s.nk + j)] != 0) seen[m.index(m.keep_heads, h, i, j)] = true;
  for (std::size_t n = 0; n < seen.size(); ++n)
    if (!seen[n]) m.keep[n] = nan;
  for (std::size_t n = 0; n < m.bias.size(); ++n)
    if (!right.bias_counts[n]) m.bias[n] = nan;
  for (std::int64_t i = 0; i < s.nq; ++i) {
    if (right.row_counts[static_cast<std::size_t>(i)]) continue;
    std::fill_n(m.problem.q.begin() + i * s.H * s.D, s.H * s.D, nan);
    std::fill_n(m.problem.dout.begin() + i * s.H * s.E, s.H * s.E, nan);
  }
}

// The keys of a segment before and from `key` on.
std::pair<Segment, Segment> cut(const Segment& whole, std::int64_t key) {
  Segment first = whole, second = whole;
  first.k_count = key;
  second.k_begin += key;
  second.k_count -= key;
  second.offset -= key;
  return {first, second};
}

class MaskedCase {
 public:
  MaskedCase(Report& report, const MaskedRunner& runner, const Drawn& drawn, const MaskedExpected& right,
             std::mt19937& generator)
      : report_(report),
        runner_(runner),
        tile_(drawn.tile),
        m_(drawn.masked),
        right_(right),
        where_(drawn.tile.text() + ", " + (m_.full ? "full" : "keys") + ", bias heads " +
               std::to_string(m_.bias.empty() ? 0 : m_.bias_heads) + ", keep heads " +
               std::to_string(m_.keep.empty() ? 0 : m_.keep_heads) + ", softcap " +
               std::to_string(m_.softcap)),
        g_(generator),
        t_(generator, m_.problem, drawn.tile.dtypes(), drawn.tile.layouts),
        bias_(mask_tensor(tile_.nominal, m_.bias_heads, m_.bias)),
        keep_(mask_tensor(tile_.nominal, m_.keep_heads, m_.keep)),
        dbias_(mask_tensor(drawn.dbias, m_.bias_heads, {})) {
    for (const Segment& segment : m_.problem.segments) {
      const auto [first, second] = cut(segment, draw(g_, 0, segment.k_count));
      parts_[0].push_back(first), parts_[1].push_back(second);
    }
    // As where bias and keep mask of keys lie behind V: its rows are no multiple of 16 bytes apart.
    const std::int64_t gap_unit = draw(g_, 0, 2);
    if (tile_.layouts.gap_unit == 1 || gap_unit == 0 || runner.softcaps_only) return;
    const Sizes& s = m_.problem.sizes;
    const bool one_run = tile_.layouts.one_run;
    t_.v = random_tensor(g_, tile_.nominal, s.nk, s.G, s.E, m_.problem.v, gap_unit, one_run);
    t_.dv = random_tensor(g_, tile_.out, s.nk, s.G, s.E, {}, 1, one_run);
    (void)t_.inputs_unchanged();
  }

  void run() {
    TileTensors fresh = t_;
    forward(m_.problem.segments, Write::store);
    check_out(0);
    t_ = fresh;
    forward(parts_[0], Write::store);
    forward(parts_[1], Write::merge);
    check_out(1);
    t_.lse.assign(right_.attention.lse);
    t_.delta.assign(right_.attention.delta);
    fresh = t_;
    const Tensor poisoned = dbias_;
    backward(m_.problem.segments, Write::store);
    check_gradients(0);
    t_ = fresh, dbias_ = poisoned;
    backward(parts_[0], Write::store);
    sign_untouched();
    backward(parts_[1], Write::add);
    check_gradients(1.01 * unit_roundoff(tile_.out));
    check_untouched();
  }

 private:
  Tensor mask_tensor(DType dtype, std::int64_t heads, const std::vector<double>& values) {
    return random_tensor(g_, dtype, m_.mask_rows(), heads, m_.columns, values, draw(g_, 0, 1) == 0 ? 8 : 1,
                         draw(g_, 0, 1) == 0);
  }

  kernels::PairMask mask() {
    kernels::PairMask mask;
    if (!m_.bias.empty()) mask.bias = bias_.view();
    if (!m_.keep.empty()) mask.keep = keep_.view();
    mask.columns = m_.column_runs;
    mask.softcap = m_.softcap;
    return mask;
  }

  std::vector<Tensor*> tensors() {
    std::vector<Tensor*> all = t_.all();
    all.insert(all.end(), {&bias_, &keep_, &dbias_});
    return all;
  }

  // Twice from the same state, the second time without skipping: no bit may differ.
  template <class Call, class Run>
  void run_twice(const Call& call, const Run& run) {
    const std::vector<Tensor*> all = tensors();
    std::vector<std::vector<std::byte>> before, skipping, whole;
    for (const Tensor* tensor : all) before.push_back(tensor->memory());
    (void)run(all, tile_.shift, call, false);
    for (const Tensor* tensor : all) whole.push_back(tensor->memory());
    for (std::size_t n = 0; n < all.size(); ++n) all[n]->set_memory(before[n]);
    const TileRun result = run(all, tile_.shift, call, true);
    for (const Tensor* tensor : all) skipping.push_back(tensor->memory());
    variant_ = result.variant;
    report_.holds(variant_, where_, "two runs differ", result.repeatable);
    // Hopper's backward adds to dq in any order; it skips nothing.
    const bool any_order = variant_.starts_with("attend_backward masked hopper");
    report_.holds(variant_, where_, "skipping changed a bit", any_order || skipping == whole);
    report_.holds(variant_, where_, "an operand was changed", t_.inputs_unchanged());
    std::string gap = t_.touched_gap();
    for (const Tensor* tensor : {&bias_, &keep_, &dbias_})
      if (gap.empty()) gap = tensor->touched_gap();
    report_.holds(variant_, where_, ("memory between the rows was touched: " + gap).c_str(), gap.empty());
  }

  void forward(const std::vector<Segment>& segments, Write write) {
    kernels::MaskedAttend call{.tile = t_.attend(m_.problem, write), .mask = mask()};
    call.tile.segments = segments;
    run_twice(call, runner_.attend);
  }

  void backward(const std::vector<Segment>& segments, Write write) {
    kernels::MaskedAttendBackward call{.tile = t_.backward(m_.problem, write, write), .mask = mask()};
    call.tile.segments = segments;
    if (!m_.bias.empty()) call.dbias = dbias_.view();
    call.write_dbias = write;
    run_twice(call, runner_.attend_backward);
  }

  void check_out(std::int64_t merges) {
    const Problem problem = with_more_roundings(m_);
    const Expected& e = right_.attention;
    Tolerance tolerance = out_tolerance(problem, e, tile_.dtypes(merges));
    tolerance.floor *= static_cast<double>(1 + merges);
    report_.share(variant_, where_, merges > 0 ? "merged out" : "out",
                  worst_share(t_.out.values(), e.out, e.out_majorant, tolerance));
    report_.share(variant_, where_, merges > 0 ? "merged lse" : "lse",
                  worst_share(t_.lse.values(), e.lse, std::vector<double>(e.lse.size(), 1),
                              lse_tolerance(problem, e, tile_.dtypes(merges))));
  }

  void check_gradients(double extra) {
    const Problem problem = with_more_roundings(m_);
    const Expected& e = right_.attention;
    GradientTolerances tolerance = gradient_tolerances(problem, e, tile_.dtypes());
    for (Tolerance* each : {&tolerance.dq, &tolerance.dk, &tolerance.dv}) {
      each->majorant += extra;
      if (extra > 0) each->floor *= 2;
    }
    const auto check = [&](const char* what, const Tensor& tensor, const std::vector<double>& exact,
                           const std::vector<double>& majorant, const Tolerance& of) {
      report_.share(variant_, where_, extra > 0 ? (std::string("added ") + what).c_str() : what,
                    worst_share(tensor.values(), exact, majorant, of));
    };
    check("dq", t_.dq, e.dq, e.dq_majorant, tolerance.dq);
    check("dk", t_.dk, e.dk, e.dk_majorant, tolerance.dk);
    check("dv", t_.dv, e.dv, e.dv_majorant, tolerance.dv);
    if (m_.bias.empty()) return;
    Tolerance of = dbias_tolerance(m_, right_, dbias_.dtype(), tile_.dtypes());
    if (extra > 0) of.majorant += 1.01 * unit_roundoff(dbias_.dtype()), of.floor *= 2;
    check("dbias", dbias_, right_.dbias, right_.dbias_majorant, of);
  }

  // What no pair touches holds -0, which adding 0 would change.
  void sign_untouched() {
    for (std::int64_t i = 0; i < m_.problem.sizes.nq; ++i)
      if (!right_.row_counts[static_cast<std::size_t>(i)]) t_.dq.fill_row(i, -0.0);
    for (std::int64_t j = 0; j < m_.problem.sizes.nk; ++j)
      if (!right_.key_counts[static_cast<std::size_t>(j)]) t_.dk.fill_row(j, -0.0), t_.dv.fill_row(j, -0.0);
    for_each_bias([&](std::int64_t row, std::int64_t h, std::int64_t x, bool counts) {
      if (!counts) dbias_.set(row, h, x, -0.0);
    });
  }
  void check_untouched() {
    bool fine = true;
    const auto is_signed = [&](const Tensor& tensor, std::int64_t row) {
      for (std::int64_t h = 0; h < tensor.heads(); ++h)
        for (std::int64_t x = 0; x < tensor.width(); ++x)
          fine = fine && tensor.at(row, h, x) == 0 && std::signbit(tensor.at(row, h, x));
    };
    for (std::int64_t i = 0; i < m_.problem.sizes.nq; ++i)
      if (!right_.row_counts[static_cast<std::size_t>(i)]) is_signed(t_.dq, i);
    for (std::int64_t j = 0; j < m_.problem.sizes.nk; ++j)
      if (!right_.key_counts[static_cast<std::size_t>(j)]) is_signed(t_.dk, j), is_signed(t_.dv, j);
    for_each_bias([&](std::int64_t row, std::int64_t h, std::int64_t x, bool counts) {
      if (!counts) fine = fine && dbias_.at(row, h, x) == 0 && std::signbit(dbias_.at(row, h, x));
    });
    report_.holds(variant_, where_, "add changed what has no contribution", fine);
  }
  template <class Visit>
  void for_each_bias(const Visit& visit) {
    std::size_t at = 0;
    for (std::int64_t row = 0; row < m_.mask_rows() && !m_.bias.empty(); ++row)
      for (std::int64_t h = 0; h < m_.bias_heads; ++h)
        for (std::int64_t x = 0; x < m_.columns; ++x, ++at) visit(row, h, x, right_.bias_counts[at]);
  }

  Report& report_;
  const MaskedRunner& runner_;
  const TileCase& tile_;
  const MaskedProblem& m_;
  const MaskedExpected& right_;
  std::string where_, variant_;
  std::mt19937& g_;
  TileTensors t_;
  Tensor bias_, keep_, dbias_;
  std::vector<Segment> parts_[2];
};

std::vector<Segment> drawn_segments(std::mt19937& g, const char*& kind, std::int64_t nq, std::int64_t nk) {
  Segment whole{.q_begin = 0, .q_count = nq, .k_begin = 0, .k_count = nk};
  switch (draw(g, 0, 3)) {
    case 0: kind = "full"; return {whole};
    case 1: kind = "causal", whole.right = 0, whole.offset = nk - nq; return {whole};
    case 2: kind = "window", whole.left = draw(g, 0, 90), whole.right = draw(g, 0, 90); return {whole};
    default: kind = "random segments"; return random_segments(g, nq, nk);
  }
}

}  // namespace

void masked_case(Report& report, const CaseName& name, const MaskedRunner& runner) {
  std::mt19937 g(static_cast<unsigned>(name.seed * 7368787 + static_cast<std::uint64_t>(name.number)));
  Drawn d{.tile = {.kind = "", .sizes = {}, .segments = {}, .nominal = DType::bf16, .out = DType::bf16},
          .masked = {}};
  TileCase& tile = d.tile;
  tile.seed = name.seed, tile.number = name.number;
  const bool tensor_cores = runner.tensor_cores_only || draw(g, 0, 4) < 3;
  const DType nominals[] = {DType::bf16, DType::fp16, DType::fp32};
  tile.nominal = nominals[draw(g, 0, tensor_cores ? 1 : 2)];
  if (!tensor_cores && runner.has_fp64 && draw(g, 0, 2) == 0) tile.nominal = DType::fp64;
  tile.out = draw(g, 0, 1) == 0 ? tile.nominal : wide(tile.nominal);
  d.dbias = draw(g, 0, 1) == 0 ? tile.nominal : wide(tile.nominal);
  Sizes& s = tile.sizes;
  s.G = draw(g, 1, 2);
  s.H = s.G * draw(g, 1, 3);
  s.D = s.E = draw(g, 0, 1) == 0 ? 64 : 128;
  if (tensor_cores)
    tile.layouts = {.gap_unit = 8, .one_run = draw(g, 0, 1) == 0};
  else
    s.D = draw(g, 1, 70), s.E = draw(g, 1, 70), tile.shift = draw(g, 0, 7);
  const std::int64_t most = name.number % 8 == 3 ? 2 * runner.most_rows : runner.most_rows;
  s.nq = draw(g, 1, most), s.nk = draw(g, 1, most);
  tile.segments = drawn_segments(g, tile.kind, s.nq, s.nk);

  MaskedProblem& m = d.masked;
  m.problem = random_problem(g, s, tile.segments, tile.nominal);
  if (m.problem.scale < 0 && tensor_cores) m.problem.scale = -m.problem.scale;  // else no tensor cores
  m.full = draw(g, 0, 1) == 0;
  m.softcap = draw(g, 0, 1) == 0 ? 0 : 1.5;
  const std::int64_t heads[] = {m.full ? s.H : s.G, s.G, std::int64_t{1}, s.H};
  m.bias_heads = heads[draw(g, 0, tensor_cores ? 0 : 3)];
  m.keep_heads = heads[draw(g, 0, 3)];
  if (m.full) {
    m.columns = s.nk + draw(g, 0, 20);
    m.column_runs = random_columns(g, s.nk, m.columns);
  }
  if (runner.softcaps_only) {
    constexpr double caps[] = {0.4, 1.5, 30};  // most arguments of tanh are large, some, none
    m.softcap = caps[name.number % 3];
    m.full = false, m.columns = 1, m.column_runs = {};
    tile.out = wide(tile.nominal);
    const MaskedExpected right = expected_of(m);
    poison_unread(m, right);
    return MaskedCase(report, runner, d, right, g).run();
  }
  if (draw(g, 0, 7) > 0) m.bias = random_values(g, m.mask_rows() * m.bias_heads * m.columns, tile.nominal);
  if (draw(g, 0, 7) > 0) m.keep = random_keep(g, m.mask_rows(), m.keep_heads, m.columns, m.full);
  const MaskedExpected right = expected_of(m);
  poison_unread(m, right);
  MaskedCase(report, runner, d, right, g).run();
}

}  // namespace cplab::testing

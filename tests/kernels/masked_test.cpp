// The CPU tiles of dynamic mask attention: against the reference, whole and in two tiles of keys, in memory
// that is NaN where nothing is; what is skipped, what is broadcast, what no row may see.
#include "kernels/masked.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "reference/dynamic_mask.hpp"
#include "tests/kernels/tensor.hpp"

namespace cplab::testing {
namespace {

using namespace cplab::kernels;
using reference::BiasForm;
using reference::KeepRule;

struct MaskedShape {
  std::int64_t S = 1, H = 1, G = 1, D = 1, E = 1;
  BiasForm form = BiasForm::keys;
  std::int64_t bias_heads = 1;
  bool causal = false;
  reference::Selection selection = {};
  double softcap = 0;
  bool shuffled = false;  // full: rows of k in another order than the columns of bias
};

std::string text(const MaskedShape& s) {
  return "S " + std::to_string(s.S) + " H " + std::to_string(s.H) + " G " + std::to_string(s.G) + " D " +
         std::to_string(s.D) + " E " + std::to_string(s.E) + " form " +
         std::to_string(static_cast<int>(s.form)) + " bias heads " + std::to_string(s.bias_heads) + " rule " +
         std::to_string(static_cast<int>(s.selection.rule)) + " of " + std::to_string(s.selection.top_k) +
         " in " + std::to_string(s.selection.block) + " softcap " + std::to_string(s.softcap) +
         (s.causal ? " causal" : "") + (s.shuffled ? " shuffled" : "");
}

// All operands of one problem in poisoned memory at random layouts, and the right result.
struct MaskedOperands {
  MaskedShape s;
  DType dtype;
  std::int64_t columns;  // of the bias
  Tensor q, k, v, dout, bias, keep, out, lse, delta, dq, dk, dv, dbias;
  std::vector<RowRun> column_runs;
  reference::DynamicMaskResult right;

  Tensor make(DType type, std::int64_t rows, std::int64_t heads, std::int64_t width, std::mt19937& g) {
    return {type, rows, heads, width, random_layout(rows, g)};
  }
  std::int64_t bias_rows() const { return s.S; }

  MaskedOperands(const MaskedShape& shape, DType type, std::uint32_t seed, std::mt19937 g = {})
      : s(shape),
        dtype(type),
        columns(shape.form == BiasForm::full ? shape.S + 3 : 1),
        q((g.seed(seed), make(type, s.S, s.H, s.D, g))),
        k(make(type, s.S, s.G, s.D, g)),
        v(make(type, s.S, s.G, s.E, g)),
        dout(make(type, s.S, s.H, s.E, g)),
        bias(make(type, s.S, s.bias_heads, columns, g)),
        keep(make(type, s.S, s.bias_heads, columns, g)),
        out(make(type, s.S, s.H, s.E, g)),
        lse(make(wide(type), s.S, s.H, 1, g)),
        delta(make(wide(type), s.S, s.H, 1, g)),
        dq(make(type, s.S, s.H, s.D, g)),
        dk(make(type, s.S, s.G, s.D, g)),
        dv(make(type, s.S, s.G, s.E, g)),
        dbias(make(type, s.S, s.bias_heads, columns, g)) {
    std::normal_distribution<double> normal;
    for (Tensor* tensor : {&q, &k, &v, &dout, &bias})
      for (std::int64_t row = 0; row < tensor->rows(); ++row)
        for (std::int64_t h = 0; h < tensor->heads(); ++h)
          for (std::int64_t x = 0; x < tensor->width(); ++x) tensor->set(row, h, x, normal(g));
    reference::DynamicMaskShape r;
    r.attention = {s.S, s.H, s.G, s.D, s.E, 0.5, -1, s.causal ? 0 : -1};
    r.form = s.form, r.bias_heads = s.bias_heads, r.columns = columns;
    r.selection = s.selection, r.softcap = s.softcap;
    right = dynamic_mask_attention(r, q.values(), k.values(), v.values(), bias.values(), dout.values());
    fill_keep();
    // delta as the row sums of dout and the right out.
    for (std::int64_t i = 0; i < s.S; ++i)
      for (std::int64_t h = 0; h < s.H; ++h) {
        double sum = 0;
        for (std::int64_t e = 0; e < s.E; ++e)
          sum += dout.at(i, h, e) * right.attention.out[static_cast<std::size_t>((i * s.H + h) * s.E + e)];
        delta.set(i, h, 0, sum);
      }
    column_runs = {{0, s.S, 1}};
    if (s.form == BiasForm::keys) column_runs.clear();
    if (s.shuffled) shuffle();
  }

  void fill_keep() {
    for (std::int64_t h = 0; h < s.bias_heads; ++h)
      for (std::int64_t i = 0; i < (s.form == BiasForm::full ? s.S : 1); ++i) {
        std::vector<double> row;
        for (std::int64_t j = 0; j < s.S; ++j)
          row.push_back(s.form == BiasForm::full ? bias.at(i, h, j) : bias.at(j, h));
        const std::vector<char> kept = reference::kept_keys(s.selection, row);
        for (std::int64_t j = 0; j < s.S; ++j)
          s.form == BiasForm::full ? keep.set(i, h, j, kept[static_cast<std::size_t>(j)])
                                   : keep.set(j, h, 0, kept[static_cast<std::size_t>(j)]);
      }
  }

  // Rows of k and v: even tokens first, then odd ones; the columns say so.
  void shuffle() {
    const std::int64_t even = (s.S + 1) / 2;
    column_runs = {{0, even, 2}, {1, s.S - even, 2}};
    for (Tensor* tensor : {&k, &v}) {
      const std::vector<double> old = tensor->values();
      const auto line = static_cast<std::size_t>(tensor->heads() * tensor->width());
      std::vector<double> moved;
      for (const RowRun& run : column_runs)
        for (std::int64_t i = 0; i < run.count; ++i) {
          const auto first = old.begin() + static_cast<std::ptrdiff_t>(line) * (run.begin + i * run.step);
          moved.insert(moved.end(), first, first + static_cast<std::ptrdiff_t>(line));
        }
      tensor->assign(moved);
    }
  }

  std::vector<Segment> segments() const { return {{0, s.S, 0, s.S, 0, -1, s.causal ? 0 : -1}}; }
  MaskedAttend forward(const std::vector<Segment>& list) {
    MaskedAttend call{{q.view(), k.view(), v.view(), out.view(), lse.view(), list, 0.5, Write::store, {}},
                      mask()};
    return call;
  }
  PairMask mask() {
    PairMask mask;
    mask.bias = bias.view(), mask.keep = keep.view();
    mask.columns = column_runs, mask.softcap = s.softcap;
    return mask;
  }
  MaskedAttendBackward backward(const std::vector<Segment>& list) {
    MaskedAttendBackward call{{q.view(), k.view(), v.view(), dout.view(), lse.view(), delta.view(), dq.view(),
                               dk.view(), dv.view(), list, 0.5, Write::store, Write::store},
                              mask()};
    call.dbias = dbias.view();
    return call;
  }

  // Of a tensor by row of k: where the token's row is.
  std::int64_t row_of(std::int64_t token) const {
    if (!s.shuffled) return token;
    return token % 2 == 0 ? token / 2 : (s.S + 1) / 2 + token / 2;
  }
  void require_right(double tolerance) const {
    const auto same = [&](const Tensor& tensor, const std::vector<double>& wanted, const char* what,
                          bool keys) {
      CAPTURE(what);
      std::size_t at = 0;
      double most = 1;
      for (const double value : wanted)
        if (std::isfinite(value)) most = std::max(most, std::abs(value));
      for (std::int64_t row = 0; row < tensor.rows(); ++row)
        for (std::int64_t h = 0; h < tensor.heads(); ++h)
          for (std::int64_t x = 0; x < tensor.width(); ++x, ++at) {
            const double value = tensor.at(keys ? row_of(row) : row, h, x);
            CAPTURE(row);
            REQUIRE((value == wanted[at] || std::abs(value - wanted[at]) <= tolerance * most));
          }
      REQUIRE(tensor.gaps_intact());
    };
    same(out, right.attention.out, "out", false);
    same(dq, right.attention.dq, "dq", false);
    same(dk, right.attention.dk, "dk", true);
    same(dv, right.attention.dv, "dv", true);
    same(dbias, right.dbias, "dbias", false);
    for (std::int64_t i = 0; i < s.S; ++i)
      for (std::int64_t h = 0; h < s.H; ++h) {
        const double wanted = right.attention.lse[static_cast<std::size_t>(h * s.S + i)];
        const double value = lse.at(i, h);
        REQUIRE((value == wanted || std::abs(value - wanted) <= tolerance * (1 + std::abs(wanted))));
      }
  }
};

std::vector<MaskedShape> masked_shapes() {
  std::vector<MaskedShape> list;
  std::mt19937 g(7);
  const auto pick = [&](std::initializer_list<std::int64_t> of) { return of.begin()[g() % of.size()]; };
  for (int n = 0; n < 60; ++n) {
    MaskedShape s;
    s.S = pick({1, 2, 5, 31, 64, 65, 130, 200});
    s.G = pick({1, 2, 3}), s.H = s.G * pick({1, 2, 4});
    s.D = pick({1, 3, 8}), s.E = pick({1, 2, 5});
    s.form = g() % 2 ? BiasForm::full : BiasForm::keys;
    s.bias_heads = std::vector<std::int64_t>{1, s.G, s.H}[g() % 3];
    s.causal = g() % 2;
    s.selection.rule = static_cast<KeepRule>(g() % 3);
    s.selection.top_k = pick({1, 2, 7, 40, 300});
    s.selection.block = pick({0, 1, 2, 16});
    s.softcap = g() % 2 ? 2.5 : 0;
    s.shuffled = s.form == BiasForm::full && !s.causal && g() % 2;
    list.push_back(s);
  }
  return list;
}

}  // namespace

TEST_CASE("masked tiles: random shapes in fp64 are the reference's") {
  std::uint32_t seed = 1;
  for (const MaskedShape& shape : masked_shapes()) {
    CAPTURE(text(shape));
    MaskedOperands p(shape, DType::fp64, seed++);
    const std::vector<Segment> segments = p.segments();
    masked_attend_cpu(p.forward(segments));
    masked_attend_backward_cpu(p.backward(segments));
    p.require_right(1e-11);
  }
}

// P and dz are rounded to 8 bits and summed over up to 200 keys: an error of a few 2^-9 of the largest value.
TEST_CASE("masked tiles: random shapes in bf16 are near the reference's, and skipping changes no bit") {
  std::uint32_t seed = 1;
  for (const MaskedShape& shape : masked_shapes()) {
    CAPTURE(text(shape));
    MaskedOperands skips(shape, DType::bf16, seed), whole(shape, DType::bf16, seed);
    ++seed;
    const std::vector<Segment> segments = skips.segments();
    masked_attend_cpu(skips.forward(segments));
    masked_attend_backward_cpu(skips.backward(segments));
    skips.require_right(0.05);
    masked_attend_cpu(whole.forward(segments), false);
    masked_attend_backward_cpu(whole.backward(segments), false);
    for (const auto member : {&MaskedOperands::out, &MaskedOperands::lse, &MaskedOperands::dq,
                              &MaskedOperands::dk, &MaskedOperands::dv, &MaskedOperands::dbias})
      REQUIRE((skips.*member).memory() == (whole.*member).memory());
  }
}

TEST_CASE("masked tiles: two tiles of keys, merged and added, are one") {
  for (const BiasForm form : {BiasForm::full, BiasForm::keys}) {
    for (const KeepRule rule : {KeepRule::none, KeepRule::top_k, KeepRule::relu}) {
      const std::int64_t bias_heads = form == BiasForm::full ? 4 : 2;
      MaskedShape shape{100, 4, 2, 4, 3, form, bias_heads, true, {rule, 5, 4}, 3.0, false};
      CAPTURE(text(shape));
      MaskedOperands p(shape, DType::fp64, 11);
      // Causal: the first 60 keys with all queries, the other 40 with the last 40 queries. What comes second
      // leaves the rows of the first alone.
      const std::vector<Segment> first{{0, 100, 0, 60, 0, -1, 0}}, second{{60, 40, 60, 40, 0, -1, 0}};
      MaskedAttend call = p.forward(first);
      masked_attend_cpu(call);
      call.tile.segments = second, call.tile.write = Write::merge;
      masked_attend_cpu(call);
      MaskedAttendBackward back = p.backward(first);
      masked_attend_backward_cpu(back);
      back.tile.segments = second;
      back.tile.write_dq = back.tile.write_dk = back.write_dbias = Write::add;
      masked_attend_backward_cpu(back);
      p.require_right(1e-11);
    }
  }
}

TEST_CASE("masked tiles: what counts for nothing may be NaN, and nothing poisoned stays in a bias gradient") {
  MaskedShape shape{70, 2, 1, 3, 2, BiasForm::full, 2, true, {KeepRule::top_k, 4, 0}, 0, false};
  MaskedOperands p(shape, DType::fp32, 5);
  for (std::int64_t i = 0; i < 70; ++i)
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t j = 0; j < 70; ++j)
        if (j > i || p.keep.at(i, h, j) == 0) p.bias.set(i, h, j, nan);
      for (std::int64_t j = i + 1; j < 70; ++j) p.keep.set(i, h, j, nan);
    }
  // dbias is NaN before: a store must define every element, those of tiles that are skipped too.
  const std::vector<Segment> segments = p.segments();
  masked_attend_cpu(p.forward(segments));
  masked_attend_backward_cpu(p.backward(segments));
  p.require_right(1e-5);
}

TEST_CASE("masked tiles: rows without a kept key are 0 and minus infinity, their gradients 0") {
  MaskedShape shape{40, 2, 2, 3, 2, BiasForm::keys, 2, true, {KeepRule::top_k, 1, 0}, 0, false};
  MaskedOperands p(shape, DType::fp32, 9);
  for (std::int64_t j = 0; j < 40; ++j)
    for (std::int64_t h = 0; h < 2; ++h) p.keep.set(j, h, 0, j == 30);
  const std::vector<Segment> segments = p.segments();
  masked_attend_cpu(p.forward(segments));
  masked_attend_backward_cpu(p.backward(segments));
  for (std::int64_t i = 0; i < 40; ++i)
    for (std::int64_t h = 0; h < 2; ++h) {
      CHECK(std::isfinite(p.lse.at(i, h)) == (i >= 30));
      for (std::int64_t e = 0; e < 2; ++e) {
        CHECK(p.out.at(i, h, e) == (i >= 30 ? p.v.at(30, h, e) : 0));
        CHECK(std::isfinite(p.dv.at(i, h, e)));
      }
      CHECK(std::isfinite(p.dq.at(i, h, 0)));
      if (i < 30) CHECK(p.dq.at(i, h, 0) == 0);
      if (i != 30) CHECK(p.dbias.at(i, h) == 0);
    }
}

TEST_CASE("masked tiles: a broadcast mask and bias are the same ones written out") {
  MaskedShape shape{50, 4, 2, 3, 2, BiasForm::keys, 2, true, {KeepRule::top_k, 9, 0}, 1.5, false};
  MaskedOperands few(shape, DType::fp32, 3);
  MaskedShape wide_shape = shape;
  wide_shape.form = BiasForm::full, wide_shape.bias_heads = 4;
  MaskedOperands many(wide_shape, DType::fp32, 3);
  for (auto [into, from] : {std::pair{&many.q, &few.q},
                            {&many.k, &few.k},
                            {&many.v, &few.v},
                            {&many.dout, &few.dout},
                            {&many.delta, &few.delta}})
    into->assign(from->values());
  for (std::int64_t i = 0; i < 50; ++i)
    for (std::int64_t h = 0; h < 4; ++h)
      for (std::int64_t j = 0; j < 50; ++j) {
        many.bias.set(i, h, j, few.bias.at(j, h / 2));
        many.keep.set(i, h, j, few.keep.at(j, h / 2));
      }
  const std::vector<Segment> segments = few.segments();
  for (MaskedOperands* p : {&few, &many}) {
    masked_attend_cpu(p->forward(segments));
    masked_attend_backward_cpu(p->backward(segments));
  }
  CHECK(few.out.values() == many.out.values());
  CHECK(few.lse.values() == many.lse.values());
  CHECK(few.dq.values() == many.dq.values());
  CHECK(few.dk.values() == many.dk.values());
  CHECK(few.dv.values() == many.dv.values());
  for (std::int64_t j = 0; j < 50; ++j)
    for (std::int64_t b = 0; b < 2; ++b) {
      double sum = 0;
      for (std::int64_t i = 0; i < 50; ++i)
        sum += many.dbias.at(i, 2 * b, j) + many.dbias.at(i, 2 * b + 1, j);
      CHECK(few.dbias.at(j, b) == doctest::Approx(sum).epsilon(1e-4).scale(1));
    }
}

TEST_CASE("masked tiles: calls that do not fit together are refused") {
  MaskedShape shape{8, 4, 2, 3, 2, BiasForm::full, 4, false, {}, 0, false};
  MaskedOperands p(shape, DType::fp32, 3);
  const std::vector<Segment> segments = p.segments();
  const auto refused = [&](auto change) {
    MaskedAttend call = p.forward(segments);
    change(call);
    CHECK_THROWS_AS(masked_attend_cpu(call), std::invalid_argument);
  };
  const std::vector<RowRun> beyond{{4, 8, 1}}, few{{0, 7, 1}};
  refused([&](MaskedAttend& call) { call.mask.columns = beyond; });  // 11 columns, so 4 .. 11 is one too many
  refused([&](MaskedAttend& call) { call.mask.columns = few; });
  refused([&](MaskedAttend& call) { call.mask.columns = {}; });
  refused([&](MaskedAttend& call) { call.mask.bias->heads = 3; });
  refused([&](MaskedAttend& call) { call.mask.softcap = -1; });
  MaskedAttendBackward back = p.backward(segments);
  back.mask.bias.reset();
  CHECK_THROWS_AS(masked_attend_backward_cpu(back), std::invalid_argument);
}

}  // namespace cplab::testing

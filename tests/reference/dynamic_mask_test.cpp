// Dynamic mask attention in double: its gradients against finite differences, its selection against rows
// picked by hand, closed forms, and what must hold of any such operator.
#include "reference/dynamic_mask.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace cplab::testing {
namespace {

using reference::AttentionResult;
using reference::BiasForm;
using reference::dense_attention;
using reference::dynamic_mask_attention;
using reference::DynamicMaskResult;
using reference::DynamicMaskShape;
using reference::KeepRule;
using reference::kept_keys;
using reference::Selection;

constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<double> normal_values(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> distribution;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = distribution(engine);
  return values;
}

struct MaskCase {
  DynamicMaskShape shape;
  std::vector<double> q, k, v, bias, dout;
  DynamicMaskResult run(bool backward = true) const {
    return dynamic_mask_attention(shape, q, k, v, bias,
                                  backward ? std::span<const double>(dout) : std::span<const double>());
  }
};

MaskCase mask_case(std::int64_t S, std::int64_t H, std::int64_t G, BiasForm form, std::int64_t bias_heads) {
  MaskCase c;
  c.shape.attention = {S, H, G, 3, 2, 0.6, -1, -1};
  c.shape.form = form;
  c.shape.bias_heads = bias_heads;
  c.shape.columns = form == BiasForm::full ? S + 2 : 0;
  c.q = normal_values(S * H * 3, 1), c.k = normal_values(S * G * 3, 2), c.v = normal_values(S * G * 2, 3);
  c.dout = normal_values(S * H * 2, 4);
  if (form == BiasForm::full) c.bias = normal_values(S * bias_heads * c.shape.columns, 5);
  if (form == BiasForm::keys) c.bias = normal_values(S * bias_heads, 5);
  return c;
}

double product(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// d(dout . out) / dx by central differences: the error is about step^2 f''' / 6 + 1e-16 / step, 1e-9 here.
// The step must select no other keys: the biases of a random row are further apart than that.
void require_differences(MaskCase c, std::vector<double> MaskCase::*input,
                         const std::vector<double>& gradient) {
  constexpr double step = 1e-5;
  REQUIRE((c.*input).size() == gradient.size());
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double value = (c.*input)[i];
    (c.*input)[i] = value + step;
    const double above = product(c.run(false).attention.out, c.dout);
    (c.*input)[i] = value - step;
    const double below = product(c.run(false).attention.out, c.dout);
    (c.*input)[i] = value;
    CAPTURE(i);
    REQUIRE((above - below) / (2 * step) == doctest::Approx(gradient[i]).epsilon(1e-6).scale(1));
  }
}

std::string bits_of(const std::vector<char>& kept) {
  std::string bits;
  for (const char bit : kept) bits += bit ? '1' : '0';
  return bits;
}

}  // namespace

TEST_CASE("dynamic mask: the selection of rows written by hand") {
  const std::vector<double> row{0.5, -1, 2, 0.5, 3, -2, 0.5, 1};
  // The largest are 3, 2, 1, then three times 0.5, of which the first comes first.
  CHECK(bits_of(kept_keys({KeepRule::top_k, 3, 0}, row)) == "00101001");
  CHECK(bits_of(kept_keys({KeepRule::top_k, 4, 1}, row)) == "10101001");
  CHECK(bits_of(kept_keys({KeepRule::top_k, 8, 4}, row)) == "11111111");
  CHECK(bits_of(kept_keys({KeepRule::top_k, 100, 4}, row)) == "11111111");
  CHECK(bits_of(kept_keys({KeepRule::relu, 1, 0}, row)) == "10111011");  // the window means nothing here
  // Groups of four: two and two of four are selected: not more than half.
  CHECK(bits_of(kept_keys({KeepRule::top_k, 4, 4}, row)) == "00000000");
  // Five: 1011 and 1001.
  CHECK(bits_of(kept_keys({KeepRule::top_k, 5, 4}, row)) == "11110000");
  // Groups of three, the last of two: 1 of 3, 1 of 3, 1 of 2; with relu 2, 2 and 2.
  CHECK(bits_of(kept_keys({KeepRule::top_k, 3, 3}, row)) == "00000000");
  CHECK(bits_of(kept_keys({KeepRule::relu, 0, 3}, row)) == "11111111");
  // What was masked before is not selected, even where that leaves fewer than asked for.
  CHECK(bits_of(kept_keys({KeepRule::top_k, 2, 0}, std::vector<double>{-infinity, 1, -infinity})) == "010");
  CHECK(bits_of(kept_keys({KeepRule::none, 0, 0}, row)) == "11111111");
}

TEST_CASE("dynamic mask: gradients are those of finite differences") {
  for (const BiasForm form : {BiasForm::full, BiasForm::keys}) {
    for (const std::int64_t bias_heads : {1, 2, 4}) {
      for (const double softcap : {0.0, 1.5}) {
        for (const Selection selection :
             {Selection{}, Selection{KeepRule::top_k, 4, 0}, Selection{KeepRule::top_k, 5, 2},
              Selection{KeepRule::relu, 0, 0}}) {
          MaskCase c = mask_case(7, 4, 2, form, bias_heads);
          c.shape.softcap = softcap;
          c.shape.selection = selection;
          c.shape.attention.right = 0;
          const DynamicMaskResult right = c.run();
          require_differences(c, &MaskCase::q, right.attention.dq);
          require_differences(c, &MaskCase::k, right.attention.dk);
          require_differences(c, &MaskCase::v, right.attention.dv);
          require_differences(c, &MaskCase::bias, right.dbias);
        }
      }
    }
  }
}

TEST_CASE(
    "dynamic mask: without bias and softcap it is dense attention, and a constant bias moves lse alone") {
  for (const std::int64_t right : {-1, 0}) {
    MaskCase c = mask_case(9, 4, 2, BiasForm::none, 0);
    c.shape.attention.right = right;
    const AttentionResult dense = dense_attention(c.shape.attention, c.q, c.k, c.v, c.dout);
    MaskCase shifted = mask_case(9, 4, 2, BiasForm::keys, 1);
    shifted.shape.attention.right = right;
    std::fill(shifted.bias.begin(), shifted.bias.end(), 0.75);
    const DynamicMaskResult plain = c.run(), moved = shifted.run();
    const auto same = [](const std::vector<double>& a, const std::vector<double>& b, double shift) {
      REQUIRE(a.size() == b.size());
      for (std::size_t i = 0; i < a.size(); ++i)
        REQUIRE(a[i] == doctest::Approx(b[i] + shift).epsilon(1e-12).scale(1));
    };
    for (const DynamicMaskResult* result : {&plain, &moved}) {
      same(result->attention.out, dense.out, 0);
      same(result->attention.lse, dense.lse, result == &moved ? 0.75 : 0);
      same(result->attention.dq, dense.dq, 0);
      same(result->attention.dk, dense.dk, 0);
      same(result->attention.dv, dense.dv, 0);
    }
    // The rows of dz add up to 0, so do all of its sums.
    CHECK(std::accumulate(moved.dbias.begin(), moved.dbias.end(), 0.0) == doctest::Approx(0).scale(1));
  }
}

TEST_CASE("dynamic mask: two keys in closed form") {
  // One head, q = 0: z = b. Biases ln 3 and 0 give p = 3/4, 1/4 and lse = ln 4. v = (1, 5), dout = 2:
  // out = 2, dp = (2, 10), mean 4, dz = (3/4 (2 - 4), 1/4 (10 - 4)) = (-1.5, 1.5).
  DynamicMaskShape shape;
  shape.attention = {2, 1, 1, 1, 1, 1.0, -1, -1};
  shape.form = BiasForm::full;
  shape.bias_heads = 1, shape.columns = 2;
  const std::vector<double> bias{std::log(3.0), 0, std::log(3.0), 0};
  const DynamicMaskResult r =
      dynamic_mask_attention(shape, std::vector<double>{0, 0}, std::vector<double>{7, 9},
                             std::vector<double>{1, 5}, bias, std::vector<double>{2, 2});
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    CHECK(r.attention.out[i] == doctest::Approx(2));
    CHECK(r.attention.lse[i] == doctest::Approx(std::log(4.0)));
    CHECK(r.attention.dq[i] == doctest::Approx(-1.5 * 7 + 1.5 * 9));
    CHECK(r.dbias[2 * i] == doctest::Approx(-1.5));
    CHECK(r.dbias[2 * i + 1] == doctest::Approx(1.5));
  }
  CHECK(r.attention.dv[0] == doctest::Approx(3));  // two queries, 3/4 of 2 each
  CHECK(r.attention.dk[0] == 0);
}

TEST_CASE("dynamic mask: rows without a kept key are empty, and no gradient goes anywhere from them") {
  // Causal, and the one kept key is the last: all rows but the last see none.
  MaskCase c = mask_case(5, 2, 1, BiasForm::keys, 1);
  c.shape.attention.right = 0;
  c.shape.selection = {KeepRule::top_k, 1, 0};
  c.bias = {0, 0, 0, 0, 1};
  const DynamicMaskResult r = c.run();
  const AttentionResult& a = r.attention;
  for (std::int64_t i = 0; i < 5; ++i) {
    for (std::int64_t h = 0; h < 2; ++h) {
      const double lse = a.lse[static_cast<std::size_t>(h * 5 + i)];
      CHECK(std::isfinite(lse) == (i == 4));
      for (std::int64_t e = 0; e < 2; ++e) {
        const double out = a.out[static_cast<std::size_t>((i * 2 + h) * 2 + e)];
        CHECK(out == (i == 4 ? c.v[static_cast<std::size_t>(4 * 2 + e)] : 0));
      }
    }
  }
  for (const std::vector<double>* gradient : {&a.dq, &a.dk, &r.dbias})
    for (const double value : *gradient) CHECK(value == doctest::Approx(0).scale(1));  // one key: dz = 0
  for (const double value : a.dv) CHECK(std::isfinite(value));
}

TEST_CASE(
    "dynamic mask: a broadcast bias is the same bias written out, and its gradient the sum of all copies") {
  for (const bool select : {false, true}) {
    MaskCase few = mask_case(6, 4, 2, BiasForm::keys, 2);
    few.shape.attention.right = 0;
    if (select) few.shape.selection = {KeepRule::top_k, 3, 0};
    MaskCase many = few;
    many.shape.form = BiasForm::full;
    many.shape.bias_heads = 4;
    many.shape.columns = 6;
    many.bias.clear();
    for (std::size_t i = 0; i < 6; ++i)
      for (std::size_t h = 0; h < 4; ++h)
        for (std::size_t j = 0; j < 6; ++j) many.bias.push_back(few.bias[j * 2 + h / 2]);
    const DynamicMaskResult a = few.run(), b = many.run();
    CHECK(a.attention.out == b.attention.out);
    CHECK(a.attention.dq == b.attention.dq);
    CHECK(a.attention.dv == b.attention.dv);
    for (std::size_t j = 0; j < 6; ++j) {
      for (std::size_t bias_head = 0; bias_head < 2; ++bias_head) {
        double sum = 0;
        for (std::size_t i = 0; i < 6; ++i)
          for (std::size_t h = bias_head * 2; h < bias_head * 2 + 2; ++h) sum += b.dbias[(i * 4 + h) * 6 + j];
        CHECK(a.dbias[j * 2 + bias_head] == doctest::Approx(sum).epsilon(1e-12).scale(1));
      }
    }
  }
}

TEST_CASE("dynamic mask: sizes that do not fit are refused") {
  MaskCase c = mask_case(4, 4, 2, BiasForm::full, 4);
  c.bias.pop_back();
  CHECK_THROWS_AS((void)c.run(), std::invalid_argument);
  c = mask_case(4, 4, 2, BiasForm::keys, 3);
  CHECK_THROWS_AS((void)c.run(), std::invalid_argument);
  c = mask_case(4, 4, 2, BiasForm::none, 0);
  c.shape.selection = {KeepRule::top_k, 2, 0};
  CHECK_THROWS_AS((void)c.run(), std::invalid_argument);
}

}  // namespace cplab::testing

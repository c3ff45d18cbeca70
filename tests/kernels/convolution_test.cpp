// Convolutions of the CPU tiles: a sequence cut anywhere, with the rows beside each piece in a halo, is that
// of the reference on the whole sequence, in every dtype and layout; what must not be read is NaN; what is
// refused.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/linear.hpp"
#include "reference/short_convolution.hpp"
#include "tests/kernels/tensor.hpp"

namespace cplab::testing {
namespace {

using namespace cplab::kernels;

constexpr std::int64_t H = 2, D = 5;

// Two sequences cut into pieces, which lie with rows of padding between them and with their halos in any
// order.
struct Case {
  std::vector<std::int64_t> lengths;            // of sequences
  std::vector<std::vector<std::int64_t>> cuts;  // of each, ascending, 0 and the length included
  std::int64_t W = 4;
};

struct Placed {
  std::vector<Chunk> chunks;
  std::int64_t rows = 0, beside = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> tokens,
      of_halo;  // sequence and token of each row; -1: none
};

Placed placed(const Case& c, bool behind) {
  Placed p;
  for (std::size_t s = 0; s < c.lengths.size(); ++s)
    for (std::size_t i = 0; i + 1 < c.cuts[s].size(); ++i) {
      const std::int64_t begin = c.cuts[s][i], end = c.cuts[s][i + 1],
                         n = std::min(c.W - 1, behind ? c.lengths[s] - end : begin);
      p.tokens.emplace_back(-1, 0);  // padding
      Chunk chunk;
      chunk.row = std::ssize(p.tokens);
      chunk.count = end - begin;
      if (n > 0) chunk.state = static_cast<std::int32_t>(p.of_halo.size());
      (behind ? chunk.right_exponent : chunk.left_exponent) = n;
      for (std::int64_t t = begin; t < end; ++t) p.tokens.emplace_back(s, t);
      for (std::int64_t t = 0; t < n; ++t) p.of_halo.emplace_back(s, behind ? end + t : begin - n + t);
      p.chunks.push_back(chunk);
    }
  p.rows = std::ssize(p.tokens);
  p.beside = std::ssize(p.of_halo);
  return p;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all{{{9, 6}, {{0, 4, 9}, {0, 6}}},
                                     {{9, 6}, {{0, 1, 2, 3, 9}, {0, 1, 5, 6}}},
                                     {{7}, {{0, 7}}, 8},
                                     {{5, 1}, {{0, 2, 3, 4, 5}, {0, 1}}, 8},
                                     {{12}, {{0, 5, 12}}, 2}};
  return all;
}

// Values by sequence, [tokens, H, D], as the dtype holds them.
std::vector<std::vector<double>> normals(const Case& c, DType dtype, std::mt19937& random) {
  std::normal_distribution<double> normal;
  std::vector<std::vector<double>> all;
  for (const std::int64_t length : c.lengths) {
    all.emplace_back();
    for (std::int64_t i = 0; i < length * H * D; ++i) all.back().push_back(rounded(normal(random), dtype));
  }
  return all;
}

Tensor rows_of(const std::vector<std::pair<std::int64_t, std::int64_t>>& tokens,
               const std::vector<std::vector<double>>& values, DType dtype, std::mt19937& random) {
  Tensor tensor(dtype, std::ssize(tokens), H, D, random_layout(std::ssize(tokens), random));
  for (std::int64_t row = 0; row < std::ssize(tokens); ++row) {
    tensor.fill_row(row, nan);
    const auto [s, t] = tokens[static_cast<std::size_t>(row)];
    if (s < 0) continue;
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t x = 0; x < D; ++x)
        tensor.set(row, h, x,
                   values[static_cast<std::size_t>(s)][static_cast<std::size_t>((t * H + h) * D + x)]);
  }
  return tensor;
}

void require_near(double value, double right, double tolerance) {
  CHECK(std::abs(value - right) <= tolerance * (1 + std::abs(right)));
}

double result_tolerance(DType dtype) {
  return dtype == DType::fp64 ? 1e-13 : dtype == DType::fp32 ? 1e-5 : 2 * unit_roundoff(dtype);
}

struct Problem {
  const Case& c;
  DType dtype;
  std::mt19937 random{7};
  std::vector<std::vector<double>> x = normals(c, dtype, random), g = normals(c, dtype, random);
  Tensor filter{dtype, 1, H, D* c.W};
  std::vector<double> factors;
  Problem(const Case& of, DType nominal) : c(of), dtype(nominal) {
    std::normal_distribution<double> normal;
    for (std::int64_t i = 0; i < H * D * c.W; ++i) factors.push_back(rounded(normal(random), dtype));
    filter.assign(factors);
  }
  reference::ConvolutionShape shape(std::size_t s) const { return {c.lengths[s], H, D, c.W}; }
};

TEST_CASE("convolve: pieces with halos are the reference's whole sequences, both ways") {
  for (const Case& c : cases())
    for (const DType dtype : all_dtypes)
      for (const bool reverse : {false, true}) {
        CAPTURE(name_of(dtype));
        CAPTURE(reverse);
        Problem p(c, dtype);
        const Placed at = placed(c, reverse);
        Tensor from = rows_of(at.tokens, p.x, dtype, p.random),
               into(dtype, at.rows, H, D, random_layout(at.rows, p.random));
        std::optional<Tensor> halo;
        if (at.beside > 0) halo.emplace(rows_of(at.of_halo, p.x, dtype, p.random));
        for (std::int64_t row = 0; row < at.rows; ++row) into.fill_row(row, nan);
        Convolve call{from.view(), p.filter.view(), {}, into.view(), {at.chunks, {}}, reverse};
        if (halo) call.halo = halo->view();
        cpu_linear_tiles().convolve(call);
        std::vector<std::vector<double>> right;
        for (std::size_t s = 0; s < c.lengths.size(); ++s)
          right.push_back(reverse ? reference::convolution_input_gradient(p.shape(s), p.x[s], p.factors)
                                  : reference::short_convolution(p.shape(s), p.x[s], p.factors));
        for (std::int64_t row = 0; row < at.rows; ++row)
          for (std::int64_t h = 0; h < H; ++h)
            for (std::int64_t x = 0; x < D; ++x) {
              const auto [s, t] = at.tokens[static_cast<std::size_t>(row)];
              if (s < 0) {
                CHECK(into.at(row, h, x) == 0);
                continue;
              }
              require_near(into.at(row, h, x),
                           right[static_cast<std::size_t>(s)][static_cast<std::size_t>((t * H + h) * D + x)],
                           result_tolerance(dtype));
            }
        CHECK(into.gaps_intact());
      }
}

TEST_CASE("filter_gradient: pieces with halos are the reference's whole sequences") {
  for (const Case& c : cases())
    for (const DType dtype : all_dtypes) {
      CAPTURE(name_of(dtype));
      Problem p(c, dtype);
      const Placed at = placed(c, true);
      Tensor from = rows_of(at.tokens, p.x, dtype, p.random), dout = rows_of(at.tokens, p.g, dtype, p.random),
             dfilter(wide(dtype), 1, H, D * c.W);
      std::optional<Tensor> halo;
      if (at.beside > 0) halo.emplace(rows_of(at.of_halo, p.g, dtype, p.random));
      dfilter.fill_row(0, nan);
      FilterGradient call{from.view(), dout.view(), {}, dfilter.view(), {at.chunks, {}}};
      if (halo) call.halo = halo->view();
      cpu_linear_tiles().filter_gradient(call);
      std::vector<double> right(p.factors.size());
      for (std::size_t s = 0; s < c.lengths.size(); ++s) {
        const std::vector<double> more = reference::convolution_factor_gradient(p.shape(s), p.x[s], p.g[s]);
        for (std::size_t i = 0; i < right.size(); ++i) right[i] += more[i];
      }
      const std::vector<double> sums = dfilter.values();
      for (std::size_t i = 0; i < right.size(); ++i)
        require_near(sums[i], right[i], dtype == DType::fp64 ? 1e-13 : 1e-5);
    }
}

TEST_CASE("convolve: without a token all is zero, and a filter's gradient is") {
  Tensor into(DType::fp32, 3, H, D), from(DType::fp32, 3, H, D), filter(DType::fp32, 1, H, D * 4);
  from.fill_row(0, nan), from.fill_row(1, nan), from.fill_row(2, nan), filter.fill_row(0, 1);
  into.fill_row(1, nan);
  cpu_linear_tiles().convolve({from.view(), filter.view(), {}, into.view(), {}});
  CHECK(into.values() == std::vector<double>(3 * H * D));
  filter.fill_row(0, nan);
  cpu_linear_tiles().filter_gradient({from.view(), from.view(), {}, filter.view(), {}});
  CHECK(filter.values() == std::vector<double>(H * D * 4));
}

TEST_CASE("convolve: what does not fit together is refused before anything is written") {
  Tensor from(DType::fp32, 6, H, D), into(DType::fp32, 6, H, D), filter(DType::fp32, 1, H, D * 4),
      halo(DType::fp32, 2, H, D), narrow(DType::fp32, 2, H, D - 1);
  into.fill_row(0, 7);
  const auto refused = [&](const Chunk& chunk, std::optional<View> beside, const View& factors) {
    const std::vector<Chunk> list{chunk};
    CHECK_THROWS_AS(cpu_linear_tiles().convolve({from.view(), factors, beside, into.view(), {list, {}}}),
                    std::invalid_argument);
    CHECK(into.at(0, 0, 0) == 7);
  };
  Chunk good;
  good.count = 6, good.state = 0, good.left_exponent = 2;
  Chunk outside = good, far = good, many = good;
  outside.row = 1;
  far.state = 1;
  many.left_exponent = 4;
  refused(outside, halo.view(), filter.view());
  refused(far, halo.view(), filter.view());
  refused(many, halo.view(), filter.view());
  refused(good, {}, filter.view());
  refused(good, narrow.view(), filter.view());
  refused(good, halo.view(), narrow.view());
}

}  // namespace
}  // namespace cplab::testing

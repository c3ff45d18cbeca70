// merge, merge_lse and rescale on LSEs chosen to break them: far apart, equal, infinite.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <stdexcept>
#include <vector>

#include "kernels/kernels.hpp"
#include "tests/kernels/random_tile.hpp"
#include "tests/kernels/tensor.hpp"

namespace cplab::testing {
namespace {

using kernels::cpu_tiles;
using kernels::Write;

struct Pair {
  double a, b;  // held and part
};

// All exact in fp32. Differences up to 2e4, of either sign; near and exactly equal; large common values.
std::vector<Pair> finite_pairs() {
  std::vector<Pair> pairs;
  for (const double a : {0.0, 1.5, -3.0, 88.0, -700.0, 5000.0, -10000.0}) {
    for (const double difference : {0.0, 0x1p-20, 0.5, 16.0, 17.5, 60.0, 88.0, 89.0, 104.0, 710.0, 10000.0}) {
      pairs.push_back({a, a + difference});
      pairs.push_back({a, a - difference});
    }
  }
  return pairs;
}

// Exact to fp64 rounding, in extended precision (80 bits here, at least those of double anywhere).
long double exact_lse(long double a, long double b) {
  return std::max(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
}

struct MergeSide {
  Tensor out, lse;
};

MergeSide merge_side(std::mt19937& generator, DType dtype, const std::vector<double>& out,
                     const std::vector<double>& lse, std::int64_t width) {
  const auto rows = static_cast<std::int64_t>(lse.size());
  return {random_tensor(generator, dtype, rows, 1, width, out),
          random_tensor(generator, dtype, rows, 1, 1, lse)};
}

void merge(MergeSide& part, MergeSide& into) {
  cpu_tiles().merge({.part_out = part.out.view(),
                     .part_lse = part.lse.view(),
                     .into_out = into.out.view(),
                     .into_lse = into.lse.view()});
}

}  // namespace

// Error, with m = max(|a|, |b|, |lse|) and u the roundoff: exp, log1p (at most 1 for the argument's error)
// and the sum give lse within u (4 + m) absolutely; a weight exp(x - lse) inherits that and the rounding of
// the difference, which is at most u |x - lse|, and matters only where the weight has not vanished: |x - lse|
// e^-|x
// - lse| < 1. So a weight is off by at most u (m + 8), and out = 2 w_a + 3 w_b by 5 times that and 3
// roundings.
TEST_CASE("merge and merge_lse are right however far the two sides are apart") {
  std::mt19937 generator(1);
  for (const DType dtype : {DType::fp64, DType::fp32}) {
    const double u = unit_roundoff(dtype);
    std::vector<double> a, b;
    for (const Pair& pair : finite_pairs()) {
      a.push_back(pair.a);
      b.push_back(pair.b);
    }
    const std::vector<double> twos(a.size(), 2), threes(a.size(), 3);
    MergeSide into = merge_side(generator, dtype, twos, a, 1);
    MergeSide part = merge_side(generator, dtype, threes, b, 1);
    MergeSide folded = merge_side(generator, dtype, {}, a, 1);
    merge(part, into);
    cpu_tiles().merge_lse({.part_lse = part.lse.view(), .into_lse = folded.lse.view()});
    for (std::size_t n = 0; n < a.size(); ++n) {
      const auto row = static_cast<std::int64_t>(n);
      const double held = folded.lse.at(row, 0);
      // What was stored is what counts: a difference of 2^-20 on top of 10000 vanishes in fp32.
      const double stored_a = dtype == DType::fp32 ? static_cast<float>(a[n]) : a[n];
      const double stored_b = part.lse.at(row, 0);
      const long double lse = exact_lse(stored_a, stored_b);
      const double m =
          std::max({std::fabs(stored_a), std::fabs(stored_b), std::fabs(static_cast<double>(lse))});
      INFO(name_of(dtype), " a = ", a[n], " b = ", b[n]);
      CHECK(into.lse.bits(row, 0) == folded.lse.bits(row, 0));
      CHECK(std::fabs(held - static_cast<double>(lse)) <= u * (4 + m));
      const long double weighted = 2 * std::exp(stored_a - lse) + 3 * std::exp(stored_b - lse);
      CHECK(std::fabs(into.out.at(row, 0) - static_cast<double>(weighted)) <= 5 * u * (m + 8) + 9 * u);
    }
    CHECK(into.out.gaps_intact());
    CHECK(into.lse.gaps_intact());
  }
}

// Against 0 the LSE is log1p(exp(-d)), small but not lost: exp and log1p err by 2 u each, relatively.
TEST_CASE("merge keeps the smaller side where the larger lse is 0") {
  std::mt19937 generator(7);
  for (const DType dtype : {DType::fp64, DType::fp32}) {
    for (const double distance : {1.0, 10.0, 17.5, 30.0, 60.0}) {
      MergeSide into = merge_side(generator, dtype, {0}, {0}, 1);
      MergeSide part = merge_side(generator, dtype, {1}, {-distance}, 1);
      merge(part, into);
      const double exact = std::log1p(std::exp(-distance));
      CHECK(std::fabs(into.lse.at(0, 0) - exact) <= 4 * unit_roundoff(dtype) * exact);
    }
  }
}

TEST_CASE("a side of lse -inf is not read and does not disturb the other") {
  std::mt19937 generator(2);
  for (const DType dtype : {DType::fp64, DType::fp32}) {
    for (const double garbage : {nan, infinity, -0.0}) {
      // Rows: only the part has seen keys; only the accumulator has; neither.
      MergeSide into = merge_side(generator, dtype, {garbage, 0.3, garbage}, {-infinity, -5, -infinity}, 1);
      MergeSide part =
          merge_side(generator, dtype, {0.7, garbage, garbage}, {1234.5, -infinity, -infinity}, 1);
      const MergeSide before = into;
      merge(part, into);
      CHECK(into.out.bits(0, 0) == part.out.bits(0, 0));
      CHECK(into.lse.at(0, 0) == 1234.5);
      CHECK(into.out.bits(1, 0) == before.out.bits(1, 0));
      CHECK(into.lse.bits(1, 0) == before.lse.bits(1, 0));
      CHECK(into.out.at(2, 0) == 0);
      CHECK(into.lse.at(2, 0) == -infinity);

      Tensor lse = before.lse;
      cpu_tiles().merge_lse({.part_lse = part.lse.view(), .into_lse = lse.view()});
      CHECK(lse.values() == into.lse.values());
    }
  }
}

TEST_CASE("a NaN lse shows on either side") {
  std::mt19937 generator(3);
  MergeSide into = merge_side(generator, DType::fp32, {1, 1}, {nan, 2}, 1);
  MergeSide part = merge_side(generator, DType::fp32, {1, 1}, {2, nan}, 1);
  merge(part, into);
  for (const double value : into.lse.values()) CHECK(std::isnan(value));
  for (const double value : into.out.values()) CHECK(std::isnan(value));
}

// Incremental (merge, part after part) against deferred (merge_lse over all, then rescale), on 12 parts whose
// LSEs jump by up to 1e4: S4-1 of the specification. Both err by at most (steps) times the bound above.
TEST_CASE("incremental and deferred merging agree on adversarial sequences") {
  std::mt19937 generator(4);
  const double levels[] = {-infinity, 0, 0, 3, -40, 88.5, 89, 1e4, 1e4, -1e4, 9990, 5};
  for (const DType dtype : {DType::fp64, DType::fp32}) {
    const std::int64_t rows = 50;
    const std::int64_t width = 3;
    const std::int64_t steps = 12;
    std::vector<MergeSide> parts;
    for (std::int64_t step = 0; step < steps; ++step) {
      std::vector<double> lse, out = random_values(generator, rows * width, dtype);
      for (std::int64_t row = 0; row < rows; ++row) lse.push_back(levels[draw(generator, 0, 11)]);
      for (std::int64_t row = 0; row < rows; ++row)
        if (lse[static_cast<std::size_t>(row)] == -infinity)
          for (std::int64_t x = 0; x < width; ++x) out[static_cast<std::size_t>(row * width + x)] = nan;
      parts.push_back(merge_side(generator, dtype, out, lse, width));
    }
    const std::vector<double> nothing(static_cast<std::size_t>(rows), -infinity);
    MergeSide incremental = merge_side(generator, dtype, {}, nothing, width);
    MergeSide deferred = merge_side(generator, dtype, {}, nothing, width);
    for (MergeSide& part : parts) {
      merge(part, incremental);
      cpu_tiles().merge_lse({.part_lse = part.lse.view(), .into_lse = deferred.lse.view()});
    }
    for (std::size_t p = 0; p < parts.size(); ++p) {
      cpu_tiles().rescale({.part_out = parts[p].out.view(),
                           .part_lse = parts[p].lse.view(),
                           .final_lse = deferred.lse.view(),
                           .into_out = deferred.out.view(),
                           .write = p == 0 ? Write::store : Write::add});
    }
    CHECK(incremental.lse.values() == deferred.lse.values());
    for (std::int64_t row = 0; row < rows; ++row) {
      // Relative to the row's own magnitude: the sum of the weights is 1 and |out| <= 1.
      const double m = std::fabs(deferred.lse.at(row, 0));
      const double tolerance = 2 * steps * unit_roundoff(dtype) * ((std::isfinite(m) ? m : 0) + 12);
      for (std::int64_t x = 0; x < width; ++x)
        CHECK(std::fabs(incremental.out.at(row, 0, x) - deferred.out.at(row, 0, x)) <= tolerance);
    }
  }
}

TEST_CASE("rescale stores or adds, and never reads an empty part") {
  std::mt19937 generator(5);
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16}) {
    const DType lse_dtype = dtype == DType::fp64 ? DType::fp64 : DType::fp32;
    Tensor part_out = random_tensor(generator, dtype, 3, 1, 2, {2, 4, nan, nan, 1, 8});
    Tensor part_lse = random_tensor(generator, lse_dtype, 3, 1, 1, {5, -infinity, -infinity});
    Tensor final_lse = random_tensor(generator, lse_dtype, 3, 1, 1, {5, 3, -infinity});
    Tensor stored = random_tensor(generator, dtype, 3, 1, 2);
    cpu_tiles().rescale({.part_out = part_out.view(),
                         .part_lse = part_lse.view(),
                         .final_lse = final_lse.view(),
                         .into_out = stored.view(),
                         .write = Write::store});
    CHECK(stored.values() == std::vector<double>{2, 4, 0, 0, 0, 0});
    Tensor added = random_tensor(generator, dtype, 3, 1, 2);
    added.fill_row(0, 16);  // the other rows stay poison
    const Tensor before = added;
    cpu_tiles().rescale({.part_out = part_out.view(),
                         .part_lse = part_lse.view(),
                         .final_lse = final_lse.view(),
                         .into_out = added.view(),
                         .write = Write::add});
    CHECK(added.at(0, 0, 0) == 18);
    CHECK(added.at(0, 0, 1) == 20);
    CHECK(added.bits(1, 0) == before.bits(1, 0));
    CHECK(added.bits(2, 0) == before.bits(2, 0));
  }
}

TEST_CASE("merges of shapes that disagree are refused") {
  std::mt19937 generator(6);
  MergeSide two = merge_side(generator, DType::fp32, {1, 1}, {0, 0}, 1);
  MergeSide three = merge_side(generator, DType::fp32, {1, 1, 1}, {0, 0, 0}, 1);
  const kernels::Merge merges[] = {
      {two.out.view(), two.lse.view(), three.out.view(), three.lse.view()},
      {two.out.view(), three.lse.view(), two.out.view(), two.lse.view()},
      {two.out.view(), two.lse.view(), two.out.view(), three.lse.view()},
  };
  for (const kernels::Merge& operation : merges)
    CHECK_THROWS_AS(cpu_tiles().merge(operation), std::invalid_argument);
  CHECK_THROWS_AS(cpu_tiles().merge_lse({two.lse.view(), three.lse.view()}), std::invalid_argument);
  CHECK_THROWS_AS(
      cpu_tiles().rescale({two.out.view(), two.lse.view(), three.lse.view(), two.out.view(), Write::add}),
      std::invalid_argument);
  CHECK_THROWS_AS(
      cpu_tiles().rescale({two.out.view(), two.lse.view(), two.lse.view(), two.out.view(), Write::merge}),
      std::invalid_argument);
  CHECK(two.lse.values() == std::vector<double>{0, 0});
}

}  // namespace cplab::testing

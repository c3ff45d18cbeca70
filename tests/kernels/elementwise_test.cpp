// row_dot, copy, add and fill.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "kernels/kernels.hpp"
#include "tests/kernels/random_tile.hpp"
#include "tests/kernels/tensor.hpp"

namespace cplab::testing {
namespace {

using kernels::cpu_tiles;

}  // namespace

TEST_CASE("row_dot sums in fp32, or fp64 for fp64, within the bound of a dot product") {
  std::mt19937 generator(1);
  for (const DType a_dtype : all_dtypes) {
    for (const DType b_dtype : all_dtypes) {
      const bool fp64 = a_dtype == DType::fp64 || b_dtype == DType::fp64;
      const DType sum_dtype = fp64 ? DType::fp64 : DType::fp32;
      const std::int64_t rows = 20, heads = 3, width = 33;
      Tensor a = random_tensor(generator, a_dtype, rows, heads, width,
                               random_values(generator, rows * heads * width, a_dtype));
      Tensor b = random_tensor(generator, b_dtype, rows, heads, width,
                               random_values(generator, rows * heads * width, b_dtype));
      Tensor into = random_tensor(generator, sum_dtype, rows, heads, 1);
      cpu_tiles().row_dot(a.view(), b.view(), into.view());
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t head = 0; head < heads; ++head) {
          double sum = 0;
          double magnitude = 0;
          for (std::int64_t x = 0; x < width; ++x) {
            sum += a.at(row, head, x) * b.at(row, head, x);
            magnitude += std::fabs(a.at(row, head, x) * b.at(row, head, x));
          }
          // Two orders of summation, in fp64; in fp32 that of the tile dominates.
          CHECK(std::fabs(into.at(row, head) - sum) <=
                (fp64 ? 2 : 1.01) * static_cast<double>(width) * unit_roundoff(sum_dtype) * magnitude);
        }
      }
      CHECK(into.gaps_intact());
    }
  }
}

TEST_CASE("copy casts with one rounding between any two dtypes and layouts") {
  std::mt19937 generator(2);
  for (const DType from_dtype : all_dtypes) {
    for (const DType into_dtype : all_dtypes) {
      for (int trial = 0; trial < 4; ++trial) {
        const std::int64_t rows = draw(generator, 1, 40), heads = draw(generator, 1, 3);
        const std::vector<double> values = random_values(generator, rows * heads * 7, from_dtype);
        Tensor from = random_tensor(generator, from_dtype, rows, heads, 7, values);
        Tensor into = random_tensor(generator, into_dtype, rows, heads, 7);
        cpu_tiles().copy(from.view(), into.view());
        std::vector<double> exact;
        for (const double value : values) exact.push_back(rounded(value, into_dtype));
        CHECK(into.values() == exact);
        CHECK(into.gaps_intact());
      }
    }
  }
}

TEST_CASE("copy within a dtype moves bits, poison included") {
  std::mt19937 generator(3);
  // Signalling NaNs, which any conversion would make quiet.
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    const std::vector<std::uint16_t> signalling(6, dtype == DType::bf16 ? 0x7f81 : 0x7c01);
    std::vector<std::uint16_t> from = signalling;
    std::vector<std::uint16_t> into(6, 0);
    const auto view = [&](std::vector<std::uint16_t>& data) {
      return View{.data = data.data(),
                  .dtype = dtype,
                  .rows = 2,
                  .heads = 1,
                  .width = 3,
                  .row_stride = 3,
                  .head_stride = 3,
                  .runs = {}};
    };
    cpu_tiles().copy(view(from), view(into));
    CHECK(into == signalling);
  }
  for (const DType dtype : all_dtypes) {
    Tensor from = random_tensor(generator, dtype, 5, 2, 3);  // all poison
    Tensor into(dtype, 5, 2, 3);
    into.assign(std::vector<double>(30, 1));
    cpu_tiles().copy(from.view(), into.view());
    for (std::int64_t row = 0; row < 5; ++row) CHECK(into.bits(row, 1) == from.bits(row, 1));
  }
}

// Gathered ranks in order (low, high, low, high, ...) into sequence order: the dual-chunk reorder of an
// all-gather, as a row map on the reading side.
TEST_CASE("copy reorders by a row map") {
  const std::int64_t P = 4;
  const std::int64_t chunk = 3;
  Tensor gathered(DType::fp32, 2 * P * chunk, 1, 1);
  for (std::int64_t slot = 0; slot < 2 * P; ++slot) {
    const std::int64_t rank = slot / 2;
    const std::int64_t place = slot % 2 == 0 ? rank : 2 * P - 1 - rank;
    for (std::int64_t x = 0; x < chunk; ++x)
      gathered.set(slot * chunk + x, 0, 0, static_cast<double>(place * chunk + x));
  }
  std::vector<RowRun> runs;
  for (std::int64_t place = 0; place < 2 * P; ++place) {
    const std::int64_t slot = place < P ? 2 * place : 2 * (2 * P - 1 - place) + 1;
    runs.push_back({.begin = slot * chunk, .count = chunk, .step = 1});
  }
  View from = gathered.view();
  from.runs = runs;
  Tensor sequence(DType::fp32, 2 * P * chunk, 1, 1);
  cpu_tiles().copy(from, sequence.view());
  for (std::int64_t t = 0; t < 2 * P * chunk; ++t) CHECK(sequence.at(t, 0) == static_cast<double>(t));
}

TEST_CASE("add rounds once from the wider sum") {
  std::mt19937 generator(4);
  for (const DType from_dtype : all_dtypes) {
    for (const DType into_dtype : all_dtypes) {
      const bool fp64 = from_dtype == DType::fp64 || into_dtype == DType::fp64;
      const std::vector<double> addends = random_values(generator, 300, from_dtype);
      const std::vector<double> held = random_values(generator, 300, into_dtype);
      Tensor from = random_tensor(generator, from_dtype, 50, 2, 3, addends);
      Tensor into = random_tensor(generator, into_dtype, 50, 2, 3, held);
      cpu_tiles().add(from.view(), into.view());
      const std::vector<double> sums = into.values();
      for (std::size_t x = 0; x < sums.size(); ++x) {
        const double sum =
            fp64 ? held[x] + addends[x]
                 : static_cast<double>(static_cast<float>(held[x]) + static_cast<float>(addends[x]));
        CHECK(sums[x] == rounded(sum, into_dtype));
      }
      CHECK(into.gaps_intact());
    }
  }
}

TEST_CASE("fill writes the value everywhere and nowhere else") {
  std::mt19937 generator(5);
  for (const DType dtype : all_dtypes) {
    for (const double value : {0.0, 1.0 / 3, -std::numeric_limits<double>::infinity()}) {
      Tensor into = random_tensor(generator, dtype, 9, 2, 5);
      cpu_tiles().fill(into.view(), value);
      for (const double filled : into.values()) CHECK(filled == rounded(value, dtype));
      CHECK(into.gaps_intact());
    }
  }
}

TEST_CASE("empty views are legal and shapes that disagree are refused") {
  Tensor two(DType::fp32, 2, 1, 3);
  Tensor three(DType::bf16, 3, 1, 3);
  Tensor dots(DType::fp32, 3, 1, 1);
  const View nothing = tiny_view(nullptr, DType::fp32, 0, 1, 3);
  CHECK_NOTHROW(cpu_tiles().copy(nothing, nothing));
  CHECK_NOTHROW(cpu_tiles().add(nothing, nothing));
  CHECK_NOTHROW(cpu_tiles().fill(nothing, 1));
  CHECK_THROWS_AS(cpu_tiles().copy(two.view(), three.view()), std::invalid_argument);
  CHECK_THROWS_AS(cpu_tiles().add(two.view(), three.view()), std::invalid_argument);
  CHECK_THROWS_AS(cpu_tiles().row_dot(two.view(), two.view(), dots.view()), std::invalid_argument);
  CHECK_THROWS_AS(cpu_tiles().row_dot(two.view(), three.view(), dots.view()), std::invalid_argument);
}

}  // namespace cplab::testing

// Projections of the CPU tiles against the reference: dtypes, rows in any order, sums that go on, and what is
// refused.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "kernels/kernels.hpp"
#include "reference/latents.hpp"

namespace cplab::testing {
namespace {

using namespace cplab::kernels;

constexpr std::int64_t S = 300, H = 3, C = 5, R = 2, X = 4, E = 3;
const reference::LatentShape shape{S, H, C, R, X, E};

// Rows of numbers of a dtype, with gaps of a row between them.
struct Numbers {
  DType dtype;
  std::int64_t rows, heads, width;
  std::vector<double> values;  // as they are stored
  std::vector<std::byte> memory;

  Numbers(DType of, std::int64_t n, std::int64_t h, std::int64_t w, std::uint64_t seed)
      : dtype(of),
        rows(n),
        heads(h),
        width(w),
        memory(static_cast<std::size_t>(2 * n * h * w) * bytes_of(of)) {
    std::mt19937_64 engine(seed);
    std::normal_distribution<double> normal(0, 0.5);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t x = 0; x < h * w; ++x) {
        store_element(memory.data(), dtype, 2 * i * h * w + x, normal(engine));
        values.push_back(load_element(memory.data(), dtype, 2 * i * h * w + x));
      }
  }
  View view() {
    View all = rows_first(memory.data(), dtype, rows, heads, width);
    all.row_stride *= 2;
    return all;
  }
  std::vector<double> now() const {
    std::vector<double> result;
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t x = 0; x < heads * width; ++x)
        result.push_back(load_element(memory.data(), dtype, 2 * i * heads * width + x));
    return result;
  }
};

void near(const std::vector<double>& a, const std::vector<double>& b, double tolerance) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i])));
}

struct Case {
  Numbers latent, rope, of_keys, of_values, k, v, dlatent, drope, dof_keys, dof_values;
  double rounding, sums;

  explicit Case(DType nominal)
      : latent(nominal, S, 1, C, 1),
        rope(nominal, S, 1, R, 2),
        of_keys(nominal, 1, H, C * X, 3),
        of_values(nominal, 1, H, C * E, 4),
        k(nominal, S, H, X + R, 5),
        v(nominal, S, H, E, 6),
        dlatent(nominal == DType::fp64 ? DType::fp64 : DType::fp32, S, 1, C, 7),
        drope(dlatent.dtype, S, 1, R, 8),
        dof_keys(dlatent.dtype, 1, H, C * X, 9),
        dof_values(dlatent.dtype, 1, H, C * E, 10),
        rounding(nominal == DType::bf16   ? 0x1p-8
                 : nominal == DType::fp16 ? 0x1p-11
                                          : 0),
        sums(nominal == DType::fp64 ? 1e-13 : 1e-5) {}
  reference::LatentInputs inputs() const {
    return {latent.values, rope.values, of_keys.values, of_values.values};
  }
};

TEST_CASE("projections are those of the reference, in every dtype, and gradients go on from what is there") {
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
    CAPTURE(static_cast<int>(dtype));
    Case c(dtype);
    cpu_tiles().project(
        {c.latent.view(), c.rope.view(), c.of_keys.view(), c.of_values.view(), c.k.view(), c.v.view()});
    const reference::LatentKeys keys = reference::project(shape, c.inputs());
    near(c.k.now(), keys.k, c.sums + c.rounding);
    near(c.v.now(), keys.v, c.sums + c.rounding);
    for (std::int64_t i = 0; i < S; ++i)  // what is copied is not rounded
      CHECK(c.k.now()[static_cast<std::size_t>((i * H + 1) * (X + R) + X)] ==
            c.rope.values[static_cast<std::size_t>(i * R)]);

    const std::vector<double> dk = c.k.now(), dv = c.v.now();
    const reference::LatentGradients right = reference::latent_gradients(shape, c.inputs(), dk, dv);
    for (const Write write : {Write::store, Write::add}) {
      cpu_tiles().project_backward({c.k.view(), c.v.view(), c.of_keys.view(), c.of_values.view(),
                                    c.dlatent.view(), c.drope.view(), write});
      cpu_tiles().weight_gradient(
          {c.latent.view(), c.k.view(), c.v.view(), c.dof_keys.view(), c.dof_values.view(), write});
      const double times = write == Write::store ? 1 : 2;
      const auto scaled = [&](std::vector<double> values) {
        for (double& value : values) value *= times;
        return values;
      };
      near(c.dlatent.now(), scaled(right.dlatent), 20 * c.sums);
      near(c.drope.now(), scaled(right.drope_key), 20 * c.sums);
      near(c.dof_keys.now(), scaled(right.dkey_weights), 100 * c.sums);
      near(c.dof_values.now(), scaled(right.dvalue_weights), 100 * c.sums);
    }
  }
}

TEST_CASE("a row of latents that holds NaN is seen in its own rows of K and V alone") {
  Case c(DType::fp32);
  store_element(c.latent.memory.data(), DType::fp32, 2 * 7 * C, std::numeric_limits<double>::quiet_NaN());
  cpu_tiles().project(
      {c.latent.view(), c.rope.view(), c.of_keys.view(), c.of_values.view(), c.k.view(), c.v.view()});
  const std::vector<double> v = c.v.now();
  for (std::int64_t i = 0; i < S; ++i) CHECK(std::isnan(v[static_cast<std::size_t>(i * H * E)]) == (i == 7));
}

TEST_CASE("no rows: weights have a gradient of 0, and nothing else is written") {
  Case c(DType::fp32);
  const std::vector<RowRun> none{{0, 0, 1}};
  const auto empty = [&](View view) {
    view.rows = 0, view.runs = none;
    return view;
  };
  cpu_tiles().weight_gradient({empty(c.latent.view()), empty(c.k.view()), empty(c.v.view()),
                               c.dof_keys.view(), c.dof_values.view(), Write::store});
  for (const double value : c.dof_keys.now()) CHECK(value == 0);
}

TEST_CASE("projections of shapes that do not fit are refused") {
  Case c(DType::fp32);
  Numbers narrow(DType::fp32, S, 1, C - 1, 1), few(DType::fp32, 1, H - 1, C * X, 1);
  CHECK_THROWS_AS(cpu_tiles().project({narrow.view(), c.rope.view(), c.of_keys.view(), c.of_values.view(),
                                       c.k.view(), c.v.view()}),
                  std::invalid_argument);
  CHECK_THROWS_AS(cpu_tiles().project({c.latent.view(), c.rope.view(), few.view(), c.of_values.view(),
                                       c.k.view(), c.v.view()}),
                  std::invalid_argument);
  CHECK_THROWS_AS(cpu_tiles().project_backward({c.k.view(), c.v.view(), c.of_keys.view(), c.of_values.view(),
                                                c.dlatent.view(), c.rope.view(), Write::merge}),
                  std::invalid_argument);
}

}  // namespace
}  // namespace cplab::testing

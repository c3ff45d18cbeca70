// The forward tile against brute force and against the dense reference.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "kernels/kernels.hpp"
#include "reference/dense_attention.hpp"
#include "tests/kernels/oracle.hpp"
#include "tests/kernels/random_tile.hpp"

namespace cplab::testing {
namespace {

using kernels::cpu_tiles;
using kernels::Write;

std::vector<TileDTypes> dtype_combinations() {
  std::vector<TileDTypes> combinations;
  for (const DType nominal : all_dtypes) {
    const DType wide = nominal == DType::fp64 ? DType::fp64 : DType::fp32;
    combinations.push_back({.nominal = nominal, .out = nominal, .lse = wide});
    if (nominal != wide) combinations.push_back({.nominal = nominal, .out = wide, .lse = wide});
  }
  return combinations;
}

}  // namespace

TEST_CASE("random segment lists equal brute force in every dtype and layout") {
  std::mt19937 generator(1);
  const std::vector<double> ones(100000, 1.0);
  for (const TileDTypes& dtypes : dtype_combinations()) {
    for (int trial = 0; trial < 40; ++trial) {
      // Every fourth tile spans several blocks of rows and keys.
      const Sizes sizes = random_sizes(generator, trial % 4 == 0 ? 300 : 40);
      const Problem problem =
          random_problem(generator, sizes, random_segments(generator, sizes.nq, sizes.nk), dtypes.nominal);
      const Expected expected = expected_of(problem);
      TileTensors tensors(generator, problem, dtypes);
      tensors.asks_max_logit = trial % 3 > 0;
      cpu_tiles().attend(tensors.attend(problem, Write::store));
      INFO(name_of(dtypes.nominal), " to ", name_of(dtypes.out), ", trial ", trial);
      CHECK(worst_share(tensors.out.values(), expected.out, expected.out_majorant,
                        out_tolerance(problem, expected, dtypes)) <= 1);
      CHECK(worst_share(tensors.lse.values(), expected.lse, std::vector<double>(expected.lse.size(), 1),
                        lse_tolerance(problem, expected, dtypes)) <= 1);
      const std::vector<double> nothing(expected.max_logit.size(), -infinity);
      CHECK(worst_share(tensors.max_logit.values(), tensors.asks_max_logit ? expected.max_logit : nothing,
                        std::vector<double>(nothing.size(), 1),
                        max_logit_tolerance(problem, expected, dtypes)) <= 1);
      CHECK(tensors.gaps_intact());
      CHECK(tensors.inputs_unchanged());
    }
  }
}

// With v the identity, an output row is the row of weights: a key that is not visible gives exactly 0, a
// visible one something above 0 (scores lie in [-1, 1] here, far from underflow), whatever the rounding.
TEST_CASE("one-hot values show the mask exactly") {
  std::mt19937 generator(2);
  for (const DType dtype : all_dtypes) {
    for (int trial = 0; trial < 25; ++trial) {
      Sizes sizes = random_sizes(generator, trial % 5 == 0 ? 200 : 40);
      sizes.E = sizes.nk;
      Problem problem =
          random_problem(generator, sizes, random_segments(generator, sizes.nq, sizes.nk), dtype);
      problem.scale = 1 / static_cast<double>(sizes.D);
      problem.v.assign(problem.v.size(), 0);
      for (std::int64_t j = 0; j < sizes.nk; ++j)
        for (std::int64_t g = 0; g < sizes.G; ++g)
          problem.v[static_cast<std::size_t>((j * sizes.G + g) * sizes.E + j)] = 1;
      TileTensors tensors(generator, problem, {.nominal = dtype, .out = dtype, .lse = dtype});
      cpu_tiles().attend(tensors.attend(problem, Write::store));
      const std::vector<int> visible = visible_pairs(problem);
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < sizes.nq; ++i) {
        for (std::int64_t h = 0; h < sizes.H; ++h) {
          bool sees = false;
          for (std::int64_t j = 0; j < sizes.nk; ++j) {
            const int pairs = visible[static_cast<std::size_t>(i * sizes.nk + j)];
            REQUIRE(pairs <= 1);
            sees = sees || pairs == 1;
            const double weight = tensors.out.at(i, h, j);
            if (pairs == 1 ? !(weight > 0) : weight != 0) ++wrong;
          }
          const double lse = tensors.lse.at(i, h);
          if (sees ? !std::isfinite(lse) : lse != -infinity) ++wrong;
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("one aligned segment equals the dense reference") {
  struct Window {
    std::int64_t left, right;
  };
  std::mt19937 generator(3);
  for (const Window window : {Window{-1, -1}, {-1, 0}, {0, 0}, {17, 0}, {9, 30}, {-1, 5}, {100, -1}}) {
    for (const std::int64_t S : {1, 63, 64, 65, 200}) {
      const Sizes sizes{.nq = S, .nk = S, .H = 4, .G = 2, .D = 16, .E = 12};
      const std::vector<Segment> segments = {{.q_begin = 0,
                                              .q_count = S,
                                              .k_begin = 0,
                                              .k_count = S,
                                              .offset = 0,
                                              .left = window.left,
                                              .right = window.right}};
      const Problem problem = random_problem(generator, sizes, segments, DType::fp64);
      const reference::AttentionResult exact = reference::dense_attention({.S = S,
                                                                           .H = 4,
                                                                           .G = 2,
                                                                           .D = 16,
                                                                           .E = 12,
                                                                           .scale = problem.scale,
                                                                           .left = window.left,
                                                                           .right = window.right},
                                                                          problem.q, problem.k, problem.v);
      const Expected expected = expected_of(problem);
      const TileDTypes dtypes{.nominal = DType::fp64, .out = DType::fp64, .lse = DType::fp64};
      TileTensors tensors(generator, problem, dtypes);
      cpu_tiles().attend(tensors.attend(problem, Write::store));
      // The reference errs as well, by less than the tile: it needs no rescaling.
      CHECK(worst_share(tensors.out.values(), exact.out, expected.out_majorant,
                        out_tolerance(problem, expected, dtypes)) <= 2);
      std::vector<double> lse(exact.lse.size());  // [H,S] to [S,H]
      for (std::size_t x = 0; x < lse.size(); ++x)
        lse[x % static_cast<std::size_t>(S) * 4 + x / static_cast<std::size_t>(S)] = exact.lse[x];
      CHECK(worst_share(tensors.lse.values(), lse, std::vector<double>(lse.size(), 1),
                        lse_tolerance(problem, expected, dtypes)) <= 2);
    }
  }
}

// Two keys with scores 0 and -1.3: the weight exp(-1.3) is rounded to the dtype of v before it meets v, while
// the sum 1 + exp(-1.3) is not. With v = (0, 1) and out in fp32, out = rounded(exp(-1.3)) / (1 + exp(-1.3)).
TEST_CASE("weights are rounded to the dtype of v before the second product") {
  std::mt19937 generator(4);
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32}) {
    Problem problem{.sizes = {.nq = 1, .nk = 2, .H = 1, .G = 1, .D = 1, .E = 1},
                    .scale = 1.3,
                    .segments = {{.q_begin = 0, .q_count = 1, .k_begin = 0, .k_count = 2}},
                    .q = {1},
                    .k = {0, -1},
                    .v = {0, 1},
                    .dout = {0}};
    TileTensors tensors(generator, problem, {.nominal = dtype, .out = DType::fp32, .lse = DType::fp32});
    cpu_tiles().attend(tensors.attend(problem, Write::store));
    const double weight = std::exp(-static_cast<double>(1.3F));
    const double rounded_weight = rounded(weight, dtype);
    const double u = 0x1p-24;
    // exp, sum and quotient: 2 u, 2 u and u; with fp32 the rounding of the weight is that of exp.
    CHECK(std::fabs(tensors.out.at(0, 0) - rounded_weight / (1 + weight)) <= 5 * u);
    if (dtype != DType::fp32)
      CHECK(std::fabs(rounded_weight - weight) > 100 * u);  // so the check above tells
  }
}

TEST_CASE("results depend on neither layout nor earlier contents nor repetition") {
  std::mt19937 generator(5);
  for (const DType dtype : all_dtypes) {
    const Sizes sizes{.nq = 150, .nk = 210, .H = 4, .G = 2, .D = 20, .E = 9};
    const Problem problem =
        random_problem(generator, sizes, random_segments(generator, sizes.nq, sizes.nk), dtype);
    const DType lse = dtype == DType::fp64 ? DType::fp64 : DType::fp32;
    std::vector<double> first_out;
    std::vector<double> first_lse;
    for (int repetition = 0; repetition < 4; ++repetition) {
      TileTensors tensors(generator, problem, {.nominal = dtype, .out = dtype, .lse = lse});
      if (repetition > 1) tensors.out.assign(std::vector<double>(static_cast<std::size_t>(150 * 4 * 9), 1e3));
      cpu_tiles().attend(tensors.attend(problem, Write::store));
      if (repetition == 0) {
        first_out = tensors.out.values();
        first_lse = tensors.lse.values();
      }
      CHECK(tensors.out.values() == first_out);
      CHECK(tensors.lse.values() == first_lse);
    }
  }
}

}  // namespace cplab::testing

// The backward tile against brute force and the dense reference, and what `store` and `add` leave behind.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <stdexcept>
#include <vector>

#include "kernels/kernels.hpp"
#include "reference/dense_attention.hpp"
#include "tests/kernels/oracle.hpp"
#include "tests/kernels/random_tile.hpp"

namespace cplab::testing {
namespace {

using kernels::AttendBackward;
using kernels::cpu_tiles;
using kernels::Write;

void set_statistics(TileTensors& tensors, const Expected& expected) {
  tensors.lse.assign(expected.lse);
  tensors.delta.assign(expected.delta);
}

void check_gradients(const TileTensors& tensors, const Problem& problem, const Expected& expected,
                     const TileDTypes& dtypes, double share) {
  const GradientTolerances tolerances = gradient_tolerances(problem, expected, dtypes);
  CHECK(worst_share(tensors.dq.values(), expected.dq, expected.dq_majorant, tolerances.dq) <= share);
  CHECK(worst_share(tensors.dk.values(), expected.dk, expected.dk_majorant, tolerances.dk) <= share);
  CHECK(worst_share(tensors.dv.values(), expected.dv, expected.dv_majorant, tolerances.dv) <= share);
}

}  // namespace

TEST_CASE("gradients of random segment lists equal brute force in every dtype and layout") {
  std::mt19937 generator(1);
  for (const DType nominal : all_dtypes) {
    for (const DType out : {nominal, wide(nominal)}) {
      const TileDTypes dtypes{.nominal = nominal, .out = out, .lse = wide(nominal)};
      for (int trial = 0; trial < 25; ++trial) {
        const Sizes sizes = random_sizes(generator, trial % 4 == 0 ? 260 : 40);
        const Problem problem =
            random_problem(generator, sizes, random_segments(generator, sizes.nq, sizes.nk), nominal);
        const Expected expected = expected_of(problem);
        TileTensors tensors(generator, problem, dtypes);
        set_statistics(tensors, expected);
        cpu_tiles().attend_backward(tensors.backward(problem, Write::store, Write::store));
        INFO(name_of(nominal), " to ", name_of(out), ", trial ", trial);
        check_gradients(tensors, problem, expected, dtypes, 1);
        CHECK(tensors.gaps_intact());
        CHECK(tensors.inputs_unchanged());
      }
    }
  }
}

TEST_CASE("delta computed by the call is that of row_dot, which it is as good as") {
  std::mt19937 generator(11);
  for (const DType nominal : all_dtypes) {
    const TileDTypes dtypes{.nominal = nominal, .out = nominal, .lse = wide(nominal), .computes_delta = true};
    const Sizes sizes = random_sizes(generator, 60);
    const Problem problem =
        random_problem(generator, sizes, random_segments(generator, sizes.nq, sizes.nk), nominal);
    TileTensors tensors(generator, problem, dtypes);
    tensors.computes_delta = true;
    const std::vector<double> delta = tensors.choose_out(generator, problem);
    const Expected expected = expected_of(problem, delta);
    tensors.lse.assign(expected.lse);
    INFO(name_of(nominal));
    AttendBackward call = tensors.backward(problem, Write::store, Write::store);
    cpu_tiles().attend_backward(call);
    check_gradients(tensors, problem, expected, dtypes, 1);
    CHECK(tensors.gaps_intact());
    CHECK(tensors.inputs_unchanged());
    const std::vector<std::byte> dq = tensors.dq.memory(), computed = tensors.delta.memory();
    cpu_tiles().row_dot(call.dout, *call.out, call.delta);
    CHECK(tensors.delta.memory() == computed);
    call.out.reset();
    cpu_tiles().attend_backward(call);
    CHECK(tensors.dq.memory() == dq);
  }
}

TEST_CASE("gradients of one aligned segment equal those of the dense reference") {
  std::mt19937 generator(2);
  const std::int64_t S = 140;
  for (const std::int64_t left : {-1, 0, 20}) {
    for (const std::int64_t right : {-1, 0, 10}) {
      const Sizes sizes{.nq = S, .nk = S, .H = 4, .G = 2, .D = 10, .E = 7};
      const std::vector<Segment> segments = {{.q_begin = 0,
                                              .q_count = S,
                                              .k_begin = 0,
                                              .k_count = S,
                                              .offset = 0,
                                              .left = left,
                                              .right = right}};
      const Problem problem = random_problem(generator, sizes, segments, DType::fp64);
      Expected expected = expected_of(problem);
      const TileDTypes dtypes{.nominal = DType::fp64, .out = DType::fp64, .lse = DType::fp64};
      TileTensors tensors(generator, problem, dtypes);
      set_statistics(tensors, expected);
      cpu_tiles().attend_backward(tensors.backward(problem, Write::store, Write::store));
      const reference::AttentionResult exact = reference::dense_attention(
          {.S = S, .H = 4, .G = 2, .D = 10, .E = 7, .scale = problem.scale, .left = left, .right = right},
          problem.q, problem.k, problem.v, problem.dout);
      expected.dq = exact.dq;
      expected.dk = exact.dk;
      expected.dv = exact.dv;
      check_gradients(tensors, problem, expected, dtypes, 2);  // the reference errs by no more than the tile
    }
  }
}

// `add` to known numbers, in fp32 and wider: rows that receive something hold the sum, all others their very
// bits, here those of poison or of -0, which adding 0 would change.
TEST_CASE("add leaves rows without a contribution bit for bit, and adds to the others") {
  std::mt19937 generator(3);
  for (const DType nominal : all_dtypes) {
    const DType out = wide(nominal);
    for (int trial = 0; trial < 12; ++trial) {
      const Sizes sizes = random_sizes(generator, trial % 4 == 0 ? 200 : 30);
      const Problem problem =
          random_problem(generator, sizes, random_segments(generator, sizes.nq, sizes.nk), nominal);
      const Expected expected = expected_of(problem);
      const std::vector<int> visible = visible_pairs(problem);
      TileTensors stored(generator, problem, {.nominal = nominal, .out = out, .lse = out});
      TileTensors added(generator, problem, {.nominal = nominal, .out = out, .lse = out});
      set_statistics(stored, expected);
      set_statistics(added, expected);
      const auto sees = [&](std::int64_t i, std::int64_t j) {
        return visible[static_cast<std::size_t>(i * sizes.nk + j)] != 0;
      };
      const auto query_takes_part = [&](std::int64_t i) {
        for (std::int64_t j = 0; j < sizes.nk; ++j)
          if (sees(i, j)) return true;
        return false;
      };
      const auto key_takes_part = [&](std::int64_t j) {
        for (std::int64_t i = 0; i < sizes.nq; ++i)
          if (sees(i, j)) return true;
        return false;
      };
      const auto prepare = [&](Tensor& tensor, auto takes_part) {
        for (std::int64_t row = 0; row < tensor.rows(); ++row)
          if (takes_part(row) || row % 2 == 0) tensor.fill_row(row, takes_part(row) ? 0.75 : -0.0);
      };
      prepare(added.dq, query_takes_part);
      prepare(added.dk, key_takes_part);
      prepare(added.dv, key_takes_part);
      cpu_tiles().attend_backward(stored.backward(problem, Write::store, Write::store));
      cpu_tiles().attend_backward(added.backward(problem, Write::add, Write::add));
      const auto compare = [&](const Tensor& sum, const Tensor& term, auto takes_part) {
        Tensor untouched(out, sum.rows(), sum.heads(), sum.width());
        for (std::int64_t row = 0; row < sum.rows(); row += 2) untouched.fill_row(row, -0.0);
        for (std::int64_t row = 0; row < sum.rows(); ++row) {
          for (std::int64_t head = 0; head < sum.heads(); ++head) {
            if (!takes_part(row)) {
              CHECK(sum.bits(row, head) == untouched.bits(row, head));
              for (std::int64_t x = 0; x < sum.width(); ++x) CHECK(term.at(row, head, x) == 0);
              continue;
            }
            for (std::int64_t x = 0; x < sum.width(); ++x) {
              const double exact = 0.75 + term.at(row, head, x);  // one rounding, in the dtype of the sum
              const double once_rounded = out == DType::fp32 ? static_cast<float>(exact) : exact;
              CHECK(sum.at(row, head, x) == once_rounded);
            }
          }
        }
      };
      compare(added.dq, stored.dq, query_takes_part);
      compare(added.dk, stored.dk, key_takes_part);
      compare(added.dv, stored.dv, key_takes_part);
      CHECK(added.gaps_intact());
    }
  }
}

TEST_CASE("dq and dk may be written in different modes") {
  std::mt19937 generator(4);
  const Sizes sizes{.nq = 10, .nk = 12, .H = 2, .G = 1, .D = 3, .E = 3};
  const Problem problem = random_problem(
      generator, sizes, {{.q_begin = 0, .q_count = 10, .k_begin = 0, .k_count = 12}}, DType::fp32);
  const Expected expected = expected_of(problem);
  TileTensors tensors(generator, problem, fp32_tile);
  set_statistics(tensors, expected);
  cpu_tiles().attend_backward(tensors.backward(problem, Write::store, Write::store));
  const std::vector<double> dq = tensors.dq.values();
  const std::vector<double> dk = tensors.dk.values();
  cpu_tiles().attend_backward(tensors.backward(problem, Write::add, Write::store));
  for (std::size_t x = 0; x < dq.size(); ++x) CHECK(tensors.dq.values()[x] == 2 * dq[x]);
  CHECK(tensors.dk.values() == dk);
}

// Rows whose final lse is -inf see no key in any tile: whatever lies in q, dout and delta there (padding,
// garbage) reaches nothing, even if a segment covers the row.
TEST_CASE("a row of final lse -inf gives and receives nothing") {
  std::mt19937 generator(5);
  const Sizes sizes{.nq = 80, .nk = 140, .H = 2, .G = 1, .D = 5, .E = 4};
  const Segment all{.q_begin = 0, .q_count = 80, .k_begin = 0, .k_count = 140};
  for (const DType nominal : all_dtypes) {
    const DType out = wide(nominal);
    const Problem problem = random_problem(generator, sizes, {all}, nominal);
    const Expected expected = expected_of(problem);
    TileTensors clean(generator, problem, {.nominal = nominal, .out = out, .lse = out});
    set_statistics(clean, expected);
    // The same with row 33 dropped from the mask: two segments around it.
    Problem dropped = problem;
    dropped.segments = {{.q_begin = 0, .q_count = 33, .k_begin = 0, .k_count = 140},
                        {.q_begin = 34, .q_count = 46, .k_begin = 0, .k_count = 140}};
    const Expected without = expected_of(dropped);
    clean.q.fill_row(33, nan);
    clean.dout.fill_row(33, infinity);
    clean.delta.fill_row(33, nan);
    clean.lse.fill_row(33, -infinity);
    cpu_tiles().attend_backward(clean.backward(problem, Write::store, Write::store));
    check_gradients(clean, dropped, without, {.nominal = nominal, .out = out, .lse = out}, 1);
    for (std::int64_t x = 0; x < sizes.D; ++x) CHECK(clean.dq.at(33, 0, x) == 0);
  }
}

TEST_CASE("a key that only a row of final lse -inf sees keeps its bits under add") {
  std::mt19937 generator(10);
  const Sizes sizes{.nq = 80, .nk = 80, .H = 1, .G = 1, .D = 3, .E = 2};
  const Segment diagonal{
      .q_begin = 0, .q_count = 80, .k_begin = 0, .k_count = 80, .offset = 0, .left = 0, .right = 0};
  const Problem problem = random_problem(generator, sizes, {diagonal}, DType::fp32);
  TileTensors tensors(generator, problem, fp32_tile);
  set_statistics(tensors, expected_of(problem));
  tensors.lse.fill_row(33, -infinity);
  for (Tensor* gradient : {&tensors.dq, &tensors.dk, &tensors.dv})
    gradient->assign(std::vector<double>(gradient->values().size(), -0.0));
  const std::vector<std::byte> untouched_dk = tensors.dk.bits(33, 0);
  const std::vector<std::byte> untouched_dv = tensors.dv.bits(33, 0);
  const std::vector<std::byte> untouched_dq = tensors.dq.bits(33, 0);
  cpu_tiles().attend_backward(tensors.backward(problem, Write::add, Write::add));
  CHECK(tensors.dk.bits(33, 0) == untouched_dk);
  CHECK(tensors.dv.bits(33, 0) == untouched_dv);
  CHECK(tensors.dq.bits(33, 0) == untouched_dq);
  CHECK(tensors.dv.bits(34, 0) != untouched_dv);
}

// Causal: a NaN in key j concerns queries j and later; a NaN query i concerns keys 0 .. i.
TEST_CASE("a NaN reaches exactly the rows it is paired with") {
  std::mt19937 generator(6);
  const std::int64_t n = 150;
  const Segment causal{
      .q_begin = 0, .q_count = n, .k_begin = 0, .k_count = n, .offset = 0, .left = -1, .right = 0};
  const Sizes sizes{.nq = n, .nk = n, .H = 1, .G = 1, .D = 3, .E = 2};
  const TileDTypes dtypes{.nominal = DType::fp32, .out = DType::fp32, .lse = DType::fp32};
  const Problem problem = random_problem(generator, sizes, {causal}, DType::fp32);
  const Expected expected = expected_of(problem);
  for (const std::int64_t bad : {0, 70, 149}) {
    TileTensors tensors(generator, problem, dtypes);
    set_statistics(tensors, expected);
    tensors.k.fill_row(bad, nan);
    cpu_tiles().attend_backward(tensors.backward(problem, Write::store, Write::store));
    for (std::int64_t row = 0; row < n; ++row) {
      CHECK(std::isnan(tensors.dq.at(row, 0, 0)) == (row >= bad));
      CHECK(std::isnan(tensors.dk.at(row, 0, 0)) == (row == bad));  // dS of that key only
      CHECK(std::isnan(tensors.dv.at(row, 0, 0)) == (row == bad));
    }
    TileTensors by_query(generator, problem, dtypes);
    set_statistics(by_query, expected);
    by_query.dout.fill_row(bad, nan);
    cpu_tiles().attend_backward(by_query.backward(problem, Write::store, Write::store));
    for (std::int64_t row = 0; row < n; ++row) {
      CHECK(std::isnan(by_query.dq.at(row, 0, 0)) == (row == bad));
      CHECK(std::isnan(by_query.dk.at(row, 0, 0)) == (row <= bad));
      CHECK(std::isnan(by_query.dv.at(row, 0, 0)) == (row <= bad));
    }
  }
}

// One query, two keys of scores 0 and -1.3, lse and delta given as 0: P = (1, exp(-1.3)), dP = dout v. With
// dout = 1, v = (0, 0.8): dS = (0, 0.8 exp(-1.3)). dv_1 = rounded(P_1); dq = scale rounded(dS_1) k_1, dS from
// the P that is not rounded.
TEST_CASE("P and dS are rounded to nominal before the second products") {
  std::mt19937 generator(7);
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    const Problem problem{.sizes = {.nq = 1, .nk = 2, .H = 1, .G = 1, .D = 1, .E = 1},
                          .scale = 1.3,
                          .segments = {{.q_begin = 0, .q_count = 1, .k_begin = 0, .k_count = 2}},
                          .q = {1},
                          .k = {0, -1},
                          .v = {0, 0.8},
                          .dout = {1}};
    TileTensors tensors(generator, problem, {.nominal = dtype, .out = DType::fp32, .lse = DType::fp32});
    tensors.lse.assign({0});
    tensors.delta.assign({0});
    cpu_tiles().attend_backward(tensors.backward(problem, Write::store, Write::store));
    const double p = std::exp(-static_cast<double>(1.3F));
    const double ds = p * tensors.v.at(1, 0);
    CHECK(tensors.dv.at(1, 0) == rounded(p, dtype));
    CHECK(tensors.dk.at(1, 0) == static_cast<double>(static_cast<float>(rounded(ds, dtype)) * 1.3F));
    CHECK(tensors.dq.at(0, 0) == -tensors.dk.at(1, 0));
    // The cases are such that rounding shows, and that rounding P first would give another dS.
    CHECK(rounded(p, dtype) != p);
    CHECK(rounded(ds, dtype) != rounded(rounded(p, dtype) * tensors.v.at(1, 0), dtype));
  }
}

TEST_CASE("no rows and no segments are legal, and store still clears") {
  std::mt19937 generator(8);
  for (const Sizes sizes : {Sizes{.nq = 0, .nk = 4, .H = 2, .G = 1, .D = 3, .E = 2},
                            Sizes{.nq = 4, .nk = 0, .H = 2, .G = 1, .D = 3, .E = 2},
                            Sizes{.nq = 4, .nk = 5, .H = 2, .G = 1, .D = 3, .E = 2}}) {
    const Problem problem = random_problem(generator, sizes, {}, DType::bf16);
    TileTensors tensors(generator, problem, {.nominal = DType::bf16, .out = DType::bf16, .lse = DType::fp32});
    cpu_tiles().attend_backward(tensors.backward(problem, Write::store, Write::store));
    for (const Tensor* gradient : {&tensors.dq, &tensors.dk, &tensors.dv})
      for (const double value : gradient->values()) CHECK(value == 0);
    CHECK(tensors.gaps_intact());
  }
}

TEST_CASE("shapes that disagree are refused") {
  std::mt19937 generator(9);
  const Sizes sizes{.nq = 6, .nk = 7, .H = 4, .G = 2, .D = 3, .E = 2};
  const Problem problem = random_problem(
      generator, sizes, {{.q_begin = 0, .q_count = 6, .k_begin = 0, .k_count = 7}}, DType::fp32);
  const auto refused = [&](auto change) {
    TileTensors tensors(generator, problem, fp32_tile);
    AttendBackward operation = tensors.backward(problem, Write::store, Write::store);
    change(operation);
    CHECK_THROWS_AS(cpu_tiles().attend_backward(operation), std::invalid_argument);
    CHECK(std::isnan(tensors.dq.at(0, 0, 0)));
  };
  refused([](AttendBackward& operation) { operation.k.width = 2; });
  refused([](AttendBackward& operation) { operation.dout.width = 3; });
  refused([](AttendBackward& operation) { operation.lse.rows = 7; });
  refused([](AttendBackward& operation) { operation.delta.width = 2; });
  refused([](AttendBackward& operation) { operation.dq.heads = 2; });
  refused([](AttendBackward& operation) { operation.dk.rows = 6; });
  refused([](AttendBackward& operation) { operation.dv.width = 3; });
  refused([](AttendBackward& operation) {
    operation.out = operation.dout;
    operation.out->width = 3;
  });
  refused([](AttendBackward& operation) { operation.write_dq = Write::merge; });
  refused([](AttendBackward& operation) { operation.write_dk = Write::merge; });
}

}  // namespace cplab::testing

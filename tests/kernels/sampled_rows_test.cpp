// Results of a whole call against some of its rows computed again: what is right passes in any layout, and
// what real kernels got wrong does not.
#include "kernels/tune/sampled_rows.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/oracle.hpp"
#include "tests/kernels/random_tile.hpp"

namespace cplab::testing {
namespace {

using kernels::cpu_tiles;
using kernels::Write;
using kernels::tune::RowSample;
using kernels::tune::wrong_rows;

// A call that has been executed by CPU tiles, and its results as they were before.
struct Executed {
  Executed(std::mt19937& generator, const Problem& of, const TileDTypes& dtypes, Write write)
      : problem(of), tensors(generator, of, dtypes) {
    const Expected expected = expected_of(of);
    tensors.lse.assign(expected.lse);
    tensors.delta.assign(expected.delta);
    if (write != Write::store)
      for (Tensor* tensor : {&tensors.dq, &tensors.dk, &tensors.dv})
        tensor->assign(
            random_values(generator, tensor->rows() * tensor->heads() * tensor->width(), DType::fp32));
    before = tensors;
    cpu_tiles().attend_backward(call(write));
  }
  kernels::AttendBackward call(Write write) { return tensors.backward(problem, write, write); }
  std::string wrong(Write write, const RowSample& sample) {
    return wrong_rows(call(write), before->backward(problem, write, write), sample);
  }

  Problem problem;
  TileTensors tensors;
  std::optional<TileTensors> before;
};

constexpr RowSample every_row{.rows = 1000, .groups = 2, .seed = 1},
    few_rows{.rows = 5, .groups = 2, .seed = 3};

kernels::AttendBackward with_delta_given(kernels::AttendBackward call) {
  call.out.reset();
  return call;
}

TileDTypes gradients_of(DType dtype) {
  return {.nominal = dtype, .out = dtype, .lse = wide(dtype)};
}

}  // namespace

TEST_CASE("right gradients pass, whatever the layout, the segments and how they are written") {
  std::mt19937 generator(5);
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32})
    for (int trial = 0; trial < 24; ++trial) {
      const Sizes sizes = random_sizes(generator, 60);
      const Problem problem =
          random_problem(generator, sizes, random_segments(generator, sizes.nq, sizes.nk), dtype);
      const Write write = trial % 2 == 0 ? Write::store : Write::add;
      Executed executed(generator, problem, gradients_of(dtype), write);
      INFO(name_of(dtype), ", trial ", trial);
      CHECK(executed.wrong(write, every_row) == "");
      CHECK(executed.wrong(write, few_rows) == "");
    }
}

TEST_CASE("a rounded dq is asked for where it comes out, and the sum not at all") {
  std::mt19937 generator(8);
  TileDTypes dtypes = gradients_of(DType::bf16);
  dtypes.rounds_dq = true;
  for (const Write write : {Write::store, Write::add}) {
    const Sizes sizes{.nq = 40, .nk = 50, .H = 2, .G = 1, .D = 16, .E = 16};
    const std::vector<Segment> all = {{.q_begin = 0, .q_count = 40, .k_begin = 0, .k_count = 50}};
    Executed executed(generator, random_problem(generator, sizes, all, DType::bf16), dtypes, write);
    for (std::int64_t row = 0; row < sizes.nq; ++row) executed.tensors.dq.fill_row(row, nan);
    CHECK(executed.wrong(write, every_row) == "");
    executed.tensors.rounded_dq.fill_row(7, 3);
    CHECK(executed.wrong(write, every_row).find("dq: relative error") == 0);
  }
}

// A delta that the kernel computed wrongly is in all that follows from it: gradients are those of the wrong
// one.
TEST_CASE("a delta that was computed wrongly is found") {
  std::mt19937 generator(10);
  const Sizes sizes{.nq = 40, .nk = 50, .H = 2, .G = 1, .D = 16, .E = 16};
  const std::vector<Segment> all = {{.q_begin = 0, .q_count = 40, .k_begin = 0, .k_count = 50}};
  for (const bool right : {true, false}) {
    Executed executed(generator, random_problem(generator, sizes, all, DType::bf16),
                      gradients_of(DType::bf16), Write::store);
    executed.tensors.computes_delta = executed.before->computes_delta = true;
    std::vector<double> delta = executed.tensors.choose_out(generator, executed.problem);
    executed.before->out = executed.tensors.out;
    if (!right)
      for (double& each : delta) each *= 1.5;
    executed.tensors.delta.assign(delta);
    cpu_tiles().attend_backward(with_delta_given(executed.call(Write::store)));
    CHECK((executed.wrong(Write::store, every_row) == "") == right);
  }
}

TEST_CASE("right results of the forward pass, stored or merged") {
  std::mt19937 generator(6);
  for (const DType dtype : {DType::bf16, DType::fp32})
    for (int trial = 0; trial < 24; ++trial) {
      const Sizes sizes = random_sizes(generator, 60);
      const Problem problem =
          random_problem(generator, sizes, random_segments(generator, sizes.nq, sizes.nk), dtype);
      TileTensors tensors(generator, problem, {.nominal = dtype, .out = dtype, .lse = wide(dtype)});
      const Write write = trial % 2 == 0 ? Write::store : Write::merge;
      if (write == Write::merge) {
        tensors.out.assign(random_values(generator, sizes.nq * sizes.H * sizes.E, dtype));
        tensors.lse.assign(random_values(generator, sizes.nq * sizes.H, dtype));
      }
      TileTensors before = tensors;
      cpu_tiles().attend(tensors.attend(problem, write));
      CHECK(wrong_rows(tensors.attend(problem, write), before.attend(problem, write), few_rows) == "");
    }
}

// Rows 3 to 5 of dq, the last rows of dv, a NaN: each in another tensor, each found and named.
TEST_CASE("a row that is wrong is found, and named") {
  std::mt19937 generator(7);
  const Sizes sizes{.nq = 40, .nk = 40, .H = 4, .G = 2, .D = 16, .E = 16};
  const Problem problem =
      random_problem(generator, sizes, {{.q_count = 40, .k_count = 40, .right = 0}}, DType::bf16);
  const auto broken = [&](auto change) {
    Executed executed(generator, problem, gradients_of(DType::bf16), Write::store);
    change(executed.tensors);
    return executed.wrong(Write::store, few_rows);
  };
  CHECK(broken([](TileTensors&) {}) == "");
  CHECK(broken([](TileTensors& t) { t.dq.set(3, 0, 2, 5); }).find("in head 0, rows 0 to 4") !=
        std::string::npos);
  CHECK(broken([](TileTensors& t) { t.dv.set(39, 1, 0, 5); }).find("dv: relative error") == 0);
  CHECK(broken([](TileTensors& t) { t.dk.set(0, 0, 0, nan); }).find("dk: relative error nan") == 0);
  CHECK(broken([](TileTensors& t) { t.dq.set(39, 3, 0, infinity); }).find("infinite in head 3") !=
        std::string::npos);
}

// The kernel forgot a segment: what it wrote is right for another call.
TEST_CASE("keys that were left out are found") {
  std::mt19937 generator(8);
  const Sizes sizes{.nq = 64, .nk = 128, .H = 2, .G = 2, .D = 32, .E = 32};
  const std::vector<Segment> all = {{.q_count = 64, .k_count = 120},
                                    {.q_count = 64, .k_begin = 120, .k_count = 8}};
  Problem problem = random_problem(generator, sizes, all, DType::bf16);
  TileTensors tensors(generator, problem, {.nominal = DType::bf16, .out = DType::bf16, .lse = DType::fp32});
  TileTensors before = tensors;
  const auto call = [&] { return tensors.attend(problem, Write::store); };
  problem.segments.pop_back();
  cpu_tiles().attend(call());
  CHECK(wrong_rows(call(), before.attend(problem, Write::store), few_rows) == "");
  problem.segments = all;
  CHECK(wrong_rows(call(), before.attend(problem, Write::store), few_rows).find("out: relative error") == 0);
}

// Queries that see no key have out = 0: a kernel that leaves them as they were is wrong, whatever was there.
TEST_CASE("where zeros are right a NaN is found") {
  std::mt19937 generator(9);
  const Sizes sizes{.nq = 20, .nk = 20, .H = 2, .G = 2, .D = 16, .E = 16};
  const Problem problem = random_problem(generator, sizes, {}, DType::bf16);
  TileTensors tensors(generator, problem, {.nominal = DType::bf16, .out = DType::bf16, .lse = DType::fp32});
  TileTensors before = tensors;
  const auto wrong = [&] {
    return wrong_rows(tensors.attend(problem, Write::store), before.attend(problem, Write::store), few_rows);
  };
  cpu_tiles().attend(tensors.attend(problem, Write::store));
  CHECK(wrong() == "");
  for (const double left : {nan, 1e-3}) {
    tensors.out.set(3, 1, 2, left);
    CHECK(wrong().find("in head 1, rows 0 to 4") != std::string::npos);
  }
}

TEST_CASE("two results are compared in every row") {
  Tensor a(DType::fp32, 300, 2, 8), b(DType::bf16, 300, 2, 8);
  for (Tensor* tensor : {&a, &b}) tensor->assign(std::vector<double>(300 * 2 * 8, 0.5));
  const auto compare = [&] { return kernels::tune::difference(a.view(), b.view(), "dq", 1e-2); };
  CHECK(compare() == "");
  a.set(200, 1, 3, 0.9);
  CHECK(compare().find("in head 1, rows 128 to 255") != std::string::npos);
  a.set(200, 1, 3, nan);
  CHECK(compare().find("relative error nan") != std::string::npos);
}

}  // namespace cplab::testing

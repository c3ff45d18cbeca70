// The faulty tables really have their bug, and only that one.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "kernels/kernels.hpp"
#include "tests/kernels/oracle.hpp"
#include "tests/kernels/random_tile.hpp"

namespace cplab::testing {
namespace {

using kernels::cpu_tiles;
using kernels::faulty_cpu_tiles;
using kernels::Tiles;
using kernels::Write;

struct Row {
  double out, lse;
};

// Merges one row (2, a) with one row (3, b) in `dtype`.
Row merged(const Tiles& tiles, DType dtype, double a, double b) {
  Tensor part_out(dtype, 1, 1, 1), part_lse(dtype, 1, 1, 1), into_out(dtype, 1, 1, 1),
      into_lse(dtype, 1, 1, 1);
  into_out.assign({2});
  into_lse.assign({a});
  part_out.assign({3});
  part_lse.assign({b});
  tiles.merge({part_out.view(), part_lse.view(), into_out.view(), into_lse.view()});
  Tensor folded(dtype, 1, 1, 1);
  folded.assign({a});
  tiles.merge_lse({part_lse.view(), folded.view()});
  CHECK(folded.bits(0, 0) == into_lse.bits(0, 0));
  return {into_out.at(0, 0), into_lse.at(0, 0)};
}

// One query of score b against one key of value 3, merged by attend itself into a row (2, a).
Row merged_by_attend(const Tiles& tiles, DType dtype, double a, double b) {
  std::mt19937 generator(1);
  const Problem problem{.sizes = {.nq = 1, .nk = 1, .H = 1, .G = 1, .D = 1, .E = 1},
                        .scale = 1,
                        .segments = {{.q_begin = 0, .q_count = 1, .k_begin = 0, .k_count = 1}},
                        .q = {b},
                        .k = {1},
                        .v = {3},
                        .dout = {0}};
  TileTensors tensors(generator, problem, {.nominal = dtype, .out = dtype, .lse = dtype});
  tensors.out.assign({2});
  tensors.lse.assign({a});
  tiles.attend(tensors.attend(problem, Write::merge));
  return {tensors.out.at(0, 0), tensors.lse.at(0, 0)};
}

}  // namespace

TEST_CASE("unknown faults have no tiles") {
  CHECK(faulty_cpu_tiles("") == nullptr);
  CHECK(faulty_cpu_tiles("naive") == nullptr);
  CHECK(faulty_cpu_tiles(nullptr) == nullptr);
}

TEST_CASE("naive-merge overflows where the exponent of its own type ends") {
  const Tiles* naive = faulty_cpu_tiles("naive-merge");
  REQUIRE(naive != nullptr);
  struct Limit {
    DType dtype;
    double below, above;  // differences whose exp is finite, and is not
  };
  for (const Limit limit : {Limit{DType::fp32, 88, 89}, Limit{DType::fp64, 709, 710}}) {
    for (const auto merge_row : {merged, merged_by_attend}) {
      const Row right = merge_row(cpu_tiles(), limit.dtype, 1, 1 + limit.above);
      CHECK(right.out == 3);
      CHECK(right.lse == 1 + limit.above);
      const Row lost = merge_row(*naive, limit.dtype, 1, 1 + limit.above);
      CHECK(lost.out == 0);
      CHECK(lost.lse == infinity);
      const Row still_right = merge_row(*naive, limit.dtype, 1, 1 + limit.below);
      // log(1 + exp(88)) is 88 with a relative error of a few u; the weight exp(b - lse) inherits it.
      const double tolerance = 8 * limit.below * unit_roundoff(limit.dtype);
      CHECK(std::fabs(still_right.out - 3) <= 3 * tolerance);
      CHECK(std::fabs(still_right.lse - (1 + limit.below)) <= tolerance);
      // The other direction never overflowed: exp underflows to 0 and that is right.
      CHECK(merge_row(*naive, limit.dtype, 1 + limit.above, 1).out == 2);
      // Guards stay: a side without keys is no overflow.
      CHECK(merge_row(*naive, limit.dtype, -infinity, 7).out == 3);
      CHECK(merge_row(*naive, limit.dtype, -infinity, 7).lse == 7);
    }
  }
}

// Equal LSEs, so the k-th part enters with weight 1/k and the true result is the mean of the parts. Rounding
// the mean to bf16 at every step errs by about half an ulp a step; kept in fp32 it does not.
TEST_CASE("nominal-accumulator rounds the running out to the dtype of the part") {
  const Tiles* nominal = faulty_cpu_tiles("nominal-accumulator");
  REQUIRE(nominal != nullptr);
  std::mt19937 generator(2);
  const std::int64_t width = 64;
  const std::int64_t parts = 16;
  std::vector<double> mean(static_cast<std::size_t>(width));
  Tensor right(DType::fp32, 1, 1, width), faulty(DType::fp32, 1, 1, width);
  Tensor right_lse(DType::fp32, 1, 1, 1), faulty_lse(DType::fp32, 1, 1, 1);
  right_lse.assign({-infinity});
  faulty_lse.assign({-infinity});
  for (std::int64_t part = 0; part < parts; ++part) {
    Tensor out(DType::bf16, 1, 1, width), lse(DType::fp32, 1, 1, 1);
    out.assign(random_values(generator, width, DType::bf16));
    lse.assign({0});
    for (std::int64_t x = 0; x < width; ++x)
      mean[static_cast<std::size_t>(x)] += out.at(0, 0, x) / static_cast<double>(parts);
    cpu_tiles().merge({out.view(), lse.view(), right.view(), right_lse.view()});
    nominal->merge({out.view(), lse.view(), faulty.view(), faulty_lse.view()});
  }
  CHECK(right_lse.bits(0, 0) == faulty_lse.bits(0, 0));
  double right_error = 0;
  double faulty_error = 0;
  std::int64_t representable = 0;
  for (std::int64_t x = 0; x < width; ++x) {
    right_error = std::fmax(right_error, std::fabs(right.at(0, 0, x) - mean[static_cast<std::size_t>(x)]));
    faulty_error = std::fmax(faulty_error, std::fabs(faulty.at(0, 0, x) - mean[static_cast<std::size_t>(x)]));
    if (rounded(faulty.at(0, 0, x), DType::bf16) == faulty.at(0, 0, x)) ++representable;
  }
  CHECK(representable == width);
  // fp32: per step two weights and an lse of at most log 16, as in merge_test.cpp.
  CHECK(right_error <= parts * 0x1p-24 * (3 + 8) * 2);
  // bf16: at least once near half an ulp of a mean of size 1/8 or more.
  CHECK(faulty_error >= 0x1p-12);
}

TEST_CASE("nominal-accumulator rounds in the fused merge too, and nothing where nominal is wide") {
  const Tiles* nominal = faulty_cpu_tiles("nominal-accumulator");
  std::mt19937 generator(3);
  const Sizes sizes{.nq = 20, .nk = 30, .H = 2, .G = 1, .D = 6, .E = 5};
  for (const DType dtype : {DType::bf16, DType::fp32}) {
    const Problem problem =
        random_problem(generator, sizes, {{.q_begin = 0, .q_count = 20, .k_begin = 0, .k_count = 30}}, dtype);
    std::vector<Tensor> results;
    for (const Tiles* tiles : {&cpu_tiles(), nominal}) {
      TileTensors tensors(generator, problem, {.nominal = dtype, .out = DType::fp32, .lse = DType::fp32});
      tensors.out.assign(std::vector<double>(200, 0.5));
      tensors.lse.assign(std::vector<double>(40, 1));
      tiles->attend(tensors.attend(problem, Write::merge));
      results.push_back(tensors.out);
    }
    std::int64_t differing = 0;
    for (std::size_t x = 0; x < 200; ++x) {
      CHECK(results[1].values()[x] == rounded(results[0].values()[x], dtype));
      if (results[1].values()[x] != results[0].values()[x]) ++differing;
    }
    CHECK((differing > 0) == (dtype == DType::bf16));
  }
}

TEST_CASE("entries without a merge are the correct ones") {
  for (const char* name : {"naive-merge", "nominal-accumulator"}) {
    const Tiles* tiles = faulty_cpu_tiles(name);
    REQUIRE(tiles != nullptr);
    CHECK((tiles->attend_backward == cpu_tiles().attend_backward));
    CHECK((tiles->rescale == cpu_tiles().rescale));
    CHECK((tiles->rowwise == cpu_tiles().rowwise));
    CHECK((tiles->merge != cpu_tiles().merge));
  }
}

// Two queries, of which the first sees key 0 and the second key 3; nobody sees keys 1 and 2.
TEST_CASE("no-zero-fill leaves what no query sees as it was, where it has to store 0") {
  const Tiles* tiles = faulty_cpu_tiles("no-zero-fill");
  REQUIRE(tiles != nullptr);
  CHECK((tiles->attend == cpu_tiles().attend));
  const Sizes sizes{.nq = 2, .nk = 4, .H = 4, .G = 2, .D = 3, .E = 5};
  for (const DType dtype : {DType::bf16, DType::fp32, DType::fp64}) {
    for (const Write write : {Write::store, Write::add}) {
      std::vector<std::vector<Tensor>> results;
      for (const Tiles* each : {&cpu_tiles(), tiles}) {
        std::mt19937 generator(4);
        const Problem problem = random_problem(generator, sizes,
                                               {{.q_begin = 0, .q_count = 1, .k_begin = 0, .k_count = 1},
                                                {.q_begin = 1, .q_count = 1, .k_begin = 3, .k_count = 1}},
                                               dtype);
        const DType wide = dtype == DType::fp64 ? dtype : DType::fp32;
        TileTensors tensors(generator, problem, {.nominal = dtype, .out = dtype, .lse = wide});
        tensors.lse.assign({1, 1, 1, 1, 1, 1, 1, 1});
        tensors.delta.assign({0, 0, 0, 0, 0, 0, 0, 0});
        for (Tensor* tensor : {&tensors.dk, &tensors.dv})
          tensor->assign(std::vector<double>(tensor->values().size(), 0.75));
        each->attend_backward(tensors.backward(problem, Write::store, write));
        CHECK(tensors.gaps_intact());
        results.push_back({tensors.dk, tensors.dv, tensors.dq});
      }
      CHECK(results[0][2].values() == results[1][2].values());
      for (const std::size_t i : {0u, 1u}) {
        const Tensor &right = results[0][i], &faulty = results[1][i];
        for (const std::int64_t head : {0, 1}) {
          for (const std::int64_t row : {0, 3}) CHECK(faulty.at(row, head, 1) == right.at(row, head, 1));
          for (const std::int64_t row : {1, 2}) {
            CHECK(faulty.at(row, head, 1) == 0.75);
            CHECK(right.at(row, head, 1) == (write == Write::store ? 0 : 0.75));
          }
        }
      }
    }
  }
}

}  // namespace cplab::testing

// The forward tile where things are empty, infinite, NaN, huge or wrong.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <stdexcept>
#include <vector>

#include "kernels/kernels.hpp"
#include "tests/kernels/oracle.hpp"
#include "tests/kernels/random_tile.hpp"
#include "tests/kernels/sequences.hpp"

namespace cplab::testing {
namespace {

using kernels::Attend;
using kernels::cpu_tiles;
using kernels::Write;

Segment full(std::int64_t nq, std::int64_t nk) {
  return {.q_begin = 0, .q_count = nq, .k_begin = 0, .k_count = nk};
}

}  // namespace

TEST_CASE("rows without keys give zeros and -inf over poison") {
  std::mt19937 generator(1);
  const Segment nothing[] = {
      {.q_begin = 3, .q_count = 0, .k_begin = 0, .k_count = 5},
      {.q_begin = 0, .q_count = 9, .k_begin = 5, .k_count = 0},
      {.q_begin = 0, .q_count = 9, .k_begin = 0, .k_count = 5, .offset = 100, .left = 3, .right = 3},
      {.q_begin = 0, .q_count = 9, .k_begin = 0, .k_count = 5, .offset = -100, .left = -1, .right = 0},
  };
  for (const DType dtype : all_dtypes) {
    std::vector<std::vector<Segment>> lists = {{}};
    for (const Segment& segment : nothing) lists.push_back({segment});
    lists.push_back({nothing[0], nothing[1], nothing[2], nothing[3]});
    for (const std::vector<Segment>& list : lists) {
      const Problem problem =
          random_problem(generator, {.nq = 9, .nk = 5, .H = 2, .G = 1, .D = 4, .E = 3}, list, dtype);
      TileTensors tensors(generator, problem, {.nominal = dtype, .out = dtype, .lse = dtype});
      cpu_tiles().attend(tensors.attend(problem, Write::store));
      for (const double value : tensors.out.values()) CHECK(value == 0);
      for (const double value : tensors.lse.values()) CHECK(value == -infinity);
      CHECK(tensors.gaps_intact());
    }
  }
}

TEST_CASE("no query rows, and no key rows, are legal") {
  std::mt19937 generator(2);
  for (const Sizes sizes : {Sizes{.nq = 0, .nk = 4, .H = 2, .G = 1, .D = 3, .E = 2},
                            Sizes{.nq = 4, .nk = 0, .H = 2, .G = 1, .D = 3, .E = 2},
                            Sizes{.nq = 0, .nk = 0, .H = 2, .G = 1, .D = 3, .E = 2}}) {
    for (const Write write : {Write::store, Write::merge}) {
      const Problem problem = random_problem(generator, sizes, {full(sizes.nq, sizes.nk)}, DType::bf16);
      TileTensors tensors(generator, problem, fp32_tile);
      cpu_tiles().attend(tensors.attend(problem, write));
      CHECK(tensors.gaps_intact());
      if (write == Write::merge) continue;
      for (const double value : tensors.lse.values()) CHECK(value == -infinity);
    }
  }
  const View nowhere = tiny_view(nullptr, DType::fp32, 0, 2, 3);
  const View no_lse = tiny_view(nullptr, DType::fp32, 0, 2, 1);
  CHECK_NOTHROW(cpu_tiles().attend({.q = nowhere,
                                    .k = nowhere,
                                    .v = nowhere,
                                    .out = nowhere,
                                    .lse = no_lse,
                                    .segments = {},
                                    .scale = 1,
                                    .write = Write::store}));
}

// Causal, so key j is seen by rows j and later: if it is NaN or infinite, earlier rows must not notice, and
// later ones must show it.
TEST_CASE("a bad key reaches exactly the rows that see it") {
  std::mt19937 generator(3);
  const std::int64_t n = 150;
  for (const DType dtype : all_dtypes) {
    for (const double bad : {nan, infinity}) {
      for (const std::int64_t j : {0, 63, 100, 149}) {
        for (const bool in_value : {true, false}) {
          const Sizes sizes{.nq = n, .nk = n, .H = 2, .G = 1, .D = 4, .E = 3};
          const Problem clean = random_problem(generator, sizes, {sequence(0, n, true)}, dtype);
          Problem dirty = clean;
          std::vector<double>& values = in_value ? dirty.v : dirty.k;
          const std::int64_t width = in_value ? sizes.E : sizes.D;
          for (std::int64_t x = 0; x < width; ++x) values[static_cast<std::size_t>(j * width + x)] = bad;
          const TileDTypes dtypes{.nominal = dtype, .out = dtype, .lse = dtype};
          TileTensors expected(generator, clean, dtypes);
          TileTensors computed(generator, dirty, dtypes);
          cpu_tiles().attend(expected.attend(clean, Write::store));
          cpu_tiles().attend(computed.attend(dirty, Write::store));
          std::int64_t wrong = 0;
          for (std::int64_t i = 0; i < n; ++i) {
            for (std::int64_t h = 0; h < sizes.H; ++h) {
              const double value = computed.out.at(i, h, 1);
              if (i >= j) {
                // q.k with k infinite is +-inf or NaN: a key of score -inf has weight 0.
                const bool shows = in_value ? !std::isfinite(value) : true;
                if (!shows || (!in_value && std::isnan(bad) && !std::isnan(value))) ++wrong;
                if (!in_value && std::isnan(bad) && !std::isnan(computed.lse.at(i, h))) ++wrong;
              } else {
                // The products take another path, so the sums may be ordered differently: bound as ever.
                const double u = dtype == DType::fp64 ? 0x1p-53 : 0x1p-24;
                const double tolerance = 2 * (n + 2) * u + 2 * unit_roundoff(dtype);
                if (!(std::fabs(value - expected.out.at(i, h, 1)) <= tolerance)) ++wrong;
                if (computed.lse.at(i, h) != expected.lse.at(i, h)) ++wrong;
              }
            }
          }
          INFO(name_of(dtype), " key ", j, in_value ? " value " : " key ", bad);
          CHECK(wrong == 0);
        }
      }
    }
  }
}

TEST_CASE("a NaN query poisons its own row only, even if all its scores are NaN") {
  std::mt19937 generator(4);
  const Problem problem = [&] {
    Problem made = random_problem(generator, {.nq = 70, .nk = 70, .H = 1, .G = 1, .D = 2, .E = 2},
                                  {sequence(0, 70, true)}, DType::fp32);
    made.q[0] = nan;   // row 0, one visible key
    made.q[80] = nan;  // row 40
    return made;
  }();
  TileTensors tensors(generator, problem, fp32_tile);
  cpu_tiles().attend(tensors.attend(problem, Write::store));
  for (std::int64_t i = 0; i < 70; ++i) {
    const bool poisoned = i == 0 || i == 40;
    CHECK(std::isnan(tensors.out.at(i, 0, 0)) == poisoned);
    CHECK(std::isnan(tensors.lse.at(i, 0)) == poisoned);
  }
  // A merge must show it too.
  tensors.out.assign(std::vector<double>(140, 0));
  tensors.lse.assign(std::vector<double>(70, 0));
  cpu_tiles().attend(tensors.attend(problem, Write::merge));
  CHECK(std::isnan(tensors.out.at(40, 0, 0)));
  CHECK(std::isnan(tensors.lse.at(0, 0)));
  CHECK(std::isfinite(tensors.out.at(41, 0, 0)));
}

// Scores of +-1e4 and beyond: exp of any of them would overflow or vanish. With keys 1 and -1 and q = c, the
// larger score wins outright: out is that key's value, lse its score, without rounding.
TEST_CASE("huge scores neither overflow nor vanish") {
  std::mt19937 generator(5);
  for (const DType dtype : all_dtypes) {
    for (const double c : {1e4, -1e4, 6e4, 3000.0}) {
      const Problem problem{.sizes = {.nq = 1, .nk = 2, .H = 1, .G = 1, .D = 1, .E = 1},
                            .scale = 1,
                            .segments = {full(1, 2)},
                            .q = {c},
                            .k = {1, -1},
                            .v = {2, 3},
                            .dout = {0}};
      const DType lse = dtype == DType::fp64 ? DType::fp64 : DType::fp32;
      TileTensors tensors(generator, problem, {.nominal = dtype, .out = dtype, .lse = lse});
      cpu_tiles().attend(tensors.attend(problem, Write::store));
      CHECK(tensors.out.at(0, 0) == (c > 0 ? 2 : 3));
      CHECK(tensors.lse.at(0, 0) == std::fabs(tensors.q.at(0, 0)));
    }
  }
}

TEST_CASE("a score of -inf is a key of weight zero, and a row of them sees nothing") {
  std::mt19937 generator(6);
  const Problem problem{.sizes = {.nq = 2, .nk = 2, .H = 1, .G = 1, .D = 1, .E = 1},
                        .scale = 1,
                        .segments = {full(1, 2), {.q_begin = 1, .q_count = 1, .k_begin = 0, .k_count = 1}},
                        .q = {1, 1},
                        .k = {-infinity, 0.5},
                        .v = {7, 3},
                        .dout = {0, 0}};
  TileTensors tensors(generator, problem, fp32_tile);
  cpu_tiles().attend(tensors.attend(problem, Write::store));
  CHECK(tensors.out.at(0, 0) == 3);
  CHECK(tensors.lse.at(0, 0) == 0.5);
  CHECK(tensors.out.at(1, 0) == 0);
  CHECK(tensors.lse.at(1, 0) == -infinity);
}

TEST_CASE("a range of heads is a view like any other") {
  std::mt19937 generator(7);
  const Sizes sizes{.nq = 40, .nk = 50, .H = 6, .G = 3, .D = 8, .E = 5};
  const Problem problem = random_problem(generator, sizes, {full(40, 50)}, DType::bf16);
  TileTensors whole(generator, problem, fp32_tile);
  TileTensors part(generator, problem, fp32_tile);
  cpu_tiles().attend(whole.attend(problem, Write::store));
  Attend slice = part.attend(problem, Write::store);
  slice.q = part.q.view_of_heads(2, 4);
  slice.k = part.k.view_of_heads(1, 2);
  slice.v = part.v.view_of_heads(1, 2);
  slice.out = part.out.view_of_heads(2, 4);
  slice.lse = part.lse.view_of_heads(2, 4);
  cpu_tiles().attend(slice);
  for (std::int64_t i = 0; i < sizes.nq; ++i) {
    for (std::int64_t h = 0; h < sizes.H; ++h) {
      if (h < 2) {
        CHECK(std::isnan(part.out.at(i, h, 0)));
        CHECK(std::isnan(part.lse.at(i, h)));
      } else {
        CHECK(part.out.bits(i, h) == whole.out.bits(i, h));
        CHECK(part.lse.bits(i, h) == whole.lse.bits(i, h));
      }
    }
  }
}

TEST_CASE("shapes, runs and segments that disagree are refused") {
  std::mt19937 generator(8);
  const Problem problem = random_problem(generator, {.nq = 6, .nk = 7, .H = 4, .G = 2, .D = 3, .E = 2},
                                         {full(6, 7)}, DType::fp32);
  const auto refused = [&](auto change) {
    TileTensors tensors(generator, problem, fp32_tile);
    Attend operation = tensors.attend(problem, Write::store);
    change(operation);
    CHECK_THROWS_AS(cpu_tiles().attend(operation), std::invalid_argument);
    CHECK(std::isnan(tensors.out.at(0, 0, 0)));
  };
  const RowRun short_run[] = {{.begin = 0, .count = 5, .step = 1}};
  const Segment outside[] = {{.q_begin = 0, .q_count = 7, .k_begin = 0, .k_count = 7}};
  const Segment behind[] = {{.q_begin = 0, .q_count = 6, .k_begin = 1, .k_count = 7}};
  refused([](Attend& operation) { operation.k.width = 2; });
  refused([](Attend& operation) { operation.v.rows = 6; });
  refused([](Attend& operation) { operation.v.heads = 1; });
  refused([](Attend& operation) { operation.k.heads = operation.v.heads = 3; });
  refused([](Attend& operation) { operation.out.width = 3; });
  refused([](Attend& operation) { operation.out.rows = 5; });
  refused([](Attend& operation) { operation.lse.heads = 2; });
  refused([](Attend& operation) { operation.lse.width = 2; });
  refused([](Attend& operation) { operation.write = Write::add; });
  refused([](Attend& operation) { operation.q.data = nullptr; });
  refused([&](Attend& operation) { operation.q.runs = short_run; });
  refused([&](Attend& operation) { operation.segments = outside; });
  refused([&](Attend& operation) { operation.segments = behind; });
}

}  // namespace cplab::testing

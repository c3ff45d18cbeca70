// max_logit of the forward tile, and the maximum of elements.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <stdexcept>
#include <vector>

#include "kernels/kernels.hpp"
#include "tests/kernels/random_tile.hpp"

namespace cplab::testing {
namespace {

using kernels::cpu_tiles;
using kernels::Write;

Problem any_problem(std::mt19937& generator, std::vector<Segment> segments) {
  return random_problem(generator, {.nq = 9, .nk = 11, .H = 4, .G = 2, .D = 6, .E = 5}, std::move(segments),
                        DType::fp32);
}

TEST_CASE("max_logit: what it held stays where the tile has nothing larger") {
  std::mt19937 generator(5);
  const Problem problem = any_problem(generator, {{.q_count = 9, .k_count = 11, .right = 2}});
  TileTensors tensors(generator, problem, fp32_tile);
  tensors.asks_max_logit = true;
  cpu_tiles().attend(tensors.attend(problem, Write::store));
  const std::vector<double> found = tensors.max_logit.values();
  const std::vector<double> held{1000, found[1] - 1, found[2], -infinity};
  tensors.max_logit.assign(held);
  cpu_tiles().attend(tensors.attend(problem, Write::merge));  // merging changes nothing about it
  CHECK(tensors.max_logit.values() == std::vector<double>{1000, found[1], found[2], found[3]});
}

TEST_CASE("max_logit: a tile without a pair raises nothing, and negative logits count") {
  std::mt19937 generator(6);
  const Problem none = any_problem(generator, {{.q_count = 9, .k_count = 11, .offset = 100, .left = 0}});
  TileTensors empty(generator, none, fp32_tile);
  empty.asks_max_logit = true;
  cpu_tiles().attend(empty.attend(none, Write::store));
  CHECK(empty.max_logit.values() == std::vector<double>(4, -infinity));

  Problem one = any_problem(generator, {{.q_begin = 3, .q_count = 1, .k_begin = 4, .k_count = 1}});
  for (double& x : one.q) x = -2;
  for (double& x : one.k) x = 0.5;
  one.scale = 0.25;
  TileTensors tensors(generator, one, fp32_tile);
  tensors.asks_max_logit = true;
  cpu_tiles().attend(tensors.attend(one, Write::store));
  CHECK(tensors.max_logit.values() == std::vector<double>(4, -1.5));  // 6 products of -1, times 1/4
}

TEST_CASE("max_logit of another shape or dtype is refused before anything is written") {
  std::mt19937 generator(7);
  const Problem problem = any_problem(generator, {{.q_count = 9, .k_count = 11}});
  TileTensors tensors(generator, problem, fp32_tile);
  tensors.asks_max_logit = true;
  const auto refused = [&](auto change, const char* why) {
    kernels::Attend call = tensors.attend(problem, Write::store);
    change(*call.max_logit);
    CHECK_THROWS_WITH_AS(cpu_tiles().attend(call), why, std::invalid_argument);
  };
  const char* shape = "attend: max_logit is not one number for each query head";
  refused([](kernels::View& v) { v.heads = 2; }, shape);
  refused([](kernels::View& v) { v.rows = 2, v.runs = {}; }, shape);
  refused([](kernels::View& v) { v.dtype = DType::fp64; },
          "attend: max_logit is not of the dtype that sums run in");
  CHECK(tensors.gaps_intact());
}

TEST_CASE("maximum of elements: NaN stays, of either side") {
  for (const DType dtype : {DType::fp32, DType::fp64, DType::bf16}) {
    Tensor from(dtype, 2, 1, 3), into(dtype, 2, 1, 3);
    from.assign({1, -infinity, nan, -2, 5, infinity});
    into.assign({2, -3, 1, nan, -infinity, 7});
    cpu_tiles().rowwise({kernels::Rowwise::Kind::maximum, from.view(), {}, into.view(), 0});
    const std::vector<double> values = into.values();
    CHECK(values[0] == 2);
    CHECK(values[1] == -3);
    CHECK(std::isnan(values[2]));
    CHECK(std::isnan(values[3]));
    CHECK(values[4] == 5);
    CHECK(values[5] == infinity);
  }
}

}  // namespace
}  // namespace cplab::testing

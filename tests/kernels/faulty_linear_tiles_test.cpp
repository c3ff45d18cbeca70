// The faulty tables of linear attention really have their bug, and only that one.
#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/linear.hpp"
#include "tests/kernels/tensor.hpp"

namespace cplab::testing {
namespace {

using kernels::Chunk;
using kernels::cpu_linear_tiles;
using kernels::faulty_cpu_linear_tiles;
using kernels::LinearTiles;

const LinearTiles& faulty_tiles(const char* name) {
  const LinearTiles* tiles = faulty_cpu_linear_tiles(name);
  REQUIRE(tiles != nullptr);
  return *tiles;
}

// Two chunks of `count` tokens with one number each for a state, 3 and 5, and what lies before each.
std::vector<double> scanned_pair(const LinearTiles& tiles, DType dtype, double slope, std::int64_t count,
                                 bool reverse = false, bool sums_only = false) {
  Tensor states(dtype, 2, 1, 1);
  states.assign({3, 5});
  const std::vector<Chunk> chunks{{.row = 0, .count = count, .state = 0, .resets = true},
                                  {.row = count, .count = count, .state = 1}};
  const std::vector<double> slopes{slope};
  tiles.scan(
      {.state = states.view(), .chunks = {chunks, slopes}, .reverse = reverse, .sums_only = sums_only});
  return states.values();
}

// dv of one key at the end of `tokens` of a chunk, and out of one query there: with D = E = 1 and a state of
// 1 that lies at the edge, it is the decay alone.
double decay_of_query(const LinearTiles& tiles, std::int64_t tokens, std::int64_t number, double slope) {
  Tensor q(DType::fp32, tokens, 1, 1), out(DType::fp32, tokens, 1, 1), carry(DType::fp32, 1, 1, 1);
  q.assign(std::vector<double>(static_cast<std::size_t>(tokens), 1));
  out.assign(std::vector<double>(static_cast<std::size_t>(tokens), 0));
  carry.assign({1});
  const std::vector<Chunk> chunks{{.row = 0, .count = tokens, .left = 0, .right = 0, .resets = true}};
  const std::vector<double> slopes{slope};
  tiles.inter({.q = q.view(), .carry = carry.view(), .out = out.view(), .chunks = {chunks, slopes}});
  return out.at(number, 0);
}
double decay_of_key(const LinearTiles& tiles, std::int64_t tokens, std::int64_t number, double slope) {
  Tensor k(DType::fp32, tokens, 1, 1), dv(DType::fp32, tokens, 1, 1), dcarry(DType::fp32, 1, 1, 1);
  k.assign(std::vector<double>(static_cast<std::size_t>(tokens), 1));
  dv.assign(std::vector<double>(static_cast<std::size_t>(tokens), 0));
  dcarry.assign({1});
  const std::vector<Chunk> chunks{{.row = 0, .count = tokens, .left = 0, .right = 0, .resets = true}};
  const std::vector<double> slopes{slope};
  tiles.inter({.k = k.view(), .dcarry = dcarry.view(), .dv = dv.view(), .chunks = {chunks, slopes}});
  return dv.at(number, 0);
}

}  // namespace

TEST_CASE("unknown faults have no tiles of linear attention, and other entries are the right ones") {
  CHECK(faulty_cpu_linear_tiles("") == nullptr);
  CHECK(faulty_cpu_linear_tiles("naive-merge") == nullptr);
  CHECK(faulty_cpu_linear_tiles(nullptr) == nullptr);
  const LinearTiles& right = cpu_linear_tiles();
  for (const char* name : {"decay-division", "exclusive-without-undecay", "bf16-index", "bf16-state"}) {
    const LinearTiles& tiles = faulty_tiles(name);
    CHECK((tiles.state == right.state));
    CHECK((tiles.combine == right.combine));
    CHECK((tiles.scan == right.scan) + (tiles.inter == right.inter) + (tiles.local == right.local) == 2);
    CHECK((tiles.local == right.local) == (tiles.local_backward == right.local_backward));
  }
}

// 88.72 is the logarithm of the largest fp32 number, 709.78 of the largest fp64 one.
TEST_CASE("decay-division overflows where the exponent of its own type ends, and loses digits before") {
  const LinearTiles& tiles = faulty_tiles("decay-division");
  for (const bool reverse : {false, true}) {
    const std::size_t seen = reverse ? 0 : 1, blind = 1 - seen;  // who has the other before it, and who none
    const double own = reverse ? 5 : 3;
    const auto near = [&](DType dtype, double slope, std::int64_t count, double tolerance) {
      const std::vector<double> values = scanned_pair(tiles, dtype, slope, count, reverse);
      CHECK(values[blind] == 0);
      CHECK(std::fabs(values[seen] - own) <= tolerance);
    };
    // inclusive is a sum of 5 and less, rounded: 5 u exp(slope count) and some u of the result.
    near(DType::fp32, 0.5, 4, (5 * std::exp(2) + 8 * own) * 0x1p-24);
    near(DType::fp64, 0.5, 40, (5 * std::exp(20) + 8 * own) * 0x1p-53);
    CHECK(scanned_pair(tiles, DType::fp32, 0.5, 40, reverse)[seen] == 0);  // no digits left
    CHECK(scanned_pair(tiles, DType::fp32, 0.5, 177, reverse)[seen] == 0);
    for (const double value : scanned_pair(tiles, DType::fp32, 0.5, 178, reverse)) CHECK(std::isnan(value));
    for (const double value : scanned_pair(tiles, DType::fp64, 0.5, 1420, reverse)) CHECK(std::isnan(value));
    CHECK(scanned_pair(tiles, DType::fp32, 0.5, 178, reverse, true) == std::vector<double>{3, 5});
    CHECK(scanned_pair(cpu_linear_tiles(), DType::fp32, 0.5, 178, reverse)[seen] == own);
  }
}

TEST_CASE("exclusive-without-undecay is decayed by the chunk once too often, and right without decay") {
  const LinearTiles& tiles = faulty_tiles("exclusive-without-undecay");
  CHECK(scanned_pair(tiles, DType::fp32, 0, 100) == std::vector<double>{0, 3});
  CHECK(scanned_pair(tiles, DType::fp32, 0, 100, true) == std::vector<double>{5, 0});
  const double late = scanned_pair(tiles, DType::fp32, 0.01, 100)[1];
  CHECK(std::fabs(late - 3 * std::exp(-1)) <= 16 * 0x1p-24);
}

// bf16 has 8 bits: every number up to 256, even ones up to 512, multiples of 4 up to 1024; ties to even.
TEST_CASE("bf16-index numbers tokens as bf16 does, from 257 on wrongly") {
  const LinearTiles& tiles = faulty_tiles("bf16-index");
  const double slope = 0.01;
  struct Case {
    std::int64_t number, taken;
  };
  for (const Case c : {Case{0, 0},
                       {255, 255},
                       {256, 256},
                       {257, 256},
                       {258, 258},
                       {259, 260},
                       {511, 512},
                       {513, 512},
                       {514, 512},
                       {515, 516},
                       {1022, 1024},
                       {1023, 1024}}) {
    CAPTURE(c.number);
    const auto is = [&](double value, std::int64_t exponent) {
      const double expected = std::exp(-slope * static_cast<double>(exponent));
      CHECK(std::fabs(value - expected) <= 4 * 0x1p-24 * expected);
    };
    is(decay_of_query(cpu_linear_tiles(), 1024, c.number, slope), c.number);
    is(decay_of_query(tiles, 1024, c.number, slope), c.taken);
    is(decay_of_key(cpu_linear_tiles(), 1024, c.number, slope), 1024 - c.number);
    is(decay_of_key(tiles, 1024, c.number, slope), 1024 - c.taken);
    // The last key of 2047 is taken for one behind the end: a factor above 1, as the source's would be.
    is(decay_of_key(tiles, 2047, 2046, slope), -1);
  }
}

TEST_CASE("bf16-state rounds what leaves, and no row") {
  std::mt19937 generator(5);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const std::int64_t tokens = 70, width = 4;
  const auto random = [&](DType dtype) {
    Tensor tensor(dtype, tokens, 1, width);
    std::vector<double> values(static_cast<std::size_t>(tokens * width));
    for (double& value : values) value = uniform(generator);
    tensor.assign(values);
    return tensor;
  };
  Tensor q = random(DType::fp32), k = random(DType::fp32), v = random(DType::fp32),
         dout = random(DType::fp32);
  const std::vector<Chunk> chunks{{.row = 0, .count = tokens, .left = 0, .right = 0, .resets = true}};
  const std::vector<double> slopes{0.01};
  std::vector<std::vector<double>> rows[2], states[2];
  for (const bool is_faulty : {false, true}) {
    const LinearTiles& tiles = is_faulty ? faulty_tiles("bf16-state") : cpu_linear_tiles();
    Tensor out(DType::fp32, tokens, 1, width), dq = out, dk = out, dv = out;
    Tensor final_state(DType::fp32, width, 1, width), dfinal = final_state;
    tiles.local({.q = q.view(),
                 .k = k.view(),
                 .v = v.view(),
                 .out = out.view(),
                 .final_state = final_state.view(),
                 .chunks = {chunks, slopes}});
    tiles.local_backward({.q = q.view(),
                          .k = k.view(),
                          .v = v.view(),
                          .dout = dout.view(),
                          .dq = dq.view(),
                          .dk = dk.view(),
                          .dv = dv.view(),
                          .final_state = dfinal.view(),
                          .chunks = {chunks, slopes}});
    rows[is_faulty] = {out.values(), dq.values(), dk.values(), dv.values()};
    states[is_faulty] = {final_state.values(), dfinal.values()};
  }
  CHECK(rows[0] == rows[1]);
  for (const std::size_t i : {0u, 1u}) {
    CHECK(states[0][i] != states[1][i]);
    for (std::size_t x = 0; x < states[0][i].size(); ++x)
      CHECK(states[1][i][x] == rounded(states[0][i][x], DType::bf16));
  }
}

}  // namespace cplab::testing

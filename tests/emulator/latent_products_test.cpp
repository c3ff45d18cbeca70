// The products for latent keys and values on emulated thread blocks beside the CPU tiles: every dtype, sizes
// that fill no tile, rows anywhere, threads in random order.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/tiles/work_list.hpp"
#include "tests/emulator/latent_products.hpp"
#include "tests/kernels/random_tile.hpp"

namespace cplab::emulator {
namespace {

using kernels::DType;
using kernels::View;
using kernels::Write;
using testing::Tensor;
using namespace kernels::cuda;

// Row maps of the views of a call.
struct Maps {
  std::deque<std::vector<std::int32_t>> maps;
  DeviceView view(const View& view) {
    RowMap map = row_map(view);
    DeviceView device = device_view(view, map);
    if (!map.rows.empty()) device.map = maps.emplace_back(std::move(map.rows)).data();
    return device;
  }
};

struct Sizes {
  std::int64_t rows, heads, latent, rope, key, value;  // key: columns of K that come from the latent
};

// Operands in random layouts, with poison between their rows, and results twice.
struct Operands {
  std::mt19937 generator;
  Sizes of;
  DType nominal, wide;  // of what is given, and of gradients of K and V

  Tensor made(DType dtype, std::int64_t rows, std::int64_t heads, std::int64_t width, bool filled = true) {
    const auto values = testing::random_values(generator, filled ? rows * heads * width : 0, dtype);
    return testing::random_tensor(generator, dtype, rows, heads, width, values);
  }
  Tensor latent = made(nominal, of.rows, 1, of.latent), rope = made(nominal, of.rows, 1, of.rope);
  Tensor key_weights = made(nominal, 1, of.heads, of.latent*of.key),
         value_weights = made(nominal, 1, of.heads, of.latent*of.value);
  Tensor dk = made(wide, of.rows, of.heads, of.key + of.rope), dv = made(wide, of.rows, of.heads, of.value);
};

// Sums of so many products of numbers up to 1, in two orders, and rounded once each.
void same(Tensor& found, Tensor& right, std::int64_t terms, DType dtype) {
  const double unit = dtype == DType::bf16 || dtype == DType::fp16 ? testing::unit_roundoff(dtype) : 0;
  const double of_sum = (dtype == DType::fp64 ? 0x1p-53 : 0x1p-24) * static_cast<double>(terms);
  const std::vector<double> a = found.values(), b = right.values();
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    CHECK(std::abs(a[i] - b[i]) <=
          2 * unit * std::abs(b[i]) + 4 * of_sum * std::sqrt(static_cast<double>(terms)));
  CHECK(found.touched_gap().empty());
}

void check_project(Operands& in, std::uint64_t seed) {
  const Sizes& of = in.of;
  std::vector<Tensor> k, v;
  for (int i = 0; i < 2; ++i) {
    k.push_back(in.made(in.nominal, of.rows, of.heads, of.key + of.rope, false));
    v.push_back(in.made(in.nominal, of.rows, of.heads, of.value, false));
  }
  const auto call = [&](std::size_t i) {
    return kernels::Project{in.latent.view(),        in.rope.view(), in.key_weights.view(),
                            in.value_weights.view(), k[i].view(),    v[i].view()};
  };
  kernels::cpu_tiles().project(call(0));
  Maps maps;
  const kernels::Project c = call(1);
  run_project({maps.view(c.latent), maps.view(c.rope_key), maps.view(c.key_weights),
               maps.view(c.value_weights), maps.view(c.k), maps.view(c.v)},
              seed);
  same(k[1], k[0], of.latent, in.nominal);
  same(v[1], v[0], of.latent, in.nominal);
}

void check_back(Operands& in, DType into, Write write, std::uint64_t seed) {
  const Sizes& of = in.of;
  std::vector<Tensor> dlatent, drope;
  const bool adds = write == Write::add;
  dlatent.push_back(in.made(into, of.rows, 1, of.latent, adds));
  drope.push_back(in.made(into, of.rows, 1, of.rope, adds));
  dlatent.push_back(dlatent[0]), drope.push_back(drope[0]);
  const auto call = [&](std::size_t i) {
    return kernels::ProjectBackward{
        in.dk.view(),    in.dv.view(), in.key_weights.view(), in.value_weights.view(), dlatent[i].view(),
        drope[i].view(), write};
  };
  kernels::cpu_tiles().project_backward(call(0));
  Maps maps;
  const kernels::ProjectBackward c = call(1);
  run_project_backward({maps.view(c.dk), maps.view(c.dv), maps.view(c.key_weights),
                        maps.view(c.value_weights), maps.view(c.dlatent), maps.view(c.drope_key), write},
                       seed);
  same(dlatent[1], dlatent[0], of.heads * (of.key + of.value), into);
  same(drope[1], drope[0], of.heads, into);
}

void check_weights(Operands& in, Write write, std::uint64_t seed) {
  const Sizes& of = in.of;
  const DType into = in.nominal == DType::fp64 ? DType::fp64 : DType::fp32;
  std::vector<Tensor> keys, values;
  const bool adds = write == Write::add;
  keys.push_back(in.made(into, 1, of.heads, of.latent * of.key, adds));
  values.push_back(in.made(into, 1, of.heads, of.latent * of.value, adds));
  keys.push_back(keys[0]), values.push_back(values[0]);
  const auto call = [&](std::size_t i) {
    return kernels::WeightGradient{in.latent.view(), in.dk.view(),     in.dv.view(),
                                   keys[i].view(),   values[i].view(), write};
  };
  kernels::cpu_tiles().weight_gradient(call(0));
  Maps maps;
  const kernels::WeightGradient c = call(1);
  run_weight_gradient({maps.view(c.latent), maps.view(c.dk), maps.view(c.dv), maps.view(c.dkey_weights),
                       maps.view(c.dvalue_weights), write},
                      seed);
  same(keys[1], keys[0], of.rows, into);
  same(values[1], values[0], of.rows, into);
}

TEST_CASE("products for latents, emulated, beside the CPU tiles") {
  std::uint32_t seed = 1;
  for (const Sizes& sizes :
       {Sizes{133, 2, 40, 8, 24, 16}, Sizes{5, 3, 137, 3, 7, 130}, Sizes{0, 2, 8, 2, 8, 4}})
    for (const auto& [nominal, wide] : {std::pair{DType::bf16, DType::bf16},
                                        {DType::bf16, DType::fp32},
                                        {DType::fp16, DType::fp16},
                                        {DType::fp16, DType::fp32},
                                        {DType::fp32, DType::fp32},
                                        {DType::fp64, DType::fp64}}) {
      CAPTURE(sizes.rows);
      CAPTURE(testing::name_of(nominal));
      CAPTURE(testing::name_of(wide));
      Operands in{std::mt19937(seed), sizes, nominal, wide};
      if (nominal == wide) check_project(in, seed);
      const DType sums = nominal == DType::fp64 ? DType::fp64 : DType::fp32;
      check_back(in, nominal, Write::store, seed + 1);
      check_back(in, sums, Write::add, seed + 2);
      check_weights(in, Write::store, seed + 3);
      check_weights(in, Write::add, seed + 4);
      seed += 5;
    }
}

}  // namespace
}  // namespace cplab::emulator

// The kernels for few queries on emulated thread blocks against brute force: query heads as rows of tiles of
// both heights, keys in pieces and whole; threads in random order, copies as late as they may arrive, scratch
// full of NaN.
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/choice/choose.hpp"
#include "kernels/families/decode/shape.hpp"
#include "kernels/families/family.hpp"
#include "tests/emulator/decode.hpp"
#include "tests/emulator/host_tables.hpp"
#include "tests/kernels/random_tile.hpp"
#include "tests/kernels/tile_cases.hpp"

namespace cplab::emulator {
namespace {

using kernels::DType;
using namespace kernels::cuda;

struct Kernels {
  DType dtype;
  HeadSizes sizes;
  EmulatedDecode run;
};

const Kernels all_kernels[] = {
    {DType::fp16, {64, 64}, emulated_decode<DType::fp16, 64, 64>()},
    {DType::bf16, {128, 128}, emulated_decode<DType::bf16, 128, 128>()},
    {DType::bf16, {576, 512}, emulated_decode<DType::bf16, 576, 512>()},
#if CPLAB_NIGHTLY
    {DType::fp16, {192, 128}, emulated_decode<DType::fp16, 192, 128>()},
    {DType::bf16, {256, 256}, emulated_decode<DType::bf16, 256, 256>()},
#endif
};

// How many calls were split over their keys, and how many were not.
struct Ways {
  int split = 0, whole = 0;
};

testing::TileRun attend(const Kernels& kernels, int rows, const kernels::Attend& call, std::uint64_t seed,
                        Ways& ways) {
  const std::string name = decode_name(kernels.dtype, kernels.sizes, rows);
  const VariantOptions options{.sm_major = 9, .sms = 24, .build = {}, .only = name};
  if (variants_for(call, options).empty()) {
    kernels::cpu_tiles().attend(call);
    return {"(cpu tiles)", true};
  }
  const ChosenForward chosen = choose_variant(call, options);
  HostTables tables;
  AttendParams params{.q = tables.view(call.q),
                      .k = tables.view(call.k),
                      .v = tables.view(call.v),
                      .out = tables.view(call.out),
                      .lse = tables.view(call.lse),
                      .work = HostTables::list(chosen.work),
                      .scale = call.scale,
                      .write = call.write};
  set_numbers_of_heads(params, call);
  const std::vector<SplitRows> split = split_rows(chosen.work);
  const std::int64_t partial = static_cast<std::int64_t>(chosen.work.tiles.size()) *
                               chosen.variant->family->tile_heads(*chosen.variant, call) * rows;
  std::vector<float> out(static_cast<std::size_t>(partial * call.v.width),
                         std::numeric_limits<float>::quiet_NaN());
  std::vector<float> lse(static_cast<std::size_t>(partial), std::numeric_limits<float>::quiet_NaN());
  if (!split.empty())
    params.split = {split.data(), static_cast<std::int32_t>(split.size()), out.data(), lse.data()};
  (split.empty() ? ways.whole : ways.split) += 1;
  if (params.work.count > 0) kernels.run(params, rows, seed);
  return {name, true};
}

void check_cases(const HeadSizes& sizes, std::int64_t first, std::int64_t last) {
  testing::Report report;
  Ways ways;
  for (const Kernels& kernels : all_kernels) {
    if (kernels.sizes != sizes) continue;
    testing::TileRunner runner;
    runner.tensor_cores_only = true;
    runner.tensor_core_dtypes = {kernels.dtype};
    runner.tensor_core_sizes = {{sizes.key, sizes.value}};
    runner.most_rows = 500;
    runner.most_queries = 5;
    runner.most_group = 20;
    for (std::int64_t number = first; number < last; ++number) {
      if (number == 7) continue;  // 4096 sequences: for a GPU
      const auto seed = static_cast<std::uint64_t>(number);
      const int rows = number % 3 == 0 ? 64 : 16;
      runner.attend = [&](auto, std::int64_t, const kernels::Attend& call) {
        return attend(kernels, rows, call, seed, ways);
      };
      runner.attend_backward = [](auto, std::int64_t, const kernels::AttendBackward& call) {
        kernels::cpu_tiles().attend_backward(call);
        return testing::TileRun{"(cpu tiles)", true};
      };
      CAPTURE(number);
      REQUIRE_NOTHROW(testing::attend_case(report, {.seed = 5, .number = number, .only = ""}, runner));
    }
  }
  CHECK(report.summary());
  CHECK(ways.split > 0);
  CHECK(ways.whole > 0);
}

TEST_CASE("long: kernels for few queries, emulated: head size 64") {
  check_cases({64, 64}, 0, 8);
}

TEST_CASE("long: kernels for few queries, emulated: head size 128") {
  check_cases({128, 128}, 0, 8);
}

TEST_CASE("long: kernels for few queries, emulated: keys of 576, values of 512") {
  check_cases({576, 512}, 0, 8);
}

#if CPLAB_NIGHTLY
TEST_CASE("long: kernels for few queries, emulated: keys of 192, values of 128") {
  check_cases({192, 128}, 0, 8);
}

TEST_CASE("long: kernels for few queries, emulated: head size 256") {
  check_cases({256, 256}, 0, 8);
}
#endif

}  // namespace
}  // namespace cplab::emulator

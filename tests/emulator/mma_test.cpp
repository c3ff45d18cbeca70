// The mma kernels on emulated thread blocks against brute force: keys and values of different sizes, tiles of
// both kinds; threads in random order, copies as late as they may arrive.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/choice/choose.hpp"
#include "kernels/families/family.hpp"
#include "kernels/families/mma/tiles.hpp"
#include "tests/emulator/host_tables.hpp"
#include "tests/emulator/mma.hpp"
#include "tests/kernels/random_tile.hpp"
#include "tests/kernels/tile_cases.hpp"

namespace cplab::emulator {
namespace {

using kernels::DType;
using namespace kernels::cuda;

constexpr VariantOptions options{.sm_major = 9, .sms = 4, .build = {.hopper = false, .full = true}};

struct Kernels {
  DType dtype;
  HeadSizes sizes;
  EmulatedMma run;
};

const Kernels all_kernels[] = {
    {DType::fp16, {64, 64}, emulated_mma<DType::fp16, 64, 64>()},
    {DType::bf16, {128, 128}, emulated_mma<DType::bf16, 128, 128>()},
    {DType::fp16, {192, 128}, emulated_mma<DType::fp16, 192, 128>()},
#if CPLAB_NIGHTLY
    {DType::bf16, {96, 96}, emulated_mma<DType::bf16, 96, 96>()},
    {DType::bf16, {256, 256}, emulated_mma<DType::bf16, 256, 256>()},
#endif
};

testing::TileRun attend(const Kernels& kernels, const kernels::Attend& call, std::uint64_t seed) {
  const ChosenForward chosen = choose_variant(call, options);
  if (chosen.variant->family->name() != "mma" || chosen.variant->dtype != kernels.dtype) {
    kernels::cpu_tiles().attend(call);
    return {"(cpu tiles)", true};
  }
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
  kernels.run.attend(params, seed);
  return {chosen.variant->name, true};
}

testing::TileRun attend_backward(const Kernels& kernels, const kernels::AttendBackward& asked,
                                 bool small_tiles, std::uint64_t seed) {
  VariantOptions allowed = options;
  std::string name;
  if (small_tiles && has_small_tiles(kernels.sizes)) {
    name = mma_backward_name(kernels.dtype, kernels.sizes, true);
    if (!choose_variant(asked, options).variant->name.ends_with("general")) allowed.only = name;
  }
  const ChosenBackward chosen = choose_variant(asked, allowed);
  if (chosen.variant->family->name() != "mma" || chosen.variant->dtype != kernels.dtype) {
    kernels::cpu_tiles().attend_backward(asked);
    return {"(cpu tiles)", true};
  }
  const kernels::AttendBackward call = as_launched(asked, chosen);
  HostTables tables;
  const AttendBackwardParams params{.q = tables.view(call.q),
                                    .k = tables.view(call.k),
                                    .v = tables.view(call.v),
                                    .dout = tables.view(call.dout),
                                    .lse = tables.view(call.lse),
                                    .delta = tables.view(call.delta),
                                    .dq = tables.view(call.dq),
                                    .dk = tables.view(call.dk),
                                    .dv = tables.view(call.dv),
                                    .by_q = HostTables::list(chosen.by_q),
                                    .by_k = HostTables::list(chosen.by_k),
                                    .scale = call.scale,
                                    .write_dq = call.write_dq,
                                    .write_dk = call.write_dk,
                                    .turns = {}};
  kernels.run.attend_backward(params, small_tiles, seed);
  if (call.rounded_dq) kernels::cpu_tiles().copy(call.dq, *call.rounded_dq);
  return {chosen.variant->name, true};
}

void check_cases(const HeadSizes& sizes, bool small_tiles, std::int64_t first, std::int64_t last) {
  testing::Report report;
  for (const Kernels& kernels : all_kernels) {
    if (kernels.sizes != sizes) continue;
    testing::TileRunner runner;
    runner.tensor_cores_only = true;
    runner.computes_delta = false;
    runner.tensor_core_dtypes = {kernels.dtype};
    runner.tensor_core_sizes = {{sizes.key, sizes.value}};
    runner.most_rows = 150;
    for (std::int64_t number = first; number < last; ++number) {
      if (number == 7) continue;  // 4096 sequences: for a GPU
      const auto seed = static_cast<std::uint64_t>(number);
      runner.attend = [&](auto, std::int64_t, const kernels::Attend& call) {
        return attend(kernels, call, seed);
      };
      runner.attend_backward = [&](auto, std::int64_t, const kernels::AttendBackward& call) {
        return attend_backward(kernels, testing::with_delta(call), small_tiles, seed);
      };
      CAPTURE(number);
      REQUIRE_NOTHROW(testing::attend_case(report, {.seed = 5, .number = number, .only = ""}, runner));
    }
  }
  CHECK(report.summary());
}

TEST_CASE("long: mma kernels, emulated: one size of keys and values") {
  check_cases({64, 64}, false, 0, 4);
  check_cases({128, 128}, false, 0, 4);
}

TEST_CASE("long: mma kernels, emulated: small tiles at head size 128") {
  check_cases({128, 128}, true, 0, 8);
}

TEST_CASE("long: mma kernels, emulated: keys of 192, values of 128") {
  check_cases({192, 128}, false, 0, 8);
  check_cases({192, 128}, true, 0, 8);
}

#if CPLAB_NIGHTLY
TEST_CASE("long: mma kernels, emulated: head size 96") {
  check_cases({96, 96}, false, 0, 4);
}

TEST_CASE("long: mma kernels, emulated: head size 256, two warps with the same keys") {
  check_cases({256, 256}, false, 0, 8);
  check_cases({256, 256}, true, 0, 8);
}
#endif

}  // namespace
}  // namespace cplab::emulator

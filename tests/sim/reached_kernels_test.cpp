// Kernels serve plans: every attention kernel of a full build, and every operand that a call may leave out,
// is taken by a plan on some architecture that the kernels are compiled for. What no plan reaches fails here,
// and belongs in a notebook (docs/lab), not in the source.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "algorithms/core/build.hpp"
#include "algorithms/core/resolve.hpp"
#include "calls/converter.hpp"
#include "kernels/choice/choose.hpp"

namespace cplab {
namespace {

using kernels::cuda::VariantOptions;

constexpr kernels::cuda::KernelBuild full_build{.hopper = true, .full = true};

// A100, GeForce 3090, L40, H100: with and without room for large thread blocks, with and without wgmma.
std::vector<VariantOptions> architectures() {
  std::vector<VariantOptions> all;
  struct Gpu {
    int major, minor, sms;
  };
  for (const auto& [major, minor, sms] : {Gpu{8, 0, 108}, {8, 6, 82}, {8, 9, 142}, {9, 0, 132}})
    for (const kernels::KernelChoice choice :
         {kernels::KernelChoice::best, kernels::KernelChoice::deterministic}) {
      VariantOptions options;
      options.choice = choice;
      options.sm_major = major;
      options.sm_minor = minor;
      options.sms = sms;
      options.build = full_build;
      all.push_back(options);
    }
  return all;
}

constexpr Window causal{-1, 0}, full{-1, -1}, local{1024, 0};

struct Shape {
  std::vector<std::int64_t> lengths;
  std::int64_t heads = 16, kv_heads = 16;
  Window window = causal;
};

// Short, long, few tiles, grouped heads, packed documents, a window; each where a kernel of its own may win.
std::vector<Shape> shapes() {
  const auto batch = [](std::size_t count, std::int64_t length) {
    return std::vector<std::int64_t>(count, length);
  };
  return {{batch(64, 256)},
          {batch(1, 512)},
          {batch(1, 512), 16, 16, full},
          {batch(1, 2048)},
          {batch(8, 1024), 16, 16, full},
          {batch(1, 16384)},
          {batch(4, 4096), 16, 2},
          {batch(1, 8192), 8, 1, local},
          {{512, 3072, 1536, 7168, 256, 3840}}};
}

Scenario scenario_of(const std::string& algorithm, int ranks, const Shape& shape, DType dtype,
                     std::int64_t head_size, std::int64_t value_size) {
  Scenario scenario;
  Problem& problem = scenario.problem;
  problem.batch = static_cast<std::int64_t>(shape.lengths.size());
  problem.lengths = problem.padded_lengths = shape.lengths;
  problem.sequence = shape.lengths.front();
  problem.heads = shape.heads;
  problem.kv_heads = shape.kv_heads;
  problem.head_size = head_size;
  problem.value_size = value_size;
  problem.dtype = dtype;
  problem.window = shape.window;
  problem.scale = 0.125;
  scenario.parallel.ranks = ranks;
  scenario.parallel.groups = {{}};
  for (int rank = 0; rank < ranks; ++rank) scenario.parallel.groups[0].push_back(rank);
  scenario.algorithm = algorithm;
  return resolve(scenario);
}

struct Reached {
  std::set<std::string> kernels, operands;
};

void add_operands(const kernels::AttendBackward& call, std::set<std::string>& operands) {
  if (call.out) operands.insert("out");
  if (call.rounded_dq) operands.insert("rounded_dq");
  if (call.rounded_dk) operands.insert("rounded_dk");
}
void add_operands(const kernels::Attend&, std::set<std::string>&) {}

void add_plan(const Scenario& scenario, Reached& reached) {
  const Plan plan = build_plan(scenario);
  const CallConverter calls(plan.ranks.front(), scenario.problem.dtype);
  for (const Operation& op : plan.ranks.front().operations) {
    if (op.kind != OpKind::attend && op.kind != OpKind::attend_backward) continue;
    for (const PlacedCall& placed : calls.calls(op))
      std::visit(
          [&](const auto& call) {
            using Call = std::decay_t<decltype(call)>;
            if constexpr (std::is_same_v<Call, kernels::Attend> ||
                          std::is_same_v<Call, kernels::AttendBackward>) {
              add_operands(call, reached.operands);
              for (const VariantOptions& options : architectures())
                reached.kernels.insert(choose_variant(call, options).variant->name);
            }
          },
          placed.call);
  }
}

// One token against 128K keys: heads of a key head that fill a tile of few rows, and one of many.
void add_decoding(DType dtype, std::int64_t head_size, std::int64_t value_size, Reached& reached) {
  for (const auto& [heads, kv_heads] : {std::pair<std::int64_t, std::int64_t>{32, 8}, {64, 1}}) {
    Scenario scenario = scenario_of("tree", 1, {{1}, heads, kv_heads, full}, dtype, head_size, value_size);
    scenario.problem.kv_sequence = 1 << 17;
    scenario.problem.kv_lengths = scenario.problem.kv_padded_lengths = {1 << 17};
    scenario.problem.direction = Direction::forward;
    add_plan(resolve(scenario), reached);
  }
}

Reached of_plans() {
  Reached reached;
  struct Sizes {
    std::int64_t keys, values;
  };
  for (const std::string algorithm : {"ring", "all_gather"})
    for (const int ranks : {1, 2, 4}) {
      if (ranks == 1 && algorithm != "ring") continue;
      for (const Shape& shape : shapes())
        for (const DType dtype : {DType::bf16, DType::fp16})
          for (const std::int64_t size : {64, 128})
            add_plan(scenario_of(algorithm, ranks, shape, dtype, size, size), reached);
    }
  for (const auto& [keys, values] : {Sizes{32, 32}, {96, 96}, {192, 128}, {256, 256}})
    for (const DType dtype : {DType::bf16, DType::fp16})
      add_plan(scenario_of("ring", 1, {{2048}}, dtype, keys, values), reached);
  for (const auto& [keys, values] : {Sizes{64, 64}, {128, 128}, {192, 128}, {256, 256}, {576, 512}})
    for (const DType dtype : {DType::bf16, DType::fp16}) add_decoding(dtype, keys, values, reached);
  for (const DType dtype : {DType::fp32, DType::fp64})
    add_plan(scenario_of("ring", 1, {{256}}, dtype, 80, 80), reached);
  return reached;
}

TEST_CASE("every attention kernel and every optional operand is reached by a plan") {
  const Reached reached = of_plans();
  for (const auto& variant : attend_variants(full_build))
    CHECK_MESSAGE(reached.kernels.contains(variant.name), variant.name);
  for (const auto& variant : attend_backward_variants(full_build))
    CHECK_MESSAGE(reached.kernels.contains(variant.name), variant.name);
  CHECK(reached.operands == std::set<std::string>{"out", "rounded_dk", "rounded_dq"});
}

}  // namespace
}  // namespace cplab

// Verifies ring attention over a covering set of everything that can be chosen: every value of every pair (or
// triple) of dimensions occurs together in some case. Plans are checked, executed on the CPU in a random
// order, and compared with the dense reference, rank by rank and tensor by tensor.
//   build/release/grid --strength 2 [--scale 8] [--orders 20] [--shard 0/2] [--list]
//   build/release/grid --gpu 8 [--transport copy] [--most-ranks 4]    on GPUs, up to 8 ranks on each;
//   --orders
//                                                                     are then seeds of --jitter
// Prints a line for every case that fails, with all its choices, and the largest error / tolerance of all.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "algorithms/build.hpp"
#include "algorithms/resolve.hpp"
#include "cli/verify/verify.hpp"
#include "tests/grid/covering.hpp"

using namespace cplab;

namespace {

struct Dimension {
  const char* name;
  std::vector<const char*> values;
};

const std::vector<Dimension>& dimensions() {
  static const std::vector<Dimension> all{
      {"ranks", {"1", "2", "3", "4", "5", "8"}},
      {"kv_slots", {"2", "3", "all"}},
      {"merge", {"incremental/1", "incremental/2", "incremental/all", "deferred/all", "fused/-"}},
      {"accumulator", {"fp32", "nominal"}},
      {"gradient_wire_dtype", {"fp32", "nominal"}},
      {"lanes", {"2", "1", "no overlap"}},
      {"tile_inputs", {"view", "copy"}},
      {"placement", {"contiguous", "zigzag", "striped"}},
      {"mask", {"full", "causal", "(5,0)", "(6,6)", "(0,0)", "(-1,3)", "causal (4,9)"}},
      {"heads", {"2:2", "4:1", "8:1", "4:2"}},
      {"sizes", {"16", "64", "128", "24/40", "64/16"}},
      {"lengths",
       {"dense even", "dense odd", "dense one", "packed odd", "packed padded", "packed chunks of padding"}},
      {"dtype", {"fp64", "fp32", "bf16", "fp16"}},
  };
  return all;
}

struct Settings {
  std::int64_t scale = 1;  // stretches the sequences, so that chunks span several blocks of the tiles
  std::uint64_t orders = 1;
  int ranks_per_gpu = 0;  // 0: on the CPU
  std::int64_t most_ranks = 8;
  std::string transport = "copy";  // of GPUs
};

// On GPUs fp64 becomes fp32: it has no kernels in the core set.
Scenario scenario_of(const testing::Case& values, const Settings& settings) {
  const std::int64_t scale = settings.scale;
  const auto chosen = [&](const char* name) -> std::string {
    const auto& all = dimensions();
    const auto at = std::find_if(all.begin(), all.end(), [&](auto& d) { return !std::strcmp(d.name, name); });
    return at->values[values[static_cast<std::size_t>(at - all.begin())]];
  };
  const auto count_or_word = [](const std::string& text) {
    return text == "all" ? OptionValue(text) : OptionValue(std::int64_t{std::atoll(text.c_str())});
  };
  Scenario s;
  Problem& p = s.problem;
  const std::int64_t P = s.parallel.ranks =
      std::min(settings.most_ranks, std::int64_t{std::atoll(chosen("ranks").c_str())});
  const std::string lengths = chosen("lengths");
  if (lengths == "dense even") p.batch = 2, p.sequence = 8 * P * scale;
  if (lengths == "dense odd") p.batch = 1, p.sequence = 6 * P * scale + 5;
  if (lengths == "dense one") p.batch = 3, p.sequence = 1;
  for (std::int64_t b = 0; b < p.batch; ++b) p.lengths.push_back(p.sequence);
  p.padded_lengths = p.lengths;
  p.packed = p.batch == 0;
  p.format = p.packed ? Format::thd : Format::bshd;
  if (lengths == "packed odd") p.lengths = p.padded_lengths = {2 * P - 1, 0, 1, 2 * P + 1, 17 * scale};
  if (lengths == "packed padded")
    p.lengths = {7, 3 * P * scale, 13}, p.padded_lengths = {8, 4 * P * scale, 21};
  if (lengths == "packed chunks of padding")
    p.lengths = {3, 0, 9}, p.padded_lengths = {8 * P * scale, 2 * P, 12 * P * scale};
  const std::string heads = chosen("heads"), sizes = chosen("sizes"), mask = chosen("mask"),
                    merge = chosen("merge");
  p.heads = heads[0] - '0';
  p.kv_heads = heads[2] - '0';
  p.head_size = p.value_size = std::atoll(sizes.c_str());
  if (const auto slash = sizes.find('/'); slash != std::string::npos)
    p.value_size = std::atoll(sizes.c_str() + slash + 1);
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16})
    if (name(dtype) == chosen("dtype")) p.dtype = dtype;
  if (settings.ranks_per_gpu > 0 && p.dtype == DType::fp64) p.dtype = DType::fp32;
  p.causal = mask.rfind("causal", 0) == 0;
  if (const auto open = mask.find('('); open != std::string::npos) {
    p.window.left = std::atoll(mask.c_str() + open + 1);
    p.window.right = std::atoll(mask.c_str() + mask.find(',') + 1);
  }
  p.scale = 1 / std::sqrt(static_cast<double>(p.head_size));
  p.direction = Direction::forward_backward;
  s.algorithm = "ring";
  s.placement = chosen("placement");
  s.schedule.set("kv_slots", count_or_word(chosen("kv_slots")));
  s.schedule.set("merge", merge.substr(0, merge.find('/')));
  if (const std::string slots = merge.substr(merge.find('/') + 1); slots != "-")
    s.schedule.set("out_slots", count_or_word(slots));
  s.schedule.set("accumulator", chosen("accumulator"));
  s.schedule.set("gradient_wire_dtype", chosen("gradient_wire_dtype"));
  s.schedule.set("overlap", chosen("lanes") != "no overlap");
  s.schedule.set("compute_lanes", std::int64_t{chosen("lanes") == "2" ? 2 : 1});
  s.schedule.set("tile_inputs", chosen("tile_inputs"));
  if (settings.ranks_per_gpu > 0) s.schedule.set("transport", settings.transport);
  return resolve(s);
}

std::string describe(const testing::Case& values) {
  std::string text;
  for (std::size_t d = 0; d < values.size(); ++d)
    text += (d ? ", " : "") + std::string(dimensions()[d].name) + "=" + dimensions()[d].values[values[d]];
  return text;
}

// The largest error over tolerance of all tensors; at least 1e9 where something is wrong that has no number.
double verify_case(const testing::Case& values, const Settings& settings, std::uint64_t seed) {
  const Plan plan = build_plan(scenario_of(values, settings));
  VerifyOptions options;
  const auto set_order = [&](std::uint64_t order) {
    options.execution.order = {true, order};
    if (options.gpu) options.gpu->jitter = order;
  };
  options.execution.keep_log = false;
  if (settings.ranks_per_gpu > 0) {
    options.gpu.emplace();
    options.gpu->ranks_per_gpu = settings.ranks_per_gpu;
    options.gpu->instrumented = 0;
    options.gpu->poison = true;
    options.gpu->deterministic = settings.orders > 1;  // results are compared bit by bit
    options.gpu->timeout_s = 20;
  }
  set_order(seed);
  const Inputs inputs = random_inputs(plan.scenario.problem, seed);
  VerifyResult result = verify(plan, inputs, options);
  for (std::uint64_t order = 1; order < settings.orders && result.ok(); ++order) {
    set_order(seed + order);
    const VerifyResult other = verify(plan, inputs, options);
    if (other.ok() && other.outputs->same_bits(*result.outputs)) continue;
    result.findings.push_back({FindingKind::race, -1, {}, {}, "another order of execution gives other bits"});
  }
  double worst = 0;
  for (const auto& tensor : result.tensors)
    if (tensor.tolerance > 0) worst = std::max(worst, tensor.rel_l2 / tensor.tolerance);
  if (result.ok()) return worst;
  std::printf("FAILED seed %llu: %s\n", static_cast<unsigned long long>(seed), describe(values).c_str());
  for (const Finding& f : result.findings)
    std::printf("  %s, rank %d %s %s: %s\n", std::string(name(f.kind)).c_str(), f.rank, f.operation.c_str(),
                f.buffer.c_str(), f.message.c_str());
  return 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t strength = 2, shard = 0, shards = 1;
  Settings settings;
  bool list = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--list") {
      list = true;
      continue;
    }
    if (++i == argc) return 2;
    const char* value = argv[i];
    if (option == "--strength") strength = std::strtoul(value, nullptr, 10);
    if (option == "--scale") settings.scale = std::atoll(value);
    if (option == "--orders") settings.orders = std::strtoull(value, nullptr, 10);
    if (option == "--gpu") settings.ranks_per_gpu = std::atoi(value);
    if (option == "--most-ranks") settings.most_ranks = std::atoll(value);
    if (option == "--transport") settings.transport = value;
    if (option == "--shard" && std::sscanf(value, "%zu/%zu", &shard, &shards) != 2) return 2;
  }
  std::vector<std::size_t> levels;
  for (const Dimension& d : dimensions()) levels.push_back(d.values.size());
  const std::vector<testing::Case> cases =
      testing::covering_array(levels, strength, [](auto&) { return true; });
  const std::size_t open = testing::uncovered(levels, strength, cases);
  double worst = 0;
  std::size_t run = 0, failed = 0;
  for (std::size_t i = shard; i < cases.size(); i += shards) {
    if (list) std::printf("%zu: %s\n", i, describe(cases[i]).c_str());
    if (list) continue;
    const double ratio = verify_case(cases[i], settings, 1000 + i);
    worst = std::max(worst, ratio >= 1e9 ? 0 : ratio);
    failed += ratio >= 1e9;
    ++run;
  }
  std::printf(
      "%zu of %zu cases (strength %zu, %zu combinations uncovered): %zu failed, largest error / tolerance "
      "%.2f\n",
      run, cases.size(), strength, open, failed, worst);
  return failed || open ? 1 : 0;
}

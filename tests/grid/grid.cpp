// Verifies every algorithm over a covering set of everything that can be chosen: every value of every pair
// (or triple) of dimensions occurs together in some case. Plans are checked, executed on the CPU in a random
// order, and compared with the dense reference, rank by rank and tensor by tensor.
//   build/release/grid --strength 2 [--scale 8] [--orders 20] [--shard 0/2] [--parts 4] [--list] [--algorithm
//   NAME] build/release/grid --gpu 8 [--transport copy] [--most-ranks 4]
// --gpu: on GPUs, with up to 8 ranks on each; --orders then counts seeds of the delays that `verify --jitter`
// puts in. --parts: one of so many cases, chosen by a hash of what they are. Prints a line for every case
// that fails, with all its choices, and the largest error / tolerance of all. Exit 0: all went well; 1:
// something did not; 2: usage.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "cli/verify/verify.hpp"
#include "tests/grid/part.hpp"
#include "tests/scenarios/choices.hpp"

using namespace cplab;
using testing::Dimension;

namespace {

struct Settings {
  std::int64_t scale = 1;  // stretches the sequences, so that chunks span several blocks of the tiles
  std::uint64_t orders = 1;
  int ranks_per_gpu = 0;  // 0: on the CPU
  int most_ranks = 8;
  std::string transport = "copy";  // of GPUs
};

// Kinds of attention beside others: latents have no kernels on GPUs.
Dimension pair_masks_of(const Algorithm& algorithm, bool on_gpu) {
  Dimension all = testing::pair_mask_dimension(algorithm);
  if (on_gpu) std::erase_if(all.values, [](const testing::Value& value) { return value.name == "latents"; });
  return all;
}

// What is covered. On GPUs fp64 becomes fp32: it has no kernels in the core set.
std::vector<Dimension> dimensions_of(const Algorithm& algorithm, const Settings& settings) {
  std::vector<int> ranks{1, 2, 3, 4, 5, 8};
  for (int& P : ranks) P = std::min(P, settings.most_ranks);
  const bool on_gpu = settings.ranks_per_gpu > 0;
  std::vector<Dimension> all{testing::ranks_dimension(ranks)};
  for (Dimension& d : testing::option_dimensions(algorithm, false)) all.push_back(std::move(d));
  all.push_back(testing::placement_dimension(algorithm));
  all.push_back(testing::mask_dimension());
  all.push_back(testing::heads_dimension({"2:2", "4:1", "8:1", "4:2"}));
  all.push_back(testing::size_dimension({"16", "64", "128", "24/40", "64/16"}));
  all.push_back(testing::length_dimension(settings.scale));
  all.push_back(
      testing::dtype_dimension({on_gpu ? DType::fp32 : DType::fp64, DType::fp32, DType::bf16, DType::fp16}));
  all.push_back(pair_masks_of(algorithm, on_gpu));
  all.push_back(testing::max_logit_dimension());
  all.push_back(testing::convolution_dimension());
  all.push_back(testing::transition_dimension(algorithm));
  return all;
}

// The largest error / tolerance of all tensors, or 1e9 for a case that failed.
double verify_case(Scenario scenario, const std::string& what, const Settings& settings, std::uint64_t seed) {
  if (settings.ranks_per_gpu > 0) scenario.schedule.set("transport", settings.transport);
  const Plan plan = build_plan(scenario);
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
  std::printf("FAILED seed %llu: %s\n", static_cast<unsigned long long>(seed), what.c_str());
  for (const Finding& f : result.findings)
    std::printf("  %s, rank %d %s %s: %s\n", std::string(name(f.kind)).c_str(), f.rank, f.operation.c_str(),
                f.buffer.c_str(), f.message.c_str());
  return 1e9;
}

struct Shard {
  std::size_t first = 0, step = 1;
  std::uint64_t parts = 1;
};

// True if all went well. `title`: print the name of the algorithm.
bool run(const Algorithm& algorithm, bool title, std::size_t strength, Shard shard, const Settings& settings,
         bool list) {
  const std::vector<Dimension> dimensions = dimensions_of(algorithm, settings);
  std::size_t impossible = 0;
  const std::vector<testing::Case> cases = testing::cases_of(algorithm, dimensions, strength, &impossible);
  const std::size_t open = testing::uncovered(dimensions, strength, cases);
  if (title) std::printf("%s: ", std::string(algorithm.name).c_str());
  if (title && list) std::printf("\n");
  double worst = 0;
  std::size_t run = 0, failed = 0;
  for (std::size_t i = shard.first; i < cases.size(); i += shard.step) {
    const std::string what = testing::describe(dimensions, cases[i]);
    if (!testing::in_part(what, shard.parts)) continue;
    if (list) std::printf("%zu: %s\n", i, what.c_str());
    if (list) continue;
    const double ratio =
        verify_case(testing::scenario_of(algorithm, dimensions, cases[i]), what, settings, 1000 + i);
    worst = std::max(worst, ratio >= 1e9 ? 0 : ratio);
    failed += ratio >= 1e9;
    ++run;
  }
  std::printf(
      "%zu of %zu cases (strength %zu, %zu combinations uncovered): %zu failed, largest error / tolerance "
      "%.2f\n",
      run, cases.size(), strength, open, failed, worst);
  // A combination may be found impossible by itself and then be covered by the case of another.
  return failed == 0 && open <= impossible;
}

int usage(const std::string& what) {
  std::fprintf(stderr,
               "%s\ngrid [--strength N] [--scale N] [--orders N] [--shard FIRST/STEP] [--parts N] [--list] "
               "[--algorithm NAME] "
               "[--gpu RANKS_ON_EACH] [--transport NAME] [--most-ranks N]\n",
               what.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  // Whoever ends the program early has the lines so far.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  std::size_t strength = 2;
  Shard shard;
  Settings settings;
  bool list = false;
  const Algorithm* only = nullptr;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--list") {
      list = true;
      continue;
    }
    if (++i == argc) return usage(option + " needs a value");
    const char* value = argv[i];
    if (option == "--algorithm") {
      if (!(only = find_algorithm(value))) return usage(std::string("no algorithm ") + value);
    } else if (option == "--strength") {
      strength = std::strtoul(value, nullptr, 10);
    } else if (option == "--scale") {
      settings.scale = std::atoll(value);
    } else if (option == "--orders") {
      settings.orders = std::strtoull(value, nullptr, 10);
    } else if (option == "--gpu") {
      settings.ranks_per_gpu = std::atoi(value);
    } else if (option == "--most-ranks") {
      settings.most_ranks = std::atoi(value);
    } else if (option == "--transport") {
      settings.transport = value;
    } else if (option == "--parts") {
      shard.parts = std::max<std::uint64_t>(1, std::strtoull(value, nullptr, 10));
    } else if (option == "--shard") {
      if (std::sscanf(value, "%zu/%zu", &shard.first, &shard.step) != 2) return usage("--shard FIRST/STEP");
    } else {
      return usage("no option " + option);
    }
  }
  bool fine = true;
  for (const Algorithm& algorithm : algorithms()) {
    if (only && &algorithm != only) continue;
    fine = run(algorithm, !only && algorithms().size() > 1, strength, shard, settings, list) && fine;
  }
  return fine ? 0 : 1;
}

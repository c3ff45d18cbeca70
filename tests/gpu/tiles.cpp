// Compares every CUDA tile with the CPU's and with brute force, on random and on hard cases, or times them.
//   tiles [--seed N] [--cases N] [--case K] [--only OPERATION] [--threads N]      --case replays one case
//   tiles --bench [--only attend|decode|segments|linear|masked|rows]
//   tiles --serve|--serve-linear   times attention, linear attention, on demand (gpu_tile.hpp)
//   tiles --heights    times each tile height, for fitting their costs; --backward-heights: of the
//   fused backward
// --portable, --deterministic, --apart: the attention kernels that every architecture has, or those that
// give the same bits in every run (apart: not with the fused backward that adds to dq in order), instead of
// the fastest on this GPU. --small-tiles: those of --portable that SM 8.6 and 8.9 have room for.
// --few-queries: cases of few queries and many keys, by the kernels for these. --alone: no
// call follows kernels that bring what it reads; for the tools of compute-sanitizer. Exit 0: all within
// tolerance; 1: something is not; 2: usage; 77 (CTest: skipped): no GPU.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <thread>

#include "tests/gpu/gpu_tile.hpp"

namespace cplab::testing {
namespace {

struct Options {
  std::uint64_t seed = 1;
  std::int64_t cases = 300;
  std::int64_t single = -1;  // --case
  int threads = 8;           // brute force in double takes most of the time
  std::string only;
  bool bench = false;
  bool serve = false;
  bool serve_linear = false;
  bool heights = false;
  bool backward_heights = false;
};

int usage() {
  std::fprintf(stderr,
               "tiles [--seed N] [--cases N] [--case K] [--only OPERATION] [--threads N] "
               "[--portable|--small-tiles|--deterministic|--apart] [--few-queries] [--alone] | --bench | "
               "--serve | --serve-linear | "
               "--heights | --backward-heights\n");
  return 2;
}

bool parse(int count, char** arguments, Options& options) {
  for (int n = 1; n < count; ++n) {
    const std::string_view name = arguments[n];
    if (name == "--portable") {
      kernel_choice = kernels::KernelChoice::portable;
      continue;
    }
    if (name == "--small-tiles") {
      kernel_choice = kernels::KernelChoice::portable;
      small_tiles = true;
      continue;
    }
    if (name == "--few-queries") {
      few_queries = true;
      continue;
    }
    if (name == "--deterministic") {
      kernel_choice = kernels::KernelChoice::deterministic;
      continue;
    }
    if (name == "--alone") {
      alone = true;
      continue;
    }
    if (name == "--apart") {
      kernel_choice = kernels::KernelChoice::apart;
      continue;
    }
    if (name == "--serve") {
      options.serve = true;
      continue;
    }
    if (name == "--serve-linear") {
      options.serve_linear = true;
      continue;
    }
    if (name == "--heights") {
      options.heights = true;
      continue;
    }
    if (name == "--backward-heights") {
      options.backward_heights = true;
      continue;
    }
    if (name == "--bench") {
      options.bench = true;
      continue;
    }
    if (n + 1 == count) return false;
    const char* value = arguments[++n];
    if (name == "--only") {
      options.only = value;
      continue;
    }
    char* end = nullptr;
    const long long number = std::strtoll(value, &end, 10);
    if (end == value || *end != '\0' || number < 0) return false;
    if (name == "--seed") {
      options.seed = static_cast<std::uint64_t>(number);
    } else if (name == "--cases") {
      options.cases = number;
    } else if (name == "--case") {
      options.single = number;
    } else if (name == "--threads" && number > 0 && number <= 64) {
      options.threads = static_cast<int>(number);
    } else {
      return false;
    }
  }
  return true;
}

void run_case(Report& report, const Options& options, const TileRunner& runner, const MaskedRunner& masked,
              std::int64_t number) {
  const CaseName name{.seed = options.seed, .number = number, .only = options.only};
  try {
    if (std::string_view("attend").find(options.only) != std::string_view::npos)
      attend_case(report, name, runner);
    if (options.only.starts_with("linear") || options.only.empty())
      linear_case(report, name, runner.has_fp64);
    if (options.only == "linear" || options.only == "linear_gated" || options.only.empty())
      gated_case(report, name);
    if (options.only == "masked" || options.only.empty()) {
      masked_case(report, name, masked);
      MaskedRunner capped = masked;
      capped.tensor_cores_only = capped.softcaps_only = true;
      masked_case(report, name, capped);
      select_case(report, name, masked);
    }
    if (options.only != "attend" && options.only != "masked" && !options.only.starts_with("linear"))
      row_case(report, name);
  } catch (const std::exception& error) {
    report.holds("(exceptions)", "--seed " + std::to_string(name.seed) + " --case " + std::to_string(number),
                 error.what(), false);
  }
}

int compare(const Options& options) {
  Report report;
  const TileRunner runner = gpu_attention();
  const MaskedRunner masked = gpu_masked_attention();
  if (options.single >= 0) {
    run_case(report, options, runner, masked, options.single);
    return report.summary() ? 0 : 1;
  }
  std::atomic<std::int64_t> next = 0;
  std::vector<std::thread> threads;
  for (int n = 0; n < options.threads; ++n)
    threads.emplace_back([&] {
      for (std::int64_t number = next++; number < options.cases; number = next++)
        run_case(report, options, runner, masked, number);
    });
  for (std::thread& thread : threads) thread.join();
  return report.summary() ? 0 : 1;
}

int run(int count, char** arguments) {
  Options options;
  if (!parse(count, arguments, options)) return usage();
  if (kernels::cuda_device_count() == 0) {
    std::printf("skipped: no GPU\n");
    return 77;
  }
  kernels::load_cuda_kernels();
  if (options.serve_linear) {
    serve_linear();
    return 0;
  }
  if (options.serve) {
    serve();
    return 0;
  }
  if (options.heights) {
    time_heights();
    return 0;
  }
  if (options.backward_heights) {
    time_backward_heights();
    return 0;
  }
  // JSON alone where that is what comes.
  std::fprintf(options.bench && options.only == "masked" ? stderr : stdout, "%s\n",
               kernels::cuda_device_text().c_str());
  if (!options.bench) return compare(options);
  bench(options.only);
  return 0;
}

}  // namespace
}  // namespace cplab::testing

int main(int count, char** arguments) {
  try {
    return cplab::testing::run(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

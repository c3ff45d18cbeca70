// Checks every rung of the ladder against a double loop and times them beside the library's kernels:
//   rungs [--only check|time] [--rounds N] [--seed N] [--out FILE]      --out: the times as JSON
// Rung 0 is the library's kernel for every architecture (mma.sync), the last line the one it takes here.
// Exit 0: all within tolerance; 1: something is not; 2: usage; 77 (CTest: skipped): no Hopper GPU.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string_view>

#include "kernels/families/parts/cuda_error.hpp"
#include "tests/gpu/device_memory.hpp"
#include "tests/rungs/candidates.hpp"
#include "tests/rungs/check.hpp"

namespace cplab::kernels::cuda::hopper::rungs {
namespace {

struct Options {
  bool check = true, time = true;
  int rounds = 15;
  std::uint64_t seed = 1;
  const char* out = nullptr;
};

bool parse(int count, char** arguments, Options& options) {
  if (count % 2 == 0) return false;
  for (int n = 1; n < count; n += 2) {
    const std::string_view name = arguments[n], value = arguments[n + 1];
    char* end = nullptr;
    const long long number = std::strtoll(arguments[n + 1], &end, 10);
    const bool is_number = end != arguments[n + 1] && *end == '\0' && number >= 0;
    if (name == "--only" && (value == "check" || value == "time")) {
      options.check = value == "check";
      options.time = value == "time";
    } else if (name == "--rounds" && is_number && number > 0 && number <= 1000) {
      options.rounds = static_cast<int>(number);
    } else if (name == "--seed" && is_number) {
      options.seed = static_cast<std::uint64_t>(number);
    } else if (name == "--out") {
      options.out = arguments[n + 1];
    } else {
      return false;
    }
  }
  return true;
}

// Tails, both masks, more tiles than multiprocessors.
bool check(std::uint64_t seed) {
  const Shape shapes[] = {{1, 1, false},    {77, 3, true},   {127, 2, false},  {128, 2, true},
                          {300, 64, false}, {300, 64, true}, {1000, 2, false}, {1000, 2, true},
                          {129, 200, true}, {1200, 1, false}};
  bool all_good = true;
  for (const Shape& shape : shapes) {
    const Case expected = random_case(shape, ++seed);
    Operands operands(shape);
    operands.upload(expected.q, expected.k, expected.v);
    for (const Candidate& candidate : candidates(operands)) {
      operands.clear_results();
      candidate.launch();
      const auto [out, lse] = operands.results();
      const Errors errors = errors_of(expected, out, lse);
      all_good = all_good && errors.small();
      std::printf("%-28s S=%-5d heads=%-4d %-6s %s%s\n", candidate.name.c_str(), shape.S, shape.heads,
                  shape.causal ? "causal" : "full", errors.text().c_str(), errors.small() ? "" : "  WRONG");
    }
  }
  return all_good;
}

struct Timed {
  int B, S, H;
  bool causal;
};

void print_json(std::FILE* file, const Timed& timed, const Times& times, bool first) {
  std::fprintf(file,
               "%s\n  {\"rung\": \"%s\", \"B\": %d, \"S\": %d, \"H\": %d, \"D\": 128, \"mask\": \"%s\", "
               "\"seconds\": %.9g, \"seconds_low\": %.9g, \"seconds_high\": %.9g, \"tflops\": %.1f}",
               first ? "" : ",", times.name.c_str(), timed.B, timed.S, timed.H,
               timed.causal ? "causal" : "full", times.median_s, times.low_s, times.high_s, times.tflops);
}

void time(const Options& options) {
  const Timed all[] = {{2, 8192, 16, false}, {2, 8192, 16, true}, {8, 2048, 16, false}, {1, 1024, 16, false}};
  std::FILE* const file = options.out != nullptr ? std::fopen(options.out, "w") : nullptr;
  if (options.out != nullptr && file == nullptr)
    throw std::runtime_error(std::string("cannot write ") + options.out);
  if (file != nullptr)
    std::fprintf(file, "{\"schema\": \"cplab.rungs.1\", \"device\": \"%s\", \"rounds\": %d, \"times\": [",
                 cuda_device_text().c_str(), options.rounds);
  bool first = true;
  for (const Timed& timed : all) {
    const Shape shape{timed.S, timed.B * timed.H, timed.causal};
    Operands operands(shape);
    operands.fill(options.seed);
    std::printf("\nB=%d S=%d H=%d %s: TFLOP/s by the median of %d rounds, in brackets all rounds\n", timed.B,
                timed.S, timed.H, timed.causal ? "causal" : "full", options.rounds);
    for (const Times& times : time_shuffled(candidates(operands), shape, options.rounds, options.seed)) {
      std::printf("%-28s %9.4f ms %7.1f  [%.1f, %.1f]\n", times.name.c_str(), times.median_s * 1e3,
                  times.tflops, times.tflops * times.median_s / times.high_s,
                  times.tflops * times.median_s / times.low_s);
      if (file != nullptr) print_json(file, timed, times, first);
      first = false;
    }
    std::fflush(stdout);
  }
  if (file == nullptr) return;
  std::fprintf(file, "\n]}\n");
  if (std::fclose(file) != 0) throw std::runtime_error(std::string("cannot write ") + options.out);
}

int run(int count, char** arguments) {
  Options options;
  if (!parse(count, arguments, options)) {
    std::fprintf(stderr, "rungs [--only check|time] [--rounds N] [--seed N] [--out FILE]\n");
    return 2;
  }
  if (cuda_device_count() == 0 || device_major() != 9) {
    std::printf("skipped: no Hopper GPU\n");
    return 77;
  }
  load_cuda_kernels();
  std::printf("%s\n", cuda_device_text().c_str());
  const bool good = !options.check || check(options.seed);
  if (good && options.time) time(options);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace cplab::kernels::cuda::hopper::rungs

int main(int count, char** arguments) {
  try {
    return cplab::kernels::cuda::hopper::rungs::run(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

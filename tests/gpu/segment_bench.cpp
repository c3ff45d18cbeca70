// Whether segments of every kind keep the rate of dense attention: times by turns, for the same kernels.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "tests/gpu/attention_problem.hpp"
#include "tests/gpu/gpu_tile.hpp"

namespace cplab::testing {
namespace {

using kernels::CudaCalls;
using kernels::DeviceMemory;
using kernels::Segment;

struct Kind {
  const char* name;
  std::int64_t q_rows, k_rows, heads, kv_heads;
  std::vector<Segment> segments;
  std::vector<kernels::RowRun> q_runs = {}, k_runs = {};  // of tensors of q_rows, of k_rows
};

// A step of a ring, zigzag on two ranks: of `count` sequences the later halves of the queries see all keys,
// or all queries the earlier halves of the keys. The rank holds `rows` rows of each; the halves are a list of
// runs, or tensors of their own.
Kind halves(const char* name, std::int64_t count, std::int64_t rows, std::int64_t heads, bool of_queries,
            bool as_list) {
  Kind kind{name, count * rows, count * rows, heads, heads, {}};
  const std::int64_t half = rows / 2;
  for (std::int64_t n = 0; n < count; ++n) {
    kind.segments.push_back({.q_begin = n * (of_queries ? half : rows),
                             .q_count = of_queries ? half : rows,
                             .k_begin = n * (of_queries ? rows : half),
                             .k_count = of_queries ? rows : half});
    if (as_list)
      (of_queries ? kind.q_runs : kind.k_runs)
          .push_back({.begin = n * rows + (of_queries ? half : 0), .count = half});
  }
  if (!as_list) (of_queries ? kind.q_rows : kind.k_rows) = count * half;
  return kind;
}

std::vector<Segment> causal(const std::vector<std::int64_t>& lengths) {
  return sequences(lengths, true);
}

// One problem, bf16, gradients in fp32 and dq added to as in plans.
class Timed {
 public:
  Timed(const Kind& kind, std::int64_t width)
      : problem_({.q_rows = kind.q_rows,
                  .k_rows = kind.k_rows,
                  .heads = kind.heads,
                  .kv_heads = kind.kv_heads,
                  .width = width,
                  .gradients = DType::fp32,
                  .q_runs = kind.q_runs,
                  .k_runs = kind.k_runs},
                 kind.segments),
        forward_{calls_.add(problem_.forward())},
        backward_{calls_.add(problem_.backward(kernels::Write::add))},
        tables_(calls_.table_bytes()) {
    calls_.upload(tables_.data());
    kernels::launch_and_wait(calls_, forward_);
    kernels::launch_and_wait(calls_, backward_);
  }

  double flops_s(bool backward, const DeviceMemory& busy) const {
    constexpr int repeats = 3;
    return (backward ? 2.5 : 1) * problem_.flops() * repeats /
           kernels::seconds_hidden(calls_, backward ? backward_ : forward_, repeats, busy);
  }

 private:
  AttentionProblem problem_;
  CudaCalls calls_;
  std::vector<std::size_t> forward_, backward_;
  DeviceMemory tables_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The rates of `kind` and of `base`, by turns.
void beside(const Kind& base, const Kind& kind, std::int64_t width, const DeviceMemory& busy) {
  const Timed its(base, width), timed(kind, width);
  for (const bool backward : {false, true}) {
    std::vector<double> rates[2];
    for (int round = 0; round < 7; ++round)
      for (const bool other : {false, true})
        rates[other].push_back((other ? timed : its).flops_s(backward, busy));
    const double rate = median(rates[1]);
    std::printf("D=%-4lld %-8s %-42s %6.1f TFLOP/s, %.3f of %s\n", static_cast<long long>(width),
                backward ? "backward" : "forward", kind.name, rate * 1e-12, rate / median(rates[0]),
                base.name);
    std::fflush(stdout);
  }
}

}  // namespace

void bench_segments() {
  const DeviceMemory busy(std::size_t{2} << 30);
  for (const std::int64_t width : {128, 64}) {
    const std::int64_t heads = width == 128 ? 16 : 32;
    // Dense ones first; the others say which of them they stand beside.
    const std::vector<Kind> dense = {
        {"8 x 2048 causal", 16384, 16384, heads, heads, causal(std::vector<std::int64_t>(8, 2048))},
        {"1 x 16384 causal", 16384, 16384, heads, heads, causal({16384})},
        {"2 x 8192 causal", 16384, 16384, heads, heads, causal({8192, 8192})},
        {"8192 x 12288 full",
         8192,
         12288,
         heads,
         heads,
         {{.q_begin = 0, .q_count = 8192, .k_begin = 0, .k_count = 12288}}}};
    Kind window{"window of 4096", 16384, 16384, heads, heads, causal({16384})};
    window.segments[0].left = 4095;
    // Each query sees 8109 keys or more, 12200 in the mean: tiles are as long as those of full attention,
    // where power limits the clock. Beside causal attention, half of whose tiles are short, they would look
    // slow.
    Kind offset{"later half of the queries, at row 37",
                16384,
                16384,
                heads,
                heads,
                {{.q_begin = 37,
                  .q_count = 8192,
                  .k_begin = 5,
                  .k_count = 16300,
                  .offset = 8108,
                  .left = -1,
                  .right = 0}}};
    const std::pair<Kind, std::size_t> others[] = {
        {{"8 packed, 1500 to 2600 rows", 16384, 16384, heads, heads,
          causal({2601, 1503, 2047, 2211, 1777, 1999, 2345, 1901})},
         0},
        {window, 1},
        {offset, 3},
        {{"2 x 8192 causal, 8 query heads a key head", 16384, 16384, heads, heads / 8, dense[2].segments},
         2}};
    for (const auto& [kind, which] : others) beside(dense[which], kind, width, busy);
    // Lists of runs beside tensors of the same rows alone: what the gaps cost.
    const std::pair<std::int64_t, std::int64_t> sequences[] = {{4, 4096}, {8, 2048}, {16, 1024}, {32, 512}};
    for (const auto& [count, rows] : sequences)
      for (const bool of_queries : {true, false}) {
        const std::string what = of_queries ? "later halves of q" : "earlier halves of k",
                          text = std::to_string(count) + " x " + std::to_string(rows) + ", " + what,
                          list = text + ", a list";
        beside(halves(text.c_str(), count, rows, heads, of_queries, false),
               halves(list.c_str(), count, rows, heads, of_queries, true), width, busy);
      }
  }
}

}  // namespace cplab::testing

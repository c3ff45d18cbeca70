// Whether segments of every kind keep the rate of dense attention: times by turns, for the same kernels.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>

#include "tests/gpu/gpu_tile.hpp"

namespace cplab::testing {
namespace {

using kernels::CudaCalls;
using kernels::DeviceMemory;
using kernels::Segment;
using kernels::Write;

struct Kind {
  const char* name;
  std::int64_t rows, heads, kv_heads;
  std::vector<Segment> segments;
};

double live_pairs(const std::vector<Segment>& segments) {
  double pairs = 0;
  for (const Segment& s : segments)
    for (std::int64_t i = 0; i < s.q_count; ++i) {
      const std::int64_t at = i + s.offset;  // the key on row i's diagonal
      const std::int64_t first = s.left < 0 ? 0 : std::max<std::int64_t>(at - s.left, 0);
      const std::int64_t last = s.right < 0 ? s.k_count - 1 : std::min(at + s.right, s.k_count - 1);
      pairs += static_cast<double>(std::max<std::int64_t>(last - first + 1, 0));
    }
  return pairs;
}

std::vector<Segment> sequences(const std::vector<std::int64_t>& lengths) {  // causal
  std::vector<Segment> segments;
  std::int64_t row = 0;
  for (const std::int64_t length : lengths) {
    segments.push_back({.q_begin = row,
                        .q_count = length,
                        .k_begin = row,
                        .k_count = length,
                        .offset = 0,
                        .left = -1,
                        .right = 0});
    row += length;
  }
  return segments;
}

// One problem on random data, bf16, gradients in fp32 as in plans.
class Timed {
 public:
  Timed(const Kind& kind, std::int64_t width)
      : flops_(4 * live_pairs(kind.segments) * static_cast<double>(kind.heads * width)) {
    const auto make = [&](DType dtype, std::int64_t heads, std::int64_t columns) {
      const std::int64_t elements = kind.rows * heads * columns;
      std::vector<std::byte> bytes(static_cast<std::size_t>(elements) * kernels::bytes_of(dtype));
      std::mt19937 generator(static_cast<unsigned>(memories_.size()));
      std::uniform_real_distribution<double> uniform(-1, 1);
      constexpr std::int64_t period = 1 << 18 | 1;
      for (std::int64_t n = 0; n < std::min(elements, period); ++n)
        kernels::store_element(bytes.data(), dtype, n, uniform(generator));
      const std::size_t block =
          static_cast<std::size_t>(std::min(elements, period)) * kernels::bytes_of(dtype);
      for (std::size_t at = block; at < bytes.size(); at += block)
        std::copy_n(bytes.begin(), std::min(block, bytes.size() - at),
                    bytes.begin() + static_cast<std::ptrdiff_t>(at));
      memories_.push_back(std::make_unique<DeviceMemory>(bytes.size()));
      memories_.back()->copy_in(bytes);
      return View{.data = memories_.back()->data(),
                  .dtype = dtype,
                  .rows = kind.rows,
                  .heads = heads,
                  .width = columns,
                  .row_stride = heads * columns,
                  .head_stride = columns,
                  .runs = {}};
    };
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    const View q = make(DType::bf16, kind.heads, width), k = make(DType::bf16, kind.kv_heads, width),
               v = make(DType::bf16, kind.kv_heads, width), out = make(DType::bf16, kind.heads, width),
               lse = make(DType::fp32, kind.heads, 1), dout = make(DType::bf16, kind.heads, width),
               delta = make(DType::fp32, kind.heads, 1), dq = make(DType::fp32, kind.heads, width),
               dk = make(DType::fp32, kind.kv_heads, width), dv = make(DType::fp32, kind.kv_heads, width);
    forward_ = {calls_.add(kernels::Attend{.q = q,
                                           .k = k,
                                           .v = v,
                                           .out = out,
                                           .lse = lse,
                                           .segments = kind.segments,
                                           .scale = scale,
                                           .write = Write::store})};
    backward_ = {calls_.add(kernels::AttendBackward{.q = q,
                                                    .k = k,
                                                    .v = v,
                                                    .dout = dout,
                                                    .lse = lse,
                                                    .delta = delta,
                                                    .dq = dq,
                                                    .dk = dk,
                                                    .dv = dv,
                                                    .segments = kind.segments,
                                                    .scale = scale,
                                                    .write_dq = Write::add,
                                                    .write_dk = Write::store})};
    tables_ = std::make_unique<DeviceMemory>(calls_.table_bytes());
    calls_.upload(tables_->data());
    kernels::launch_and_wait(calls_, forward_);
    kernels::launch_and_wait(calls_, backward_);
  }

  double flops_s(bool backward, const DeviceMemory& busy) const {
    constexpr int repeats = 3;
    return (backward ? 2.5 : 1) * flops_ * repeats /
           kernels::seconds_hidden(calls_, backward ? backward_ : forward_, repeats, busy);
  }

 private:
  double flops_;
  CudaCalls calls_;
  std::vector<std::unique_ptr<DeviceMemory>> memories_;
  std::unique_ptr<DeviceMemory> tables_;
  std::vector<std::size_t> forward_, backward_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

void bench_segments() {
  const DeviceMemory busy(std::size_t{2} << 30);
  for (const std::int64_t width : {128, 64}) {
    const std::int64_t heads = width == 128 ? 16 : 32;
    // Dense ones first; the others say which of them has rows and keys like theirs.
    const std::vector<Kind> dense = {
        {"8 x 2048 causal", 16384, heads, heads, sequences(std::vector<std::int64_t>(8, 2048))},
        {"1 x 16384 causal", 16384, heads, heads, sequences({16384})},
        {"2 x 8192 causal", 16384, heads, heads, sequences({8192, 8192})}};
    Kind window{"window of 4096", 16384, heads, heads, sequences({16384})};
    window.segments[0].left = 4095;
    Kind offset{"later half of the queries, at row 37",
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
        {{"8 packed, 1500 to 2600 rows", 16384, heads, heads,
          sequences({2601, 1503, 2047, 2211, 1777, 1999, 2345, 1901})},
         0},
        {window, 1},
        {offset, 1},
        {{"2 x 8192 causal, 8 query heads a key head", 16384, heads, heads / 8, dense[2].segments}, 2}};
    for (const auto& [kind, which] : others) {
      const Timed base(dense[which], width), timed(kind, width);
      for (const bool backward : {false, true}) {
        std::vector<double> rates[2];
        for (int round = 0; round < 7; ++round)
          for (const bool other : {false, true})
            rates[other].push_back((other ? timed : base).flops_s(backward, busy));
        const double mine = median(rates[1]), its = median(rates[0]);
        std::printf("D=%-4lld %-8s %-42s %6.1f TFLOP/s, %.3f of %s\n", static_cast<long long>(width),
                    backward ? "backward" : "forward", kind.name, mine * 1e-12, mine / its,
                    dense[which].name);
        std::fflush(stdout);
      }
    }
  }
}

}  // namespace cplab::testing

// Times of dynamic mask attention by density: the scan of the keep mask and what comes after it apart.
#include <algorithm>
#include <cstdio>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/families/masked/variants.hpp"
#include "tests/gpu/attention_problem.hpp"
#include "tests/gpu/gpu_tile.hpp"

namespace cplab::testing {
namespace {

using kernels::CudaCalls;
using kernels::DeviceMemory;

constexpr std::int64_t cell = kernels::cuda::cell_rows;

// blocks: cells of 64 queries and 64 keys are kept whole, each with the chance `share`; pairs: each pair with
// that chance.
struct Density {
  const char* pattern;
  double share;
};

struct MaskedShape {
  std::int64_t S, heads;
  bool full;  // a bias for each pair, else for each key
};

constexpr std::int64_t D = 128;

// Of one head, in bf16: [S, S], or [S] where there is one number for a key.
std::vector<std::uint16_t> keep_numbers(const MaskedShape& shape, const Density& density) {
  std::minstd_rand generator(7);
  const auto limit = static_cast<std::uint32_t>(density.share * std::minstd_rand::max());
  const auto kept = [&] { return static_cast<std::uint32_t>(generator()) <= limit; };
  constexpr std::uint16_t one = 0x3f80;
  const bool blocks = std::string(density.pattern) == "blocks";
  const std::int64_t rows = shape.full ? shape.S : 1;
  std::vector<std::uint16_t> numbers(static_cast<std::size_t>(rows * shape.S));
  for (std::int64_t i = 0; i < rows; ++i) {
    std::uint16_t* const row = numbers.data() + i * shape.S;
    if (blocks && i % cell != 0) {
      std::copy(row - shape.S, row, row);
      continue;
    }
    for (std::int64_t x = 0; x < shape.S; ++x)
      row[x] = blocks && x % cell != 0 ? row[x - 1] : kept() ? one : 0;
  }
  return numbers;
}

// [S, heads, S] or [S, heads, 1], head after head.
View mask_view(const DeviceMemory& memory, const MaskedShape& shape) {
  const std::int64_t row = shape.full ? shape.S : 1;
  return {.data = memory.data(),
          .dtype = DType::bf16,
          .rows = shape.S,
          .heads = shape.heads,
          .width = row,
          .row_stride = row,
          .head_stride = shape.S * row,
          .runs = {}};
}

// Queues one call between two events, after one that is not timed.
double seconds_of(const CudaCalls& calls, std::size_t call) {
  const std::size_t numbers[] = {call};
  return kernels::seconds_per_call(calls, numbers, 5);
}

class Problems {
 public:
  explicit Problems(const MaskedShape& shape)
      : shape_(shape),
        attention_(
            {.q_rows = shape.S, .k_rows = shape.S, .heads = shape.heads, .kv_heads = shape.heads, .width = D},
            sequences(std::vector<std::int64_t>{shape.S}, true)),
        bias_(bytes()),
        keep_(bytes()),
        dbias_(bytes()),
        columns_{{0, shape.S, 1}} {
    CudaCalls fill;
    const std::size_t numbers[] = {fill.add_fill(mask_view(bias_, shape_), 0.25)};
    const DeviceMemory tables(fill.table_bytes());
    fill.upload(tables.data());
    kernels::launch_and_wait(fill, numbers);
  }

  void time(const Density& density, bool& first) {
    fill_keep(keep_numbers(shape_, density));
    CudaCalls calls(kernel_choice);
    const kernels::MaskedAttend forward{.tile = attention_.forward(), .mask = mask()};
    const kernels::MaskedAttendBackward backward{
        .tile = attention_.backward(), .mask = mask(), .dbias = mask_view(dbias_, shape_)};
    const std::size_t whole[] = {calls.add(forward), calls.add(backward)};
    std::vector<std::size_t> scans, products;
    for (const std::size_t call : whole) {
      scans.push_back(calls.add_scan_of(call));
      products.push_back(calls.add_products_of(call));
    }
    const std::size_t fill = calls.add_fill(mask_view(dbias_, shape_), 0);
    const DeviceMemory tables(calls.table_bytes());
    calls.upload(tables.data());
    const double fill_s = shape_.full ? seconds_of(calls, fill) : 0;
    for (int n = 0; n < 2; ++n) {
      const double whole_s = seconds_of(calls, whole[n]);  // first: products read what a scan has left
      const double scan_s = seconds_of(calls, scans[static_cast<std::size_t>(n)]);
      const double products_s = seconds_of(calls, products[static_cast<std::size_t>(n)]);
      const std::int64_t scanned =
          n == 0 ? kernels::cuda::scanned_numbers(forward) : kernels::cuda::scanned_numbers(backward);
      std::printf(
          "%s{\"class\": \"%s\", \"variant\": \"%s\", \"bias\": \"%s\", \"sequence\": %lld, \"heads\": %lld, "
          "\"head_size\": %lld, \"mask\": \"causal\", \"pattern\": \"%s\", \"density\": %g, \"seconds\": "
          "%.6e, "
          "\"scan_seconds\": %.6e, \"product_seconds\": %.6e, \"fill_seconds\": %.6e, \"scan_bytes\": %lld, "
          "\"flops\": %.6e}",
          first ? "\n" : ",\n", n == 0 ? "attend" : "attend_backward", calls.variant(whole[n]).c_str(),
          shape_.full ? "full" : "keys", static_cast<long long>(shape_.S),
          static_cast<long long>(shape_.heads), static_cast<long long>(D), density.pattern, density.share,
          whole_s, scan_s, products_s, n == 0 ? 0 : fill_s, static_cast<long long>(2 * scanned),
          attention_.flops() * (n == 0 ? 1 : 2.5));
      std::fflush(stdout);
      first = false;
    }
  }

  // The selection of a sixteenth of the keys, single ones and in groups of 64, from biases of any sign
  // between 2^-64 and 2^64.
  void time_selection(bool& first) {
    std::minstd_rand generator(11);
    std::vector<std::uint16_t> numbers(static_cast<std::size_t>((shape_.full ? shape_.S : 1) * shape_.S));
    for (std::uint16_t& number : numbers) {
      const auto drawn = static_cast<std::uint32_t>(generator());
      number = static_cast<std::uint16_t>((drawn & 0x8000U) | (0x2000U + (drawn >> 16 & 0x3fffU)));
    }
    fill_keep(numbers);
    for (const std::int64_t block : {std::int64_t{0}, cell}) {
      kernels::SelectKeys call;
      call.bias = mask_view(keep_, shape_);
      call.keep = mask_view(dbias_, shape_);
      call.full = shape_.full;
      call.keys = shape_.S;
      call.top_k = shape_.S / 16;
      call.block = block;
      CudaCalls calls;
      const std::size_t number = calls.add(call);
      const DeviceMemory tables(calls.table_bytes());
      calls.upload(tables.data());
      std::printf(
          "%s{\"class\": \"select_keys\", \"bias\": \"%s\", \"sequence\": %lld, \"heads\": %lld, "
          "\"top_k\": %lld, \"block\": %lld, \"seconds\": %.6e, \"bias_bytes\": %lld}",
          first ? "\n" : ",\n", shape_.full ? "full" : "keys", static_cast<long long>(shape_.S),
          static_cast<long long>(shape_.heads), static_cast<long long>(call.top_k),
          static_cast<long long>(block), seconds_of(calls, number), static_cast<long long>(bytes()));
      std::fflush(stdout);
      first = false;
    }
  }

 private:
  std::size_t bytes() const {
    return static_cast<std::size_t>(2 * shape_.heads * shape_.S * (shape_.full ? shape_.S : 1));
  }

  kernels::PairMask mask() const {
    kernels::PairMask mask;
    mask.bias = mask_view(bias_, shape_);
    mask.keep = mask_view(keep_, shape_);
    if (shape_.full) mask.columns = columns_;
    return mask;
  }

  // The same for all heads: made once, copied on the device.
  void fill_keep(const std::vector<std::uint16_t>& numbers) {
    keep_.copy_in(std::as_bytes(std::span(numbers)));
    View one = mask_view(keep_, shape_), others = one;
    one.heads = 1;
    CudaCalls copies;
    std::vector<std::size_t> all;
    for (std::int64_t h = 1; h < shape_.heads; ++h) {
      others = one;
      others.data = keep_.data() + h * std::ssize(numbers) * 2;
      all.push_back(copies.add_copy(one, others));
    }
    const DeviceMemory tables(copies.table_bytes());
    copies.upload(tables.data());
    kernels::launch_and_wait(copies, all);
  }

  MaskedShape shape_;
  AttentionProblem attention_;
  DeviceMemory bias_, keep_, dbias_;
  std::vector<kernels::RowRun> columns_;
};

}  // namespace

void bench_masked() {
  const MaskedShape shapes[] = {{8192, 16, true}, {32768, 4, true}, {8192, 16, false}, {32768, 4, false}};
  bool first = true;
  std::printf("[");
  for (const MaskedShape& shape : shapes) {
    Problems problems(shape);
    for (const double share : {1.0, 0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.0})
      problems.time({"blocks", share}, first);
    problems.time_selection(first);
    if (!shape.full) continue;
    for (const double share : {0.5, 0.05}) problems.time({"pairs", share}, first);
  }
  std::printf("\n]\n");
}

}  // namespace cplab::testing

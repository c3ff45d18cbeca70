// The row-wise kernels against the CPU tiles: copies, casts, sums, maxima and fills bit for bit, what takes
// exp, log or many additions within twice the bound of either side; and random values, by their moments.
#include <algorithm>
#include <cmath>
#include <random>

#include "tests/gpu/device_memory.hpp"
#include "tests/gpu/gpu_tile.hpp"
#include "tests/kernels/random_tile.hpp"

namespace cplab::testing {
namespace {

using kernels::cpu_tiles;
using kernels::CudaCalls;
using kernels::Write;

class RowCase {
 public:
  RowCase(Report& report, const CaseName& name)
      : report_(report),
        generator_(static_cast<unsigned>(name.seed * 7919 + static_cast<std::uint64_t>(name.number))) {
    const std::int64_t widths[] = {1, 2, 3, 7, 8, 16, 33, 64, 96, 128, 200, 520};
    const bool large = name.number == 5;  // more rows than one wave of thread blocks takes
    rows_ = large ? 600000 : draw(generator_, 1, 200);
    heads_ = large ? 4 : draw(generator_, 1, 4);
    width_ = large ? 1 : widths[draw(generator_, 0, 11)];
    gap_unit_ = draw(generator_, 0, 1) == 0 ? 1 : 8;
    shift_ = draw(generator_, 0, 1) == 0 ? 0 : draw(generator_, 1, 7);
    from_ = all_dtypes[draw(generator_, 0, 3)];
    into_ = all_dtypes[draw(generator_, 0, 3)];
    wide_ = from_ == DType::fp64 || into_ == DType::fp64 ? DType::fp64 : DType::fp32;
    where_ = "--seed " + std::to_string(name.seed) + " --case " + std::to_string(name.number) +
             ", rows=" + std::to_string(rows_) + " heads=" + std::to_string(heads_) +
             " width=" + std::to_string(width_) + " " + name_of(from_) + " to " + name_of(into_) +
             ", gaps of " + std::to_string(gap_unit_) + ", shift " + std::to_string(shift_);
  }

  void run(const std::string& only) {
    const auto wanted = [&](const char* name) { return std::string(name).find(only) != std::string::npos; };
    if (wanted("copy")) copy();
    if (wanted("cast")) cast();
    if (wanted("add")) add();
    if (wanted("maximum")) maximum();
    if (wanted("fill")) fill();
    if (wanted("row_dot")) row_dot();
    if (wanted("merge")) merge();
    if (wanted("merge_lse")) merge_lse();
    if (wanted("rescale")) rescale();
    if (wanted("normal_values")) normal_values();
  }

 private:
  Tensor values(DType dtype, std::int64_t width) {
    return random_tensor(generator_, dtype, rows_, heads_, width,
                         random_values(generator_, rows_ * heads_ * width, dtype), gap_unit_);
  }

  Tensor poison(DType dtype, std::int64_t width) {
    return random_tensor(generator_, dtype, rows_, heads_, width, {}, gap_unit_);
  }

  // From far apart to equal; one in five is -inf.
  Tensor lse(DType dtype) {
    Tensor tensor = poison(dtype, 1);
    std::vector<double> all;
    for (std::int64_t n = 0; n < rows_ * heads_; ++n) {
      const double magnitudes[] = {0, 1, 30, 1000};
      const double value =
          magnitudes[draw(generator_, 0, 3)] * static_cast<double>(draw(generator_, -64, 64)) / 64;
      all.push_back(draw(generator_, 0, 4) == 0 ? -infinity : value);
    }
    tensor.assign(all);
    return tensor;
  }

  // What lies where the lse is -inf must not be read.
  void poison_empty(Tensor& out, const Tensor& lse) const {
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t head = 0; head < heads_; ++head)
        if (lse.at(row, head) == -infinity)
          for (std::int64_t x = 0; x < out.width(); ++x) out.set(row, head, x, nan);
  }

  template <class Add>
  std::string on_gpu(std::vector<Tensor*> tensors, Add call) {
    const TileRun run = run_on_gpu(tensors, shift_, call);
    report_.holds(run.variant, where_, "two runs differ", run.repeatable);
    return run.variant;
  }

  // Both results, gaps included.
  void same_bits(const std::string& variant, const Tensor& gpu, const Tensor& cpu) {
    report_.holds(variant, where_, "differs from the CPU tile", gpu.memory() == cpu.memory());
  }

  // Every element, where any NaN is any other: which bits a NaN has after a change of dtype is not promised.
  void same_values(const std::string& variant, const Tensor& gpu, const Tensor& cpu) {
    report_.holds(variant, where_, "memory between the rows was touched", gpu.gaps_intact());
    bool same = true;
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t head = 0; head < heads_; ++head)
        for (std::int64_t x = 0; x < gpu.width(); ++x) {
          const double a = gpu.at(row, head, x), b = cpu.at(row, head, x);
          same = same && (a == b || (std::isnan(a) && std::isnan(b)));
        }
    report_.holds(variant, where_, "differs from the CPU tile", same);
  }

  // |gpu - cpu| <= tolerance(row, head) + 2 units of roundoff of the result, element by element.
  template <class Bound>
  void close(const std::string& variant, const char* what, const Tensor& gpu, const Tensor& cpu,
             Bound tolerance) {
    report_.holds(variant, where_, "memory between the rows was touched", gpu.gaps_intact());
    double worst = 0;
    for (std::int64_t row = 0; row < rows_; ++row) {
      for (std::int64_t head = 0; head < heads_; ++head) {
        for (std::int64_t x = 0; x < gpu.width(); ++x) {
          const double a = gpu.at(row, head, x);
          const double b = cpu.at(row, head, x);
          if (a == b) continue;
          const double floor = gpu.dtype() == DType::fp16 ? 0x1p-24 : 0;
          const double share = std::fabs(a - b) /
                               (tolerance(row, head) + 2 * unit_roundoff(gpu.dtype()) * std::fabs(b) + floor);
          if (!(share <= worst)) worst = share;
        }
      }
    }
    report_.share(variant, where_, what, worst);
  }

  // Moments and the product of neighbours within five standard errors: of n normal values they are
  // sqrt(1 / n), sqrt(2 / n), sqrt(96 / n) for x, x^2 (mean 1), x^4 (mean 3), and sqrt(1 / n).
  void normal_values() {
    const std::string variant = "normal_values";
    constexpr std::int64_t n = 100001;  // odd: the kernel makes two at a time
    const std::size_t size = kernels::bytes_of(from_);
    std::vector<std::byte> image((n + 1) * size), again(image.size());
    kernels::DeviceMemory memory(image.size());
    const auto made = [&](std::vector<std::byte>& into) {
      kernels::store_element(into.data(), from_, n, 7);
      memory.copy_in(into);
      memory.fill_normal(from_, static_cast<std::uint64_t>(rows_), n);
      memory.copy_out(into);
    };
    made(image);
    made(again);
    report_.holds(variant, where_, "two runs differ", image == again);
    const auto at = [&](std::int64_t i) { return kernels::load_element(image.data(), from_, i); };
    report_.holds(variant, where_, "a value behind the last one was written", at(n) == 7);
    double mean = 0, square = 0, fourth = 0, neighbours = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double x = at(i);
      mean += x / n, square += x * x / n, fourth += x * x * x * x / n;
      if (i > 0) neighbours += x * at(i - 1) / n;
    }
    const double five = 5 / std::sqrt(static_cast<double>(n));
    report_.share(variant, where_, "mean", std::fabs(mean) / five);
    report_.share(variant, where_, "variance", std::fabs(square - 1) / (std::sqrt(2) * five));
    report_.share(variant, where_, "fourth moment", std::fabs(fourth - 3) / (std::sqrt(96) * five));
    report_.share(variant, where_, "product of neighbours", std::fabs(neighbours) / five);
  }

  void copy() {
    Tensor from = values(from_, width_);
    if (draw(generator_, 0, 1) == 0) from.fill_row(0, nan);  // any bits are moved
    Tensor into = poison(from_, width_);
    Tensor expected = into;
    cpu_tiles().copy(from.view(), expected.view());
    const std::string variant = on_gpu({&from, &into}, [&](CudaCalls& calls, const Mirror& mirror) {
      return calls.add_copy(mirror.device(from.view()), mirror.device(into.view()));
    });
    same_bits(variant, into, expected);
  }

  void cast() {
    Tensor from = values(from_, width_);
    Tensor into = poison(into_, width_);
    Tensor expected = into;
    cpu_tiles().copy(from.view(), expected.view());
    const std::string variant = on_gpu({&from, &into}, [&](CudaCalls& calls, const Mirror& mirror) {
      return calls.add_copy(mirror.device(from.view()), mirror.device(into.view()));
    });
    same_bits(variant, into, expected);
  }

  void add() {
    Tensor from = values(from_, width_);
    Tensor into = values(into_, width_);
    Tensor expected = into;
    cpu_tiles().add(from.view(), expected.view());
    const std::string variant = on_gpu({&from, &into}, [&](CudaCalls& calls, const Mirror& mirror) {
      return calls.add_add(mirror.device(from.view()), mirror.device(into.view()));
    });
    same_bits(variant, into, expected);
  }

  void maximum() {
    Tensor from = values(from_, width_);
    Tensor into = values(from_, width_);
    from.fill_row(0, draw(generator_, 0, 1) == 0 ? nan : -infinity);
    Tensor expected = into;
    const auto call = [](kernels::View a, kernels::View b) {
      return kernels::Rowwise{kernels::Rowwise::Kind::maximum, a, {}, b, 0};
    };
    cpu_tiles().rowwise(call(from.view(), expected.view()));
    const std::string variant = on_gpu({&from, &into}, [&](CudaCalls& calls, const Mirror& mirror) {
      return calls.add(call(mirror.device(from.view()), mirror.device(into.view())));
    });
    same_values(variant, into, expected);
  }

  void fill() {
    const double fills[] = {0, -0.0, 1.0 / 3, -infinity, nan};
    const double value = fills[draw(generator_, 0, 4)];
    Tensor into = values(into_, width_);
    Tensor expected = into;
    cpu_tiles().fill(expected.view(), value);
    const std::string variant = on_gpu({&into}, [&](CudaCalls& calls, const Mirror& mirror) {
      return calls.add_fill(mirror.device(into.view()), value);
    });
    same_bits(variant, into, expected);
  }

  // Two sums of w products in some order: each within w u of the sum of magnitudes.
  void row_dot() {
    Tensor a = values(from_, width_);
    Tensor b = values(into_, width_);
    Tensor into = poison(wide_, 1);
    Tensor expected = into;
    cpu_tiles().row_dot(a.view(), b.view(), expected.view());
    const std::string variant = on_gpu({&a, &b, &into}, [&](CudaCalls& calls, const Mirror& mirror) {
      return calls.add_row_dot(mirror.device(a.view()), mirror.device(b.view()), mirror.device(into.view()));
    });
    close(variant, "sum", into, expected, [&](std::int64_t row, std::int64_t head) {
      double magnitude = 0;
      for (std::int64_t x = 0; x < width_; ++x)
        magnitude += std::fabs(a.at(row, head, x) * b.at(row, head, x));
      return 2.02 * static_cast<double>(width_) * unit_roundoff(wide_) * magnitude;
    });
  }

  // The bounds of tests/kernels/merge_test.cpp, for two sides: an lse within u (4 + m), a weight within
  // u (m + 8), out with |values| <= 1 within 2 weights and 3 roundings.
  double lse_bound(double a, double b) const {
    const double m = std::max(a == -infinity ? 0 : std::fabs(a), b == -infinity ? 0 : std::fabs(b)) + 1;
    return 2 * unit_roundoff(wide_) * (4 + m);
  }
  double out_bound(double a, double b) const { return 2 * lse_bound(a, b) + 2 * 16 * unit_roundoff(wide_); }

  void merge() {
    Tensor part_lse = lse(wide_);
    Tensor held_lse = lse(wide_);
    Tensor part = values(from_, width_);
    Tensor out = values(into_, width_);
    poison_empty(part, part_lse);
    poison_empty(out, held_lse);
    Tensor expected_out = out;
    Tensor expected_lse = held_lse;
    const Tensor before = held_lse;
    cpu_tiles().merge({.part_out = part.view(),
                       .part_lse = part_lse.view(),
                       .into_out = expected_out.view(),
                       .into_lse = expected_lse.view()});
    const std::string variant =
        on_gpu({&part, &part_lse, &out, &held_lse}, [&](CudaCalls& calls, const Mirror& mirror) {
          return calls.add(kernels::Merge{.part_out = mirror.device(part.view()),
                                          .part_lse = mirror.device(part_lse.view()),
                                          .into_out = mirror.device(out.view()),
                                          .into_lse = mirror.device(held_lse.view())});
        });
    close(variant, "lse", held_lse, expected_lse, [&](std::int64_t row, std::int64_t head) {
      return lse_bound(before.at(row, head), part_lse.at(row, head));
    });
    close(variant, "out", out, expected_out, [&](std::int64_t row, std::int64_t head) {
      return out_bound(before.at(row, head), part_lse.at(row, head));
    });
    std::int64_t changed = 0;
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t head = 0; head < heads_; ++head)
        if (part_lse.at(row, head) == -infinity && held_lse.bits(row, head) != before.bits(row, head))
          ++changed;
    report_.holds(variant, where_, "an empty part changed an lse", changed == 0);
  }

  void merge_lse() {
    Tensor part = lse(wide_);
    Tensor held = lse(wide_);
    const Tensor before = held;
    Tensor expected = held;
    cpu_tiles().merge_lse({.part_lse = part.view(), .into_lse = expected.view()});
    const std::string variant = on_gpu({&part, &held}, [&](CudaCalls& calls, const Mirror& mirror) {
      return calls.add(
          kernels::MergeLse{.part_lse = mirror.device(part.view()), .into_lse = mirror.device(held.view())});
    });
    close(variant, "lse", held, expected, [&](std::int64_t row, std::int64_t head) {
      return lse_bound(before.at(row, head), part.at(row, head));
    });
  }

  void rescale() {
    const Write write = draw(generator_, 0, 1) == 0 ? Write::store : Write::add;
    Tensor part_lse = lse(wide_);
    Tensor final_lse = poison(wide_, 1);
    for (std::int64_t row = 0; row < rows_; ++row)
      for (std::int64_t head = 0; head < heads_; ++head)
        final_lse.set(row, head, 0,
                      part_lse.at(row, head) + static_cast<double>(draw(generator_, 0, 20)) / 8);
    Tensor part = values(from_, width_);
    poison_empty(part, part_lse);
    Tensor into = write == Write::add ? values(into_, width_) : poison(into_, width_);
    Tensor expected = into;
    cpu_tiles().rescale({.part_out = part.view(),
                         .part_lse = part_lse.view(),
                         .final_lse = final_lse.view(),
                         .into_out = expected.view(),
                         .write = write});
    const std::string variant =
        on_gpu({&part, &part_lse, &final_lse, &into}, [&](CudaCalls& calls, const Mirror& mirror) {
          return calls.add(kernels::Rescale{.part_out = mirror.device(part.view()),
                                            .part_lse = mirror.device(part_lse.view()),
                                            .final_lse = mirror.device(final_lse.view()),
                                            .into_out = mirror.device(into.view()),
                                            .write = write});
        });
    close(variant, "out", into, expected, [&](std::int64_t row, std::int64_t head) {
      return out_bound(part_lse.at(row, head), final_lse.at(row, head));
    });
  }

  Report& report_;
  std::mt19937 generator_;
  std::int64_t rows_ = 0, heads_ = 0, width_ = 0, gap_unit_ = 1, shift_ = 0;
  DType from_ = DType::fp32, into_ = DType::fp32, wide_ = DType::fp32;
  std::string where_;
};

}  // namespace

void row_case(Report& report, const CaseName& name) {
  RowCase(report, name).run(name.only);
}

}  // namespace cplab::testing

// Which share of what a GPU has kernels of a class reach: what a data sheet leaves open.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "sim/finer_tables.hpp"

namespace cplab {

struct Hardware;

// attend, attend_backward: of the peak of the dtype, long full attention with heads of 128; gemm: of that
// peak, matrix products as layers have them; elementwise: of gpu.copy_bytes_s, a long copy, beside which the
// other classes that go over their operands once stand as they do on an H200.
enum class KernelClass : std::uint8_t { attend, attend_backward, gemm, elementwise };
constexpr std::array kernel_classes{KernelClass::attend, KernelClass::attend_backward, KernelClass::gemm,
                                    KernelClass::elementwise};
std::string_view name(KernelClass);

// [efficiency] of a hardware file.
struct ClassEfficiency {
  std::array<double, kernel_classes.size()> share{};  // 0: the file does not say
  // What a training step holds of these shares of attention and products, which short runs reach, once power
  // bounds the clock: of whole steps alone, a simulated call runs as short ones do.
  double held = 1;
  Provenance provenance;

  double of(KernelClass each) const { return share[static_cast<std::size_t>(each)]; }
  bool says(KernelClass each) const { return of(each) > 0; }
};

// Of a machine, whatever its file has: what [efficiency] says; else what its tables reach of its peak (of
// attention the best full one with heads of 128, of [[gemm]] the median, of element-wise kernels the longest
// copy); else what was measured on H200s, assumed. Tables of bf16 stand for fp16, and, extrapolated, for
// every other dtype whose peak the file has. 0 to 1; for what a planner prices without a call of a kernel.
struct Efficiency {
  double share = 0;
  Origin origin = Origin::assumed;
};
Efficiency efficiency_of(const Hardware&, KernelClass, std::string_view dtype = "bf16");
// As measured on H200s (as-measured.toml), of bf16: what efficiency_of takes where a file has nothing.
double usual_efficiency(KernelClass);

}  // namespace cplab

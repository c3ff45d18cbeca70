// See class_efficiency.hpp.
#include "sim/class_efficiency.hpp"

#include <algorithm>
#include <vector>

#include "sim/hardware.hpp"
#include "sim/kernel_cost.hpp"

namespace cplab {
namespace {

// Of the table's GPU: one with other multiprocessors has as much more or less of its peak.
double share_of_peak(const Hardware& hardware, const KernelTable& table, const KernelPoint& point) {
  const GpuSpec& gpu = hardware.gpu;
  const double sms = table.sms > 0 ? table.sms : gpu.sms;
  const double peak = hardware.measured_gpu().peak(name(table.dtype)) * sms / gpu.sms;
  return peak > 0 ? point_flops(table, point) / point.seconds / peak : 0;
}

Efficiency of_attention(const Hardware& hardware, OpKind kind, DType dtype) {
  Efficiency best{0, Origin::measured};
  constexpr std::int64_t usual_head = 128;
  for (const KernelTable& table : hardware.kernels) {
    if (table.kind != kind || table.dtype != dtype || table.causal || table.head_size != usual_head) continue;
    for (const KernelPoint& point : table.points)
      if (const double share = share_of_peak(hardware, table, point); share > best.share)
        best = {share, table.provenance.origin};
  }
  return best;
}

Efficiency of_gemm(const Hardware& hardware, DType dtype) {
  std::vector<double> shares;
  Origin origin = Origin::measured;
  const double peak = hardware.measured_gpu().peak(name(dtype));
  for (const GemmTable& table : hardware.finer.gemms) {
    if (table.dtype != dtype || peak <= 0) continue;
    origin = worst(origin, table.provenance.origin);
    for (const GemmPoint& p : table.points)
      shares.push_back(2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) /
                       p.seconds / peak);
  }
  if (shares.empty()) return {};
  const auto middle = shares.begin() + static_cast<std::ptrdiff_t>(shares.size() / 2);
  std::nth_element(shares.begin(), middle, shares.end());
  return {*middle, origin};
}

Efficiency of_copy(const Hardware& hardware, DType dtype) {
  for (const KernelTable& table : hardware.kernels) {
    if (table.kind != OpKind::copy || table.dtype != dtype || table.curve.empty()) continue;
    const CurvePoint& last = table.curve.back();
    return {last.bytes / last.seconds / hardware.measured_gpu().copy_bytes_s, table.provenance.origin};
  }
  if (hardware.elementwise.says(OpKind::copy))
    return {hardware.elementwise.of(OpKind::copy), hardware.elementwise.provenance.origin};
  return {};
}

Efficiency of_tables(const Hardware& hardware, KernelClass each, DType dtype) {
  switch (each) {
    case KernelClass::attend: return of_attention(hardware, OpKind::attend, dtype);
    case KernelClass::attend_backward: return of_attention(hardware, OpKind::attend_backward, dtype);
    case KernelClass::gemm: return of_gemm(hardware, dtype);
    case KernelClass::elementwise: return of_copy(hardware, dtype);
  }
  return {};
}

}  // namespace

std::string_view name(KernelClass each) {
  switch (each) {
    case KernelClass::attend: return "attend";
    case KernelClass::attend_backward: return "attend_backward";
    case KernelClass::gemm: return "gemm";
    case KernelClass::elementwise: return "elementwise";
  }
  return "";
}

double usual_efficiency(KernelClass each) {
  switch (each) {
    case KernelClass::attend: return 0.68;
    case KernelClass::attend_backward: return 0.56;
    case KernelClass::gemm: return 0.68;
    case KernelClass::elementwise: return 0.95;
  }
  return 0;
}

Efficiency efficiency_of(const Hardware& hardware, KernelClass each, std::string_view dtype) {
  if (hardware.efficiency.says(each))
    return {hardware.efficiency.of(each), hardware.efficiency.provenance.origin};
  for (const DType own : {DType::bf16, DType::fp16, DType::fp32, DType::fp64}) {
    if (name(own) != dtype) continue;
    if (const Efficiency found = of_tables(hardware, each, own); found.share > 0) return found;
  }
  Efficiency of_bf16 = of_tables(hardware, each, DType::bf16);
  if (of_bf16.share <= 0) return {usual_efficiency(each), Origin::assumed};
  if (dtype != "bf16" && dtype != "fp16") of_bf16.origin = worst(of_bf16.origin, Origin::extrapolated);
  return of_bf16;
}

}  // namespace cplab

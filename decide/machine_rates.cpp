// Times of products, moves and collectives from a hardware file; see machine_rates.hpp.
#include "decide/machine_rates.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "decide/fitted.hpp"

namespace cplab {

namespace {

constexpr double tile_rows = 128, tile_columns = 256, least_tile_rows = 16;
// Groups of few rows: each begins and ends its tiles anew, as if it had so many rows more, and so many more
// to sum over. Least error over the 108 grouped products of 8 x B200 that SimuMax 1.2 publishes
// (configs/system/b200_bf16_ceperm.json): 16 % in the mean, 47 % without.
constexpr double group_rows = 128, group_depth = 384;

double product_flops(double m, double n, double k, double groups) {
  return 2 * m * n * k * groups;
}

}  // namespace

bool is_narrow(std::string_view dtype) {
  return operand_bytes(dtype) < operand_bytes("bf16");
}

double operand_bytes(std::string_view dtype) {
  return dtype == "fp8" ? 1.0 : dtype == "fp4" ? 0.5 : 2.0;
}

double MachineRates::peak_flops(std::string_view dtype) const {
  double wide = 0;
  for (const auto& [of, flops] : hardware_.gpu.peak_flops) {
    if (of == dtype) return flops;
    if (of == "bf16") wide = flops;
  }
  if (is_narrow(dtype)) return wide;
  throw HardwareError("gpu", "peak_flops." + std::string(dtype),
                      "missing: matrix products of the model are timed by it");
}

// Of the time of a product the share in which its multiprocessors have a tile: partial last waves and short
// products leave some without.
double MachineRates::waves_share(double m, double n, double groups) const {
  // Libraries have kernels for few rows, from a row of tensor cores on; grouped ones have not.
  double rows = groups > 1 ? tile_rows : least_tile_rows;
  while (rows < tile_rows && rows < m) rows *= 2;
  const double tiles = std::ceil(m / rows) * std::ceil(n / tile_columns) * groups;
  const double computed = tiles * rows * tile_columns / (m * n * groups);
  const double waves = std::ceil(tiles / hardware_.gpu.sms);
  return tiles / (waves * hardware_.gpu.sms) / computed;
}

Estimate MachineRates::gemm_efficiency(std::string_view dtype) const {
  std::vector<double> shares;
  for (const GemmTable& table : hardware_.finer.gemms) {
    if (name(table.dtype) != (is_narrow(dtype) ? "bf16" : dtype)) continue;
    const double peak = peak_flops(name(table.dtype));
    for (const GemmPoint& p : table.points) {
      const auto m = static_cast<double>(p.m), n = static_cast<double>(p.n), k = static_cast<double>(p.k);
      shares.push_back(product_flops(m, n, k, 1) / (p.seconds * peak * waves_share(m, n, 1)));
    }
  }
  const double held = hardware_.efficiency.held;
  if (shares.empty() || hardware_.efficiency.says(KernelClass::gemm)) {
    const Efficiency said = efficiency_of(hardware_, KernelClass::gemm, dtype);
    return {said.share * held, said.origin};
  }
  const auto middle = shares.begin() + static_cast<std::ptrdiff_t>(shares.size() / 2);
  std::nth_element(shares.begin(), middle, shares.end());
  return {std::min(1.0, *middle) * held, is_narrow(dtype) ? Origin::assumed : Origin::interpolated};
}

// Where power bounds bf16 products, narrow ones are bounded by what they take of it; elsewhere by the share
// of their own peak that products reach.
double MachineRates::held_flops(std::string_view dtype, double share) const {
  const double own = peak_flops(dtype), wide = peak_flops("bf16") * share;
  if (!is_narrow(dtype) || own <= peak_flops("bf16")) return own * share;
  const double by_power = wide * (dtype == "fp8" ? fitted.fp8_of_bf16 : fitted.fp4_of_bf16);
  return std::min(by_power, own * std::max(share, usual_efficiency(KernelClass::gemm)));
}

KernelTime MachineRates::product(std::string_view dtype, double m, double n, double k, double groups) const {
  if (m <= 0 || n <= 0 || k <= 0 || groups <= 0) return {{0, Origin::measured}, Resource::products};
  const Estimate efficiency = gemm_efficiency(dtype);
  const double flops_s = held_flops(dtype, efficiency.seconds) * waves_share(m, n, groups);
  const double bytes = operand_bytes(dtype) * (m * k + n * k) + 2 * m * n;
  const double anew = groups > 1 ? (1 + group_rows / m) * (1 + group_depth / k) : 1;
  const double memory_s = bytes * groups / hardware_.gpu.copy_bytes_s;
  const double least_s =
      hardware_.gpu.least_kernel_s > 0 ? hardware_.gpu.least_kernel_s : usual_least_kernel_s;
  const double product_s = product_flops(m, n, k, groups) * anew / flops_s;
  const double seconds = std::max({product_s, memory_s, least_s});
  return {{seconds, efficiency.origin},
          seconds == product_s  ? Resource::products
          : seconds == memory_s ? Resource::memory
                                : Resource::launches};
}

KernelTime MachineRates::move(double bytes) const {
  if (bytes <= 0) return {{0, Origin::measured}, Resource::memory};
  const double least_s =
      hardware_.gpu.least_kernel_s > 0 ? hardware_.gpu.least_kernel_s : usual_least_kernel_s;
  const Efficiency said = efficiency_of(hardware_, KernelClass::elementwise);
  const double moved_s = bytes / (hardware_.gpu.copy_bytes_s * said.share);
  return {{std::max(least_s, moved_s), worst(said.origin, Origin::interpolated)},
          moved_s >= least_s ? Resource::memory : Resource::launches};
}

Path MachineRates::path_of(GroupShape group) const {
  return group.size * group.stride <= hardware_.node.gpus ? Path::intra : Path::inter;
}

WireTime MachineRates::wire(OpKind kind, GroupShape group, double sent_bytes) const {
  if (group.size <= 1 || sent_bytes <= 0) return {{0, Origin::measured}, 0, Resource::links};
  const Path path = path_of(group);
  const Resource carrier = path == Path::inter ? Resource::nics : Resource::links;
  const MessageUse use{.kind = kind,
                       .transport = Transport::nccl,
                       .path = path,
                       .group = static_cast<int>(group.size),
                       .bytes = sent_bytes};
  if (kind != OpKind::exchange && path == Path::intra) {
    const MessageChoice own = find_collective(hardware_, use);
    if (own.table != nullptr) {
      const Estimate time = message_time(hardware_, *own.table, sent_bytes);
      const double startup = startup_s(*own.table, hardware_.curve_bytes_s(*own.table));
      return {time, std::clamp(startup, 0.0, time.seconds), carrier};
    }
  }
  const MessageChoice flow = find_flow(hardware_, use);
  const FlowRate rate = flow_rate(hardware_, *flow.table, sent_bytes);
  double bytes_s = std::min(rate.bytes_s, hardware_.link_bytes_s(path));
  const double neighbours =
      std::max<double>(1, static_cast<double>(hardware_.node.gpus / std::max<std::int64_t>(1, group.stride)));
  const double members = std::min<double>(static_cast<double>(group.size), neighbours);
  if (path == Path::inter) {
    // The rings of a group share what its members have of the node's NICs. All other groups of the same kind
    // send at the same time, so each GPU has its share and no more.
    bytes_s = std::min(bytes_s, hardware_.share_bytes_s(path));
    // Of what a ring passes on, the rest goes inside the node; through its NICs a node sends what one member
    // does.
    if (kind != OpKind::all_to_all && kind != OpKind::exchange) bytes_s *= members;
    if (kind == OpKind::all_to_all) {
      // Of the parts for the other members only those for other nodes go through the NIC.
      const double across =
          (static_cast<double>(group.size) - members) / std::max(1.0, static_cast<double>(group.size) - 1);
      bytes_s /= std::max(across, 1e-3);
    }
  }
  // Stepwise collectives start once for each doubling of the group.
  const double starts = kind == OpKind::exchange ? 1 : std::ceil(std::log2(static_cast<double>(group.size)));
  const Origin origin = kind == OpKind::exchange ? worst(rate.origin, flow.origin_floor)
                                                 : worst(rate.origin, Origin::extrapolated);
  return {{starts * rate.startup_s + sent_bytes / bytes_s, origin}, starts * rate.startup_s, carrier};
}

WireTime MachineRates::gather(GroupShape group, double bytes) const {
  const auto size = static_cast<double>(group.size);
  return wire(OpKind::all_gather, group, bytes * (size - 1) / size);
}

WireTime MachineRates::all_to_all(GroupShape group, double bytes) const {
  const auto size = static_cast<double>(group.size);
  return wire(OpKind::all_to_all, group, bytes * (size - 1) / size);
}

WireTime MachineRates::send(std::int64_t stride, double bytes) const {
  return wire(OpKind::exchange, {2, stride}, bytes);
}

Estimate MachineRates::to_host(double bytes) const {
  if (bytes <= 0) return {0, Origin::measured};
  return {bytes / usual_host_link_bytes_s, Origin::assumed};
}

}  // namespace cplab

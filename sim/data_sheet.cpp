// See data_sheet.hpp.
#include "sim/data_sheet.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "sim/fabrics.hpp"
#include "sim/wave_times.hpp"

namespace cplab {
namespace {

Provenance assumed_from(const Hardware& measured) {
  Provenance provenance;
  provenance.source = "as measured on H100 and H200 (" + measured.name + ".toml)";
  return provenance;
}

KernelClass class_of(OpKind kind) {
  if (kind == OpKind::attend) return KernelClass::attend;
  return kind == OpKind::attend_backward ? KernelClass::attend_backward : KernelClass::elementwise;
}

bool has_table(const std::vector<KernelTable>& tables, OpKind kind, DType dtype) {
  return std::ranges::any_of(
      tables, [&](const KernelTable& table) { return table.kind == kind && table.dtype == dtype; });
}

// What a call takes beside its tiles, of the full mask's tables of that head size.
double launch_of(const Hardware& measured, const KernelTable& table) {
  const KernelTable* first = nullptr;
  for (const KernelTable& each : measured.kernels)
    if (!first && each.kind == table.kind && each.dtype == table.dtype && !each.causal &&
        each.head_size == table.head_size)
      first = &each;
  if (!first) return measured.gpu.least_kernel_s;
  WaveTimes times(*first, measured, measured.burst.speed);
  for (const KernelTable& each : measured.kernels)
    if (times.takes(each)) times.add(each);
  return times.launch_s();
}

// How many times as long a multiprocessor takes for the same tile.
double tile_scale(const Hardware& sheet, const Hardware& measured, OpKind kind, DType dtype) {
  const auto of_sm = [&](const Hardware& machine, DType of) {
    const GpuSpec gpu = machine.measured_gpu();
    return efficiency_of(machine, class_of(kind), name(of)).share * gpu.peak(name(of)) / gpu.sms;
  };
  return of_sm(measured, DType::bf16) / of_sm(sheet, dtype);
}

void add_attention(Hardware& sheet, const Hardware& measured) {
  const std::vector<KernelTable> own = sheet.kernels;
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    if (sheet.measured_gpu().peak(name(dtype)) <= 0) continue;
    for (const KernelTable& table : measured.kernels) {
      if (!has_square_points(table.kind) || has_table(own, table.kind, dtype)) continue;
      const double launch_s = launch_of(measured, table);
      const double scale = tile_scale(sheet, measured, table.kind, dtype);
      KernelTable made = table;
      made.dtype = dtype;
      made.variant = sheet.kernels_of;
      made.sms = table.sms > 0 ? table.sms : measured.gpu.sms;
      made.provenance = assumed_from(measured);
      for (KernelPoint& point : made.points)
        point.seconds = launch_s + std::max(0.0, point.seconds - launch_s) * scale;
      sheet.kernels.push_back(std::move(made));
    }
  }
}

void add_elementwise(Hardware& sheet, const Hardware& measured) {
  const std::vector<KernelTable> own = sheet.kernels;
  const double of_measured = efficiency_of(measured, KernelClass::elementwise).share,
               of_sheet = efficiency_of(sheet, KernelClass::elementwise).share;
  const double copy = measured.gpu.copy_bytes_s;
  const double scale = copy * of_measured / (sheet.measured_gpu().copy_bytes_s * of_sheet);
  for (const DType dtype : {DType::bf16, DType::fp16, DType::fp32, DType::fp64}) {
    for (const KernelTable& table : measured.kernels) {
      if (!is_elementwise(table.kind) || has_table(own, table.kind, dtype) ||
          sheet.elementwise.says(table.kind))
        continue;
      KernelTable made = table;
      made.dtype = dtype;
      made.provenance = assumed_from(measured);
      const double launch_s = curve_launch_s(table.curve, copy, measured.gpu.least_kernel_s);
      for (CurvePoint& point : made.curve) point.seconds = launch_s + (point.seconds - launch_s) * scale;
      sheet.kernels.push_back(std::move(made));
    }
  }
}

void add_messages(Hardware& sheet, const Hardware& measured) {
  const bool network = fabric_type(sheet.network).joins_nodes;
  const std::vector<MessageTable> own = sheet.messages;
  for (const MessageTable& table : measured.messages) {
    const bool said = std::ranges::any_of(own, [&](const MessageTable& each) {
      return each.kind == table.kind && each.transport == table.transport && each.path == table.path;
    });
    if (said || (table.path == Path::inter && !network)) continue;
    MessageTable made = table;
    made.link_bytes_s = measured.curve_bytes_s(table);
    if (made.path == Path::inter) made.nics_per_gpu = measured.nics_per_gpu();
    made.provenance = assumed_from(measured);
    sheet.messages.push_back(std::move(made));
  }
}

}  // namespace

void complete_data_sheet(Hardware& sheet, const Hardware& measured, const SaidSections& said) {
  if (!said.host) {
    sheet.host = measured.host;
    sheet.host.provenance = assumed_from(measured);
  }
  if (!said.fixed) {
    sheet.fixed_bytes = measured.fixed_bytes;
    sheet.fixed = assumed_from(measured);
  }
  for (const KernelClass each : kernel_classes) {
    double& share = sheet.efficiency.share[static_cast<std::size_t>(each)];
    if (share <= 0) share = efficiency_of(measured, each).share;
  }
  const bool times_attention = std::ranges::any_of(
      sheet.kernels, [](const KernelTable& table) { return has_square_points(table.kind); });
  if (sheet.kernels_of.empty() && !times_attention) sheet.kernels_of = "some library";
  add_attention(sheet, measured);
  add_elementwise(sheet, measured);
  add_messages(sheet, measured);
  if (sheet.interference.empty()) {
    sheet.interference = measured.interference;
    for (InterferenceRow& row : sheet.interference) row.provenance = assumed_from(measured);
  }
}

}  // namespace cplab

// Rates of kernels from a hardware file; see kernel_rates.hpp.
#include "cli/commands/kernel_rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <tuple>

#include "cli/files/hardware_file.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/vocabulary.hpp"
#include "plan/chunk_flops.hpp"
#include "report/table.hpp"
#include "sim/kernel_cost.hpp"
#include "sim/linear_work.hpp"

namespace cplab {
namespace {

double linear_flops(const KernelTable& table, const KernelPoint& point) {
  const RankPlan rank = linear_point(table, point);
  return chunk_flops(rank, rank.operations.front());
}

void add_rates(std::vector<KernelRate>& all, const Hardware& hardware, const KernelTable& table) {
  KernelRate rate{.variant = table.variant,
                  .gpu = hardware.gpu.name,
                  .dtype = table.dtype,
                  .head_size = table.head_size,
                  .value_size = table.value_size,
                  .mask = has_square_points(table.kind) ? (table.causal ? "causal" : "full") : "",
                  .provenance = table.provenance};
  for (const KernelPoint& point : table.points) {
    rate.batch = point.batch;
    rate.sequence = point.sequence;
    rate.heads = point.heads;
    rate.seconds = point.seconds;
    const double flops =
        has_square_points(table.kind) ? point_flops(table, point) : linear_flops(table, point);
    rate.flops_s = flops / point.seconds;
    all.push_back(rate);
  }
  for (const CurvePoint& point : table.curve) {
    rate.bytes = point.bytes;
    rate.seconds = point.seconds;
    rate.bytes_s = point.bytes / point.seconds;
    all.push_back(rate);
  }
}

auto group_of(const KernelRate& rate) {
  return std::tie(rate.variant, rate.dtype, rate.head_size, rate.value_size, rate.mask);
}

}  // namespace

std::vector<KernelRate> kernel_rates(const std::string& file, const std::vector<std::string>& sets,
                                     const std::vector<std::string>& variants) {
  HardwareOverrides overrides;
  for (const std::string& set : sets) {
    const std::size_t equals = set.find('=');
    if (!set.starts_with("hardware.") || equals == std::string::npos)
      throw InputError("--set " + set + ": kernels reads no scenario; legal: hardware.KEY=VALUE");
    overrides.emplace_back(set.substr(9, equals - 9), set.substr(equals + 1));
  }
  const Hardware hardware = read_hardware(find_hardware(file), overrides);
  std::vector<KernelRate> rates;
  for (const KernelTable& table : hardware.kernels)
    if (std::find(variants.begin(), variants.end(), table.variant) != variants.end())
      add_rates(rates, hardware, table);
  return rates;
}

void write_rates(JsonWriter& json, const std::vector<KernelRate>& rates) {
  json.objects("measured", rates, [&](const KernelRate& rate) {
    json.field("variant", rate.variant);
    json.field("gpu", rate.gpu);
    json.field("dtype", name(rate.dtype));
    if (rate.bytes > 0) {
      json.field("bytes", rate.bytes);
    } else {
      json.field("head_size", rate.head_size);
      json.field("value_size", rate.value_size);
      if (!rate.mask.empty()) json.field("mask", rate.mask);
      json.field("batch", rate.batch);
      json.field("sequence", rate.sequence);
      json.field("heads", rate.heads);
    }
    json.field("seconds", rate.seconds);
    if (rate.flops_s > 0) json.field("flops_s", rate.flops_s);
    if (rate.bytes_s > 0) json.field("bytes_s", rate.bytes_s);
    json.field("origin", name(rate.provenance.origin));
    json.field("tool", rate.provenance.tool);
    json.field("machine", rate.provenance.machine);
    json.field("date", rate.provenance.date);
  });
}

void write_rates(std::ostream& out, const std::string& file, const std::vector<KernelRate>& rates,
                 const TextStyle& style) {
  if (rates.empty()) {
    out << "\n" << file << " has no table of these kernels.\n";
    return;
  }
  std::vector<const KernelRate*> best;
  for (const KernelRate& rate : rates) {
    const auto same = std::find_if(best.begin(), best.end(), [&](const KernelRate* other) {
      return group_of(*other) == group_of(rate);
    });
    if (same == best.end())
      best.push_back(&rate);
    else if (rate.flops_s + rate.bytes_s > (*same)->flops_s + (*same)->bytes_s)
      *same = &rate;
  }
  TextTable table({{"kernel", "", Align::left},
                   {"dtype", "", Align::left},
                   {"mask", "", Align::left},
                   {"fastest at", "", Align::left},
                   {"TFLOP/s", ""},
                   {"bandwidth", "GB/s"},
                   {"origin", "", Align::left}});
  for (const KernelRate* rate : best)
    table.add_row(
        {rate->variant, std::string(name(rate->dtype)), rate->mask,
         rate->bytes > 0 ? fmt::format("{} MiB", format_mib(static_cast<std::int64_t>(rate->bytes)))
                         : fmt::format("B {}, S {}, H {}", rate->batch, rate->sequence, rate->heads),
         rate->flops_s > 0 ? format_fixed(rate->flops_s / 1e12, 1) : "-",
         rate->bytes_s > 0 ? format_gb_s(rate->bytes_s) : "-", std::string(name(rate->provenance.origin))});
  out << "\nmeasured on " << rates.front().gpu << " (" << file << "), the fastest of each table's points\n";
  table.write(out, style);
}

}  // namespace cplab

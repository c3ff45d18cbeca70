// The sections of a hardware file, in the order of the shipped ones; see hardware_writer.hpp.
#include "calibrate/hardware_writer.hpp"

#include "calibrate/finer_writer.hpp"
#include "calibrate/toml_text.hpp"

namespace cplab::measure {
namespace {

void write_nodes(TomlText& out, const Hardware& hardware) {
  out.heading("[node]");
  out.key("gpus", hardware.node.gpus);
  out.key("link_bytes_s", hardware.node.link_bytes_s);
  write_origin(out, hardware.node.provenance);
  const NetworkSpec& network = hardware.network;
  if (network.fabric.empty()) return;
  out.heading("[network]");
  out.key("fabric", network.fabric);
  out.key("nics", network.nics);
  out.key("nic_bytes_s", network.nic_bytes_s);
  out.key("max_nodes", network.max_nodes);
  write_origin(out, network.provenance);
  for (const SwitchLevel& level : network.levels) {
    out.heading("[[network.level]]");
    out.key("nodes", level.nodes);
    out.key("up_bytes_s", level.up_bytes_s);
  }
}

void write_gpu(TomlText& out, const Hardware& hardware) {
  const GpuSpec& gpu = hardware.gpu;
  out.heading("[gpu]");
  out.key("name", gpu.name);
  out.key("sms", gpu.sms);
  if (gpu.sm_major > 0)
    out.key("compute_capability", std::to_string(gpu.sm_major) + "." + std::to_string(gpu.sm_minor));
  out.key("capacity_bytes", gpu.capacity_bytes);
  out.key("copy_bytes_s", gpu.copy_bytes_s);
  if (gpu.least_kernel_s != usual_least_kernel_s) out.key("least_kernel_s", gpu.least_kernel_s);
  std::string peaks;
  for (const auto& [dtype, flops_s] : gpu.peak_flops)
    peaks += (peaks.empty() ? "" : ", ") + dtype + " = " + number(flops_s);
  out.line("peak_flops = { " + peaks + " }");
  write_origin(out, gpu.provenance);
}

// All of them, so that a later program with other rates for this GPU reads the same machine.
void write_rates(TomlText& out, const Hardware& hardware) {
  Provenance from;
  from.source = hardware.rates.source;
  out.heading("[rates]");
  std::string section;
  bool open = true;
  for (const kernels::cuda::RateName& rate : kernels::cuda::rate_names) {
    if (open && !rate.section.empty()) write_origin(out, from);
    if (!rate.section.empty()) open = false;
    if (rate.section != section) out.heading("[rates." + std::string(section = rate.section) + "]");
    out.key(std::string(rate.key), hardware.rates[rate.rate]);
  }
}

void write_host(TomlText& out, const Hardware& hardware) {
  out.heading("[host]");
  for (const auto& [key, seconds] : hardware.host.times()) out.key(key, seconds);
  out.key("run_ahead", hardware.host.run_ahead);
  write_origin(out, hardware.host.provenance);
  out.heading("[linear]");
  out.key("step_s", hardware.linear.step_s);
  out.key("floor_s", hardware.linear.floor_s);
  write_origin(out, hardware.linear.provenance);
  const ElementwiseSpec& elementwise = hardware.elementwise;
  if (!elementwise.efficiency.empty() || elementwise.apart || elementwise.gathers) {
    out.heading("[elementwise]");
    for (const auto& [kind, efficiency] : elementwise.efficiency)
      out.key(std::string(name(kind)), efficiency);
    if (elementwise.apart) out.key("apart", true);
    if (elementwise.gathers) out.key("gathers", true);
    write_origin(out, elementwise.provenance);
  }
  if (hardware.burst.seconds > 0) {
    out.heading("[burst]");
    out.key("seconds", hardware.burst.seconds);
    out.key("speed", hardware.burst.speed);
    if (hardware.burst.small_heads_speed != hardware.burst.speed)
      out.key("small_heads_speed", hardware.burst.small_heads_speed);
    if (hardware.burst.share > 0) out.key("share", hardware.burst.share);
    write_origin(out, hardware.burst.provenance);
  }
  if (hardware.data_sheet) {
    out.heading("[efficiency]");
    for (const KernelClass each : kernel_classes)
      if (hardware.efficiency.says(each)) out.key(std::string(name(each)), hardware.efficiency.of(each));
    write_origin(out, hardware.efficiency.provenance);
  }
  out.heading("[fixed]");
  out.key("bytes", hardware.fixed_bytes);
  write_origin(out, hardware.fixed);
  out.heading("[environment]");
  for (const auto& [key, value] : hardware.environment) out.key(quoted(key), value);
}

void write_curve(TomlText& out, const std::vector<cplab::CurvePoint>& points) {
  std::vector<double> bytes, seconds;
  for (const cplab::CurvePoint& point : points) {
    bytes.push_back(point.bytes);
    seconds.push_back(point.seconds);
  }
  out.list("bytes", bytes);
  out.list("seconds", seconds);
}

void write_points(TomlText& out, const KernelTable& table) {
  std::vector<std::int64_t> batch, sequence, heads;
  std::vector<double> seconds;
  for (const KernelPoint& point : table.points) {
    batch.push_back(point.batch);
    sequence.push_back(point.sequence);
    heads.push_back(point.heads);
    seconds.push_back(point.seconds);
  }
  const bool square = has_square_points(table.kind);
  if (square) out.list("batch", batch);
  out.list(square ? "sequence" : "tokens", sequence);
  out.list("heads", heads);
  out.list("seconds", seconds);
}

std::vector<std::string> names_of(const std::vector<Operand>& operands) {
  std::vector<std::string> names;
  for (const Operand operand : operands) names.emplace_back(name(operand));
  return names;
}

void write_kernel(TomlText& out, const KernelTable& table) {
  out.heading("[[kernel]]");
  out.key("class", std::string(name(table.kind)));
  if (!table.variant.empty()) out.key("variant", table.variant);
  out.key("dtype", std::string(name(table.dtype)));
  const bool square = has_square_points(table.kind), chunks = has_chunk_points(table.kind);
  if (square || chunks) out.key("head_size", table.head_size);
  if ((square || chunks) && table.value_size != table.head_size) out.key("value_size", table.value_size);
  if (square) {
    out.key("mask", table.causal ? "causal" : "full");
    out.key("tile_rows", table.tile_rows);
    if (table.sms > 0) out.key("sms", table.sms);
    if (table.both_sides) out.key("rows", "both");
  }
  if (chunks) {
    out.key("cut", std::string(name(table.cut)));
    out.key("chunk", table.chunk);
    if (table.sequences != 1) out.key("sequences", table.sequences);
    if (!table.states.empty()) out.list("states", names_of(table.states));
    if (!table.results.empty()) out.list("results", names_of(table.results));
  }
  if (table.cold_l2) out.key("l2", "cold");
  if (!table.sustained) out.key("sustained", false);
  square || chunks ? write_points(out, table) : write_curve(out, table.curve);
  write_origin(out, table.provenance);
}

void write_message(TomlText& out, const cplab::MessageTable& table) {
  out.heading("[[message]]");
  out.key("kind", std::string(name(table.kind)));
  out.key("transport", std::string(name(table.transport)));
  out.key("path", std::string(name(table.path)));
  out.key("group", table.group);
  if (table.transport != Transport::copy) out.key("channels", table.channels);
  if (table.alone) out.key("busy", "alone");
  if (table.cuda_graph) out.key("cuda_graph", true);
  if (table.whole) out.key("whole", true);
  if (table.link_bytes_s > 0) out.key("link_bytes_s", table.link_bytes_s);
  if (table.nics_per_gpu > 0) out.key("nics_per_gpu", table.nics_per_gpu);
  write_curve(out, table.points);
  write_origin(out, table.provenance);
}

void write_record(TomlText& out, const Record& record) {
  out.heading("[calibration]");
  out.key("commit", record.commit);
  out.key("kernel_set", record.kernel_set);
  out.key("kernels", record.kernels);
  out.key("gpu", record.gpu);
  out.key("gpus", record.gpus);
  out.key("base", record.base);
  out.key("driver", record.driver);
  out.key("date", record.date);
  out.key("seed", static_cast<std::int64_t>(record.seed));
  out.key("seconds", record.seconds);
  out.key("clocks_before", record.clocks_before);
  out.key("clocks_after", record.clocks_after);
  out.list("done", record.done);
  out.list("left_out", record.left_out);
  out.list("warnings", record.warnings);
  if (record.accuracy.empty()) return;
  std::vector<std::string> kinds;
  std::vector<std::int64_t> points;
  std::vector<double> median, signed_mean, half_width;
  for (const KindAccuracy& kind : record.accuracy) {
    kinds.push_back(kind.kind);
    points.push_back(kind.points);
    median.push_back(kind.median);
    signed_mean.push_back(kind.signed_mean);
    half_width.push_back(kind.half_width);
  }
  out.heading("[accuracy]");
  out.line(
      "# Of held-out runs of each kind, e = predicted / measured - 1: median of |e|, mean of e, 90 % "
      "quantile of |e|");
  out.list("kinds", kinds);
  out.list("points", points);
  out.list("median", median);
  out.list("signed", signed_mean);
  out.list("half_width", half_width);
}

}  // namespace

std::string hardware_text(const Hardware& hardware, const Record& record) {
  TomlText out;
  out.line("# " + std::to_string(record.gpus) + " x " + record.gpu + ", as calibrated on " + record.date +
           ". Written by cplab calibrate.");
  out.line(
      "# docs/05-cost-model.md says how the tables are used; origin = \"assumed\": not measured here.\n");
  out.key("name", hardware.name);
  if (!hardware.kernels_of.empty()) out.key("kernels_of", hardware.kernels_of);
  write_nodes(out, hardware);
  write_gpu(out, hardware);
  write_rates(out, hardware);
  write_host(out, hardware);
  for (const KernelTable& table : hardware.kernels) write_kernel(out, table);
  for (const cplab::MessageTable& table : hardware.messages) write_message(out, table);
  for (const InterferenceRow& row : hardware.interference) {
    out.heading("[[interference]]");
    out.key("class", std::string(name(row.kind)));
    out.key("beside", std::string(name(row.beside)));
    out.key("slowdown", row.slowdown);
    write_origin(out, row.provenance);
  }
  write_finer_tables(out, hardware.finer);
  write_record(out, record);
  return out.text();
}

std::string difference(const Record& before, const Record& now) {
  std::string text;
  const auto compare = [&](const char* what, const std::string& a, const std::string& b) {
    if (a != b) text += (text.empty() ? "" : ", ") + std::string(what) + " " + a + ", now " + b;
  };
  compare("commit", before.commit, now.commit);
  compare("kernel set", before.kernel_set, now.kernel_set);
  compare("kernels", before.kernels, now.kernels);
  compare("GPU", before.gpu, now.gpu);
  compare("base", before.base, now.base);
  compare("number of GPUs", std::to_string(before.gpus), std::to_string(now.gpus));
  return text;
}

}  // namespace cplab::measure

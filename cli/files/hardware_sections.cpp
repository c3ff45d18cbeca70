// The sections of a hardware file; every key is asked for, every value checked.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "cli/files/hardware_section_reader.hpp"
#include "cli/files/hardware_table.hpp"
#include "sim/fabrics.hpp"

namespace cplab {
std::vector<OpKind> kinds_of(bool communication) {
  std::vector<OpKind> kinds;
  for (int i = 0; i < static_cast<int>(OpKind::host_sync); ++i)
    if (is_communication(static_cast<OpKind>(i)) == communication) kinds.push_back(static_cast<OpKind>(i));
  return kinds;
}

namespace {

const std::vector<OpKind> kernel_kinds = kinds_of(false);
const std::vector<OpKind> message_kinds = kinds_of(true);

std::vector<CurvePoint> read_curve(const Table& table) {
  (void)table.has("bytes");  // known also where seconds are wrong
  const std::vector<double> seconds = table.numbers("seconds");
  const std::vector<double> bytes = table.quantities("bytes", Quantity::bytes);
  if (bytes.size() != seconds.size())
    table.fail("seconds", "has " + std::to_string(seconds.size()) + " entries, bytes has " +
                              std::to_string(bytes.size()));
  std::vector<CurvePoint> curve;
  for (std::size_t i = 0; i < bytes.size(); ++i) curve.push_back({bytes[i], seconds[i]});
  return curve;
}

void read_square_points(SectionReader& in, KernelTable& kernel) {
  const Table& table = in.table;
  in.attempt([&] {
    kernel.causal = choice(table, "mask", table.text("mask"), std::vector{false, true},
                           [](bool causal) { return std::string(causal ? "causal" : "full"); });
  });
  in.small("tile_rows", 1, 128, kernel.tile_rows);
  in.small("sms", 0, 0, kernel.sms);
  in.attempt([&] {
    kernel.both_sides = choice(table, "rows", table.text("rows", "queries"), std::vector{false, true},
                               [](bool both) { return std::string(both ? "both" : "queries"); });
  });
  for (const char* key : {"batch", "sequence", "heads", "seconds"}) (void)table.has(key);
  in.attempt([&] {
    const auto batch = table.integers("batch"), sequence = table.integers("sequence");
    const auto heads = table.integers("heads");
    const std::vector<double> seconds = table.numbers("seconds");
    if (batch.size() != seconds.size() || sequence.size() != seconds.size() || heads.size() != seconds.size())
      table.fail("seconds", "batch, sequence, heads and seconds must have equally many entries");
    for (std::size_t i = 0; i < seconds.size(); ++i)
      kernel.points.push_back({batch[i], sequence[i], heads[i], seconds[i]});
  });
}

KernelTable read_kernel(SectionReader in) {
  const Table& table = in.table;
  KernelTable kernel;
  bool known = false;
  in.attempt([&] {
    kernel.kind = SectionReader::read_kind(table, "class", kernel_kinds);
    known = true;
  });
  in.attempt([&] { kernel.variant = table.text("variant", ""); });
  in.attempt([&] {
    kernel.dtype = choice(table, "dtype", table.text("dtype"),
                          std::vector{DType::fp64, DType::fp32, DType::bf16, DType::fp16},
                          [](DType dtype) { return name(dtype); });
  });
  in.attempt([&] { kernel.sustained = table.flag("sustained", true); });
  in.attempt([&] {
    kernel.cold_l2 = choice(table, "l2", table.text("l2", "warm"), std::vector{false, true},
                            [](bool cold) { return std::string(cold ? "cold" : "warm"); });
  });
  in.provenance(kernel.provenance);
  if (!known) {  // which keys are legal is the class's to say
    for (const std::string& key : table.keys()) (void)table.has(key);
    return kernel;
  }
  if (!has_square_points(kernel.kind) && !has_chunk_points(kernel.kind)) {
    in.attempt([&] { kernel.curve = read_curve(table); });
    return kernel;
  }
  in.attempt([&] { kernel.head_size = table.integer("head_size"); });
  in.attempt([&] { kernel.value_size = table.integer("value_size", kernel.head_size); });
  if (has_chunk_points(kernel.kind)) {
    for (const char* key : {"cut", "chunk", "sequences", "states", "tokens", "heads", "seconds"})
      (void)table.has(key);
    if (kernel.kind == OpKind::inter) (void)table.has("results");
    in.attempt([&] { read_chunk_points(table, kernel); });
  } else {
    read_square_points(in, kernel);
  }
  return kernel;
}

MessageTable read_message(SectionReader in) {
  const Table& table = in.table;
  MessageTable message;
  in.kind("kind", message_kinds, message.kind);
  in.transport("transport", message.transport);
  in.attempt([&] {
    message.path = choice(table, "path", table.text("path"), std::vector{Path::intra, Path::inter},
                          [](Path path) { return name(path); });
  });
  in.small("group", 2, message.group);
  if (message.transport != Transport::copy) in.small("channels", 1, message.channels);
  in.attempt([&] {
    message.alone = choice(table, "busy", table.text("busy", "all"), std::vector{false, true},
                           [](bool alone) { return std::string(alone ? "alone" : "all"); });
  });
  in.attempt([&] { message.cuda_graph = table.flag("cuda_graph", false); });
  in.attempt([&] { message.whole = table.flag("whole", false); });
  if (table.has("link_bytes_s")) in.quantity("link_bytes_s", Quantity::bytes_s, message.link_bytes_s);
  if (message.path == Path::inter && table.has("nics_per_gpu"))
    in.small("nics_per_gpu", 1, message.nics_per_gpu);
  in.attempt([&] { message.points = read_curve(table); });
  in.provenance(message.provenance);
  return message;
}

InterferenceRow read_interference(SectionReader in) {
  InterferenceRow row;
  in.kind("class", kernel_kinds, row.kind);
  in.transport("beside", row.beside);
  in.number("slowdown", row.slowdown);
  in.provenance(row.provenance);
  return row;
}

// Of a data sheet the network does not block and has a NIC for each of the `gpus` of a node, unless it says
// otherwise.
NetworkSpec read_network(SectionReader in, int gpus, HardwareFaults& faults) {
  NetworkSpec network;
  std::vector<std::string> fabrics;
  for (const FabricType& type : fabric_types()) fabrics.emplace_back(type.name);
  const bool sheet = !in.sheet_source.empty();
  in.attempt([&] {
    const std::string given = sheet ? in.table.text("fabric", "non_blocking") : in.table.text("fabric");
    network.fabric = choice(in.table, "fabric", given, fabrics, [](const std::string& name) { return name; });
  });
  if (sheet)
    in.small("nics", 1, std::max(1, gpus), network.nics);
  else
    in.small("nics", 1, network.nics);
  in.quantity("nic_bytes_s", Quantity::bytes_s, network.nic_bytes_s);
  in.small("max_nodes", 0, 0, network.max_nodes);
  in.attempt([&] {
    for (const Table& each : in.table.tables("level")) {
      SectionReader level(each, "network", faults);
      SwitchLevel& made = network.levels.emplace_back();
      level.small("nodes", 1, made.nodes);
      level.quantity("up_bytes_s", Quantity::bytes_s, made.up_bytes_s);
    }
  });
  in.provenance_of_optional(network.provenance);
  return network;
}

}  // namespace

void read_capability(const Table& table, GpuSpec& gpu) {
  const char* const key = "compute_capability";
  std::string text;
  if (table.kind(key) == Table::Kind::number) {
    const double tenths = table.number(key) * 10;
    const auto whole = static_cast<std::int64_t>(std::lround(std::clamp(tenths, 0.0, 1e6)));
    if (std::abs(tenths - static_cast<double>(whole)) < 1e-6)
      text = std::to_string(whole / 10) + "." + std::to_string(whole % 10);
    else
      table.fail(key, "is a major and a minor version, such as 9.0, 10.0 or 12.1");
  } else if (table.kind(key) == Table::Kind::integer) {
    const std::int64_t given = table.integer(key);  // 9, or 90 as in sm_90
    const std::string meant = given >= 50 ? std::to_string(given / 10) + "." + std::to_string(given % 10)
                                          : std::to_string(given) + ".0";
    table.fail(key, "is a major and a minor version, not " + std::to_string(given) + "; did you mean " +
                        meant + "?");
  } else {
    text = table.text(key);
  }
  int major = 0, minor = 0;
  const char* const end = text.data() + text.size();
  const auto whole = std::from_chars(text.data(), end, major);
  const bool has_minor = whole.ec == std::errc() && whole.ptr != end && *whole.ptr == '.';
  const auto rest = has_minor ? std::from_chars(whole.ptr + 1, end, minor) : whole;
  if (!has_minor || rest.ec != std::errc() || rest.ptr != end || major < 1 || minor < 0)
    table.fail(key, "is a major and a minor version, such as 9.0 or \"9.0\", not \"" + text + "\"");
  gpu.sm_major = major;
  gpu.sm_minor = minor;
}

namespace {

GpuSpec read_gpu(SectionReader in) {
  GpuSpec gpu;
  in.attempt([&] { gpu.name = in.table.text("name"); });
  in.small("sms", 1, gpu.sms);
  in.bytes("capacity_bytes", gpu.capacity_bytes);
  in.quantity("copy_bytes_s", Quantity::bytes_s, gpu.copy_bytes_s);
  if (in.table.has("compute_capability")) in.attempt([&] { read_capability(in.table, gpu); });
  in.attempt([&] {
    const Table peaks = in.table.table("peak_flops");
    for (const std::string& dtype : peaks.keys())
      gpu.peak_flops.emplace_back(dtype, peaks.quantity(dtype, Quantity::flops_s));
  });
  in.provenance(gpu.provenance);
  gpu.least_kernel_s = usual_least_kernel_s;
  if (in.table.has("least_kernel_s")) {
    in.number("least_kernel_s", gpu.least_kernel_s);
    gpu.least_kernel_origin = gpu.provenance.origin;
  }
  return gpu;
}

HostSpec read_host(SectionReader in) {
  HostSpec host;
  in.number("kernel_launch_s", host.kernel_launch_s);
  in.number("communication_launch_s", host.communication_launch_s);
  in.number("copy_launch_s", host.copy_launch_s);
  in.number("launch_latency_s", host.launch_latency_s);
  in.number("dependency_s", host.dependency_s);
  in.number("sync_s", host.sync_s);
  in.number("graph_launch_s", host.graph_launch_s);
  in.number("graph_node_s", host.graph_node_s);
  in.attempt([&] { host.run_ahead = in.table.integer("run_ahead", host.run_ahead); });
  in.provenance(host.provenance);
  return host;
}

LinearSpec read_linear(SectionReader in) {
  LinearSpec linear;
  in.number("step_s", linear.step_s);
  in.number("floor_s", linear.floor_s);
  in.provenance_of_optional(linear.provenance);
  return linear;
}

// A class for each key; `apart`, `gathers` and where the numbers come from beside them.
ElementwiseSpec read_elementwise(SectionReader in) {
  ElementwiseSpec elementwise;
  for (const OpKind kind : kernel_kinds) {
    const std::string key(name(kind));
    if (!is_elementwise(kind) || !in.table.has(key)) continue;
    in.number(key.c_str(), elementwise.efficiency.emplace_back(kind, 1.0).second);
  }
  in.attempt([&] { elementwise.apart = in.table.flag("apart", false); });
  in.attempt([&] { elementwise.gathers = in.table.flag("gathers", false); });
  in.provenance_of_optional(elementwise.provenance);
  return elementwise;
}

BurstSpec read_burst(SectionReader in) {
  BurstSpec burst;
  in.number("seconds", burst.seconds);
  in.number("speed", burst.speed);
  burst.small_heads_speed = burst.speed;
  in.number("small_heads_speed", burst.small_heads_speed);
  in.number("share", burst.share);
  in.provenance_of_optional(burst.provenance);
  return burst;
}

// Rates that the file does not say are those of the GPU's compute capability; without the section, of the
// shipped file of this GPU (kernels/families/rates.hpp).
void read_rates(SectionReader in, Hardware& hardware, HardwareFaults& faults) {
  using kernels::cuda::RateName;
  for (const RateName& rate : kernels::cuda::rate_names) {
    if (!rate.section.empty() && !in.table.has(std::string(rate.section))) continue;
    in.attempt([&] {
      const std::string key(rate.key);
      const Table part = rate.section.empty() ? in.table : in.table.table(std::string(rate.section));
      SectionReader(part, "rates", faults).attempt([&] {
        if (!part.has(key)) return;
        hardware.rates[rate.rate] = part.number(key);
        if (!(hardware.rates[rate.rate] > 0)) part.fail(key, "must be above 0: " + std::string(rate.meaning));
      });
    });
  }
  Provenance provenance;  // asked for; no time is told by the origin of a rate
  in.provenance_of_optional(provenance);
}

// What a section that every file has looks like.
std::string section_example(std::string_view section) {
  if (section == "node") return "gpus = 8, link_bytes_s = \"450GB/s\"";
  if (section == "gpu")
    return "name = \"H100\", sms = 132, compute_capability = 9.0, capacity_bytes = \"80G\", copy_bytes_s = "
           "\"3TB/s\", peak_flops = { bf16 = \"989TFLOP/s\" }";
  if (section == "host")
    return "kernel_launch_s = 3e-6, communication_launch_s = 6e-6, copy_launch_s = 3e-6, launch_latency_s = "
           "3e-6, dependency_s = 1.5e-6, sync_s = 8e-6, graph_launch_s = 10e-6, graph_node_s = 1e-6";
  return "bytes = \"900M\"";
}

// The entries of a list of tables, each a section of its own.
template <class Entry, class Read>
void read_entries(const Table& root, const std::string& list, const std::string& sheet_source,
                  HardwareFaults& faults, std::vector<Entry>& entries, Read read) {
  std::vector<Table> tables;
  faults.attempt(list, [&] { tables = root.tables(list); });
  for (std::size_t i = 0; i < tables.size(); ++i) {
    SectionReader in(tables[i], list + "." + std::to_string(i), faults);
    in.sheet_source = sheet_source;
    entries.push_back(read(in));
  }
}

}  // namespace

Hardware read_sections(const Table& table, HardwareFaults& faults) {
  Hardware hardware;
  const std::string sheet_source = read_efficiency(table, hardware, faults);
  const auto section = [&](const std::string& key, bool optional, auto read) {
    faults.attempt(key, [&] {
      const bool there = table.has(key);
      if (!there && optional) return;
      if (!there)
        table.fail(key,
                   "the section is missing: [" + key + "] " + section_example(key) +
                       ", and origin = \"assumed\" with source, or \"measured\" with tool, machine, date" +
                       (key == "host" || key == "fixed"
                            ? "; or [efficiency] attend = 0.65, ..., with which it is as on H100 and H200"
                            : ""));
      SectionReader in(table.table(key), key, faults);
      in.sheet_source = sheet_source;
      in.made_by_set = optional && table.is_made(key);
      read(in);
    });
  };
  section("node", false, [&](SectionReader& in) {
    in.small("gpus", 1, hardware.node.gpus);
    in.quantity("link_bytes_s", Quantity::bytes_s, hardware.node.link_bytes_s);
    in.provenance(hardware.node.provenance);
  });
  section("network", true,
          [&](SectionReader& in) { hardware.network = read_network(in, hardware.node.gpus, faults); });
  section("gpu", false, [&](SectionReader& in) { hardware.gpu = read_gpu(in); });
  const GpuSpec& gpu = hardware.gpu;
  hardware.rates = kernels::cuda::shipped_rates(gpu.name, gpu.sms, gpu.sm_major, gpu.sm_minor);
  section("rates", true, [&](SectionReader& in) {
    hardware.rates = kernels::cuda::shipped_rates(gpu.sm_major, gpu.sm_minor);
    read_rates(in, hardware, faults);
  });
  section("host", hardware.data_sheet, [&](SectionReader& in) { hardware.host = read_host(in); });
  section("linear", true, [&](SectionReader& in) { hardware.linear = read_linear(in); });
  section("elementwise", true, [&](SectionReader& in) { hardware.elementwise = read_elementwise(in); });
  section("burst", true, [&](SectionReader& in) { hardware.burst = read_burst(in); });
  section("fixed", hardware.data_sheet, [&](SectionReader& in) {
    in.bytes("bytes", hardware.fixed_bytes);
    in.provenance(hardware.fixed);
  });
  faults.attempt("environment", [&] {
    const Table environment = table.table("environment");
    for (const std::string& key : environment.keys())
      hardware.environment.emplace_back(key, environment.text(key));
  });
  read_entries(table, "kernel", sheet_source, faults, hardware.kernels, read_kernel);
  read_entries(table, "message", sheet_source, faults, hardware.messages, read_message);
  read_entries(table, "interference", sheet_source, faults, hardware.interference, read_interference);
  hardware.finer = read_finer_tables(table, faults);
  if (table.has("accuracy"))
    faults.attempt("accuracy", [&] { hardware.accuracy = read_accuracy(table.table("accuracy")); });
  return hardware;
}

void read_provenance(const Table& section, const std::string& name, HardwareFaults& faults, Provenance& to) {
  SectionReader(section, name, faults).provenance(to);
}

}  // namespace cplab

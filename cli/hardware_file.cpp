// Reader of hardware files; every key is asked for, every value checked.
#include "cli/hardware_file.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "cli/hardware_table.hpp"
#include "cli/text_file.hpp"
#include "cli/toml_table.hpp"
#include "sim/fabrics.hpp"
#include "sim/plausible.hpp"

namespace cplab {
namespace {

using Overrides = HardwareOverrides;

// The kinds that have tables: kernels, or messages.
std::vector<OpKind> kinds_of(bool communication) {
  std::vector<OpKind> kinds;
  for (int i = 0; i < static_cast<int>(OpKind::host_sync); ++i)
    if (is_communication(static_cast<OpKind>(i)) == communication) kinds.push_back(static_cast<OpKind>(i));
  return kinds;
}
const std::vector<OpKind> kernel_kinds = kinds_of(false);
const std::vector<OpKind> message_kinds = kinds_of(true);

OpKind read_kind(const Table& table, const char* key, const std::vector<OpKind>& kinds) {
  return choice(table, key, table.text(key), kinds, [](OpKind kind) { return name(kind); });
}

Transport read_transport(const Table& table, const char* key) {
  return choice(table, key, table.text(key), std::vector{Transport::nccl, Transport::copy},
                [](Transport transport) { return name(transport); });
}

Provenance read_provenance(const Table& table) {
  Provenance provenance;
  provenance.origin =
      choice(table, "origin", table.text("origin"), std::vector{Origin::measured, Origin::assumed},
             [](Origin origin) { return name(origin); });
  if (provenance.origin == Origin::measured) {
    provenance.tool = table.text("tool");
    provenance.machine = table.text("machine");
    provenance.date = table.text("date");
    provenance.source = table.text("source", "");
  } else {
    provenance.source = table.text("source");
  }
  return provenance;
}

int small_integer(const Table& table, const char* key, std::int64_t value, std::int64_t least) {
  if (value < least || value > 1'000'000)
    table.fail(key, "must lie between " + std::to_string(least) + " and 1000000");
  return static_cast<int>(value);
}
int small_integer(const Table& table, const char* key, std::int64_t least) {
  return small_integer(table, key, table.integer(key), least);
}

std::vector<CurvePoint> read_curve(const Table& table) {
  const std::vector<double> seconds = table.numbers("seconds");
  const std::vector<double> bytes = table.numbers("bytes");
  if (bytes.size() != seconds.size())
    table.fail("seconds", "has " + std::to_string(seconds.size()) + " entries, bytes has " +
                              std::to_string(bytes.size()));
  std::vector<CurvePoint> curve;
  for (std::size_t i = 0; i < bytes.size(); ++i) curve.push_back({bytes[i], seconds[i]});
  return curve;
}

KernelTable read_kernel(const Table& table) {
  KernelTable kernel;
  kernel.kind = read_kind(table, "class", kernel_kinds);
  kernel.variant = table.text("variant", "");
  kernel.dtype = choice(table, "dtype", table.text("dtype"),
                        std::vector{DType::fp64, DType::fp32, DType::bf16, DType::fp16},
                        [](DType dtype) { return name(dtype); });
  kernel.sustained = table.flag("sustained", true);
  kernel.cold_l2 = choice(table, "l2", table.text("l2", "warm"), std::vector{false, true},
                          [](bool cold) { return std::string(cold ? "cold" : "warm"); });
  kernel.provenance = read_provenance(table);
  if (!has_square_points(kernel.kind) && !has_chunk_points(kernel.kind)) {
    kernel.curve = read_curve(table);
    return kernel;
  }
  kernel.head_size = table.integer("head_size");
  kernel.value_size = table.integer("value_size", kernel.head_size);
  if (has_chunk_points(kernel.kind)) {
    read_chunk_points(table, kernel);
    return kernel;
  }
  kernel.causal = choice(table, "mask", table.text("mask"), std::vector{false, true},
                         [](bool causal) { return std::string(causal ? "causal" : "full"); });
  kernel.tile_rows = small_integer(table, "tile_rows", table.integer("tile_rows", 128), 1);
  kernel.sms = small_integer(table, "sms", table.integer("sms", 0), 0);
  const auto batch = table.integers("batch"), sequence = table.integers("sequence");
  const auto heads = table.integers("heads");
  const std::vector<double> seconds = table.numbers("seconds");
  if (batch.size() != seconds.size() || sequence.size() != seconds.size() || heads.size() != seconds.size())
    table.fail("seconds", "batch, sequence, heads and seconds must have equally many entries");
  for (std::size_t i = 0; i < seconds.size(); ++i)
    kernel.points.push_back({batch[i], sequence[i], heads[i], seconds[i]});
  return kernel;
}

MessageTable read_message(const Table& table) {
  MessageTable message;
  message.kind = read_kind(table, "kind", message_kinds);
  message.transport = read_transport(table, "transport");
  message.path = choice(table, "path", table.text("path"), std::vector{Path::intra, Path::inter},
                        [](Path path) { return name(path); });
  message.group = small_integer(table, "group", 2);
  const bool copies = message.transport == Transport::copy;
  message.channels = copies ? 0 : small_integer(table, "channels", 1);
  message.alone = choice(table, "busy", table.text("busy", "all"), std::vector{false, true},
                         [](bool alone) { return std::string(alone ? "alone" : "all"); });
  message.cuda_graph = table.flag("cuda_graph", false);
  message.points = read_curve(table);
  message.provenance = read_provenance(table);
  return message;
}

InterferenceRow read_interference(const Table& table) {
  InterferenceRow row;
  row.kind = read_kind(table, "class", kernel_kinds);
  row.beside = read_transport(table, "beside");
  row.slowdown = table.number("slowdown");
  row.provenance = read_provenance(table);
  return row;
}

NetworkSpec read_network(const Table& table) {
  NetworkSpec network;
  std::vector<std::string> fabrics;
  for (const FabricType& type : fabric_types()) fabrics.emplace_back(type.name);
  network.fabric =
      choice(table, "fabric", table.text("fabric"), fabrics, [](const std::string& name) { return name; });
  network.nics = small_integer(table, "nics", 1);
  network.nic_bytes_s = table.number("nic_bytes_s");
  network.max_nodes = small_integer(table, "max_nodes", table.integer("max_nodes", 0), 0);
  for (const Table& level : table.tables("level"))
    network.levels.push_back({small_integer(level, "nodes", 1), level.number("up_bytes_s")});
  network.provenance = read_provenance(table);
  return network;
}

// "9.0": 9 and 0.
void read_capability(const Table& table, GpuSpec& gpu) {
  const std::string text = table.text("compute_capability");
  int major = 0, minor = 0;
  const char* const end = text.data() + text.size();
  const auto whole = std::from_chars(text.data(), end, major);
  const bool has_minor = whole.ec == std::errc() && whole.ptr != end && *whole.ptr == '.';
  const auto rest = has_minor ? std::from_chars(whole.ptr + 1, end, minor) : whole;
  if (!has_minor || rest.ec != std::errc() || rest.ptr != end || major < 1 || minor < 0)
    table.fail("compute_capability", "is a text like \"9.0\", not \"" + text + "\"");
  gpu.sm_major = major;
  gpu.sm_minor = minor;
}

GpuSpec read_gpu(const Table& table) {
  GpuSpec gpu;
  gpu.name = table.text("name");
  gpu.sms = small_integer(table, "sms", 1);
  gpu.capacity_bytes = table.integer("capacity_bytes");
  gpu.copy_bytes_s = table.number("copy_bytes_s");
  if (table.has("compute_capability")) read_capability(table, gpu);
  const Table peaks = table.table("peak_flops");
  for (const std::string& dtype : peaks.keys()) gpu.peak_flops.emplace_back(dtype, peaks.number(dtype));
  gpu.provenance = read_provenance(table);
  return gpu;
}

HostSpec read_host(const Table& table) {
  HostSpec host;
  host.kernel_launch_s = table.number("kernel_launch_s");
  host.communication_launch_s = table.number("communication_launch_s");
  host.copy_launch_s = table.number("copy_launch_s");
  host.launch_latency_s = table.number("launch_latency_s");
  host.dependency_s = table.number("dependency_s");
  host.sync_s = table.number("sync_s");
  host.graph_launch_s = table.number("graph_launch_s");
  host.graph_node_s = table.number("graph_node_s");
  host.run_ahead = table.integer("run_ahead", host.run_ahead);
  host.provenance = read_provenance(table);
  return host;
}

LinearSpec read_linear(const Table& table) {
  LinearSpec linear;
  linear.step_s = table.number("step_s");
  linear.floor_s = table.number("floor_s");
  linear.provenance = read_provenance(table);
  return linear;
}

BurstSpec read_burst(const Table& table) {
  BurstSpec burst;
  burst.seconds = table.number("seconds");
  burst.speed = table.number("speed");
  burst.provenance = read_provenance(table);
  return burst;
}

// No time depends on them: names, sizes that decide what fits, figures for comparison in print.
bool is_beside_times(const std::string& key) {
  constexpr std::array whole{"name", "gpu.name", "gpu.capacity_bytes", "network.max_nodes"};
  constexpr std::array below{"gpu.peak_flops", "fixed", "environment"};
  constexpr std::array last{"tool", "machine", "date", "source"};
  constexpr std::array last_of_kernel{"variant", "l2"};
  const auto is = [](const auto& names, std::string_view word) {
    return std::find(names.begin(), names.end(), word) != names.end();
  };
  const std::string leaf = key.substr(key.rfind('.') + 1);
  const bool deeper = key.find('.') != std::string::npos;
  return is(whole, key) || (deeper && is(last, leaf)) ||
         (key.starts_with("kernel.") && is(last_of_kernel, leaf)) ||
         std::any_of(below.begin(), below.end(), [&](const std::string& section) {
           return key == section || key.starts_with(section + ".");
         });
}

// A time that depends on what was set by hand is assumed, whatever the file says about the rest of its
// section, or of its entry in a list (kernel.3.seconds).
void mark_overridden(Hardware& hardware, const std::string& key) {
  const std::string section = key.substr(0, key.find('.'));
  Provenance assumed;
  assumed.source = "set by hand";
  if (section == "fixed") hardware.fixed = assumed;  // of a size
  if (is_beside_times(key)) return;
  if (section == "node") hardware.node.provenance = assumed;
  if (section == "network") hardware.network.provenance = assumed;
  if (section == "gpu") hardware.gpu.provenance = assumed;
  if (section == "host") hardware.host.provenance = assumed;
  if (section == "linear") hardware.linear.provenance = assumed;
  if (section == "burst") hardware.burst.provenance = assumed;
  const auto mark_entries = [&](auto& entries) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::string entry = section + "." + std::to_string(i);
      if (key == section || key == entry || key.starts_with(entry + ".")) entries[i].provenance = assumed;
    }
  };
  if (section == "kernel") mark_entries(hardware.kernels);
  if (section == "message") mark_entries(hardware.messages);
  if (section == "interference") mark_entries(hardware.interference);
}

// Throws HardwareError for a machine that cannot be, InputError for all else.
Hardware read(Table& table, const std::string& file_name, const Overrides& overrides) {
  Hardware hardware;
  const Table measured_node = table.table("node"), measured_network = table.table("network"),
              measured_gpu = table.table("gpu");
  if (!overrides.empty()) {
    hardware.curve_link_bytes_s = measured_node.number("link_bytes_s", 0.0);
    hardware.curve_nic_bytes_s = measured_network.number("nic_bytes_s", 0.0);
    hardware.curve_copy_bytes_s = measured_gpu.number("copy_bytes_s", 0.0);
  }
  for (const auto& [key, value] : overrides) table.assign(key, value);
  hardware.name = table.text("name", std::filesystem::path(file_name).stem().string());
  const Table node = table.table("node");
  hardware.node.gpus = small_integer(node, "gpus", 1);
  hardware.node.link_bytes_s = node.number("link_bytes_s");
  hardware.node.provenance = read_provenance(node);
  if (table.has("network")) hardware.network = read_network(table.table("network"));
  hardware.gpu = read_gpu(table.table("gpu"));
  hardware.host = read_host(table.table("host"));
  if (table.has("linear")) hardware.linear = read_linear(table.table("linear"));
  if (table.has("burst")) hardware.burst = read_burst(table.table("burst"));
  const Table fixed = table.table("fixed");
  hardware.fixed_bytes = fixed.integer("bytes");
  hardware.fixed = read_provenance(fixed);
  const Table environment = table.table("environment");
  for (const std::string& key : environment.keys())
    hardware.environment.emplace_back(key, environment.text(key));
  for (const Table& kernel : table.tables("kernel")) hardware.kernels.push_back(read_kernel(kernel));
  for (const Table& message : table.tables("message")) hardware.messages.push_back(read_message(message));
  for (const Table& row : table.tables("interference"))
    hardware.interference.push_back(read_interference(row));
  table.finish();
  for (const auto& [key, value] : overrides) mark_overridden(hardware, key);
  require_plausible_numbers(hardware);
  validate(hardware);
  require_plausible_rows(hardware);
  return hardware;
}

bool is_valid_alone(const std::string& text, const std::string& file_name) {
  try {
    Table table = Table::parse(text, file_name);
    (void)read(table, file_name, {});
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

}  // namespace

std::string place_of(const HardwareError& error) {
  const bool is_path = !error.key.empty() && error.key.find('=') == std::string::npos;
  return error.table + (error.key.empty() ? "" : is_path ? "." : " ") + error.key;
}

std::string blamed_overrides(const HardwareError& error, const Overrides& overrides) {
  const std::string section = error.table + "." + (error.entry < 0 ? "" : std::to_string(error.entry) + ".");
  const auto list = [&](auto matches) {
    std::string text;
    for (const auto& [key, value] : overrides)
      if (matches(key)) text += (text.empty() ? "--set " : ", --set ") + key;
    return text;
  };
  std::string text = list([&](const std::string& key) { return key == error.table + "." + error.key; });
  if (text.empty()) text = list([&](const std::string& key) { return key.starts_with(section); });
  if (text.empty()) text = list([](const std::string&) { return true; });
  return text;
}

Hardware read_hardware(const std::string& path, const Overrides& overrides) {
  return parse_hardware(read_text_file(path), path, overrides);
}

std::string with_section(std::string message) {
  for (std::size_t at = message.find("--set "); at != std::string::npos; at = message.find("--set ", at)) {
    message.insert(at += 6, "hardware.");
  }
  return message;
}

Hardware read_hardware_of(const ScenarioFile& file) {
  try {
    return read_hardware(file.hardware, file.hardware_overrides);
  } catch (const InputError& error) {
    const std::string message = error.what();
    if (!message.starts_with("--set ")) throw;
    throw InputError(with_section(message));
  }
}

Hardware parse_hardware(const std::string& text, const std::string& file_name, const Overrides& overrides) {
  Table table = Table::parse(text, file_name);
  try {
    return read(table, file_name, overrides);
  } catch (const HardwareError& error) {
    if (!overrides.empty() && is_valid_alone(text, file_name)) {
      throw InputError(blamed_overrides(error, overrides) + ": " + place_of(error) + ": " + error.what());
    }
    if (error.entry < 0) table.fail(place_of(error), error.what());
    table.tables(error.table)[static_cast<std::size_t>(error.entry)].fail("",
                                                                          error.key + ": " + error.what());
  }
}

}  // namespace cplab

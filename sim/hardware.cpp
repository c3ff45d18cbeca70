// Rules and look-ups of hardware tables.
#include "sim/hardware.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "plan/islands.hpp"
#include "sim/fabrics.hpp"
#include "sim/plausible.hpp"

namespace cplab {

std::array<std::pair<const char*, double>, 8> HostSpec::times() const {
  return {{{"kernel_launch_s", kernel_launch_s},
           {"communication_launch_s", communication_launch_s},
           {"copy_launch_s", copy_launch_s},
           {"launch_latency_s", launch_latency_s},
           {"dependency_s", dependency_s},
           {"sync_s", sync_s},
           {"graph_launch_s", graph_launch_s},
           {"graph_node_s", graph_node_s}}};
}

HardwareError::HardwareError(std::string table_, std::string key_, const std::string& message)
    : std::runtime_error(message), table(std::move(table_)), key(std::move(key_)) {}

std::string_view name(Path path) {
  return path == Path::intra ? "intra" : "inter";
}

bool has_square_points(OpKind kind) {
  return kind == OpKind::attend || kind == OpKind::attend_backward;
}
bool has_chunk_points(OpKind kind) {
  return kind == OpKind::local || kind == OpKind::local_backward || kind == OpKind::state ||
         kind == OpKind::scan || kind == OpKind::inter;
}

bool is_elementwise(OpKind kind) {
  using enum OpKind;
  return kind == merge || kind == copy || kind == cast || kind == add || kind == maximum || kind == fill ||
         kind == row_dot || kind == sink_gradient;
}

bool ElementwiseSpec::says(OpKind kind) const {
  return std::ranges::any_of(efficiency, [&](const auto& each) { return each.first == kind; });
}

double ElementwiseSpec::of(OpKind kind) const {
  for (const auto& [of, part] : efficiency)
    if (of == kind) return part;
  return 1;
}

Origin worst(Origin a, Origin b) {
  return std::max(a, b);
}  // declared from best to worst

Estimate lookup(const std::vector<CurvePoint>& points, double bytes, Origin table_origin) {
  const auto above = std::lower_bound(points.begin(), points.end(), bytes,
                                      [](const CurvePoint& point, double b) { return point.bytes < b; });
  if (above == points.end()) {
    const CurvePoint& last = points.back();
    return {last.seconds * (bytes / last.bytes), worst(table_origin, Origin::extrapolated)};
  }
  if (above->bytes == bytes) return {above->seconds, table_origin};
  if (above == points.begin()) return {above->seconds, worst(table_origin, Origin::extrapolated)};
  const CurvePoint& low = *(above - 1);
  const double fraction = (bytes - low.bytes) / (above->bytes - low.bytes);
  return {low.seconds + fraction * (above->seconds - low.seconds), worst(table_origin, Origin::interpolated)};
}

double GpuSpec::peak(std::string_view dtype) const {
  for (const auto& [name_of, flops_s] : peak_flops)
    if (name_of == dtype) return flops_s;
  return 0;
}

GpuSpec Hardware::measured_gpu() const {
  GpuSpec measured = gpu;
  if (curve_copy_bytes_s > 0) measured.copy_bytes_s = curve_copy_bytes_s;
  if (!curve_peak_flops.empty()) measured.peak_flops = curve_peak_flops;
  if (curve_sm_major > 0) measured.sm_major = curve_sm_major;
  return measured;
}

double Hardware::copy_scale() const {
  return curve_copy_bytes_s > 0 ? curve_copy_bytes_s / gpu.copy_bytes_s : 1;
}

double Hardware::peak_scale(DType dtype) const {
  const double now = gpu.peak(cplab::name(dtype));
  for (const auto& [of, flops_s] : curve_peak_flops)
    if (of == cplab::name(dtype) && now > 0) return flops_s / now;
  return 1;
}

int Hardware::nics_per_gpu() const {
  return node.gpus > 0 ? std::max(1, network.nics / node.gpus) : 1;  // 0: a fault that validate tells
}

double Hardware::link_bytes_s(Path path) const {
  return path == Path::intra ? node.link_bytes_s : network.nic_bytes_s * nics_per_gpu();
}

double Hardware::share_bytes_s(Path path) const {
  return path == Path::intra ? node.link_bytes_s : network.nic_bytes_s * network.nics / node.gpus;
}

double Hardware::curve_bytes_s(const MessageTable& table) const {
  if (table.link_bytes_s > 0) return table.link_bytes_s;
  return table.kind == OpKind::exchange ? link_bytes_s(table.path) : share_bytes_s(table.path);
}

namespace {

void require(bool ok, const char* table, const std::string& key, const std::string& message) {
  if (!ok) throw HardwareError(table, key, message);
}

// Far beyond every machine, and small enough that no sum or quotient of them leaves the clock's precision.
constexpr double longest_s = 1e6;
constexpr double most_bytes = 1e18;
constexpr double most_bytes_s = 1e18;
constexpr double most_flops_s = 1e24;
constexpr double most_slowdown = 1e6;

// NaN is in no range.
void require_range(double value, double low, double high, const char* unit, const char* table,
                   const std::string& key) {
  require(
      value >= low && value <= high, table, key,
      "must be from " + six_digits(low) + " to " + six_digits(high) + unit + ", but is " + six_digits(value));
}

void require_seconds(double value, const char* table, const std::string& key) {
  require_range(value, 0, longest_s, " s", table, key);
}

void require_bytes_s(double value, const char* table, const std::string& key) {
  require_range(value, 1, most_bytes_s, " bytes/s", table, key);
}

void check_curve(const std::vector<CurvePoint>& points, const char* table, const std::string& key) {
  require(!points.empty(), table, key, "needs at least one point");
  for (std::size_t i = 0; i < points.size(); ++i) {
    require(points[i].bytes > 0 && points[i].seconds > 0, table, key, "bytes and seconds must be positive");
    require(
        points[i].bytes <= most_bytes && points[i].seconds <= longest_s, table, key,
        "bytes must be at most " + six_digits(most_bytes) + " and seconds at most " + six_digits(longest_s));
    if (i == 0) continue;
    require(points[i].bytes > points[i - 1].bytes, table, key, "bytes must ascend");
    require(points[i].seconds >= points[i - 1].seconds, table, key, "seconds must not descend");
  }
}

std::string key_of(OpKind kind, Transport transport, Path path) {
  return "kind=" + std::string(name(kind)) + " transport=" + std::string(name(transport)) +
         " path=" + std::string(name(path));
}

void check_message(const Hardware& hardware, const MessageTable& table) {
  const std::string key = key_of(table.kind, table.transport, table.path);
  require(is_communication(table.kind), "message", key, "is not a kind of communication");
  require(table.group >= 2, "message", key, "group must be at least 2");
  require(table.channels >= 0 && table.channels < hardware.gpu.sms, "message", key,
          "channels must be from 0 to " + std::to_string(hardware.gpu.sms - 1) + " (gpu.sms - 1), but is " +
              std::to_string(table.channels));
  require(table.path == Path::intra || fabric_type(hardware.network).joins_nodes, "message", key,
          "path \"inter\" without a network");
  require(table.nics_per_gpu >= 0, "message", key, "nics_per_gpu must be positive");
  check_curve(table.points, "message", key);
  if (table.link_bytes_s != 0) require_bytes_s(table.link_bytes_s, "message", key + " link_bytes_s");
  if (table.kind != OpKind::exchange) return;
  require(startup_s(table, hardware.curve_bytes_s(table)) > 0, "message", key,
          "some point is faster than the link that carries it");
}

void check_kernel(const KernelTable& table) {
  const std::string key =
      "class=" + std::string(name(table.kind)) + " dtype=" + std::string(name(table.dtype));
  require(!is_communication(table.kind) && table.kind != OpKind::host_sync, "kernel", key,
          "is not a kind of kernel");
  if (!has_square_points(table.kind) && !has_chunk_points(table.kind)) {
    check_curve(table.curve, "kernel", key);
    return;
  }
  require(table.sequences > 0 && table.chunk >= 0, "kernel", key,
          "sequences must be positive and chunk not negative");
  for (const KernelPoint& point : table.points)
    require(point.sequence % table.sequences == 0, "kernel", key,
            "tokens must be a multiple of sequences, which are alike");
  for (const auto& [what, size] : {std::pair{"head_size", table.head_size}, {"value_size", table.value_size}})
    require(size > 0 && size <= limits::head_size, "kernel", key,
            std::string(what) + " must be from 1 to " + std::to_string(limits::head_size));
  require(table.tile_rows > 0, "kernel", key, "tile_rows must be positive");
  require(table.sms >= 0, "kernel", key, "sms must not be negative");
  require(!table.points.empty(), "kernel", key, "needs at least one point");
  for (const KernelPoint& point : table.points) {
    require(point.batch > 0 && point.sequence > 0 && point.heads > 0 && point.seconds > 0, "kernel", key,
            "every number of a point must be positive");
    require(
        point.batch <= limits::sequences && point.sequence <= limits::tokens && point.heads <= limits::heads,
        "kernel", key,
        "a point has at most " + std::to_string(limits::sequences) + " sequences of " +
            std::to_string(limits::tokens) + " tokens and " + std::to_string(limits::heads) + " heads");
    require(point.seconds <= longest_s, "kernel", key, "seconds must be at most " + six_digits(longest_s));
  }
}

using HardwareFaultList = std::vector<HardwareError>;

template <class Check>
void attempt(HardwareFaultList& faults, Check check, int entry = -1) {
  try {
    check();
  } catch (const HardwareError& error) {
    faults.push_back(error);
    faults.back().entry = entry;
  }
}

// "1, 2, 4, 8, 16, 24, ..." of 8.
std::string legal_nics(int gpus) {
  std::string text;
  for (int nics = 1; nics <= gpus; ++nics)
    if (gpus % nics == 0) text += std::to_string(nics) + ", ";
  return text + std::to_string(2 * gpus) + ", " + std::to_string(3 * gpus) + ", ...";
}

void check_network(const Hardware& hardware, HardwareFaultList& faults) {
  const NetworkSpec& network = hardware.network;
  const FabricType& type = fabric_type(network);
  if (!type.joins_nodes) return;
  attempt(faults, [&] {
    require(network.nics > 0, "network", "nics", "must be positive");
    const int gpus = hardware.node.gpus, nics = network.nics;
    require(gpus <= 0 || gpus % nics == 0 || nics % gpus == 0, "network", "nics",
            "must divide the GPUs of a node or be a multiple of them, but is " + std::to_string(nics) +
                "; legal for " + std::to_string(gpus) + " GPUs: " + legal_nics(gpus));
  });
  attempt(faults, [&] { require_bytes_s(network.nic_bytes_s, "network", "nic_bytes_s"); });
  attempt(faults, [&] { require(network.max_nodes >= 0, "network", "max_nodes", "must not be negative"); });
  attempt(faults, [&] {
    const std::string fault = type.levels_fault(network);
    require(fault.empty(), "network", "levels", fault);
    for (const SwitchLevel& level : network.levels) require_bytes_s(level.up_bytes_s, "network", "levels");
  });
}

// The errors say which entry they are about.
template <class Entry, class Check>
void check_each(HardwareFaultList& faults, const std::vector<Entry>& entries, Check check_entry) {
  for (std::size_t i = 0; i < entries.size(); ++i)
    attempt(
        faults, [&] { check_entry(entries[i]); }, static_cast<int>(i));
}

// "transport=nccl path=intra, transport=copy path=intra"; "none at all".
std::string tables_there(const Hardware& hardware, OpKind kind) {
  std::string text;
  for (const MessageTable& table : hardware.messages) {
    if (table.kind != kind) continue;
    const std::string each =
        "transport=" + std::string(name(table.transport)) + " path=" + std::string(name(table.path));
    if (text.find(each) == std::string::npos) text += (text.empty() ? "" : ", ") + each;
  }
  return text.empty() ? "none at all" : text;
}

}  // namespace

std::vector<HardwareError> faults_of(const Hardware& hardware) {
  HardwareFaultList faults;
  const HostSpec& host = hardware.host;
  attempt(faults, [&] { require(hardware.node.gpus > 0, "node", "gpus", "must be positive"); });
  attempt(faults, [&] { require_bytes_s(hardware.node.link_bytes_s, "node", "link_bytes_s"); });
  attempt(faults, [&] { require(hardware.gpu.sms > 0, "gpu", "sms", "must be positive"); });
  attempt(faults, [&] {
    require_range(static_cast<double>(hardware.gpu.capacity_bytes), 1, most_bytes, " bytes", "gpu",
                  "capacity_bytes");
  });
  attempt(faults, [&] { require_bytes_s(hardware.gpu.copy_bytes_s, "gpu", "copy_bytes_s"); });
  attempt(faults, [&] { require_seconds(hardware.gpu.least_kernel_s, "gpu", "least_kernel_s"); });
  for (const auto& [dtype, flops] : hardware.gpu.peak_flops)
    attempt(faults, [&, &key = dtype, value = flops] {
      require_range(value, 1, most_flops_s, " FLOP/s", "gpu", "peak_flops." + key);
    });
  attempt(faults, [&] {
    require_range(static_cast<double>(hardware.fixed_bytes), 0, most_bytes, " bytes", "fixed", "bytes");
  });
  check_network(hardware, faults);
  for (const auto& [key, value] : host.times())
    attempt(faults, [&, name = key, time = value] { require_seconds(time, "host", name); });
  attempt(faults, [&] { require_seconds(hardware.linear.step_s, "linear", "step_s"); });
  attempt(faults, [&] { require_seconds(hardware.linear.floor_s, "linear", "floor_s"); });
  // Operands in L2 may move faster than one large copy (sim/plausible.cpp).
  for (const auto& [kind, part] : hardware.elementwise.efficiency)
    attempt(faults, [&, key = std::string(name(kind)), value = part] {
      require_range(value, 1e-3, 20, " of gpu.copy_bytes_s", "elementwise", key);
    });
  attempt(faults, [&] { require_range(hardware.burst.seconds, 0, 100, " s", "burst", "seconds"); });
  attempt(faults, [&] { require_range(hardware.burst.speed, 1, 10, "", "burst", "speed"); });
  attempt(faults,
          [&] { require_range(hardware.burst.small_heads_speed, 1, 10, "", "burst", "small_heads_speed"); });
  attempt(faults, [&] { require_range(hardware.burst.share, 0, 0.99, "", "burst", "share"); });
  attempt(faults, [&] { require(host.run_ahead >= 1, "host", "run_ahead", "must be at least 1"); });
  check_each(faults, hardware.kernels, check_kernel);
  check_each(faults, hardware.messages, [&](const MessageTable& table) { check_message(hardware, table); });
  check_each(faults, hardware.interference, [](const InterferenceRow& row) {
    require(
        row.slowdown >= 1 && row.slowdown <= most_slowdown, "interference",
        "class=" + std::string(name(row.kind)),
        "slowdown must be from 1 to " + six_digits(most_slowdown) + ", but is " + six_digits(row.slowdown));
  });
  return faults;
}

void validate(const Hardware& hardware) {
  const std::vector<HardwareError> faults = faults_of(hardware);
  if (!faults.empty()) throw faults.front();
}

std::vector<int> islands_of(const Hardware& hardware, int world) {
  const bool copies = std::ranges::any_of(hardware.messages, [](const MessageTable& table) {
    return table.kind == OpKind::exchange && table.transport == Transport::copy && table.path == Path::intra;
  });
  return islands_of_nodes(world, copies ? hardware.node.gpus : 1);
}

void require_ranks(const Hardware& hardware, std::int64_t world) {
  const std::int64_t nodes = (world + hardware.node.gpus - 1) / hardware.node.gpus;
  const bool one_node = !fabric_type(hardware.network).joins_nodes;
  const std::int64_t limit = one_node ? 1 : hardware.network.max_nodes;
  if (limit == 0 || nodes <= limit) return;
  const std::string key = one_node ? "fabric" : "max_nodes";
  throw HardwareError("network", key,
                      std::to_string(world) + " ranks need " + std::to_string(nodes) + " nodes of " +
                          std::to_string(hardware.node.gpus) + " GPUs, and there can be " +
                          std::to_string(limit) + "; legal for parallel.ranks x parallel.replicas: 1 to " +
                          std::to_string(limit * hardware.node.gpus));
}

namespace {

// The best table of `use.kind` by, in this order: the mode, all ranks busy, the nearest group size, the
// nearest range of bytes, the origin, the place in the file.
MessageChoice find_table(const Hardware& hardware, const MessageUse& use, bool of_this_group) {
  MessageChoice best;
  std::tuple<bool, bool, double, double, Origin> best_rank;
  for (const MessageTable& table : hardware.messages) {
    if (table.kind != use.kind || table.transport != use.transport || table.path != use.path) continue;
    if (table.cuda_graph && !use.cuda_graph) continue;
    if (of_this_group && table.group != use.group) continue;
    const double bytes = std::max(use.bytes, 1.0);
    const double nearest = std::clamp(bytes, table.points.front().bytes, table.points.back().bytes);
    const std::tuple rank{table.cuda_graph != use.cuda_graph, table.alone,
                          std::abs(std::log(static_cast<double>(table.group) / use.group)),
                          std::abs(std::log(bytes / nearest)), table.provenance.origin};
    if (best.table != nullptr && rank >= best_rank) continue;
    best_rank = rank;
    const bool same = !std::get<0>(rank) && !std::get<1>(rank) && std::get<2>(rank) == 0;
    best = {&table, same ? Origin::measured : Origin::extrapolated};
  }
  return best;
}

}  // namespace

MessageChoice find_collective(const Hardware& hardware, const MessageUse& use) {
  return find_table(hardware, use, true);
}

MessageChoice find_flow(const Hardware& hardware, const MessageUse& use) {
  MessageChoice choice = find_table(hardware, use, false);
  if (choice.table != nullptr) return choice;
  MessageUse exchange = use;
  exchange.kind = OpKind::exchange;
  choice = find_table(hardware, exchange, false);
  if (choice.table != nullptr) return choice;
  throw HardwareError(
      "message", key_of(OpKind::exchange, use.transport, use.path),
      "the plan needs this table and there is none; of kind exchange there is " +
          tables_there(hardware, OpKind::exchange) +
          (use.transport == Transport::copy && use.path == Path::inter
               ? ". Copy engines do not reach other nodes: schedule.transport=\"auto\" copies "
                 "within a node and takes NCCL between nodes"
               : ""));
}

}  // namespace cplab

// The table of ranges, and what a number out of its range was probably meant to be.
#include "sim/plausible.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "sim/fabrics.hpp"
#include "sim/kernel_cost.hpp"

namespace cplab {

std::string bits_meant(const std::string& text, double bytes_s) {
  constexpr double fastest_nic_bytes_s = 800e9 / 8;
  const std::size_t letter = text.find_last_not_of(' ');
  if (bytes_s <= fastest_nic_bytes_s || letter == std::string::npos ||
      std::string("KMGT").find(text[letter]) == std::string::npos)
    return {};
  const std::string rate = text.substr(0, letter + 1);
  return rate + " is " + rate + "B/s, " + six_digits(bytes_s * 8 / 1e9) +
         " Gb/s: faster than any NIC; bits are written \"" + rate + "b/s\", bytes without doubt \"" + rate +
         "B/s\"";
}

std::string six_digits(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

namespace {

using Unit = NumberUnit;

constexpr std::array ranges{
    PlausibleRange{"node.link_bytes_s", Unit::bytes_s, 1e6, 1e14, 1e9, 1e13,
                   "1 MB/s is the slowest Ethernet, 100 TB/s a hundred times NVLink 5"},
    PlausibleRange{"network.nic_bytes_s", Unit::network_bytes_s, 1e5, 1e13, 1e9, 1e12,
                   "1 Mb/s is slower than any network of computers, 10 TB/s a hundred NICs of 800 Gb/s"},
    PlausibleRange{"network.level.up_bytes_s", Unit::network_bytes_s, 1e5, 1e17, 1e10, 1e15,
                   "from one slow uplink to ten thousand of the fastest NICs together"},
    PlausibleRange{"network.nics", Unit::count, 1, 4096, 1, 4096, "a node has at most a few NICs a GPU"},
    PlausibleRange{"gpu.copy_bytes_s", Unit::bytes_s, 1e7, 1e15, 1e11, 1e14,
                   "10 MB/s is memory of the 1970s, 1 PB/s a hundred times HBM of 2026"},
    PlausibleRange{"gpu.capacity_bytes", Unit::bytes, 1e6, 1e15, 1e9, 1e13,
                   "1 MB holds no plan worth a simulation, 1 PB is a thousand times any GPU of 2026"},
    PlausibleRange{"gpu.sms", Unit::count, 1, 1e5, 1, 1e5,
                   "hundreds today; a wafer has some ten thousand cores a die"},
    PlausibleRange{
        "gpu.peak_flops", Unit::flops_s, 1e6, 1e19, 1e13, 1e17,
        "1 MFLOP/s is a home computer, 10 EFLOP/s a thousand times a GPU of 2026 at its narrowest dtype"},
    PlausibleRange{"fixed.bytes", Unit::bytes, 1e4, 1e13, 1e8, 1e11,
                   "0, or a context of at least some KB; at most a machine's whole memory"},
    PlausibleRange{"host.*_s", Unit::seconds, 0, 0.1, 1e-7, 1e-3,
                   "a launch takes microseconds; 0.1 s is one through a network of another continent"},
    PlausibleRange{"linear.*_s", Unit::seconds, 1e-9, 1e-2, 1e-7, 1e-4,
                   "a cycle of the clock, and ten thousand times what a step over 64 tokens takes"},
    PlausibleRange{"burst.seconds", Unit::seconds, 1e-6, 100, 1e-3, 10,
                   "0, or how long a power limit takes to bound a clock: milliseconds to seconds"},
    PlausibleRange{"burst.speed", Unit::factor, 1, 10, 1, 4,
                   "1 is a clock that never falls; no GPU falls to a tenth of its highest"},
    PlausibleRange{"node.gpus", Unit::count, 1, 4096, 1, 4096,
                   "seven times the 576 GPUs of the largest NVLink domain"},
    PlausibleRange{"kernel.seconds", Unit::seconds, 1e-8, 1e4, 1e-6, 10,
                   "ten cycles of a clock of 1 GHz, and three hours"},
    PlausibleRange{"message.seconds", Unit::seconds, 1e-8, 1e4, 1e-6, 10,
                   "light travels 3 m in 10 ns; nobody waits three hours for a message"},
    PlausibleRange{"message.bytes", Unit::bytes, 1, 1e13, 1, 1e13, "10 TB is more than a GPU holds"},
    PlausibleRange{"interference.slowdown", Unit::factor, 1, 50, 1, 4,
                   "1 is no slowdown; at 50 a kernel stands still beside communication"},
};

struct Scale {
  double factor;
  const char* name;      // "GB/s"
  const char* exponent;  // "e9", to write the value with its digits kept; none: computed
};

std::vector<Scale> scales(Unit unit) {
  switch (unit) {
    case Unit::bytes_s: return {{1e9, "GB/s", "e9"}, {1e12, "TB/s", "e12"}, {1e6, "MB/s", "e6"}};
    case Unit::network_bytes_s:
      return {{1e9 / 8, "Gb/s", nullptr}, {1e9, "GB/s", "e9"}, {1e12, "TB/s", "e12"}, {1e6, "MB/s", "e6"}};
    case Unit::flops_s: return {{1e12, "TFLOP/s", "e12"}, {1e15, "PFLOP/s", "e15"}, {1e9, "GFLOP/s", "e9"}};
    case Unit::bytes: return {{1e9, "GB", "e9"}, {1e6, "MB", "e6"}, {1e12, "TB", "e12"}, {1e3, "KB", "e3"}};
    case Unit::seconds: return {{1e-6, "us", "e-6"}, {1e-3, "ms", "e-3"}, {1e-9, "ns", "e-9"}};
    case Unit::factor: return {{1e-2, "percent", nullptr}};
    case Unit::count: return {};
  }
  return {};
}

const char* unit_text(Unit unit) {
  switch (unit) {
    case Unit::bytes_s:
    case Unit::network_bytes_s: return " bytes/s";
    case Unit::flops_s: return " FLOP/s";
    case Unit::bytes: return " bytes";
    case Unit::seconds: return " s";
    case Unit::count:
    case Unit::factor: return "";
  }
  return "";
}

// 5e10 as "50e9": thousands as people count them.
std::string in_thousands(double value) {
  const int power = value >= 1e3 ? static_cast<int>(std::floor(std::log10(value) / 3)) * 3 : 0;
  return six_digits(value / std::pow(10.0, power)) + (power > 0 ? "e" + std::to_string(power) : "");
}

// "; did you mean 50e9 (400 Gb/s) or 400e9 (400 GB/s)?"; empty if no unit makes sense of the value.
std::string meant(const PlausibleRange& range, double value) {
  std::vector<std::string> ideas;
  const bool two = range.unit == Unit::network_bytes_s;  // bits or bytes: both are usual
  for (const Scale& scale : scales(range.unit)) {
    const double scaled = value * scale.factor;
    if (scaled < range.usual_low || scaled > range.usual_high) continue;
    ideas.push_back((scale.exponent ? six_digits(value) + scale.exponent : in_thousands(scaled)) + " (" +
                    six_digits(value) + " " + scale.name + ")");
    if (ideas.size() == (two ? 2 : 1)) break;
  }
  if (ideas.empty()) return "";
  return "; did you mean " + ideas[0] + (ideas.size() > 1 ? " or " + ideas[1] : "") + "?";
}

const PlausibleRange& range_of(std::string_view key) {
  return *std::find_if(ranges.begin(), ranges.end(), [&](const PlausibleRange& r) { return r.key == key; });
}

[[noreturn]] void refuse(const PlausibleRange& range, double value, const std::string& table,
                         const std::string& key) {
  throw HardwareError(table, key,
                      six_digits(value) + unit_text(range.unit) + " is in no machine: from " +
                          six_digits(range.low) + " to " + six_digits(range.high) + " is plausible (" +
                          std::string(range.reason) + ")" + meant(range, value));
}

// Above these validate refuses.
double beyond_all(Unit unit) {
  return unit == Unit::seconds ? 1e6 : unit == Unit::flops_s ? 1e24 : 1e18;
}

// `key` of the table as the file has it, where it is not the range's own. What validate refuses is left to
// it.
void require(std::string_view range_key, double value, const std::string& key = {}) {
  const PlausibleRange& range = range_of(range_key);
  if (!(value > 0) || value > beyond_all(range.unit) || (value >= range.low && value <= range.high)) return;
  const std::string table(range_key.substr(0, range_key.find('.')));
  refuse(range, value, table, key.empty() ? std::string(range_key.substr(range_key.find('.') + 1)) : key);
}

// Of an entry of a list of tables.
void require_of(std::string_view range_key, double value, int entry, const std::string& what) {
  try {
    require(range_key, value, what);
  } catch (HardwareError& error) {
    error.entry = entry;
    throw;
  }
}

// ---- rows against the machine ------------------------------------------------------------------------

[[noreturn]] void refuse_row(const char* table, int entry, const std::string& key,
                             const std::string& message) {
  HardwareError error(table, key, message);
  error.entry = entry;
  throw error;
}

std::string rate_text(double value, const char* unit) {
  constexpr std::array<const char*, 7> prefixes{"", "k", "M", "G", "T", "P", "E"};
  std::size_t i = 0;
  for (; value >= 1000 && i + 1 < prefixes.size(); ++i) value /= 1000;
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.3g %s%s", value, prefixes[i], unit);
  return text.data();
}

// "; did you mean 14.4e-3 (14.4 ms)?": the unit in which `seconds` would be at a rate that the machine has.
std::string meant_seconds(double seconds, double amount, double least_rate, double most_rate) {
  for (const Scale& scale : scales(Unit::seconds)) {
    const double rate = amount / (seconds * scale.factor);
    if (rate >= least_rate && rate <= most_rate)
      return "; did you mean " + six_digits(seconds) + scale.exponent + " (" + six_digits(seconds) + " " +
             scale.name + ")?";
  }
  return "";
}

double peak_of(const Hardware& hardware, const KernelTable& table) {
  for (const auto& [dtype, flops] : hardware.measured_gpu().peak_flops) {
    if (dtype != name(table.dtype)) continue;
    // A table of another GPU's multiprocessors: its peak was larger if they were more.
    return flops * std::max(1.0, table.sms > 0 ? static_cast<double>(table.sms) / hardware.gpu.sms : 1.0);
  }
  return 0;
}

// A little above the vendor's figure: clocks and rounding. A thousandth of it: a first kernel without tensor
// cores.
constexpr double above_peak = 1.1, below_peak = 1e-3;
constexpr double much_work = 1e11;  // FLOP; less may be a launch

void check_attention(const Hardware& hardware, const KernelTable& table, int entry) {
  const std::string key =
      "class=" + std::string(name(table.kind)) + " dtype=" + std::string(name(table.dtype));
  const double peak = peak_of(hardware, table);
  for (const KernelPoint& point : table.points) {
    require_of("kernel.seconds", point.seconds, entry, key + " seconds");
    if (peak <= 0) continue;
    const double flops = point_flops(table, point), rate = flops / point.seconds;
    const std::string row = "batch " + std::to_string(point.batch) + ", sequence " +
                            std::to_string(point.sequence) + ", heads " + std::to_string(point.heads) +
                            " in " + six_digits(point.seconds) + " s is " + rate_text(rate, "FLOP/s");
    const std::string beside =
        rate_text(peak, "FLOP/s") + " (gpu.peak_flops." + std::string(name(table.dtype)) + ")";
    if (rate > above_peak * peak)
      refuse_row("kernel", entry, key,
                 row + ", beyond the peak of " + beside +
                     ": are sequence, heads, batch and head_size those that were measured, and is the time "
                     "in seconds?");
    if (flops >= much_work && rate < below_peak * peak)
      refuse_row("kernel", entry, key,
                 row + ", less than a thousandth of the peak of " + beside +
                     meant_seconds(point.seconds, flops, 10 * below_peak * peak, above_peak * peak));
  }
}

// Rows of bytes and seconds: not faster than `fastest` bytes/s, and not so slow that another unit was meant:
// slower than a thousandth of `usual` bytes/s and of a second. The growth from the first row to the last
// shows it where all rows are small.
void check_rows(const std::vector<CurvePoint>& points, double usual, double fastest, const char* table,
                int entry, const std::string& key, const std::string& beside) {
  constexpr double slow = 1e-3, patience_s = 0.01, growth_s = 1e-4;
  for (auto at = points.rbegin(); at != points.rend(); ++at) {  // the largest shows its unit best
    const CurvePoint& point = *at;
    const std::string row = six_digits(point.bytes) + " bytes in " + six_digits(point.seconds) + " s is " +
                            rate_text(point.bytes / point.seconds, "B/s");
    if (point.bytes / point.seconds > fastest)
      refuse_row(table, entry, key, row + ", beyond " + beside + ": are these bytes, and seconds?");
    if (point.seconds > patience_s + point.bytes / (slow * usual))
      refuse_row(table, entry, key,
                 row + ", less than a thousandth of " + beside +
                     meant_seconds(point.seconds, point.bytes, 10 * slow * usual, fastest));
  }
  const double more_s = points.back().seconds - points.front().seconds;
  const double more_bytes = points.back().bytes - points.front().bytes;
  if (more_s > growth_s && more_bytes < slow * usual * more_s) {
    const bool mib = more_bytes * 1048576 / more_s <= fastest;
    refuse_row(table, entry, key,
               "from " + six_digits(points.front().bytes) + " to " + six_digits(points.back().bytes) +
                   " bytes the time grows by " + six_digits(more_s) + " s, less than a thousandth of " +
                   beside + "; did you mean " +
                   (mib ? "MiB? Write bytes, such as " + six_digits(points.back().bytes) + " x 1048576"
                        : "KiB? Write bytes, such as " + six_digits(points.back().bytes) + " x 1024"));
  }
}

void check_message(const Hardware& hardware, const MessageTable& table, int entry) {
  const std::string key = "kind=" + std::string(name(table.kind)) +
                          " transport=" + std::string(name(table.transport)) +
                          " path=" + std::string(name(table.path));
  for (const CurvePoint& point : table.points) {
    require_of("message.bytes", point.bytes, entry, key + " bytes");
    require_of("message.seconds", point.seconds, entry, key + " seconds");
  }
  // A network that reduces or copies saves a collective some of the wire bytes that it counts as, and rings
  // over nodes pass most of a rank's through other ranks' NICs.
  constexpr double saved_by_switches = 4;
  const double link = hardware.curve_bytes_s(table);
  double fastest = link;
  if (table.kind != OpKind::exchange) fastest *= saved_by_switches;
  if (table.kind != OpKind::exchange && table.path == Path::inter) fastest *= hardware.node.gpus;
  check_rows(table.points, link, fastest, "message", entry, key,
             "the " + rate_text(link, "B/s") + " of the link that carries it");
}

}  // namespace

std::span<const PlausibleRange> plausible_ranges() {
  return ranges;
}

std::vector<HardwareError> implausible_numbers(const Hardware& hardware) {
  std::vector<HardwareError> faults;
  const auto number = [&](std::string_view range_key, double value, const std::string& key = {}) {
    try {
      require(range_key, value, key);
    } catch (const HardwareError& error) {
      faults.push_back(error);
    }
  };
  number("node.gpus", hardware.node.gpus);
  number("node.link_bytes_s", hardware.node.link_bytes_s);
  if (fabric_type(hardware.network).joins_nodes) {
    number("network.nics", hardware.network.nics);
    number("network.nic_bytes_s", hardware.network.nic_bytes_s);
    for (const SwitchLevel& level : hardware.network.levels)
      number("network.level.up_bytes_s", level.up_bytes_s, "level");
  }
  number("gpu.sms", hardware.gpu.sms);
  number("gpu.capacity_bytes", static_cast<double>(hardware.gpu.capacity_bytes));
  number("gpu.copy_bytes_s", hardware.gpu.copy_bytes_s);
  for (const auto& [dtype, flops] : hardware.gpu.peak_flops)
    number("gpu.peak_flops", flops, "peak_flops." + dtype);
  number("fixed.bytes", static_cast<double>(hardware.fixed_bytes));
  for (const auto& [key, value] : hardware.host.times()) number("host.*_s", value, key);
  number("linear.*_s", hardware.linear.step_s, "step_s");
  number("linear.*_s", hardware.linear.floor_s, "floor_s");
  if (hardware.burst.seconds > 0) number("burst.seconds", hardware.burst.seconds);
  number("burst.speed", hardware.burst.speed);
  number("burst.speed", hardware.burst.small_heads_speed, "small_heads_speed");
  return faults;
}

namespace {

void check_kernel_rows(const Hardware& hardware, const KernelTable& table, int entry) {
  if (has_square_points(table.kind)) return check_attention(hardware, table, entry);
  const std::string kind = "class=" + std::string(name(table.kind));
  if (has_chunk_points(table.kind)) {
    for (const KernelPoint& point : table.points)
      require_of("kernel.seconds", point.seconds, entry, kind + " seconds");
    return;
  }
  // Operands in L2 move faster than the copy through memory that copy_bytes_s was measured with.
  constexpr double faster_in_l2 = 20;
  const double copy = hardware.measured_gpu().copy_bytes_s;
  const std::string key = kind + " dtype=" + std::string(name(table.dtype));
  for (const CurvePoint& point : table.curve)
    require_of("kernel.seconds", point.seconds, entry, key + " seconds");
  check_rows(table.curve, copy, faster_in_l2 * copy, "kernel", entry, key,
             "the " + rate_text(copy, "B/s") + " that memory has (gpu.copy_bytes_s)");
}

}  // namespace

std::vector<HardwareError> implausible_rows(const Hardware& hardware, std::span<const HardwareError> known) {
  std::vector<HardwareError> faults;
  const auto each = [&](const char* list, std::size_t count, auto check) {
    for (std::size_t i = 0; i < count; ++i) {
      const bool skip = std::any_of(known.begin(), known.end(), [&](const HardwareError& error) {
        return error.table == list && error.entry == static_cast<int>(i);
      });
      if (skip) continue;
      try {
        check(i);
      } catch (const HardwareError& error) {
        faults.push_back(error);
      }
    }
  };
  each("kernel", hardware.kernels.size(),
       [&](std::size_t i) { check_kernel_rows(hardware, hardware.kernels[i], static_cast<int>(i)); });
  each("message", hardware.messages.size(),
       [&](std::size_t i) { check_message(hardware, hardware.messages[i], static_cast<int>(i)); });
  each("interference", hardware.interference.size(), [&](std::size_t i) {
    const InterferenceRow& row = hardware.interference[i];
    require_of("interference.slowdown", row.slowdown, static_cast<int>(i),
               "class=" + std::string(name(row.kind)) + " slowdown");
  });
  return faults;
}

}  // namespace cplab

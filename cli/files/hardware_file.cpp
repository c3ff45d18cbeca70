// Reader of hardware files: head, sections, what --set changes, and all that is wrong with them.
#include "cli/files/hardware_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include "cli/files/changes.hpp"
#include "cli/files/hardware_table.hpp"
#include "cli/files/sha256.hpp"
#include "cli/files/text_file.hpp"
#include "cli/files/toml_table.hpp"
#include "kernels/compiled.hpp"
#include "sim/plausible.hpp"
#include "sim/simulate.hpp"

namespace cplab {
namespace {

using Overrides = HardwareOverrides;

// No time depends on them: names, sizes that decide what fits, figures for comparison in print.
bool is_beside_times(const std::string& key) {
  constexpr std::array whole{"name", "gpu.name", "gpu.capacity_bytes", "network.max_nodes"};
  constexpr std::array below{"fixed", "environment"};
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

// A time that depends on what was changed is assumed, whatever the file says about the rest of its section,
// or of its entry in a list (kernel.3.seconds).
void mark_changed(Hardware& hardware, const std::string& key, const std::string& source) {
  const std::string section = key.substr(0, key.find('.'));
  Provenance assumed;
  assumed.source = source;
  if (section == "fixed") hardware.fixed = assumed;  // of a size
  if (is_beside_times(key)) return;
  for (KindAccuracy& kind : hardware.accuracy) kind.with_assumed = false;
  if (section == "node") hardware.node.provenance = assumed;
  if (section == "network") hardware.network.provenance = assumed;
  if (section == "gpu") hardware.gpu.provenance = assumed;
  if (section == "host") hardware.host.provenance = assumed;
  if (section == "linear") hardware.linear.provenance = assumed;
  if (section == "elementwise") hardware.elementwise.provenance = assumed;
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

// "network.nic_bytes_s" of a machine without a network: what --set would have to say besides.
void require_network_whole(const Table& table, const std::string& file_name, const Overrides& overrides) {
  const Table network = table.table("network");
  std::string missing;
  for (const char* key : {"fabric", "nics", "nic_bytes_s"})
    if (!network.has(key)) missing += (missing.empty() ? "" : ", ") + std::string(key);
  if (missing.empty()) return;
  std::string set;
  for (const auto& [key, value] : overrides)
    if (key.starts_with("network.")) set += (set.empty() ? "--set " : ", --set ") + key;
  throw InputError(set + ": this machine has no network: " + file_name +
                   " has no section [network]; missing with it: " + missing +
                   ". Take a file with a network, such as hardware/h100x64.toml, or set network.fabric "
                   "(\"non_blocking\"), network.nics and network.nic_bytes_s together");
}

class Reader {
 public:
  Reader(const std::string& text, const std::string& file_name, const Overrides& overrides)
      : text_(text), file_name_(file_name), overrides_(overrides), opened_(open_hardware(text, file_name)) {}

  // Throws InputErrors with all that is wrong.
  Hardware read() {
    Table& table = opened_.table;
    const bool has_network = table.has("network");
    if (!overrides_.empty()) {
      keep_measured_links(table);
      faults_.attempt("gpu", [&] {
        const Table gpu = table.table("gpu");
        if (gpu.has("copy_bytes_s")) curve_copy_bytes_s_ = gpu.quantity("copy_bytes_s", Quantity::bytes_s);
        const Table peaks = gpu.table("peak_flops");
        for (const std::string& dtype : peaks.keys())
          curve_peak_flops_.emplace_back(dtype, peaks.quantity(dtype, Quantity::flops_s));
        GpuSpec measured;
        if (gpu.has("compute_capability")) read_capability(gpu, measured);
        curve_sm_major_ = measured.sm_major;
      });
    }
    for (const auto& [key, value] : overrides_)
      faults_.attempt(key, [&, &k = key, &v = value] {
        if (v != no_value) return table.assign(k, v);
        if (!table.remove(k))
          throw InputError("--unset " + k + ": " + file_name_ +
                           " does not set it, so there is nothing to take away");
      });
    HardwareFaults sections;
    if (!has_network && table.has("network")) {
      faults_.attempt("network", [&] { require_network_whole(table, file_name_, overrides_); });
    }
    Hardware hardware = read_sections(table, sections);
    if (table.has("rates")) hardware.rates.source = std::filesystem::path(file_name_).filename().string();
    read_head(hardware);
    // A misspelt key is a better message than the missing one; without a network, which keys its section
    // lacks is said.
    if (faults_.sections.contains("network")) drop_missing_network(sections);
    for (std::string& message : table.unknown_keys()) messages_.push_back(std::move(message));
    for (HardwareFaults* faults : {&faults_, &sections}) {
      messages_.insert(messages_.end(), faults->messages.begin(), faults->messages.end());
      faulty_.insert(faults->sections.begin(), faults->sections.end());
    }
    hardware.curve_copy_bytes_s = curve_copy_bytes_s_;
    if (curve_peak_flops_ != hardware.gpu.peak_flops) hardware.curve_peak_flops = curve_peak_flops_;
    hardware.curve_sm_major = curve_sm_major_;
    for (const auto& [key, file] : opened_.changes) mark_changed(hardware, key, "set in " + file);
    for (const auto& [key, value] : overrides_)
      mark_changed(hardware, key, value == no_value ? "taken away by hand" : "set by hand");
    if (hardware.data_sheet && messages_.empty() && implausible_numbers(hardware).empty() &&
        faults_of(hardware).empty())
      complete_from_measured(hardware, table);
    check(hardware);
    if (messages_.size() == 1) throw InputError(messages_.front());
    if (!messages_.empty()) throw InputErrors(messages_);
    return hardware;
  }

 private:
  void read_head(Hardware& hardware) {
    const Table& table = opened_.table;
    know_head(table);
    hardware.name = std::filesystem::path(file_name_).stem().string();
    faults_.attempt("name", [&] { hardware.name = table.text("name", hardware.name); });
    faults_.attempt("kernels_of", [&] { hardware.kernels_of = table.text("kernels_of", ""); });
    if (table.kind("network") == Table::Kind::table) {
      const Table network = table.table("network");
      if (network.kind("nic_bytes_s") == Table::Kind::text)
        if (const std::string said = bits_meant(network.text("nic_bytes_s"), hardware.network.nic_bytes_s);
            !said.empty())
          hardware.notes.push_back("network.nic_bytes_s = " + said);
    }
    faults_.attempt("calibration", [&] { look_at_kernels(table, hardware); });
    for (const std::string& note : opened_.notes) hardware.notes.push_back(hardware.name + ": " + note);
    hardware.sha256 = cplab::sha256(opened_.text);
  }

  // Whether the kernels that the file was calibrated with are those that this program runs; one without GPU
  // code runs none of them and cannot tell.
  static void look_at_kernels(const Table& table, Hardware& hardware) {
    const auto* compiled = kernels::cuda::compiled_kernels();
    if (compiled == nullptr || !table.has("calibration")) return;
    const Table calibration = table.table("calibration");
    for (const std::string& key : calibration.keys()) (void)calibration.has(key);  // calibrate reads them
    const std::string theirs = calibration.text("kernels", "");
    if (theirs.empty() || theirs == compiled->build_hash) return;
    hardware.other_kernels = true;
    hardware.notes.push_back(
        hardware.name + ": calibrated with other kernels (" + theirs + ", of commit " +
        calibration.text("commit", "?") + ") than this program's (" + compiled->build_hash + "): bands are " +
        fmt::format("{:g}", 100 * of_other_kernels) + " % wider; cplab calibrate measures anew");
  }

  static void drop_missing_network(HardwareFaults& faults) {
    std::erase_if(faults.messages, [](const std::string& message) {
      return message.find(": network.") != std::string::npos &&
             message.find(": missing; ") != std::string::npos;
    });
  }

  // What is wrong with the machine, where its sections could be read.
  void check(const Hardware& hardware) {
    const auto is_faulty = [&](const HardwareError& error) {
      return faulty_.contains(error.table) ||
             (error.entry >= 0 && faulty_.contains(error.table + "." + std::to_string(error.entry)));
    };
    const auto say = [&](const std::vector<HardwareError>& errors) {
      for (const HardwareError& error : errors)
        if (!is_faulty(error)) messages_.push_back(text_of(error));
    };
    say(implausible_numbers(hardware));
    const std::vector<HardwareError> faults = faults_of(hardware);
    say(faults);
    // Rows are held against the machine.
    const auto stands = [&](const char* section) {
      return !faulty_.contains(section) &&
             std::none_of(faults.begin(), faults.end(), [&](const HardwareError& error) {
               return error.table == section && error.entry < 0;
             });
    };
    if (!stands("node") || !stands("network") || !stands("gpu") || !messages_before_rows_are_few()) return;
    std::vector<HardwareError> known = faults;
    for (const std::string& section : faulty_) add_known(known, section);
    say(implausible_rows(hardware, known));
  }

  // Numbers of the machine that are in another unit make all rows look wrong.
  bool messages_before_rows_are_few() const {
    return std::none_of(messages_.begin(), messages_.end(), [](const std::string& message) {
      return message.find(" is in no machine") != std::string::npos;
    });
  }

  // "kernel.3" as the entry of an error.
  static void add_known(std::vector<HardwareError>& known, const std::string& section) {
    const std::size_t dot = section.find('.');
    if (dot == std::string::npos) return;
    HardwareError error(section.substr(0, dot), "", "");
    error.entry = std::atoi(section.c_str() + dot + 1);
    known.push_back(error);
  }

  std::string text_of(const HardwareError& error) {
    if (!overrides_.empty() && is_valid_alone())
      return blamed_overrides(error, overrides_) + ": " + cplab::place_of(error) + ": " + error.what();
    if (error.entry < 0) return opened_.table.said(cplab::place_of(error), error.what());
    const std::vector<Table> entries = opened_.table.tables(error.table);
    const auto entry = static_cast<std::size_t>(error.entry);
    // What a data sheet leaves out is made of its numbers.
    if (entry >= entries.size())
      return opened_.table.said("efficiency", "with the numbers of [gpu] makes a [[" + error.table + "]] " +
                                                  error.key + " that cannot be: " + error.what());
    return entries[entry].said("", error.key + ": " + error.what());
  }

  bool is_valid_alone() {
    if (!valid_alone_) {
      valid_alone_ = true;
      try {
        (void)Reader(text_, file_name_, {}).read();
      } catch (const std::runtime_error&) {
        valid_alone_ = false;
      }
    }
    return *valid_alone_;
  }

  const std::string& text_;
  const std::string& file_name_;
  const Overrides& overrides_;
  OpenedHardware opened_;
  HardwareFaults faults_;
  std::set<std::string> faulty_;
  std::vector<std::string> messages_;
  std::optional<bool> valid_alone_;
  double curve_copy_bytes_s_ = 0;
  std::vector<std::pair<std::string, double>> curve_peak_flops_;
  int curve_sm_major_ = 0;
};

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
      if (matches(key))
        text += (text.empty() ? "" : ", ") + std::string(value == no_value ? "--unset " : "--set ") + key;
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
  for (const std::string option : {"--set ", "--unset "})
    for (std::size_t at = message.find(option); at != std::string::npos; at = message.find(option, at))
      message.insert(at += option.size(), "hardware.");
  return message;
}

const Hardware& machine_of(const ScenarioFile& file) {
  const auto key = std::pair(file.hardware, file.hardware_overrides);
  if (const auto known = file.machines->find(key); known != file.machines->end()) return known->second;
  const auto whole_key = [](const std::string& message) {
    return message.starts_with("--set ") || message.starts_with("--unset ") ? with_section(message) : message;
  };
  try {
    return file.machines->emplace(key, read_hardware(file.hardware, file.hardware_overrides)).first->second;
  } catch (const InputErrors& errors) {
    std::vector<std::string> messages = errors.messages;
    for (std::string& message : messages) message = whole_key(message);
    throw InputErrors(std::move(messages));
  } catch (const InputError& error) {
    throw InputError(whole_key(error.what()));
  }
}

Hardware parse_hardware(const std::string& text, const std::string& file_name, const Overrides& overrides) {
  return Reader(text, file_name, overrides).read();
}

}  // namespace cplab

// Reading what calibrate wrote, and what it begins with; see calibration_file.hpp.
#include "cli/files/calibration_file.hpp"

#include <algorithm>
#include <filesystem>

#include "calibrate/base.hpp"
#include "calibrate/hardware_writer.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/files/hardware_table.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/files/text_file.hpp"
#include "cli/files/toml_table.hpp"

namespace cplab {
namespace {

measure::Record read_record(const Table& table) {
  measure::Record record;
  record.commit = table.text("commit");
  record.kernel_set = table.text("kernel_set");
  record.kernels = table.text("kernels", "");
  record.gpu = table.text("gpu");
  record.gpus = static_cast<int>(std::clamp<std::int64_t>(table.integer("gpus"), 0, 1 << 20));
  record.base = table.text("base", "");
  record.driver = table.text("driver");
  record.date = table.text("date");
  record.seed = static_cast<std::uint64_t>(table.integer("seed"));
  record.seconds = table.number("seconds");
  record.clocks_before = table.text("clocks_before");
  record.clocks_after = table.text("clocks_after");
  record.done = table.texts("done");
  record.left_out = table.texts("left_out");
  record.warnings = table.texts("warnings");
  table.finish();
  return record;
}

// The shipped file of this GPU's kernels; empty: there is none.
std::string shipped_file(const measure::Machine& machine) {
  for (const std::string& name : scenario_names("hardware")) {
    const std::string path = find_hardware(name);
    const Table table = Table::open(path);
    if (!table.has("rates") || table.has("kernels_of") || !table.has("kernel")) continue;
    const Table gpu = table.table("gpu");
    if (gpu.text("name", "") == machine.gpu && gpu.integer("sms", 0) == machine.sms) return path;
  }
  return {};
}

}  // namespace

measure::State parse_calibration(const std::string& text, const std::string& file_name) {
  const Table table = Table::parse(text, file_name);
  if (!table.has("calibration"))
    throw InputError(file_name +
                     ": is there and not from calibrate, which would write over it; --out names another file "
                     "(--base reads one)");
  measure::State state;
  state.record = read_record(table.table("calibration"));
  if (table.has("accuracy")) state.record.accuracy = read_accuracy(table.table("accuracy"));
  state.hardware = parse_hardware(text.substr(0, text.find(measure::calibration_heading) + 1), file_name);
  // Its section says whose rates they are; its reader calls them those of the file.
  state.hardware.rates.source = table.table("rates").text("source", "");
  return state;
}

std::optional<measure::State> read_calibration(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return {};
  return parse_calibration(read_text_file(path), path);
}

Hardware base_machine(const std::string& asked, const measure::Machine& machine) {
  const std::string path = asked.empty() ? shipped_file(machine) : find_hardware(asked);
  if (path.empty()) return measure::assumed_machine(measure::data_sheet(machine), "data sheets", machine);
  const Hardware base = [&] {
    const std::string text = read_text_file(path);
    if (text.find(measure::calibration_heading) != std::string::npos)
      return parse_calibration(text, path).hardware;
    return read_hardware(path);
  }();
  if (!base.kernels_of.empty() && machine.gpus > 0)
    throw InputError("--base " + asked + ": times the kernels of " + base.kernels_of +
                     "; what is calibrated are those that run takes");
  return measure::assumed_machine(base, std::filesystem::path(path).filename().string(), machine);
}

}  // namespace cplab

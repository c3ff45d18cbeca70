// Hardware files of a data sheet: [efficiency], and what they leave out.
#include <filesystem>

#include "cli/console.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/files/hardware_section_reader.hpp"
#include "cli/files/scenario_file.hpp"
#include "sim/data_sheet.hpp"

namespace cplab {
namespace {

// A data sheet's peak is what efficiencies are parts of.
void require_peaks(const Table& root) {
  if (root.kind("gpu") != Table::Kind::table) return;  // said
  const Table gpu = root.table("gpu");
  if (!gpu.has("peak_flops"))
    gpu.fail("peak_flops", "missing; [efficiency] is a part of it: peak_flops = { bf16 = \"312TFLOP/s\" }");
  const Table peaks = gpu.table("peak_flops");
  if (!peaks.has("bf16") && !peaks.has("fp16"))
    gpu.fail("peak_flops", "needs bf16 or fp16, of which attention takes the part that [efficiency] says");
}

}  // namespace

std::string measured_rest_file() {
  require_scenarios_folder();
  return (std::filesystem::path(scenarios_folder()) / "hardware" / "parts" / "as-measured.toml").string();
}

std::string read_efficiency(const Table& root, Hardware& hardware, HardwareFaults& faults) {
  hardware.data_sheet = root.has("efficiency");
  if (!hardware.data_sheet) return {};
  std::string source = "data sheet";
  faults.attempt("source", [&] { source = root.text("source", source); });
  faults.attempt("efficiency", [&] {
    SectionReader in(root.table("efficiency"), "efficiency", faults);
    in.sheet_source = source;
    for (const KernelClass each : kernel_classes) {
      const std::string key(name(each));
      double& share = hardware.efficiency.share[static_cast<std::size_t>(each)];
      if (!in.table.has(key)) continue;
      in.number(key.c_str(), share);
      in.attempt([&] {
        if (!(share > 0 && share <= 1))
          in.table.fail(key, "is a part of " +
                                 std::string(each == KernelClass::elementwise ? "gpu.copy_bytes_s"
                                                                              : "the peak of a dtype") +
                                 ": above 0, at most 1");
      });
    }
    if (in.table.has("held")) {
      double& held = hardware.efficiency.held;
      in.number("held", held);
      in.attempt([&] {
        if (!(held > 0 && held <= 1))
          in.table.fail("held", "is a part of the shares beside it: above 0, at most 1");
      });
    }
    in.provenance(hardware.efficiency.provenance);
  });
  faults.attempt("gpu", [&] { require_peaks(root); });
  return source;
}

void complete_from_measured(Hardware& hardware, const Table& said) {
  static const Hardware measured = read_hardware(measured_rest_file());
  complete_data_sheet(hardware, measured, {.host = said.has("host"), .fixed = said.has("fixed")});
}

}  // namespace cplab

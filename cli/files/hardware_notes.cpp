// Settings that change no time, or kernels; see hardware_notes.hpp.
#include "cli/files/hardware_notes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "cli/files/changes.hpp"
#include "cli/files/hardware_file.hpp"
#include "sim/attention_variant.hpp"
#include "sim/kernel_variants.hpp"

namespace cplab {
namespace {

// Whether a message of the plan goes over that path.
bool sends_over(const Plan& plan, const Hardware& hardware, Path path) {
  for (const RankPlan& rank : plan.ranks)
    for (const Operation& op : rank.operations)
      for (const Part& part : rank.parts_of(op)) {
        const bool inside = hardware.node_of(rank.rank) == hardware.node_of(part.peer);
        if (part.send && part.peer != rank.rank && inside == (path == Path::intra)) return true;
      }
  return false;
}

bool same_times(const Timeline& a, const Timeline& b) {
  constexpr double relative = 1e-9;
  const auto same = [](double x, double y) { return std::abs(x - y) <= relative * std::max(x, y); };
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    for (std::size_t i = 0; i < a.ranks[r].size(); ++i) {
      if (!same(a.ranks[r][i].end_s, b.ranks[r][i].end_s)) return false;
    }
  }
  return true;
}

std::string idle_text(const std::string& key, const Plan& plan, const Hardware& hardware) {
  if (key == "node.link_bytes_s" && !sends_over(plan, hardware, Path::intra))
    return "no message of this plan stays inside a node";
  if (key.starts_with("network.") && !sends_over(plan, hardware, Path::inter))
    return "no message of this plan goes over the network";
  if (key.starts_with("network.level."))
    return "no flow of this plan is bound by the uplinks of a switch, or it is what the file has";
  if (key.starts_with("gpu.peak_flops"))
    return "no kernel of this plan is bound by the peak of that dtype, or it is what the file has";
  for (const char* list : {"kernel", "message", "interference", "beside"})
    if (key.starts_with(list)) return "no operation of this plan takes its time from that table";
  return "no operation of this plan depends on it, or it is what the file has";
}

// Changes no time by what it is.
bool is_timeless(const std::string& key) {
  return key == "name" || key == "gpu.name" || key == "gpu.capacity_bytes" || key.starts_with("fixed") ||
         key.starts_with("environment") || key.ends_with(".origin") || key.ends_with(".source") ||
         key.ends_with(".tool") || key.ends_with(".machine") || key.ends_with(".date");
}

// "attend hopper bf16 128 -> attend mma bf16 128": the kernels that changed, each once; empty: none.
std::string changed_kernels(const Timeline& before, const Timeline& after) {
  std::set<std::pair<std::string_view, std::string_view>> changed;
  for (std::size_t r = 0; r < after.variants.size() && r < before.variants.size(); ++r)
    for (std::size_t i = 0; i < after.variants[r].size() && i < before.variants[r].size(); ++i)
      if (before.variants[r][i] != after.variants[r][i])
        changed.emplace(before.variants[r][i], after.variants[r][i]);
  std::string text;
  for (const auto& [from, to] : changed)
    text += fmt::format("{}{} -> {}", text.empty() ? "" : ", ", from, to);
  return text;
}

bool names_hopper(const std::string& changed) {
  return changed.find("hopper") != std::string::npos && changed.find(" mma ") != std::string::npos;
}

std::string kernels_text(const std::string& key, const std::string& changed, const Hardware& hardware) {
  std::string text = " changes kernels: " + changed;
  if (key != "gpu.compute_capability") return text;
  const std::string capability = fmt::format("{}.{}", hardware.gpu.sm_major, hardware.gpu.sm_minor);
  if (takes_library(hardware, OpKind::attend))
    return text +
           ": a library's share of the peak, assumed; kernels of this program are not made for compute "
           "capability " +
           capability + ", and those that run would take there are slower";
  if (names_hopper(changed) && hardware.gpu.sm_major != 9)
    text += ", because no kernel for Hopper runs on compute capability " + capability;
  return text + "; it is a forecast for the kernels of this program on that GPU, not for the GPU";
}

}  // namespace

void note_settings(const ScenarioFile& file, const Plan& plan, const Hardware& hardware,
                   const SimulateOptions& options, Prediction& prediction) {
  for (std::size_t i = 0; i < file.hardware_overrides.size(); ++i) {
    const auto& [key, value] = file.hardware_overrides[i];
    if (is_timeless(key)) continue;
    HardwareOverrides others = file.hardware_overrides;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    Timeline without;
    try {
      Hardware other = read_hardware(file.hardware, others);
      other.choice = hardware.choice;
      without = simulate(plan, other, options).timeline;
      name_kernel_variants(plan, other, without);
    } catch (const std::runtime_error&) {
      continue;  // without this setting there is no prediction
    }
    const std::string what =
        value == no_value ? hardware_option(key, value) : "hardware." + key + "=" + value;
    if (const std::string changed = changed_kernels(without, prediction.timeline); !changed.empty())
      prediction.notes.push_back(what + kernels_text(key, changed, hardware));
    else if (same_times(prediction.timeline, without))
      prediction.notes.push_back(what + " changes no time: " + idle_text(key, plan, hardware));
  }
}

}  // namespace cplab

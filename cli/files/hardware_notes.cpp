// Settings that change no time, or kernels; see hardware_notes.hpp.
#include "cli/files/hardware_notes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "cli/files/changes.hpp"
#include "cli/files/hardware_file.hpp"
#include "sim/kernel_variants.hpp"

namespace cplab {
namespace {

// The largest rate at which the message curves let an operation of the plan send over that path: bytes /
// (seconds - start-up), as the simulator caps it; 0: all are collectives that take the time of their own
// curve. Nothing if nothing goes over that path.
std::optional<double> largest_cap_bytes_s(const Plan& plan, const Hardware& hardware, Path path,
                                          bool cuda_graph) {
  std::set<std::tuple<OpKind, Transport, std::size_t, std::int64_t>> sends;  // group size, bytes
  for (const RankPlan& rank : plan.ranks) {
    for (const Operation& op : rank.operations) {
      if (!is_communication(op.kind)) continue;
      std::int64_t bytes = 0;
      for (const Part& part : rank.parts_of(op)) {
        const bool inside = hardware.node_of(rank.rank) == hardware.node_of(part.peer);
        if (!part.send || part.peer == rank.rank || inside != (path == Path::intra)) continue;
        bytes += view_bytes(rank, rank.views[part.view], plan.scenario.problem.dtype);
      }
      if (bytes > 0) sends.emplace(op.kind, op.transport, plan.groups[op.group].ranks.size(), bytes);
    }
  }
  if (sends.empty()) return std::nullopt;
  double most = 0;
  for (const auto& [kind, transport, group, bytes] : sends) {
    MessageChoice choice;
    try {
      choice = find_flow(hardware, {kind, transport, path, static_cast<int>(std::max<std::size_t>(group, 2)),
                                    static_cast<double>(bytes), cuda_graph});
    } catch (const HardwareError&) {
      continue;
    }
    most = std::max(most, flow_rate(hardware, *choice.table, static_cast<double>(bytes)).bytes_s);
  }
  return most;
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

// Why a link or NIC that was set changes no time.
std::string idle_link_text(const Plan& plan, const Hardware& hardware, Path path, bool cuda_graph) {
  const std::optional<double> cap = largest_cap_bytes_s(plan, hardware, path, cuda_graph);
  if (!cap)
    return path == Path::intra ? "no message of this plan stays inside a node"
                               : "no message of this plan goes over the network";
  return "the message curves bind" +
         (*cap > 0 ? fmt::format(", through which a rank sends at most {:.3g} bytes/s", *cap) : "") +
         "; how fast messages are say the rows of [[message]] (docs/05-cost-model.md)";
}

std::string idle_text(const std::string& key, const Plan& plan, const Hardware& hardware, bool cuda_graph) {
  if (key == "node.link_bytes_s") return idle_link_text(plan, hardware, Path::intra, cuda_graph);
  if (key == "network.nic_bytes_s" || key.starts_with("network.level."))
    return idle_link_text(plan, hardware, Path::inter, cuda_graph);
  if (key.starts_with("gpu.peak_flops"))
    return "the kernel tables bind; a peak bounds kernels of linear attention that no table has, and is in "
           "print besides; how fast kernels are say the rows of [[kernel]] (docs/05-cost-model.md)";
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
  if (names_hopper(changed) && hardware.gpu.sm_major != 9)
    text += fmt::format(", because no kernel for Hopper runs on compute capability {}.{}",
                        hardware.gpu.sm_major, hardware.gpu.sm_minor);
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
      prediction.notes.push_back(what +
                                 " changes no time: " + idle_text(key, plan, hardware, options.cuda_graph));
  }
}

}  // namespace cplab

// See table_example.hpp.
#include "cli/files/table_example.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "report/timeline.hpp"
#include "sim/kernel_variants.hpp"

namespace cplab {
namespace {

// The kernel that the first operation of that class takes.
std::string kernel_taken(const std::string& kind, const Plan& plan, const Hardware& hardware) {
  Timeline timeline;
  try {
    name_kernel_variants(plan, hardware, timeline);
  } catch (const HardwareError&) {
    return {};
  }
  for (std::size_t r = 0; r < plan.ranks.size(); ++r)
    for (std::size_t i = 0; i < plan.ranks[r].operations.size(); ++i)
      if (name(plan.ranks[r].operations[i].kind) == kind && !timeline.variants[r][i].empty())
        return std::string(timeline.variants[r][i]);
  return {};
}

}  // namespace

std::string table_example(const std::string& table, const std::string& key, const Plan& plan,
                          const Hardware& hardware) {
  if (key.find('=') == std::string::npos || (table != "kernel" && table != "message")) return {};
  std::string text = "[[" + table + "]]\n", kind;
  std::istringstream words(key);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) return {};
    const std::string value = word.substr(equals + 1);
    if (word.starts_with("class=")) kind = value;
    text += fmt::format("{} = \"{}\"\n", word.substr(0, equals), value);
  }
  if (table == "kernel") {
    const std::string variant = kernel_taken(kind, plan, hardware);
    if (variant.empty() || !kind.starts_with("attend")) return {};
    const Problem& p = plan.scenario.problem;
    text += fmt::format("variant = \"{}\"\nhead_size = {}\n", variant, p.head_size);
    if (p.value_size != p.head_size) text += fmt::format("value_size = {}\n", p.value_size);
    text += fmt::format(
        "sms = {}\nmask = \"{}\"\nbatch = [1, 1]\nsequence = [8192, 32768]\nheads = [16, 16]\n"
        "seconds = [2e-3, 30e-3]\n",
        hardware.gpu.sms, p.causal ? "causal" : "full");
  } else {
    text += fmt::format("group = {}\nbytes = [65536, 268435456]\nseconds = [30e-6, 10e-3]\n",
                        std::max<std::int64_t>(2, plan.scenario.parallel.ranks));
  }
  return text + "origin = \"assumed\"\nsource = \"where its times are from\"";
}

}  // namespace cplab

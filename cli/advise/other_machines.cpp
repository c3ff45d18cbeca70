// Shipped machines beside the one that was asked for; see other_machines.hpp.
#include "cli/advise/other_machines.hpp"

#include <array>

#include "cli/advise/question.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/files/scenario_file.hpp"

namespace cplab {

namespace {

struct Successor {
  std::string_view gpu, next, file;
};

// In this order, since the name of a GB200 holds that of a B200.
constexpr std::array successors{
    Successor{"A100", "H100", "h100x8"},        Successor{"H800", "H100", "h100x8"},
    Successor{"H100", "H200", "h200x8"},        Successor{"H200", "B200", "b200x8"},
    Successor{"GB200", "GB300", "gb300-nvl72"}, Successor{"B200", "GB300", "gb300-nvl72"}};

}  // namespace

std::vector<std::pair<std::string, Hardware>> next_machines(const Hardware& hardware, std::int64_t gpus) {
  std::vector<std::pair<std::string, Hardware>> found;
  for (const Successor& each : successors) {
    if (hardware.gpu.name.find(each.gpu) == std::string::npos) continue;
    if (scenarios_folder().empty()) break;
    Hardware next = read_hardware(find_hardware(std::string(each.file)));
    // The question is about the GPU: its node and its NICs stay.
    if (next.node.gpus == hardware.node.gpus && hardware.network.nic_bytes_s > 0)
      next.network = hardware.network;
    (void)give_network(next, gpus);
    found.emplace_back(std::string(each.next) + " for " + std::string(each.gpu), std::move(next));
    break;
  }
  return found;
}

}  // namespace cplab

// The list of parts; see parts.hpp.
#include "calibrate/parts.hpp"

#include <algorithm>

namespace cplab::measure {
namespace {

constexpr Part parts[] = {
    {"host", "host costs of launches", 2},
    {"copies", "copies and elementwise kernels", 2},
    {"attention 128", "attention of head size 128", 17},
    {"exchanges", "exchanges", 3, 2},
    {"nodes", "messages between nodes", 10, 1, 2},
    {"collectives", "collectives", 5, 2},
    {"linear 128", "linear attention of value size 128", 8},
    {"interference", "kernels beside communication", 6, 2},
    {"exchanges beside attention", "exchanges while attention runs", 5, 2},
    {"attention 64", "attention of head size 64", 18},
    {"linear 64", "linear attention of value size 64", 8},
    {"attention 128 fine", "more lengths and batches of attention of head size 128", 38},
    {"attention 64 fine", "more lengths and batches of attention of head size 64", 38},
    {"launches", "host costs of each kind of launch", 3},
    {"cards", "a spread between GPUs", 6, 2},
    {"copies in pieces", "copies of many pieces", 2},
    {"exchanges in pieces", "exchanges of many pieces", 3, 2},
    {"forms 128", "grouped heads, windows, ring steps, gradients of attention of head size 128", 15},
    {"forms 64", "the same of head size 64", 15},
    {"gemm", "matrix products", 8},
    {"pairs", "messages between two GPUs", 10, 3},
};

}  // namespace

std::span<const Part> all_parts() {
  return parts;
}

const Part* find_part(std::string_view name) {
  const Part* const found =
      std::find_if(std::begin(parts), std::end(parts), [&](const Part& part) { return part.name == name; });
  return found == std::end(parts) ? nullptr : found;
}

double held_out_s(double budget_s) {
  // Below a minute every second goes into tables; 90 s are forty runs.
  return budget_s < 60 ? 0 : std::min(90.0, 0.2 * budget_s);
}

std::vector<const Part*> parts_within(double left_s, const Machine& machine,
                                      const std::vector<std::string>& done) {
  std::vector<const Part*> chosen;
  for (const Part& part : parts) {
    if (part.least_gpus > machine.gpus || part.least_nodes > machine.nodes || part.estimate_s > left_s)
      continue;
    if (std::find(done.begin(), done.end(), part.name) != done.end()) continue;
    left_s -= part.estimate_s;
    chosen.push_back(&part);
  }
  return chosen;
}

}  // namespace cplab::measure

// The list of parts; see parts.hpp. Estimates are of one and two H200.
#include "calibrate/parts.hpp"

#include <algorithm>

namespace cplab::measure {
namespace {

constexpr Part parts[] = {
    {"host", "host costs of launches", 4},
    {"copies", "copies and elementwise kernels", 8},
    {"attention 128", "attention of head size 128", 26},
    {"exchanges", "exchanges", 12, 2},
    {"nodes", "messages between nodes", 15, 1, 2},
    {"collectives", "collectives", 20, 2},
    {"linear 128", "linear attention of value size 128", 25},
    {"interference", "kernels beside communication", 15, 2},
    {"attention 64", "attention of head size 64", 26},
    {"forms 128", "grouped heads, windows, ring steps, gradients of attention of head size 128", 20},
    {"forms 64", "the same of head size 64", 20},
    {"copies in pieces", "copies of many pieces", 5},
    {"exchanges in pieces", "exchanges of many pieces", 8, 2},
    {"exchanges beside attention", "exchanges while attention runs", 10, 2},
    {"attention 128 fine", "more lengths and batches of attention of head size 128", 45},
    {"linear 64", "linear attention of value size 64", 25},
    {"attention 64 fine", "more lengths and batches of attention of head size 64", 45},
    {"gemm", "matrix products", 8},
    {"launches", "host costs of each kind of launch", 5},
    {"cards", "a spread between GPUs", 8, 2},
    {"pairs", "messages between two GPUs", 25, 3},
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

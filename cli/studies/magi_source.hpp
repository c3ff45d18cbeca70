// MagiAttention's charts of 8 x H100 (scenarios/published/magi-cp8.toml): four times a method, and the rates
// of the kernels alone.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/files/toml_table.hpp"
#include "plan/plan.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// The four figures of a method, in the order of the published lists.
struct MagiChart {
  const char* key;  // in published.kernel
  const char* label;
  bool causal;
  Phase phase;
  OpKind kind() const { return phase == Phase::forward ? OpKind::attend : OpKind::attend_backward; }
};
inline constexpr std::array<MagiChart, 4> magi_charts{{
    {"full_forward", "full forward", false, Phase::forward},
    {"full_backward", "full backward", false, Phase::backward},
    {"causal_forward", "causal forward", true, Phase::forward},
    {"causal_backward", "causal backward", true, Phase::backward},
}};

struct MagiMethod {
  std::string name;
  std::vector<std::string> sets;     // its plan, as of --set
  std::vector<double> published_ms;  // by chart
};

struct MagiSource {
  std::vector<std::int64_t> sequence;
  std::array<std::vector<double>, magi_charts.size()> tflops;  // by chart, over the sequence
  std::vector<MagiMethod> methods;
};

// Of the root of that file. Throws InputError.
MagiSource read_magi_source(const Table& root);

// FLOPs of one sequence alone, of all query heads: 4 x area x heads x D forward, 2.5 times that backward.
double magi_flops(const Problem&, const MagiChart&, std::int64_t sequence);

// The published kernel of that chart (0 to 3), as a table of a hardware file.
KernelTable magi_kernel(const MagiSource&, const Problem&, std::size_t chart);

}  // namespace cplab

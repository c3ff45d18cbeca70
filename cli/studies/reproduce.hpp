// Published figures beside ours: one function for each file of scenarios/published/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/progress.hpp"
#include "report/results.hpp"

namespace cplab {

struct Published {
  std::string_view name;  // scenarios/published/NAME.toml holds the scenario and the published figures
  // What "plan" and "empirical" mean in the column "origin" of its text.
  std::string_view origins;
  bool has_clock = false;  // it simulates, so that --set simulate.* and hardware.* count
  // `sets` are those of --set; `progress` is told the rank counts. Throws InputError.
  ReproduceReport (*reproduce)(const std::string& file, const std::vector<std::string>& sets,
                               Progress& progress);
};

const std::vector<Published>& published();

// Of rows that are mean absolute differences, with three decimals.
inline constexpr std::string_view difference_unit = "mean |difference|";

// ours beside published (nothing: there is none), with the error; derived, see ReproduceRow.
ReproduceRow reproduced(std::string label, std::optional<double> published, double ours, bool derived,
                        std::string unit);

// Head-strided all-gather attention: what is exposed, in ms, and the buffers of the backward, in h x.
ReproduceReport reproduce_llama_strides(const std::string& file, const std::vector<std::string>& sets,
                                        Progress& progress);
// LASP with a Blelloch scan: the differences that its test of correctness printed.
ReproduceReport reproduce_lasp_errors(const std::string& file, const std::vector<std::string>& sets,
                                      Progress& progress);
// MagiAttention's charts of context-parallel attention on 8 x H100, in ms.
ReproduceReport reproduce_magi_cp8(const std::string& file, const std::vector<std::string>& sets,
                                   Progress& progress);
// The same on several nodes, with a machine fitted to those charts, in ms.
ReproduceReport reproduce_magi_cluster(const std::string& file, const std::vector<std::string>& sets,
                                       Progress& progress);
// Tokens/s of the LASP methods and of a Blelloch scan, on 8 x H100 and 16 x RTX 5090.
ReproduceReport reproduce_lasp_throughput(const std::string& file, const std::vector<std::string>& sets,
                                          Progress& progress);
// TransformerEngine PR 2916: peak memory of the P2P forward, split into four columns, in MiB.
ReproduceReport reproduce_te_p2p_memory(const std::string& file, const std::vector<std::string>& sets,
                                        Progress& progress);

}  // namespace cplab

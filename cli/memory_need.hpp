// What a command would need in memory, counted before anything is built, against what there is.
//
// Everything here is what the process holds at its peak, in bytes of the host. What the counts leave out (the
// allocator's own, the program itself) is small beside anything that is refused.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/files/scenario_file.hpp"
#include "plan/plan.hpp"

namespace cplab {

// (what for, bytes)
using MemoryParts = std::vector<std::pair<std::string, double>>;

// What else a command makes of a plan.
enum class PlanUse : std::uint8_t { show, simulate, check };

// Bytes of the pools of all ranks: operations, views, rows, segments, ...; of them the lists of rows and
// segments, which grow with the sequences.
struct PlanSize {
  double pools = 0, lists = 0;
};
PlanSize size_of(const Plan&);
// Found by building some ranks for some of the sequences; the rest is alike. Within a factor of 1.5 of the
// plan that is built, for sequences of like lengths (tests/cli).
PlanSize estimated_size(const Scenario& resolved);

// The plan of a scenario and what the command makes of it. Throws EnvironmentError before it is built.
void require_plan_memory(const ScenarioFile&, PlanUse);

// Tensors in global order (inputs, outputs, with `compared` the reference and its error model), the copies on
// their way to and from the ranks, and the ranks' arenas, unless a GPU holds them. The plan is there already.
MemoryParts execution_parts(const Plan&, bool gpu, bool compared);
// Throws EnvironmentError.
void require_execution_memory(const ScenarioFile&, const Plan&, bool gpu, bool compared);

// The tree of a JSON text and the plan made of it, from its brackets and commas. Throws EnvironmentError if
// that is more than there is.
void require_json_memory(const std::string& text, const std::string& file_name);

// The same for a plan that came from a file, before it is checked.
void require_check_memory(const Plan&, const std::string& file_name);

// Throws EnvironmentError if `bytes` of text named `file_name` are more than there is room for, as such or
// (of TOML) as a tree.
void require_text_memory(std::uintmax_t bytes, const std::string& file_name);
void require_toml_memory(std::size_t bytes, const std::string& file_name);

// Throws InputError for a CPLAB_MEMORY that is no size.
double memory_left();

}  // namespace cplab

// --inject FAULT: a bug that really shipped, put into a plan or into the tiles of the CPU.
#pragma once

#include <string>
#include <vector>

#include "algorithms/faults/faults.hpp"
#include "cli/arguments.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/option_words.hpp"
#include "exec/cpu/executor.hpp"

namespace cplab {

inline constexpr OptionSpec inject_option{"inject", "FAULT", "a bug that really shipped; see list faults",
                                          false, fault_words};
inline constexpr OptionSpec inject_mutation_option{
    "inject", "FAULT", "the same with a bug in the plan; see list faults", false, fault_words};

// The fault of --inject; null without that option. Throws InputError with the nearest name.
const Fault* fault_of(const Arguments&);

// Mutates the plan, or names other tiles in the options. Throws InputError if the plan has no place for the
// fault.
void inject(const Fault&, const ScenarioFile&, Plan&, CpuOptions&);
// For commands that execute nothing: throws InputError for a substitute tile as well.
void inject(const Fault&, const ScenarioFile&, Plan&);

// Of a plan with the fault in it: throws InputError if it sends over NCCL what ranks that share a GPU cannot.
void require_links(const Fault&, const Plan&, int ranks_per_gpu);

std::string injected_text(const Fault&);  // "injected: NAME, what it is"
// The same as a note of a result, if there is one.
void note_injected(const Fault*, std::vector<std::string>& notes);

}  // namespace cplab

// What most commands begin with: scenario, plan, memory, the head of a JSON result, findings as text.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "check/check.hpp"
#include "cli/arguments.hpp"
#include "cli/console.hpp"
#include "cli/files/scenario_file.hpp"
#include "derive/memory.hpp"
#include "plan/plan.hpp"
#include "report/html/page_title.hpp"
#include "report/results.hpp"

namespace cplab {

// What of a scenario a command reads beside problem, parallel and schedule; and whether a plan will do.
struct Reads {
  bool hardware = false, simulate = false, plan = false;
  bool executes = false;  // and so would choose kernels by rates, if any
  bool rates = false;     // it does, by those of the machine that --hardware names
  bool form = false;      // of a plan that it does not check: whether it is well-formed is asked before
};
// The scenario or the plan that the command line names, --set applied; its notes say what `command` does not
// use of it. Throws InputError if it names none.
ScenarioFile scenario_of(const Arguments&, const char* command, Reads reads);
// The notes as talk, a line each.
void say_notes(Console&, const ScenarioFile&);

// The scenario with what transport = "auto" decides by: who shares a node in the file of [hardware], if no
// GPUs said so before (Parallel::islands); without such a file all ranks do.
Scenario on_machine(const ScenarioFile&);
// All ranks: of a plan file its plan, once; else built. Throws EnvironmentError (naming how many ranks or
// sequences would do) before the plan and what the command makes of it would take more memory than there is.
enum class PlanUse : std::uint8_t;  // cli/memory_need.hpp
Plan plan_of(const ScenarioFile&, PlanUse);

// EnvironmentError with the message of file.table.fail(key, message): file, line or --set, key.
[[noreturn]] void fail_environment(const ScenarioFile& file, const std::string& key,
                                   const std::string& message);

double physical_memory_bytes();  // of this machine

std::vector<MemoryPlan> memory_of(const Plan&);

// Settings beside problem, parallel and schedule: [simulate] and [hardware] as read.
std::vector<ScenarioSection> sections_of(const ScenarioFile&);
ResultHeader header_of(const ScenarioFile&);  // the hardware file is read for its hash

// "ring, zigzag, 8 ranks, 1 x 131072 tokens, 32/8 heads of 128, bf16, causal, forward+backward"
// With `ranks`: "4, 8, 16 ranks", for results that cover several counts.
std::string describe(const Scenario&, std::span<const std::int64_t> ranks = {});
// The same from the count of ranks on, for results that cover several algorithms.
std::string describe_problem(const Scenario&, std::span<const std::int64_t> ranks = {});

// What a page says at its top of one scenario.
PageTitle page_title(const Scenario&);

// A paragraph a finding: kind, rank, operation, buffer, message.
void write_findings(std::ostream&, std::span<const Finding>, const TextStyle&);

}  // namespace cplab

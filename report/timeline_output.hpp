// The outputs of a timeline: what `simulate` and `run` write beside their result when an option of the
// command line asks for it. Each is one file of report/, named in the list `outputs` of
// report/CMakeLists.txt: NAME.cpp exports NAME_output(). Options, help, the early test of the place and the
// writing follow from it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "derive/memory.hpp"
#include "plan/plan.hpp"
#include "report/figures.hpp"
#include "report/timeline.hpp"

namespace cplab {

// One plan under a clock, predicted or measured. memory[r] is plan_memory(plan.ranks[r]); the figures are
// derive_figures of the other three.
struct TimelineResult {
  const Plan& plan;
  const Timeline& timeline;
  std::span<const MemoryPlan> memory;
  const Figures& figures;
};

struct TimelineOutput {
  enum class Place { file, folder, file_or_folder };  // the last: a file if its name ends in .json

  std::string_view option;  // "trace"
  std::string_view value;   // how the help names the place: "DIR" or "FILE"
  std::string_view help;
  Place place = Place::file;
  // Writes to the place (a path, never standard output; a folder is made if it is missing) and returns what
  // is then said: "8 traces in DIR". Throws OutputError.
  std::string (*write)(const std::string& place, const TimelineResult&) = nullptr;
};

// All of them, in the order of the help.
std::span<const TimelineOutput> timeline_outputs();

}  // namespace cplab

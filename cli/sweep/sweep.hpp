// A study's points simulated on several processes, and files of points put together.
#pragma once

#include <string>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/console.hpp"
#include "cli/sweep/study.hpp"
#include "report/sweep.hpp"

namespace cplab {

struct SweepTask {
  std::optional<Shard> shard;  // of the command line, else the study's
  std::string jsonl;           // empty: none
  int processes = 1;
};

// Throws InputError for a study whose scenario or machine cannot be read, or a file of lines of another
// study; what is wrong with single points is in `refused`.
SweepReport run_sweep(const Study&, const SweepTask&, const Arguments&, Console&);

struct SweepMerge {
  SweepReport report;
  std::vector<std::string> conflicts;  // points with several figures, a sentence each
};
// Throws InputError for files of different studies.
SweepMerge merge_sweeps(const std::vector<std::string>& paths);

// Every point is refused for one reason which no key that varies is named in.
bool refused_as_a_whole(const SweepReport&);

}  // namespace cplab

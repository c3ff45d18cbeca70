// The words that options and first arguments of commands take, or that the shell's completion proposes for
// them.
#pragma once

#include <string>
#include <vector>

namespace cplab {

// All that is legal: `Arguments::word` takes these alone.
std::vector<std::string> color_words();
std::vector<std::string> device_words();
std::vector<std::string> allocator_words();
std::vector<std::string> way_words();           // --choose
std::vector<std::string> architecture_words();  // compute capabilities of kernels
std::vector<std::string> framework_words();     // --emit
std::vector<std::string> list_words();          // kinds of `cplab list`
std::vector<std::string> shell_words();

// What has a name; paths and other forms are legal beside it.
std::vector<std::string> order_words();
std::vector<std::string> fault_words();
std::vector<std::string> algorithm_words();      // "all", names, aliases
std::vector<std::string> new_algorithm_words();  // "advise", names, aliases
std::vector<std::string> placement_words();      // names, aliases
std::vector<std::string> machine_words();
std::vector<std::string> model_words();
std::vector<std::string> scenario_words();
std::vector<std::string> study_words();
std::vector<std::string> published_words();
std::vector<std::string>
explained_words();  // of `cplab explain`: keys, options, algorithms, placements, keys of results
std::vector<std::string> schema_words();  // commands that write JSON

}  // namespace cplab

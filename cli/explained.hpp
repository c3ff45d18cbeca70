// What `cplab explain` says: one entry for each key of scenarios, studies and hardware files, option,
// algorithm, placement and key of results, drawn from the tables that these are read and written by.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cplab {

struct Explained {
  std::string
      what;  // "key of scenarios", "option of [schedule]", "algorithm", "placement", "key of results", ...
  std::string name;                // in full: "problem.mask"
  std::string of;                  // who takes it, or which results have it; empty: everybody
  std::string meaning;             // a sentence without its full stop
  std::string type;                // of its values: "integer"
  std::string unit;                // empty: none
  std::string by_default;          // empty: has none
  std::vector<std::string> words;  // legal ones
  std::string legal;               // in words; empty: what the type says
  std::string page;                // of docs/, with its heading: "20-masks.md#documents"
};

// All of them: keys in the order of their tables, options of [schedule] by name, algorithms, placements, keys
// of results.
const std::vector<Explained>& all_explained();
// What has that name, in full, without its section, as an alias, or is a section; empty: nothing.
std::vector<const Explained*> explained_as(std::string_view word);
// Every name once, in full.
std::vector<std::string> names_explained();

}  // namespace cplab

// The table of keys of the program's JSON results: what each is, its type, its unit. `cplab schema` and
// `cplab explain` are made of it, and a test holds every result that tests see against it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cplab {

struct ResultKey {
  // "ranks[].time_s": a key of the objects of a list. Every list and object on the way has a row of its own.
  std::string path;
  // "integer", "number", "string", "boolean", "object", "list" (what it holds has a row "path[]"), "any",
  // "map TYPE" (an object with keys that no table knows); of several, between "|". A "?" behind it: the key
  // may be missing. NaN and infinities are null, where a number may be one "number|null".
  std::string_view type;
  std::string_view unit;
  std::string_view meaning;
};

struct ResultTable {
  std::string_view schema;   // "cplab.check.1", which the result says
  std::string_view command;  // that writes it
  std::string_view page;     // of docs/, with its heading
  std::vector<ResultKey> keys;
};

// One for each schema; commands may have several.
const std::vector<ResultTable>& result_tables();

// Building tables of parts. Each appends; `prefix` is "", or ends with a dot.
using ResultKeys = std::vector<ResultKey>;
void add_start(ResultKeys&, bool with_scenario);  // schema, command, versions; scenario and given
void add_resolved_scenario(ResultKeys&, const std::string& type = "object");
void add_given(ResultKeys&, const std::string& prefix, std::string_view type);
void add_notes(ResultKeys&, std::string_view meaning);
void add_findings(ResultKeys&);

// The tables of each file.
ResultTable plan_result();                    // show
std::vector<ResultTable> timeline_results();  // simulate, run, sweep, demo
std::vector<ResultTable> proof_results();     // check, verify, compare
std::vector<ResultTable> listing_results();   // list, kernels, tune, calibrate, reproduce, explain
ResultTable advise_result();

}  // namespace cplab

// The comparison of a prediction with a measurement: two JSON results (simulate, run) joined on operation id.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "algorithms/problem.hpp"
#include "report/json.hpp"
#include "report/json_reader.hpp"

namespace cplab {

// What a comparison needs of one result file.
struct ResultFile {
  std::string file_name;  // for messages
  std::string schema;     // "cplab.simulate.1" or "cplab.run.1"
  Scenario scenario;
  double time_s = 0;
  std::vector<std::pair<std::string, double>> phases;  // name, seconds
  std::vector<std::int64_t> peak_bytes;                // by rank
  struct Operation {
    std::string kind;
    double seconds = 0;  // end - start
  };
  std::unordered_map<std::string, Operation> operations;  // by id; empty without --operations
};

// Throws JsonFileError for anything that is not a result of simulate or run.
ResultFile read_result_json(const std::string& text, const std::string& file_name);

// Segments: each phase, then, where both files have operations, every (phase, kind) in order of name with the
// mean over ranks of the summed seconds of the operations that both files have. Two files of different
// scenarios or with operations of different plans cannot be compared: JsonFileError says what differs.
CompareReport compare_results(const ResultFile& predicted, const ResultFile& measured);

}  // namespace cplab

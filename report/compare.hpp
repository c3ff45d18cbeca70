// The comparison of a prediction with a measurement: two JSON results (simulate, run) joined on operation id.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "plan/problem.hpp"
#include "report/json_reader.hpp"
#include "report/results.hpp"

namespace cplab {

// What a comparison needs of one result file. Seconds and bytes.
struct ResultFile {
  struct Rank {
    std::int64_t peak_bytes = 0;
    double compute_s = 0, communication_s = 0, exposed_communication_s = 0;
    double exposed_wait_s = 0, exposed_transfer_s = 0;  // where ResultFile::splits_exposed
  };
  struct Operation {
    std::string id;  // RANK/PHASE/NUMBER
    std::string kind;
    std::int64_t bytes = 0;
    double seconds = 0;  // end - start, waiting for peers included
    double start_s = 0, wait_s = 0;
    int rank = 0;              // global
    std::string variant = {};  // the kernel; empty where the file names none
    std::string lane = {};     // "compute 0"
    double flops = 0;
    std::string origin = {};  // "measured"
  };
  CompareSide side;
  bool predicted = false;          // by simulate; else measured by run
  std::string device;              // of a run: "cpu" or "gpu"
  std::string commit;              // of the build that wrote it; empty: the file does not say
  std::int64_t ranks_per_gpu = 1;  // of a run
  Scenario scenario;
  std::vector<std::pair<std::string, double>> phases;  // name, seconds
  bool splits_exposed = false;
  bool undisturbed = false;           // the phases are of iterations whose operations were not timed
  std::vector<Rank> ranks;            // by global rank
  std::vector<Operation> operations;  // in the file's order; empty without --operations
};

// Throws JsonFileError for anything that is not a result of simulate or run.
ResultFile read_result_json(const std::string& text, const std::string& file_name);

// Segments, in this order:
//   total                  time_s
//   forward, backward      the phases; of a run those of its undisturbed iterations, if it says them
//   compute, communication, exposed_communication, exposed_wait, exposed_transfer   of RankFigures, mean over
//                          ranks
//   PHASE/KIND             every kind of operation in order of name: the summed seconds of its operations,
//                          mean over ranks
//   PHASE/KIND/transfer, PHASE/KIND/wait   of those that communicate: with all peers there, and before
// Terms: the time of the rank that ends last, taken apart moment by moment (compare_terms.hpp).
//
// A prediction and a measurement, or two measurements, of different scenarios (problem, parallel, schedule),
// results without operations, or of one scenario with operations of different plans cannot be compared, nor a
// measurement given first with a prediction: JsonFileError says what differs. Two predictions of different
// scenarios can: their operations are not joined, and a note says what differs, as where device, machine,
// kernels or build do.
CompareReport compare_results(const ResultFile& predicted, const ResultFile& measured);

// predicted / measured - 1; NaN where nothing was measured.
double relative_error(double predicted, double measured);

}  // namespace cplab

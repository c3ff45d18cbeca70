// What a sweep finds, as plain data: points of a study with the totals of their simulations, and points that
// were refused; as lines of JSON, which a sweep writes while it goes and reads to go on, as one JSON result
// and as CSV.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "report/figures.hpp"
#include "report/json_reader.hpp"
#include "report/results.hpp"

namespace cplab {

// As a study says it.
using SweepValue = std::variant<bool, std::int64_t, double, std::string>;
using SweepKeys =
    std::vector<std::pair<std::string, SweepValue>>;  // ("problem.heads", 32), as the study says

// simulate's totals, with its keys (report/results.hpp, SimulateReport).
struct SweepPoint {
  std::int64_t number = 0;  // its place in the study, from 0 on
  SweepKeys set;
  std::string algorithm, placement;  // as resolved
  std::string machine, gpu;
  std::int64_t placement_padding_tokens = 0;
  double time_s = 0, low_s = 0, high_s = 0;
  ChainShares chain;
  std::vector<PhaseTime> phases;
  // Of the rank that has most exposed communication, the first of these.
  double exposed_wait_s = 0, exposed_transfer_s = 0;
  std::int64_t peak_bytes = 0;
  int peak_rank = 0;
  Fit fit;
  std::int64_t messages = 0, host_syncs = 0;
  OriginShares origins;
  std::vector<std::string> notes;
};

// input: the scenario is not legal, or the hardware file has no table for it. memory: this machine has too
// little, and another may have enough. internal: an error of the program.
enum class RefusalKind : std::uint8_t { input, memory, internal };
std::string_view name(RefusalKind);

struct SweepRefusal {
  std::int64_t number = 0;
  SweepKeys set;
  RefusalKind kind = RefusalKind::input;
  std::string reason;                  // without the file and the settings, which `set` has
  std::optional<std::string> nearest;  // the legal value nearest to the one that is wrong, if that is known
};

// Refused points of one reason, but for the numbers in it.
struct RefusedGroup {
  RefusalKind kind = RefusalKind::input;
  std::string reason;  // of the example
  std::optional<std::string> nearest;
  std::int64_t count = 0;
  SweepRefusal example;  // the first
};
std::vector<RefusedGroup> grouped(const std::vector<SweepRefusal>&);  // by the example's number

// Everything that decides what points there are and what is found of each.
struct SweepStudy {
  std::string name, scenario;    // as given
  std::string scenario_sha256;   // of the scenario's text
  std::vector<GivenFile> files;  // hardware files and others, as given.files of a result
  std::vector<std::string> set, unset;
  std::vector<std::pair<std::string, std::string>> options;
  // (keys between ", ", rows as --set would say them) of each axis.
  std::vector<std::pair<std::string, std::vector<std::string>>> vary;
  std::vector<std::string> where;
  std::int64_t product = 0, points = 0;                        // of all values; what the constraints leave
  std::vector<std::pair<std::string, std::int64_t>> excluded;  // condition, points
};

struct SweepHeader {
  Versions versions;
  SweepStudy study;
  std::string shard;  // "1/4"; empty: the whole study
};
// In a sentence each, what differs: versions, files, keys, ...; shards are not compared.
std::vector<std::string> differences(const SweepHeader& was, const SweepHeader& now);

// ---- lines ---------------------------------------------------------------------------------------

// Without the line end.
std::string line_of(const SweepHeader&);
std::string line_of(const SweepPoint&);
std::string line_of(const SweepRefusal&);
// Throw JsonFileError.
SweepHeader read_sweep_header(const JsonNode&);
bool is_refusal(const JsonNode&);
SweepPoint read_sweep_point(const JsonNode&);
SweepRefusal read_sweep_refusal(const JsonNode&);

// ---- results -------------------------------------------------------------------------------------

struct SweepReport {
  SweepHeader header;
  std::optional<Scenario> scenario;  // without what varies, if that is legal
  std::vector<ScenarioSection> sections;
  std::vector<SweepPoint> points;     // by number
  std::vector<SweepRefusal> refused;  // by number
  std::int64_t missing = 0;           // of a merge: points of the study that no file has
  std::vector<std::int64_t> fastest;  // numbers: for each problem the fastest that fits
  std::vector<std::int64_t>
      pareto;  // numbers: for each problem, nothing that fits is both faster and smaller
  std::vector<std::string> notes;
};
void write_json(std::ostream&, const SweepReport&);
void write_csv(std::ostream&, const SweepReport&);  // a row for each point

// The numbers of SweepReport::fastest and pareto. One problem: points that agree in the keys of [problem].
// Where nothing of a problem fits, all of its points count.
void find_best(SweepReport&);

}  // namespace cplab

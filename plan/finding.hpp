// What is wrong with a plan, or with what came of it: the form in which the structural validator, the checker
// and the comparison report.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cplab {

// race: two conflicting accesses without happens-before. deadlock: operations that can never complete with
// zero buffering. unmatched: sends and receives that do not pair up in count, size or dtype. order:
// communication that ranks launch in orders that do not fit together. coverage: a visible (query, key) pair
// that is missing or repeated, a computed pair that is masked or of two sequences, or an incomplete result.
// uninitialised: a read of what nobody wrote. leak: a buffer never used, or a computed value nobody reads.
// lifetime: a buffer whose memory is not its own while it is in use, or an input that is written. numerics: a
// tensor outside its tolerance (verify only).
enum class FindingKind : std::uint8_t {
  race,
  deadlock,
  unmatched,
  order,
  coverage,
  uninitialised,
  leak,
  lifetime,
  numerics,
};
std::string_view name(FindingKind);

struct Finding {
  FindingKind kind = FindingKind::race;
  int rank = -1;          // global; -1: all or none in particular
  std::string operation;  // operation id "rank/phase/ordinal", or empty
  std::string buffer;     // or empty
  std::string message;    // one sentence for a person
};

// What the checker found and counted.
struct CheckResult {
  std::vector<Finding> findings;
  std::int64_t rounds = 0;               // longest chain of communication operations, both phases
  std::int64_t messages = 0;             // parts sent, all ranks and phases
  std::vector<double> flops;             // per rank, recomputed from the segments
  std::vector<std::int64_t> sent_bytes;  // per rank, recomputed from the parts; to itself not counted
  bool ok() const { return findings.empty(); }
};

// The finding that a fault must lead to.
struct ExpectedFinding {
  FindingKind kind = FindingKind::race;
  int rank = -1;          // -1: any
  std::string operation;  // id, or empty: any
};

// The plan may be right, but to follow it would take more memory or time than a small file may ask for (rows
// that are strided or permuted one by one, by the million). A limit of the machine, not a finding.
struct PlanTooLarge : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace cplab

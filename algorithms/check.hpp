// The checker: proves a plan right without a clock, for any number of ranks. It interprets the plan
// symbolically and uses the plan's data types and nothing else of ours (no builder, placement, mask, walk).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/plan.hpp"

namespace cplab {

// race: two conflicting accesses without happens-before. deadlock: operations that can never complete with
// zero buffering. unmatched: sends and receives that do not pair up in count, size or dtype. order:
// communication of two ranks launched in different orders. coverage: a live (query, key) pair missing,
// repeated, dead or foreign, or a result incomplete. uninitialised: a read of what nobody wrote. leak: a
// buffer never used, or a computed value nobody reads. lifetime: buffers that share memory while both are in
// use. numerics: a tensor outside its tolerance (verify only).
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

struct CheckResult {
  std::vector<Finding> findings;
  std::int64_t rounds = 0;               // longest chain of communication operations, both phases
  std::int64_t messages = 0;             // parts sent, all ranks and phases
  std::vector<double> flops;             // per rank, recomputed from the segments
  std::vector<std::int64_t> sent_bytes;  // per rank, recomputed from the parts; to itself not counted
  bool ok() const { return findings.empty(); }
};

// The initial contents (which tokens the inputs q, kv, dout of a rank hold) follow from plan.scenario. At
// most `max_findings` are kept, the earliest of every kind first.
CheckResult check(const Plan&, std::size_t max_findings = 100);

}  // namespace cplab

// Linear attention whose ranks compute their own state first, exchange states by some scan, and only then
// need what enters: LASP with a scan (S1), LASP-2, ZeCO. One class; an algorithm adds the scan.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "algorithms/linear/linear.hpp"
#include "algorithms/linear/state_scan.hpp"

namespace cplab {

// Brings to every rank what enters it: reads `own`, the state that leaves this rank's own tokens, may change
// it, and writes `carry` where StateScan::needed says that a rank reads it.
using ExclusiveScan = std::function<void(const LinearScope&, StateScan&, const Box& own, const Box& carry)>;

struct DecoupledChoices {
  ExclusiveScan scan;
  bool totals = false;            // the scan leaves the state behind all tokens at its last index
  bool every_rank_gives = false;  // a state of its own, also where nothing leaves it
};

// inter, overlap, chunk, backward_states, state_wire_dtype.
std::vector<OptionInfo> decoupled_options();
void resolve_decoupled_defaults(Scenario&);
void validate_decoupled(const Scenario&);
// Throws ScenarioError for schedule.chunk where tokens that are held so many times are more chunks than can
// be planned.
void require_few_chunks(const Scenario&, std::int64_t times);
void run_decoupled(Builder&, const DecoupledChoices&);
// The same over some scope; both outlive it.
std::unique_ptr<LinearAlgorithm> decoupled(const LinearScope&, const DecoupledChoices&);

}  // namespace cplab

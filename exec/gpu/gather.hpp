// What each process knows of its rank after a run, brought to all.
#pragma once

#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "exec/memory_log.hpp"
#include "report/results.hpp"
#include "report/timeline.hpp"

namespace cplab {

struct RankOutcome {
  std::vector<double> ends_s;                          // by timed repetition
  std::vector<double> forward_ends_s;                  // the same, of the forward; empty unless asked for
  std::vector<std::vector<OperationTime>> operations;  // by instrumented repetition
  double clock_residual_s = 0;
  RankMemory memory;
  MemoryLog log;
  bool overrun = false;
  std::vector<std::vector<std::byte>> outputs;  // by buffer; empty unless it is an output
  // By operation: the kernel that was launched, and why not the preferred one (Timeline::variants,
  // fall_backs); empty of communication.
  std::vector<std::vector<char>> variants, fall_backs;
};

std::vector<std::byte> pack(const RankOutcome& outcome);
// Throws std::invalid_argument if the bytes are no outcome.
RankOutcome unpack(const std::vector<std::byte>& bytes);
// Throws std::invalid_argument, naming what is wrong, unless `theirs` can be the outcome of that rank in the
// run that gave `own`: as many repetitions, operations, buffers and bytes as this plan has, finite times,
// sizes that memory can have.
void require_outcome_of(const RankPlan& rank, const RankOutcome& theirs, const RankOutcome& own);
// unpack and require_outcome_of, for bytes from another process. Throws RendezvousError, which names the
// rank.
RankOutcome received_outcome(const RankPlan& rank, const std::vector<std::byte>& bytes,
                             const RankOutcome& own);

}  // namespace cplab

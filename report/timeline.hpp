// What the simulator predicts and the executor measures, in one type: when each operation of a plan was
// issued, started and ended. Two timelines of one plan are joined by operation id.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace cplab {

// Where a duration comes from. A run is measured throughout.
enum class Origin : std::uint8_t { measured, interpolated, extrapolated, assumed };
std::string_view name(Origin);

// Seconds from the start of the plan. issue: the host has issued it. start: a kernel runs, or a communication
// is posted (resident). wait: the part of [start, end] in which a communication waits for its peers.
struct OperationTime {
  double issue_s = 0;
  double start_s = 0;
  double end_s = 0;
  double wait_s = 0;
  Origin origin = Origin::measured;
};

// How many multiprocessors of a rank's GPU kernels and communication hold, from time_s on.
struct MultiprocessorSample {
  double time_s = 0;
  std::uint16_t compute = 0, communication = 0;
  bool operator==(const MultiprocessorSample&) const = default;
};

struct Timeline {
  bool predicted = false;
  // ranks[r][i]: operation i of Plan::ranks[r]. Memory needs no entry of its own: births and deaths are keyed
  // by operation (derive/memory.hpp, or the executor's log).
  std::vector<std::vector<OperationTime>> ranks;
  // variants[r][i]: what carried the operation out, where more than one thing can ("ncclAllGather"); valid
  // for good. Empty if nobody says.
  std::vector<std::vector<std::string_view>> variants;
  // fall_backs[r][i]: why a slower kernel carried the operation out than the one that is preferred on the
  // device for its dtype and head size: "not attend hopper bf16 128: k has rows in 4 runs"; valid for good.
  // Empty: it did not, or nobody says. fall_backs[r] is empty where nothing fell back.
  std::vector<std::vector<std::string_view>> fall_backs;
  // multiprocessors[r]: in order of time, a sample wherever something changes. Empty: nobody kept them, as a
  // run never does.
  std::vector<std::vector<MultiprocessorSample>> multiprocessors;
};

}  // namespace cplab

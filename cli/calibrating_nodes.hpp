// calibrate under torchrun, mpirun or srun: one process measures its node and writes the file; the first of
// every other node takes part in messages between nodes, the rest wait.
#pragma once

#include <cstdint>
#include <string>

#include "cli/execution.hpp"

namespace cplab {

class CalibratingNodes {
 public:
  // Meets the other processes of the launch, if there are any; they wait so long for the one that measures.
  // Throws EnvironmentError if they do not come.
  explicit CalibratingNodes(double patience_s);

  bool measures() const { return with_.speaks(); }
  int nodes() const { return nodes_; }

  // Of the one that measures: lets the first process of every other node call measure_between_nodes with
  // this id; and lets all of them go. Throw MeetingError.
  void call_others(const std::string& id) const;
  void release_others() const;

  // Of every other one: until the one that measures lets it go. Throws MeetingError, EnvironmentError.
  void follow(std::uint64_t seed) const;

 private:
  double patience_s_;
  Participation with_;
  int nodes_ = 1, node_ = 0;  // this process's
};

}  // namespace cplab

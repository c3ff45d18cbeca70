// Which send meets which receive, over all ranks: made by check/matching.cpp, used by check/launches.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "check/model.hpp"

namespace cplab::checking {

// Operations of all ranks are numbered one after the other, and so are their parts.
struct Pairing {
  struct Meeting {                       // one collective or barrier: the k-th of its group on every member
    std::vector<std::uint32_t> members;  // operations by position, or none
    std::uint32_t posted = 0;
    std::uint32_t start_round = 0;
  };

  explicit Pairing(const Model& plan_model) : model(&plan_model) {}

  std::uint32_t flat(std::uint32_t rank, std::uint32_t operation_of_rank) const {
    return model->first_operation[rank] + operation_of_rank;
  }
  std::uint32_t local(std::uint32_t op) const { return op - model->first_operation[rank_of[op]]; }
  const RankModel& rank_model(std::uint32_t op) const { return model->ranks[rank_of[op]]; }
  const Operation& operation(std::uint32_t op) const { return rank_model(op).op(local(op)); }
  const Part& part(std::uint32_t p) const {
    const std::uint32_t op = op_of_part[p];
    return rank_model(op).parts(local(op))[p - first_part[op]];
  }
  std::string id(std::uint32_t op) const { return id_of(*rank_model(op).plan, operation(op)); }
  std::string describe(std::uint32_t op) const { return describe_operation(rank_model(op), local(op)); }

  const Model* model;
  std::vector<std::uint32_t> rank_of;     // by operation
  std::vector<std::uint32_t> first_part;  // by operation; one more at the end
  std::vector<std::uint32_t> op_of_part;
  std::vector<std::uint32_t> partner;  // by part, or none
  std::vector<std::uint8_t> skip;      // by part: malformed, takes no part
  std::vector<std::uint32_t> meeting;  // by operation: index into meetings, or none
  std::vector<Meeting> meetings;
  bool lost = false;  // something has no partner
};

inline bool communicates(const Operation& op) {
  return op.kind >= OpKind::exchange && op.kind <= OpKind::barrier;
}

// It needs a communicator, which runs what is launched on it one after the other. Over copy there is none:
// each message waits for its own permission alone.
inline bool is_launched(const Operation& op) {
  return communicates(op) && op.transport == Transport::nccl;
}

// Every member of the group takes part: all_reduce and barrier, and the collectives that have parts.
inline bool is_collective(const Operation& op) {
  return communicates(op) && op.kind != OpKind::exchange;
}

// Both boxes have the same shape, dtype and planes, hence the same bytes in the same order.
bool fits(const RankModel& a, const Box& x, const RankModel& b, const Box& y);

// Runs the plan symbolically, without buffering. True when every operation completed; else reports why not.
bool check_progress(Pairing&, Findings&, Interpreter&, CheckResult&);
// Runs it once more, with what each rank launches on communicators (is_launched) one operation at a time in
// issue order, as NCCL runs it. If that hangs, no launch order suits all ranks.
void check_launches(Pairing&, Findings&);

}  // namespace cplab::checking

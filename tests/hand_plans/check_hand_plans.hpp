// Plans written by hand for the checker's tests: nothing here goes through the builder, so that the checker
// is not tested against the code that it checks.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "check/check.hpp"
#include "plan/plan.hpp"

namespace cplab::hand {

inline constexpr Lane compute{LaneKind::compute, 0};
inline constexpr Lane comm{LaneKind::comm, 0};
inline constexpr double logit_scale = 0.3;  // Problem::scale of these plans, and of their tiles

struct At {  // part of a buffer; -1: to the end of the axis
  std::uint32_t buffer = 0;
  std::int32_t slot = 0;
  std::int64_t row = 0, rows = -1;
  std::int32_t width_begin = 0, width_end = -1;
  std::int32_t head_begin = 0, head_end = -1;
};

// One rank of a plan. Buffers lie one after the other in the arena.
class Rank {
 public:
  Rank(Plan& plan, int rank);

  std::uint32_t buffer(std::string name, Role role, Category category, std::int64_t slots, std::int64_t rows,
                       std::int64_t heads, std::int64_t width);
  std::uint32_t view(const At&);
  std::uint32_t view(const At&, std::vector<RowRange> rows);
  std::uint32_t operation(Lane, OpKind, const std::vector<std::uint32_t>& reads,
                          const std::vector<std::pair<std::uint32_t, WriteMode>>& writes,
                          const std::vector<std::uint32_t>& after = {});
  std::uint32_t attend(Lane, const std::vector<std::uint32_t>& reads,
                       const std::vector<std::pair<std::uint32_t, WriteMode>>& writes,
                       const std::vector<Segment>&, const std::vector<std::uint32_t>& after = {});
  std::uint32_t communicate(Lane, OpKind, const std::vector<Part>&,
                            const std::vector<std::uint32_t>& after = {}, std::uint16_t group = 0);
  Operation& op(std::uint32_t i) { return plan->operations[i]; }
  std::uint32_t find(const std::string& buffer) const;

  void phase(Phase p);  // ordinals go on where the phase has operations already
  std::uint32_t step = 0;
  RankPlan* plan;

 private:
  void set_after(Operation&, const std::vector<std::uint32_t>&);
  DType dtype_;
  Phase phase_ = Phase::forward;
  std::uint32_t ordinal_ = 0;
};

Part send(std::uint32_t view, int peer);
Part receive(std::uint32_t view, int peer);

// H = 4, G = 2, D = 8, E = 6, contiguous, one sequence of `tokens` on P ranks.
Plan empty_plan(int P, std::int64_t tokens, bool causal, Direction direction, DType dtype = DType::bf16);

// q, kv, out, lse, and with both directions dout, delta, dq, dkv.
struct Tensors {
  std::uint32_t q, kv, out, lse, dout, delta, dq, dkv;
};
Tensors tensors(const Plan&, Rank&);
std::uint32_t keys(const Plan&, Rank&, At);    // the K columns
std::uint32_t values(const Plan&, Rank&, At);  // the V columns

enum class Merge : std::uint8_t { incremental, deferred };
// Full mask, rows / rank tokens each. Two receive slots in the forward.
Plan ring(int P, std::int64_t rows, Merge merge = Merge::incremental, Direction = Direction::forward_backward,
          DType = DType::bf16);
// Causal; forward one tile over all gathered keys; backward with a reduce_scatter of dKV.
Plan gathered(int P, std::int64_t rows, DType = DType::bf16);
// Causal attention of one rank.
Plan single(std::int64_t tokens, Direction = Direction::forward_backward);

// The first operation of that kind at that step.
Operation& find(Plan&, int rank, OpKind, Phase, std::uint32_t step);

bool has(const CheckResult&, FindingKind, int rank, const std::string& operation);
std::string text(const CheckResult&);  // all findings, for a failing test

}  // namespace cplab::hand

// Attention written by hand: ring, gathered and single, and what such plans begin with.
#pragma once

#include <cstdint>

#include "tests/hand_plans/hand_plans.hpp"

namespace cplab::hand {

// H = 4, G = 2, D = 8, E = 6, contiguous, one sequence of `tokens` on P ranks; no operations.
Plan empty_plan(int P, std::int64_t tokens, bool causal, Direction direction, DType dtype = DType::bf16);

// q, kv, out, lse, and with both directions dout, delta, dq, dkv: buffers of a rank's own rows.
struct Tensors {
  std::uint32_t q, kv, out, lse, dout, delta, dq, dkv;
};
Tensors tensors(const Plan&, Rank&);
ViewIndex keys(const Plan&, Rank&, At);    // the K columns
ViewIndex values(const Plan&, Rank&, At);  // the V columns

enum class Merge : std::uint8_t { incremental, deferred };
// Full mask, `rows` tokens a rank. Two receive slots in the forward.
Plan ring(int P, std::int64_t rows, Merge merge = Merge::incremental, Direction = Direction::forward_backward,
          DType = DType::bf16);
// Causal; forward one tile over all gathered keys; backward with a reduce_scatter of dKV.
Plan gathered(int P, std::int64_t rows, DType = DType::bf16);
// Causal attention of one rank.
Plan single(std::int64_t tokens, Direction = Direction::forward_backward);

// The first operation of that kind at that step.
Operation& find(Plan&, int rank, OpKind, Phase, std::uint32_t step);

}  // namespace cplab::hand

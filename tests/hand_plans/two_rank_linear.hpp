// Linear attention written by hand, with every operation on chunks and states.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace cplab::hand {

// One sequence on two ranks, in fp64: H = 2, D = 4, E = 3, one slope a head. `chunks[r]`: the lengths of the
// chunks of rank r. Every rank computes the states of its chunks, scans them and sends what leaves it on the
// one side; its tokens read their chunk's state in `local` (one operation a head) and what came from the
// other rank in `inter`. In the backward `local_backward` reads both. `last_state` of rank 1 is the state
// behind the last token (combine). Buffers of a rank: inputs q, k, v, dout; outputs out, dq, dk, dv and
// last_state.
struct LinearShape {
  std::vector<std::vector<std::int64_t>> chunks = {{3, 5}, {4, 1, 2}};
  std::vector<double> slopes = {0.25, 2};
};
Plan two_rank_linear(const LinearShape& = {});

}  // namespace cplab::hand

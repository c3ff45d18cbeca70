// What the CUDA kernels of linear attention with transitions of every token take (kernels/linear.hpp), and
// where what they hand to each other lies. Host code fills these (linear_calls.cpp), kernels receive them by
// value; all pointers are device pointers.
#pragma once

#include <cstdint>

#include "kernels/tiles/linear_params.hpp"

namespace cplab::kernels::cuda {

// Arrays in the scratch memory of a call, in bytes behind its beginning; -1: the call has none. A block is at
// most `tokens` consecutive tokens of a chunk; arrays are [heads][blocks] of what is said here, in the dtype
// of the rows but for `decays`, with D and E rounded up (GatedCut). G is the sum of a block's logarithms up
// to and with a token, `last` its last one; a, P and T: docs/12-scan-by-hand.md, "Transitions on GPUs".
struct GatedScratch {
  std::int64_t keys = -1;     // [tokens][D]: k exp(last - G)
  std::int64_t queries = -1;  // [tokens][D]: q exp(G)
  std::int64_t erase = -1;    // [tokens][D]: W = T diag(beta) (k exp G)
  std::int64_t values = -1;   // [tokens][E]: T diag(beta) v; then less W S, which is U. Without beta: v
  std::int64_t dvalues = -1;  // [tokens][E]: P^T dout; then what dL/dU is
  std::int64_t inverse = -1;  // [tokens][tokens]: T = (I + diag(beta) a)^-1
  std::int64_t pairs = -1;    // [tokens][tokens]: a
  std::int64_t scores = -1;   // [tokens][tokens]: P
  std::int64_t states = -1;   // [D][E]: S at the left edge of the block
  std::int64_t dstates = -1;  // [D][E]: dL/dS at its right edge
  std::int64_t decays = -1;   // [D] in fp32: last
  std::int64_t bytes = 0;
};

struct GatedCut {
  std::int32_t tokens = 64;                              // of a block
  std::int32_t keys = 0;                                 // D
  std::int32_t D = 0, E = 0;                             // rounded up: D to 64 or 128, E to a multiple of 64
  std::int32_t blocks = 0;                               // of all chunks
  std::int32_t value_slices = 0, transition_slices = 0;  // parts of a state that a walk takes apart
  GatedScratch scratch;
};

// Of LinearLocal, LinearLocalBackward and LinearState; what a call does not have is a view without memory. Of
// a LinearState of keys k and v are its rows and columns, of one of queries q and dout; `leaving` is its
// state, else final_state.
struct GatedParams {
  DeviceView q, k, v, dout, log_decay, beta;
  DeviceView state, carry, dstate, dcarry;
  DeviceView out, dq, dk, dv, dlog_decay, dbeta, leaving, transition;
  const DeviceChunk* chunks = nullptr;        // whole ones
  const std::int32_t* first_block = nullptr;  // of each of them, and behind the last
  const DeviceChunk* blocks = nullptr;        // the same, cut after every GatedCut::tokens tokens
  std::int32_t chunk_count = 0, heads = 0;
  bool leaving_by_state = false;  // `leaving` is numbered by Chunk::state, else by the edge of the piece
  Write write = Write::store;
  GatedCut cut;
  unsigned char* scratch = nullptr;
};

// Of a LinearCombine with a transition.
struct GatedCombineParams {
  DeviceView from, into, transition;
  const DeviceChunk* chunks = nullptr;
  std::int32_t chunk_count = 0, state_rows = 0;
  Write write = Write::store;
  bool reverse = false;
};

}  // namespace cplab::kernels::cuda

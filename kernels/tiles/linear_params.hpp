// What CUDA kernels of linear attention take (kernels/linear.hpp). Host code fills these (linear_calls.cpp),
// kernels receive them by value; all pointers are device pointers.
#pragma once

#include <cstdint>

#include "kernels/linear.hpp"
#include "kernels/tiles/params.hpp"

namespace cplab::kernels::cuda {

// A Chunk, or `count` consecutive tokens of one from compact row `row` on: `before` and `after` are the
// tokens of the chunk to either side of them, 0 for a whole one. States and exponents are those of the whole
// chunk. Of a scan they are in the order in which a thread takes them, and a stretch of chunks that name one
// state of final_state (`right`; reverse: `left`) is summed before it is stored, or added where the state has
// such a stretch already.
struct DeviceChunk {
  enum Flag : std::int32_t { resets = 1, sum_begins = 2, sum_ends = 4, sum_adds = 8 };

  std::int32_t row, count, before, after;
  std::int32_t state, left, right;
  std::int32_t flags;
  std::int64_t left_exponent, right_exponent;
};

struct DeviceChunks {
  const DeviceChunk* list = nullptr;
  const double* slopes = nullptr;  // of every head
  std::int32_t count = 0;
  // Of a scan: chunks [groups[n], groups[n + 1]) pass nothing to others.
  const std::int32_t* groups = nullptr;
  std::int32_t group_count = 0;
};

// How a general kernel is cut into thread blocks: parts of every chunk and head.
//
// Results are computed `columns` columns at a time. Blocked: a part has so many columns of one result (parts
// count through out, dq, dk, dv). Otherwise it has columns of every result, `value_columns` of those of the
// width of v and `key_columns` of those of the width of q; serial: part n has the n-th; sliced: part = value
// part * key_parts + key part, and its products sum over no more than the part's columns of the other width.
struct LinearCut {
  ChunkWork work = ChunkWork::blocked;
  std::int32_t parts = 1;
  std::int32_t columns = 64;
  std::int32_t depth = 0;  // most columns that products sum over: rows of a state in a thread block
  std::int32_t key_columns = 0, value_columns = 0;  // not for blocked work
  std::int32_t key_parts = 1, value_parts = 1;      // sliced: parts = key_parts * value_parts
  std::int32_t threads = 256;
  std::int64_t thread_blocks = 0;
  // Of kernels that take the thread blocks above one after the other, with as many as run at once on so many
  // multiprocessors; 0: others.
  std::int32_t multiprocessors = 0;
  std::int64_t shared_bytes = 0;
  std::int32_t results = 1;   // how many there are
  std::int64_t counters = 0;  // sliced: how many of LinearParams::counters
};

// Of any call of linear attention; what a call does not have is a view without memory.
struct LinearParams {
  DeviceView q, k, v, dout;
  DeviceView state, carry, dstate, dcarry;  // of LinearState and LinearScan: state
  DeviceView out, dq, dk, dv, final_state;
  DeviceView rows, columns;  // of LinearState
  DeviceView from, into;     // of LinearCombine
  DeviceChunks chunks;
  Write write = Write::store;
  bool reverse = false;
  bool sums_only = false;       // of LinearScan
  std::int32_t state_rows = 0;  // of LinearCombine: rows of one state
  LinearCut cut;
  // Sliced work: how many blocks of tokens a slice has added to a result, by chunk, head, result and part; 0
  // between launches.
  std::int32_t* counters = nullptr;
};

}  // namespace cplab::kernels::cuda

// The ladder of forward attention kernels for Hopper that docs/08-hopper.md climbs: rungs to read and to
// time, for one simple problem. What the library launches is kernels/families.
#pragma once

#include <functional>
#include <string>
#include <vector>

struct CUstream_st;

namespace cplab::kernels::cuda::hopper::rungs {

// bf16 q, k, v and out of [heads, S, 128], fp32 lse of [heads, S], all contiguous, at multiples of 16 bytes;
// heads is B H. out = softmax(q k^T / sqrt(128)) v; causal: query i sees keys 0 .. i.
struct Problem {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;
  float* lse = nullptr;
  int S = 0, heads = 0;
  bool causal = false;
};

// "1 one warpgroup", ... from the bottom up.
std::vector<std::string> rung_names();

// Queues the n-th of them. Its pointers are device memory; throws std::runtime_error with CUDA's message.
std::function<void(CUstream_st*)> bind_rung(int n, const Problem& problem);

}  // namespace cplab::kernels::cuda::hopper::rungs

// The same attention computed another way, to check the reference itself (tests only). Plain loops over
// numbers; a streaming softmax, one key at a time, so that no maximum is known beforehand; gradients from
// the full Jacobian of the softmax, dp_j/ds_n = p_j (delta_jn - p_n), without the row-sum shortcut. Time is
// O(H S^3): small S only.
#pragma once

#include <cstdint>
#include <vector>

namespace cplab::reference::second {

// One sequence attending to itself: tokens, query heads, key/value heads, key size, value size. Query i sees
// key j iff (left < 0 or i - j <= left) and (right < 0 or j - i <= right).
struct Attention {
  std::int64_t S, H, G, D, E;
  double scale;
  std::int64_t left, right;
  std::vector<double> q, k, v, dout;  // [S,H,D], [S,G,D], [S,G,E], [S,H,E]
};

struct Result {
  std::vector<double> out, lse;    // [S,H,E], [H,S]
  std::vector<double> max_logit;   // [H]
  std::vector<double> dq, dk, dv;  // [S,H,D], [S,G,D], [S,G,E]
};

// Sizes are trusted: a test that gets them wrong is found by the bounds checks of a debug library.
Result attention(const Attention& problem);

}  // namespace cplab::reference::second

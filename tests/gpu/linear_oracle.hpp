// Linear attention token by token in double, and how far a kernel may be from it.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/linear.hpp"
#include "tests/kernels/tensor.hpp"

namespace cplab::testing {

// A sum of products, and what bounds the errors of computing it: the sum of the magnitudes of its terms, and
// of their squares.
struct Sum {
  double value = 0, magnitude = 0, square = 0;
};

// States [D][E] (or transposed) of one head.
using Sums = std::vector<Sum>;

// How the rounding of one result comes about.
struct Rounding {
  DType sums;        // fp32 or fp64
  DType nominal;     // of scores and of states that multiply rows; of a state: of the rows scaled for it
  DType result;      // of the stored result
  double terms = 0;  // additions one after the other, and other roundings of `sums`, that a term goes through
  double slices = 0;  // partial results that are rounded and summed
  int numbers = 1;    // of `nominal`, whose sum stands for what is rounded; 2: see rounding_error()
};

// |x - what stands for it| <= relative |x| + absolute.
struct RoundingError {
  double relative, absolute;
};
// One number of `dtype`: relative u; below the normal numbers of fp16 absolute 2^-25. Two, the second of
// what the first leaves, as the keys times their weights of kernels/families/linear/walk_mma.cuh: with
// 2^e <= |x| < 2^(e+1) the first leaves at most 2^e u, which as a power of two is exact; what is less lies
// below that power, where numbers are 2^e u^2 apart or closer: relative u^2 / 2, for bf16 2^-17, for fp16
// 2^-23. For fp16 the second is stored times 2048, so that below its normal numbers it errs by 2^-25 / 2048.
RoundingError rounding_error(DType dtype, int numbers);

// |kernel - oracle| stays below this. Roundings to `nominal` are independent of each other and of the data,
// which is random: each changes a term by at most u, so that the sum of many changes by sqrt(sum of squares)
// u times a number that exceeds 10 with probability 1e-22; never by more than the sum of magnitudes. What is
// rounded are sums of terms (a score, an element of a state): their squares are those of their terms, up to a
// factor that the 10 covers. All other roundings are counted in full. Operands are at most 1. `held`: what
// the result is added to.
double bound(const Sum& sum, double held, const Rounding& rounding);

// One chunk of one head. Operands [row][width], by compact rows of the tensors.
struct Walk {
  const Tensor *a, *b, *c;
  std::int64_t head = 0;
  double slope = 0;
  bool reverse = false;  // what comes after a token instead of before it
};

// o[t][y] = sum over tokens u up to t (reverse: from t on) of lambda^|t - u| (a_t . b_u) c_u[y], plus a_t
// times what `entering` has at the edge where the walk begins. `entering` becomes what leaves at the other
// edge. [width of a][width of c].
std::vector<Sum> walk(const Walk& walk, const kernels::Chunk& chunk, Sums& entering);

}  // namespace cplab::testing

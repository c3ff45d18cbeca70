// What a tile must compute, by brute force in double from a matrix that says which query sees which key, and
// how far a tile may be from it.
//
// Tolerances are a priori bounds, element by element. Let u be the unit roundoff of the sums (2^-24, or 2^-53
// for fp64 operands), r that of the dtype P and dS are rounded to (0 if it is no narrower than the sums),
// A = max sum_x |scale q_x k_x| over visible pairs, L = A + log n >= |lse|, n the number of keys. Sums of m
// terms in any order err by at most m u times the sum of magnitudes.
//  forward   a score errs by (D + 2) u A, its distance from the running maximum (at most 2 A) by 2 u A more,
//            exp by 2 u, and each of the b <= n/32 + 2 rescalings of the online softmax by u (2 A + 3):
//            a weight is off by relative w = u ((D + 4) A + 2 + b (2 A + 3)). Then
//            |out - exact| <= sum_j p_j |v_j| (r + 2 (w + (n + b + 2) u)) + rounding of out,
//            |lse - exact| <= w + (n + b + 2) u + 2 u (1 + L) + rounding of lse.
//            (32: no key block is narrower except at the ends of a segment; segments are counted apart.)
//  max_logit the largest score errs by no more than the worst, (D + 2) u A; u A more where a kernel keeps an
//            earlier maximum whose product with the scale rounds to the same.
//  backward  P = exp(s - lse) with lse and delta rounded to their dtype (relative l): off by relative
//            e = u ((D + 3) A + L + 2) + l L. |dP| <= a_ij = sum_x |dout v|, off by E u a_ij; so dS is off by
//            P (a + |delta|) (e + r + l + (E + 4) u), and each gradient by its majorant, the same sum with
//            all terms positive, times that plus (m + 2) u for a sum of m terms, plus its own rounding.
//  merges    each step recomputes lse, off by u (2 + 2 L), and multiplies by two weights exp(x - lse).
// Second-order terms: everything times 1 + 4 r + 0.01. Underflow: fp16 loses at most 2^-25 of a P <= 1 or a
// dS, whence floors of n 2^-25 max|v| and the like. fp32 loses 2^-126 of P, and |dP - delta| < 2^9 (as
// |dout|, |v| <= 1) times that of dS: 2^-117.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernels.hpp"
#include "tests/kernels/tensor.hpp"

namespace cplab::testing {

using kernels::Segment;

struct Sizes {
  std::int64_t nq, nk, H, G, D, E;
};

struct Problem {
  Sizes sizes;
  double scale = 1;
  std::vector<Segment> segments;
  std::vector<double> q, k, v, dout;  // [nq,H,D], [nk,G,D], [nk,G,E], [nq,H,E]
  std::vector<double> sinks = {};     // [H], of the dtype of lse; empty: none
};

// Of a number in [rows, heads, width].
inline std::size_t place_of(std::int64_t row, std::int64_t heads, std::int64_t head, std::int64_t width,
                            std::int64_t x) {
  return static_cast<std::size_t>((row * heads + head) * width + x);
}

// [nq, nk], straight from the definition of Segment. A pair in two segments counts twice: 2.
std::vector<int> visible_pairs(const Problem& problem);

struct Expected {
  std::vector<double> out, lse, delta;  // [nq,H,E], [nq,H], [nq,H]; a row without keys: 0, -inf, 0
  std::vector<double> max_logit;        // [H]; -inf without any pair
  std::vector<double> dq, dk, dv;       // [nq,H,D], [nk,G,D], [nk,G,E]
  std::vector<double> out_majorant;     // sum_j p_j |v_j|
  std::vector<double> dq_majorant, dk_majorant, dv_majorant;
  double score_magnitude = 0;  // A, no smaller than a sink: that is one more score
};

// Gradients are those of this problem's own softmax, or with another delta, [nq,H], if one is given. Entries
// of inputs that no visible pair touches are never read and may be NaN.
Expected expected_of(const Problem& problem, const std::vector<double>& given_delta = {});

// |computed - exact| <= majorant * (matching majorant) + relative * |exact| + floor.
struct Tolerance {
  double majorant, relative, floor;
};

// The dtypes of a tile: q, k, v, dout; out and gradients; lse and delta. merges: how many softmax merges the
// result went through, each partial result stored with unit roundoff `part_roundoff`.
struct TileDTypes {
  DType nominal, out, lse;
  bool rounds_dq = false;   // dq is summed in the dtype of lse, and comes out rounded elsewhere
  bool rounds_dkv = false;  // dk and dv are
  // The call computes delta, from products dout * out of one sign: off by relative (E + 2) u more.
  bool computes_delta = false;
  std::int64_t merges = 0;
  double part_roundoff = 0;
};

inline constexpr TileDTypes fp32_tile{.nominal = DType::fp32, .out = DType::fp32, .lse = DType::fp32};

Tolerance out_tolerance(const Problem& problem, const Expected& expected, const TileDTypes& dtypes);
Tolerance max_logit_tolerance(const Problem& problem, const Expected& expected, const TileDTypes& dtypes);
Tolerance lse_tolerance(const Problem& problem, const Expected& expected, const TileDTypes& dtypes);
struct GradientTolerances {
  Tolerance dq, dk, dv;
};
GradientTolerances gradient_tolerances(const Problem& problem, const Expected& expected,
                                       const TileDTypes& dtypes);

// The largest share of its tolerance that any element uses: at most 1 is right; infinity if an element is NaN
// or infinite and the exact one is not the same, or sizes differ.
double worst_share(const std::vector<double>& computed, const std::vector<double>& exact,
                   const std::vector<double>& majorant, const Tolerance& tolerance);

}  // namespace cplab::testing

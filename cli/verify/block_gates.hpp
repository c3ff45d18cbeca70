// How large the error of dlog_decay is expected to be where blocks of tokens are computed at once, in units
// and words of linear_tolerance.hpp. From kernels/families/linear/gated/gradients.cuh: with G_t the sum of a
// block's logarithms up to token t,
//   dL/dG_t = q_t dq_t + k_t (a_t - b_t), where dk_t = a_t + b_t (a: what has exp(+G_t), b: exp(-G_t)),
//   dg_t    = last + the sum of dL/dG of the tokens from t to the end of the block,
//   last    = dL/d(the factors of the whole block) = dg of the token behind the block, 0 if there is none:
//             the products of S and R, and k b, as far as b reads R, of all tokens of the block.
// In exact arithmetic a pair of tokens that both lie behind t adds to one and takes from the other, and what
// the tokens before t hold of R is in `last` alone. Only the first token of a sequence shows how much that
// is: its gradient is 0, its terms are not. What does not cancel is rounded in between.
//
// Where a block ends is not known here: sums over the tokens of t's block are sums over block_tokens tokens
// from t on, and where a block's tokens before t count, over as many before. n2 = (square of value + squares
// of terms) / 2 as for all sums. Variances, beside those of X and M:
//   a gate of a head  What is rounded to nominal is the same number wherever it is read, and cancels as in
//             exact arithmetic. What is left at t is of pairs s < t <= t', nothing at the first token: e^2 of
//             the square of (w q_t'.k_s) (dout_t'.u_s), which is rounded as a gradient of a score; for delta
//             rules twice, with T of u_s, and 3 e^2 of that of beta_t' (w k_t'.k_s) (F_t'.u_s), with T of
//             F_t' too. And of S and R, rounded at the edges of the block: e^2 (M'^2 U of X + U of M' X^2).
//   gates of columns  Rows are scaled and rounded for every level of pairs, of queries and of keys apart: 2
//             e^2 of the squares of what makes up q_d dq_d (from t on) and k_d a_d, k_d b_d (before t too).
//   both      Every term of q dq, k a and k b goes through sums in fp32 of its own, which cancel only as far
//             as these are exact: of E products, of a block's tokens and, of one gate, of D columns; and is
//             multiplied twice: f^2 ((E + block + D) / 2 n2 + 2 value^2), a block of no more tokens than the
//             sequence. (Tensor cores cut off where others round, but once for 16 products.)
//             `last`: f^2 (E + block + D) / 2 n2 of its own terms, M'^2 X^2, of the token where it is
//             largest.
//             The sum over tokens: f^2 of the square of each partial sum. From the end of the block on, as
//             for columns, these are dg of the tokens from t on; from t on they are last + dg_t - dg of a
//             token behind t: the squares of the three, at every token.
// Of one gate, tokens have most of this in common: a pair's rounding is in all that lie between its two, that
// of a state in all that read it before it has decayed. As a sample (ExpectedError::rows_alike) a block is
// one row, or so many tokens as it takes for the logarithms to sum to -1, of all S: S / (1 + sum of |g|).
// The squares of all these terms are the scale that the error is held against (ExpectedError::terms).
#pragma once

#include <cstdint>
#include <vector>

#include "cli/verify/head_rows.hpp"
#include "cli/verify/tolerance.hpp"

namespace cplab {

// Of one head, all of one sequence.
class BlockGates {
 public:
  struct Sizes {
    std::int64_t tokens = 0, heads = 1, head = 0, D = 1, E = 1, gates = 1, block = 1;
  };
  struct Squares {
    double terms = 0, value = 0;
  };
  BlockGates() = default;
  explicit BlockGates(const Sizes& sizes);

  bool one_gate() const { return sizes_.gates == 1; }
  // The parts of column d: of q dq, and of k a and k b.
  void add_query(std::int64_t t, std::int64_t d, const Squares& squares) { add(queries_, t, d, squares); }
  void add_key(std::int64_t t, std::int64_t d, const Squares& squares) { add(keys_, t, d, squares); }
  // The pairs of token t, the last of `rows`, with the others there, which lie behind it: the squares of what
  // they are to dL/dG, given the two rows of t. `weight`: how often each is rounded, and beta^2 of t.
  void add_pairs(std::int64_t t, const double* of_keys, const double* of_values, const BlockRows& rows,
                 double weight);

  // Adds to what the error has of X and M: terms are M'^2 X^2. rows_alike has an element for every head.
  void add_errors(double e2, double f2, const HeadRows& log_decay, const std::vector<double>& right,
                  ExpectedError& error) const;

 private:
  std::size_t at(std::int64_t t, std::int64_t g) const;
  void add(std::vector<Squares>& parts, std::int64_t t, std::int64_t d, const Squares& squares);
  double tokens_alike(const HeadRows& log_decay) const;
  std::vector<double> pairs_over() const;

  Sizes sizes_;
  std::vector<Squares> queries_, keys_;            // [tokens,gates]
  std::vector<double> with_later_, with_earlier_;  // [tokens]
};

}  // namespace cplab

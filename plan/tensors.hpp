// The tensors of a problem: one table of what attention takes and gives. Files, random data, scatter to the
// ranks and gather from them, comparison and summaries follow from it; a new tensor is a row.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"
#include "plan/problem.hpp"

namespace cplab {

// What values an input may have, and random ones of it do: any and normally distributed; logarithms of
// factors, none of them positive, in [-0.2, 0]; strengths of delta rules, any and in (0, 1). selected: 1 or
// 0, no input from outside: follows from the bias (cli/verify/selection.hpp). weights: of sums over
// kv_latent numbers (of a convolution: W), any and as much smaller as keeps these sums in the size of their
// terms.
enum class Values : std::uint8_t { any, log_factor, strength, selected, weights };

struct ProblemTensor {
  std::string_view name;
  // Shape letters in the order of its file: B, S (of queries) or L (of keys), one of H, G and 1 (all heads
  // share it), and of D, E, K (the keys of the longest sequence, Problem::pair_columns), N (buckets), C
  // (kv_latent), R (rope_size), X (projected_size) and W (convolution) at most one, of weights two. A name
  // may have several rows, of which a problem has one. Packed problems ([T,...] tensors) have T in place of
  // S, U in place of L and no B; where queries and keys are of the same tokens S and T stand for both. In
  // inputs B and S come first. A tensor without tokens is one row, which every rank holds whole: as an input
  // a parameter, the same on all; as an output a maximum or a sum over all tokens (`over_tokens`), on every
  // rank of a group of those of its replica.
  std::string_view axes;
  Role role = Role::nominal;            // its dtype role
  Category category = Category::input;  // input or output
  Phase phase = Phase::forward;         // backward: only problems with a backward have it
  std::vector<Attention> attention;     // the kinds that have it
  // The buffer of a plan that holds it, [rows, heads, width]. Tensors of one buffer are its width side by
  // side, in the order of the table, and follow each other in tensors_of().
  std::string_view buffer;
  double padding =
      0;  // of an output: what rows that are padding are set to; of one without S: without tokens
  bool (*asked)(const Problem&) = nullptr;  // only problems of which it is true have it
  Values values = Values::any;              // of an input
  Reduction over_tokens = Reduction::max;   // of an output without S

  Side side() const { return axes.find('L') == std::string_view::npos ? Side::queries : Side::keys; }
  bool per_token() const { return axes.find('S') != std::string_view::npos || side() == Side::keys; }
};

// Random inputs depend on the order of the inputs: new ones come last.
std::span<const ProblemTensor> tensor_table();

// "q, k, v, dout": all names of a category in the table, for messages.
std::string tensor_names(Category);

// Those of the table that the problem has: by kind of attention and direction.
std::vector<ProblemTensor> tensors_of(const Problem&, Category);

// Of all sequences with their padding: T.
std::int64_t total_tokens(const Problem&, Side = Side::queries);

// "BSHD", or "THD" for packed problems, with L and U where keys have tokens of their own; and the extents of
// these axes.
std::string axes_of(const Problem&, const ProblemTensor&);
std::vector<std::int64_t> shape_of(const Problem&, const ProblemTensor&);

// What one token (all of them together, where the tensor has no S) has of a tensor: heads x width numbers, in
// the columns [first_column, first_column + width) of its buffer's buffer_width.
struct TokenRow {
  std::int64_t heads = 0;
  std::int64_t width = 0;
  std::int64_t buffer_width = 0;
  std::int64_t first_column = 0;
};
TokenRow token_row(const Problem&, const ProblemTensor&);

}  // namespace cplab

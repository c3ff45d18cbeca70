// Which tokens each rank holds, and in which order its local rows lie.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "plan/problem.hpp"

namespace cplab {

// Rows row, row + row_step, ... (`rows` of them) that hold tokens of one sequence at positions position,
// position + stride, ... The first `valid` rows are tokens, the others padding. A placement's runs are
// consecutive local rows; where rows of several ranks lie in one buffer, a list of runs says which they are.
// Positions count keys: a query's is that of the key it stands on, in cross attention perhaps one that is not
// there (Problem::first_query_at). So a query's window is about differences of positions everywhere.
struct TokenRun {
  std::int64_t sequence = 0;  // index into Problem::lengths
  std::int64_t row = 0;       // first local row
  std::int64_t rows = 0;
  std::int64_t valid = 0;
  std::int64_t position = 0;
  std::int64_t stride = 1;
  std::int64_t row_step = 1;
};

// The same tokens, `by` rows further down in another buffer.
std::vector<TokenRun> shifted(std::span<const TokenRun> runs, std::int64_t by);

// contiguous: rank p holds positions [p n, (p+1) n) of a sequence padded to P n.
// zigzag (dual chunk; TransformerEngine, zhuzilin/ring-flash-attention): the sequence is cut in 2P chunks,
//   rank p holds chunk p, then chunk 2P-1-p, so that causal work is equal.
// striped (Brandon et al. 2023): rank p holds positions p, p + P, p + 2P, ...
// stream (token stream): all sequences, one after the other, are cut in P shares of equal size; the rows that
//   this adds, fewer than P, lie at the very end. Sequences begin and end anywhere in a rank.
// hybrid (Megatron-LM's hybrid context parallelism, with groups of one or all ranks,
//   NVIDIA/Megatron-LM#2054): sequence b lies whole on rank homes[b], as padded as it is, or is cut as in
//   zigzag where that is -1. A rank with fewer rows than others gets the missing ones at its end.
// balanced, dynamic: as Parallel::pieces says. A rank with fewer rows gets the missing ones as in hybrid.
// Keys that are everywhere (Parallel::keys_everywhere) lie whole on every rank, as padded as they are.
// Several sequences lie one after the other. A padded length that is no multiple of P (zigzag: 2P) is
// rounded up; the added rows are padding and appear in no file and in no result.
class Placement {
 public:
  // The sequences b = replica, replica + replicas, ...
  Placement(const Problem&, const Parallel&, std::string_view placement, int replica,
            Side side = Side::queries);

  std::int64_t rows() const { return rows_; }  // local rows, the same on every rank of the group
  std::span<const TokenRun> runs(int position) const;
  // How many rows of a run are said to be tokens, of a sequence that has so many runs on all ranks together.
  using Claim = std::function<std::int64_t(const TokenRun&, std::int64_t runs)>;
  // For faults, wrong counts of tokens. True if that changed anything.
  bool claim_valid(const Claim&);
  // Rows added to sequences by rounding up, and to ranks so that all have equally many.
  std::int64_t padding_tokens() const { return padding_tokens_; }

 private:
  // The sequences of the replica, with their tokens of one side.
  struct Sequence {
    std::size_t number = 0;
    std::int64_t length = 0, padded = 0, first_at = 0;
  };
  void lay_sequences(std::span<const Sequence>, const Parallel&, std::string_view placement);
  void lay_stream(std::span<const Sequence>, std::int64_t ranks);
  void lay_pieces(std::span<const Sequence>, const Parallel&);
  void lay_everywhere(std::span<const Sequence>);
  void fill_up(std::span<const std::int64_t> held, std::int64_t sequence, std::int64_t behind);
  std::int64_t rows_ = 0;
  std::int64_t padding_tokens_ = 0;
  std::vector<std::vector<TokenRun>> runs_;  // by position
};

}  // namespace cplab

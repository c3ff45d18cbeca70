// Sums that an algorithm builds tile by tile: the softmax sum of partial results (spec of the three merges:
// FlashAttention-2's online softmax; TransformerEngine's deferred correction), and sums whose rows are stored
// by the first write and added to by later ones.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/core/scope.hpp"

namespace cplab {

// incremental: each tile is rounded to nominal and merged after the next one is computed. deferred: all tiles
// are kept, their LSEs folded at once, the outputs scaled and added at the end. fused: the attention kernel
// merges.
enum class MergeKind : std::uint8_t { incremental, deferred, fused };

struct SoftmaxSumOptions {
  static constexpr std::int64_t all = INT32_MAX;
  MergeKind merge = MergeKind::incremental;
  std::int64_t slots = 2;  // partial results kept: 1, 2, or `all` (deferred: all; fused: not used)
  bool wide = true;        // accumulate in fp32, else in the problem's dtype
};

// Sums tiles of the scope's queries into out [rows, heads, E] and lse [rows, heads, 1].
class SoftmaxSum {
 public:
  // `tile_rows`: number of query rows of every tile to come, in order; the first tile covers all rows: the
  // sink, where there is one, counts in that tile.
  SoftmaxSum(const Scope&, SoftmaxSumOptions, const Box& out, const Box& lse,
             const std::vector<std::int64_t>& tile_rows, const Box& sink = {});
  // Emits one tile; q, k, v are its operands, `rows` the local rows that q holds; max_logit and mask as in
  // Builder.
  void attend(Lane, const Box& q, const Box& k, const Box& v, const Rows& rows, const std::vector<Segment>&,
              const Box& max_logit = {}, const Builder::PairMask& mask = {});
  // Merges a partial result that was computed elsewhere, of those rows; absent: none. Behind the first tile,
  // and not in a deferred merge.
  void merge(Lane, const Box& part_out, const Box& part_lse, const Rows& rows);
  void finish(Lane);

 private:
  struct Partial {  // the result of one tile, until it is merged
    Lane lane;
    Rows rows;
    Box out, lse;
  };
  bool goes_straight() const;  // the next tile is not kept but written into the sum
  void fold(const Partial&, bool first);

  Builder& b_;
  SoftmaxSumOptions options_;
  Box out_, lse_, sum_, sink_;
  bool wide_ = false;
  Box out_parts_, lse_parts_;
  std::int64_t slots_ = 0;
  std::int64_t rows_kept_ = 0;
  std::size_t tiles_ = 0;
  std::vector<Partial> kept_;
};

// Buffers are not zeroed: what touches a row first stores it, everything later adds to it.
class FirstTouch {
 public:
  // The mode of a write to these rows, which count as touched from then on. store: none was touched before.
  // add: all are defined, those that were new have been filled with 0 (on `lane`, in `sum`).
  WriteMode touch(Builder&, Lane, const Box& sum, const Rows& rows);
  // Fills the first `rows` rows with 0, before any is touched.
  void clear(Builder&, Lane, const Box& sum, std::int64_t rows);
  // Fills with 0 what has not been touched of the first `rows` rows.
  void finish(Builder&, Lane, const Box& sum, std::int64_t rows);

 private:
  Rows touched_;
};

}  // namespace cplab

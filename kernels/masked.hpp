// The tile operations whose logits are more than scale q.k: those of kernels.hpp with an additive bias, a
// softcap and, in dynamic mask attention (Flash-DMA, csrc/flash_sparse_attn/src), a keep mask, under the same
// contract.
//
//   z = scale q.k + bias     x = softcap tanh(z / softcap), or z     a pair counts where keep is not 0
//
// A bias of positions is a formula of t - p, the position of the key less that of the query:
//   alibi    -slope |t - p|, a slope for every query head
//   buckets  table[query head, bucket of |t - p|]; later keys, t > p, have columns of their own where both
//            kinds are seen
// Stored biases and keep come in one of two forms, both alike:
//   keys   [nk, heads, 1]        one number for each key
//   full   [nq, heads, columns]  one for each pair; `columns` says which column each row of k has
// Their heads divide the query heads: query head h reads head h / (H / heads). A row without a kept key gives
// out = 0, lse = -inf and no gradient. What bias and keep hold for pairs that count for nothing never reaches
// a result. Blocks of a tile without a pair that counts are skipped; that changes no bit.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "kernels/kernels.hpp"

namespace cplab::kernels {

// Any of the views may be absent: no bias, all kept.
struct PairMask {
  std::optional<View> bias, keep;
  // full: of all rows of k together, in their order; empty: keys. A bias of positions: the positions of the
  // rows of k, then of those of q.
  std::span<const RowRun> columns;
  double softcap = 0;  // 0: none
  // Of a bias of positions: alibi, one slope for each query head; buckets, the table [1, heads, buckets] and
  // from which distance on a key is in bucket 1, 2, ...; both_ways: with that of an earlier key at distance
  // d, a later one's bucket is half of the columns further on.
  std::span<const double> slopes = {};
  std::optional<View> table = {};
  std::span<const std::int64_t> starts = {};
  bool both_ways = false;

  bool placed() const { return !slopes.empty() || table; }
};

struct MaskedAttend {
  Attend tile;  // without max_logit
  PairMask mask;
};

struct MaskedAttendBackward {
  AttendBackward tile;
  PairMask mask;
  // Of the form of the table, in the dtype of sums, added to: dz summed by bucket.
  std::optional<View> dtable = {};
  // Of the form of the bias: dz = dS (1 - tanh^2(z / softcap)), summed over what shares a bias, in the dtype
  // of sums. store: elements without a contribution become 0; add: they stay bit-identical.
  std::optional<View> dbias = {};
  Write write_dbias = Write::store;
};

// Which keys are kept by their biases: a step before attention, over all keys of a sequence
// (flash_sparse_attn/utils/mask.py). Bias and keep are of one shape. full: a selection for each row and head,
// among the first `keys` columns; the other columns of keep become 0. Else [keys, heads, 1]: one for each
// head. keep becomes 1 or 0:
//   top_k  the largest `top_k`; of equal ones the first, and +0 equals -0. A bias of -inf is never selected,
//          NaN is above all others, so that it reaches the result. All keys where there are no more than
//          top_k.
//   relu   those above 0
// block > 1: then the keys in groups of so many, the last may be shorter, are kept whole where more than half
// of a group was selected, else dropped whole; not where top_k keeps all.
struct SelectKeys {
  enum class Rule : std::uint8_t { top_k, relu };
  View bias, keep;
  bool full = false;
  std::int64_t keys = 0;
  Rule rule = Rule::top_k;
  std::int64_t top_k = 0, block = 0;
};

// Throws std::invalid_argument, before anything is written, if shapes, columns or modes do not fit together.
void check_call(const MaskedAttend&);
void check_call(const MaskedAttendBackward&);
void check_call(const SelectKeys&);

// The table a device offers.
struct MaskedTiles {
  void (*attend)(const MaskedAttend&);
  void (*attend_backward)(const MaskedAttendBackward&);
};

// Correct tiles on the CPU (Eigen). Each throws std::invalid_argument as check_call does.
const MaskedTiles& cpu_masked_tiles();

// Those tiles alone. skips = false computes every block, to show that it makes no difference.
void masked_attend_cpu(const MaskedAttend&, bool skips = true);
void masked_attend_backward_cpu(const MaskedAttendBackward&, bool skips = true);
void select_keys_cpu(const SelectKeys&);

}  // namespace cplab::kernels

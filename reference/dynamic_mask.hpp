// Attention whose logits are more than scale q.k, and its gradients, in double, the yardstick of `verify`:
// biases, softcaps, and dynamic masks as Flash-DMA has them (csrc/flash_sparse_attn/src; selection:
// flash_sparse_attn/utils/mask.py). Two passes over fully formed rows of scores, every key looked at, none
// skipped.
//
//   z_ij = scale q_i.k_j + b_ij        x_ij = softcap tanh(z_ij / softcap), or z_ij without a softcap
//   p_ij = exp(x_ij - lse_i) over the keys that query i sees (mask, window) and that are kept
//   out_i = sum_j p_ij v_j             lse_i = log(sum_j exp(x_ij) + exp(sink))
//   dz_ij = p_ij (dout_i.v_j - sum_n p_in dout_i.v_n) (1 - tanh^2(z_ij / softcap))
//   dv_j = sum_i p_ij dout_i           dq_i = scale sum_j dz_ij k_j          dk_j = scale sum_i dz_ij q_i
//   db = dz, summed over the axes along which b is broadcast: heads of one bias head, queries (keys form)
//
//   dsink as in dense_attention.hpp
//
// A row without a kept key has out = 0, lse = -inf, or where there are sinks its head's, and no gradient.
// None goes through the selection. Positions, of which a bias may be a formula, are those of keys: query i of
// keys of its own stands at i + first_at.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "reference/dense_attention.hpp"

namespace cplab::reference {

// full: [S, bias heads, columns], column j is key j. keys: [N, bias heads], one number for each key. alibi:
// -slope |j - i - first_at|, a slope for each query head (Press et al. 2021). buckets: a table [H, columns],
// of which key j has for query i the column that T5's _relative_position_bucket (transformers,
// modeling_t5.py) gives: with n columns, half of them where both_ways, n/2 hold one distance each and the
// rest grow in proportion to max_distance; where both_ways later keys take the other half.
enum class BiasForm : std::uint8_t { none, full, keys, alibi, buckets };
// top_k: the largest `top_k` of a row of biases, all keys of the sequence counting, those included that the
// mask hides; among equal ones the first. All keys where there are no more. relu: those above 0.
enum class KeepRule : std::uint8_t { none, top_k, relu };

struct Selection {
  KeepRule rule = KeepRule::none;
  std::int64_t top_k = 0;
  // The keys in groups of so many (the last may be shorter): a group is kept whole if more than half of it
  // was selected, else dropped whole. 0 or 1: as selected. Rows that keep all keys are left alone.
  std::int64_t block = 0;
};

// Which of a row's keys are kept, 1 or 0. Biases of minus infinity are never selected.
std::vector<char> kept_keys(const Selection&, std::span<const double> biases);

struct DynamicMaskShape {
  AttentionShape attention;
  BiasForm form = BiasForm::none;
  std::int64_t bias_heads = 0;  // divides H
  std::int64_t columns = 0;     // full: of a row of biases, N at least; buckets: of the table
  Selection selection;
  double softcap = 0;                               // 0: none
  std::span<const double> sinks = {}, slopes = {};  // [H]; no sinks: none; alibi's
  std::int64_t max_distance = 0;                    // buckets
  bool both_ways = false;

  // The bias of key j for query i of query head h, and where of the stored ones (full, keys, buckets) it is.
  double bias_of(std::span<const double> bias, std::int64_t i, std::int64_t h, std::int64_t j) const;
  std::size_t index_of(std::int64_t i, std::int64_t h, std::int64_t j) const;
  bool has_numbers() const { return form != BiasForm::none && form != BiasForm::alibi; }
};

struct DynamicMaskResult {
  AttentionResult attention;  // max_logit is empty
  std::vector<double> dbias;  // as bias; 0 in columns that are no keys; empty without dout or bias
};

// One sequence; `bias` empty where the form has no numbers; q, k, v, dout as for dense_attention. Throws
// std::invalid_argument if a size does not fit.
DynamicMaskResult dynamic_mask_attention(const DynamicMaskShape& shape, std::span<const double> q,
                                         std::span<const double> k, std::span<const double> v,
                                         std::span<const double> bias, std::span<const double> dout = {},
                                         const std::function<void(std::int64_t heads_done)>& after_head = {});

// By key, 1 or 0: query i sees it (mask, window) and it is kept; `kept` is what kept_keys gives for the row,
// empty: all.
std::vector<char> live_keys(const VisibleKeys&, std::int64_t keys, std::int64_t i,
                            std::span<const char> kept);

}  // namespace cplab::reference

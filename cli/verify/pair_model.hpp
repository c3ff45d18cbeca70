// What the model of expected errors (tolerance.hpp) needs to know of a row whose logits are more than scale
// q.k: which keys count, their logits with bias and softcap, and what these add to the errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reference/dynamic_mask.hpp"

namespace cplab {

class PairModel {
 public:
  // Arguments as for reference::dynamic_mask_attention, and its result's dbias. All outlive the model.
  PairModel(const reference::DynamicMaskShape&, std::span<const double> bias, std::span<const double> dbias);

  std::span<const double> dbias() const { return dbias_; }
  // The bias has a number for each pair or key; or a table of them, of so many columns.
  bool has_bias() const { return shape_.has_numbers() && !has_table(); }
  bool has_table() const { return shape_.form == reference::BiasForm::buckets; }
  std::int64_t columns() const { return shape_.columns; }
  bool of_keys() const { return shape_.form == reference::BiasForm::keys; }
  bool selects() const { return shape_.selection.rule != reference::KeepRule::none; }

  // The row of query i and head h; `first`: the key that j below counts from. Keys that the mask hides are
  // not to be asked for.
  void begin_row(std::int64_t i, std::int64_t h, std::int64_t first);
  bool counts(std::int64_t j) const { return kept_.empty() || kept_[at(j)] != 0; }
  std::size_t index(std::int64_t j) const;  // of the bias
  float capped(std::int64_t j, double logit) const;
  // The variance that bias and softcap add to the relative one of p; f2: of one rounding.
  double more_variance(std::int64_t j, double logit, double of_p, double f2);
  // dx/dz, and the variance of its error; of keys for which more_variance was asked.
  double slope(std::int64_t j) const { return slope_[at(j)]; }
  double slope_variance(std::int64_t j) const { return slope_variance_[at(j)]; }

 private:
  std::size_t at(std::int64_t j) const { return static_cast<std::size_t>(first_ + j); }
  double bias(std::int64_t j) const { return shape_.bias_of(bias_, i_, h_, first_ + j); }

  const reference::DynamicMaskShape& shape_;
  std::span<const double> bias_, dbias_;
  std::int64_t i_ = 0, h_ = 0, first_ = 0;
  std::vector<char> kept_;  // empty: all
  std::vector<double> slope_, slope_variance_;
};

}  // namespace cplab

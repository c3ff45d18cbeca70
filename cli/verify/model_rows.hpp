// What the model of expected errors (tolerance.hpp) knows of rows: of each query by itself, and of what its
// pairs with some keys weigh.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cli/verify/model_scratch.hpp"
#include "cli/verify/pair_model.hpp"
#include "cli/verify/pair_weights.hpp"
#include "cli/verify/roundings.hpp"
#include "reference/dense_attention.hpp"
#include "reference/products.hpp"

namespace cplab {

// What is known of the row of query i and head h before its pairs: variances of its p that are one for all of
// them, through the sum of p, the stored lse and merges; of delta.
struct RowModel {
  double lse = 0, t2 = 0, dout_norm2 = 0, delta = 0;
  double sum_variance = 0, lse_variance = 0, merge_variance = 0, delta_variance = 0;
  double logit_bound2 = 0;  // max ||q_i||^2 ||k_j||^2 over the keys it sees
  bool live = false;        // it sees a key that counts

  double of_all() const { return sum_variance + lse_variance + merge_variance; }
};

// Sizes that weights and squares are divided by, so that they are floats near 1: of the elements of each
// tensor the largest, of dp what follows.
struct PairUnits {
  double q = 1, k = 1, v = 1, dout = 1, dp = 1;
};

// What the model is made of, as expected_errors has it; `pairs` is null where logits are scale q.k. All
// outlive it.
struct ModelInputs {
  DType dtype;
  const PlanRoundings& roundings;
  const reference::AttentionShape& shape;
  std::span<const double> q, k, v, dout;
  const reference::AttentionResult& right;
  const PairModel* pairs;
  std::span<const double> sinks;  // none: the problem has none
};

class ModelRows {
 public:
  explicit ModelRows(const ModelInputs&);

  RowModel begin_row(std::int64_t i, std::int64_t h) const;
  // From scores of keys `first` on to p, of the keys that the row sees and that count; the others get 0.
  // Fills the worker's variances and slopes.
  PairRow weigh_row(const RowModel& row, std::int64_t i, std::int64_t h, std::int64_t first,
                    std::int64_t count, float* p, const float* dp, ModelScratch& scratch) const;

  // Of a row of a [S, heads, width] or [N, heads, width] tensor, one head.
  static const double* row_of(std::span<const double> tensor, std::int64_t i, std::int64_t heads,
                              std::int64_t head, std::int64_t width) {
    return &tensor[as_index((i * heads + head) * width)];
  }
  reference::Rows<const double> rows_of(std::span<const double> tensor, std::int64_t heads, std::int64_t head,
                                        std::int64_t width, std::int64_t first, std::int64_t count) const {
    return {row_of(tensor, first, heads, head, width), count, width, heads * width};
  }

  std::int64_t group_of(std::int64_t h) const { return h / (in.shape.H / in.shape.G); }

  // Query heads of a key head.
  double group() const { return static_cast<double>(in.shape.H) / static_cast<double>(in.shape.G); }

  const ModelInputs in;
  const reference::VisibleKeys visible;

 protected:
  // e^2 and f^2, the square of underflow(), N.
  double e2_, f2_, tiny2_, keys_;
  PairUnits unit_;
  const reference::Products& products_ = reference::products();

 private:
  void measure();
  void cap_row(std::int64_t begin, std::int64_t end, float* p, ModelScratch& scratch) const;

  std::vector<double> k_mean_square_, k_norm2_;  // [G,D], [G,N]
  std::vector<float> v_norm2_;                   // [G,N], in its unit
};

}  // namespace cplab

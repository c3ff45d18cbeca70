// See projected_keys.hpp.
#include "cli/verify/projected_keys.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cli/verify/made_operands.hpp"
#include "cli/verify/rounding_errors.hpp"

namespace cplab {
namespace {

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

// Inputs whose every number is squared: sums of them are of squares of terms.
struct SquaredInputs {
  std::vector<double> latent, rope_key, key_weights, value_weights;
  explicit SquaredInputs(const reference::LatentInputs& in)
      : latent(squares(in.latent)),
        rope_key(squares(in.rope_key)),
        key_weights(squares(in.key_weights)),
        value_weights(squares(in.value_weights)) {}
  reference::LatentInputs inputs() const { return {latent, rope_key, key_weights, value_weights}; }
};

}  // namespace

ProjectedKeys::ProjectedKeys(const Problem& p, const reference::LatentInputs& inputs)
    : dtype_(p.dtype), in_(inputs) {
  shape_ = {static_cast<std::int64_t>(inputs.latent.size()) / p.kv_latent,
            p.heads,
            p.kv_latent,
            p.rope_size,
            p.projected_size(),
            p.value_size};
  keys_ = reference::project(shape_, in_);
  const SquaredInputs squared(in_);
  reference::LatentKeys terms = reference::project(shape_, squared.inputs());
  // Rope keys are copied: there is no sum.
  for (std::size_t i = 0; i < terms.k.size(); ++i)
    if (static_cast<std::int64_t>(i) % p.head_size >= p.projected_size()) terms.k[i] = 0;
  const double of_result = sum(squares(keys_.k)) + sum(squares(keys_.v));
  const double ratio = of_result > 0 ? (sum(terms.k) + sum(terms.v)) / of_result : 1;
  const double e2 = rounding_variance(dtype_), f2 = std::min(e2, rounding_variance(DType::fp32)),
               of_sum = f2 * static_cast<double>(p.kv_latent) / 4;
  errors_.own = e2 + of_sum;
  errors_.average = errors_.own + of_sum * ratio;
  errors_.k = std::move(terms.k), errors_.v = std::move(terms.v);
  for (std::vector<double>* of : {&errors_.k, &errors_.v})
    for (double& variance : *of) variance *= of_sum;
}

void ProjectedKeys::go_back(const PlanRoundings& roundings, Expected& expected) const {
  const ExpectedTensor &dk = expected.at("dk"), &dv = expected.at("dv");
  const SquaredInputs squared(in_);
  reference::LatentGradients right = reference::latent_gradients(shape_, in_, dk.right, dv.right);
  reference::LatentGradients variance =
      reference::latent_gradients(shape_, squared.inputs(), dk.error.variance, dv.error.variance);
  reference::LatentGradients terms =
      reference::latent_gradients(shape_, squared.inputs(), larger_squares(dk), larger_squares(dv));
  expected["dlatent"] =
      result_of_sums(dtype_, std::move(right.dlatent), std::move(variance.dlatent), std::move(terms.dlatent),
                     shape_.H * (shape_.X + shape_.E), roundings.dlatent);
  expected["drope_key"] = result_of_sums(dtype_, std::move(right.drope_key), std::move(variance.drope_key),
                                         std::move(terms.drope_key), shape_.H, roundings.dlatent);
  expected["dkey_weights"] =
      result_of_sums(dtype_, std::move(right.dkey_weights), std::move(variance.dkey_weights),
                     std::move(terms.dkey_weights), shape_.S + summed_over_ranks, {});
  expected["dvalue_weights"] =
      result_of_sums(dtype_, std::move(right.dvalue_weights), std::move(variance.dvalue_weights),
                     std::move(terms.dvalue_weights), shape_.S + summed_over_ranks, {});
}

}  // namespace cplab

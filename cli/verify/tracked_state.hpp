// A state of linear attention on its way from token to token, with what is known of its error:
// linear_tolerance.hpp has the formulas.
#pragma once

#include <cstdint>
#include <vector>

namespace cplab {

// Variances of one rounding to the accumulation dtype, and, where rows of keys are rounded before they are
// summed, to nominal; of kernels over blocks of tokens also of the products k S of delta rules.
struct StateRoundings {
  double sums = 0;    // f^2
  double rows = 0;    // e^2 times the roundings that a row goes through, or 0
  double erased = 0;  // e^2, or 0
  double block = 1;   // tokens whose logarithms are summed before exp: the sum is as inexact as it is large
};

// What a token does to a state that passes it: its D factors, and for a delta rule its key and strength.
struct TokenTransition {
  const double* log_factors = nullptr;  // [D]
  const double* k = nullptr;            // [D]; null: no delta rule
  double beta = 1;
  const double* k_variance = nullptr;  // [D], of errors that the key has; null: none
};

// Variances of errors that the factors of an outer product have; null: none.
struct FactorErrors {
  const double *a = nullptr, *b = nullptr;
};

// [D,E] each, zero at first.
class TrackedState {
 public:
  TrackedState(std::int64_t D, std::int64_t E, const StateRoundings& roundings);

  std::vector<double> value, terms, peak, variance;

  // value = factor value + a^T b, with one factor exp(-slope).
  void advance(double factor, double slope, const double* a, const double* b, const FactorErrors& = {});
  // value = T value (or T^T value).
  void pass(const TokenTransition& token);
  void pass_transposed(const TokenTransition& token);
  void add_outer(double strength, const double* a, const double* b, const FactorErrors& = {});

  // k S, [E], of the last delta rule that it passed.
  const std::vector<double>& along() const { return along_; }

  // Everything decayed once more.
  TrackedState decayed(double factor) const;

  // Sums with squares of `reader` as weights, which may have errors of their own: over the D rows (into E
  // numbers each) ...
  struct Sums {
    std::vector<double> variance, peak, terms;
  };
  void over_rows(const double* reader, Sums& sums, const double* reader_variance = nullptr) const;
  // ... and over the E columns (into D numbers each).
  void over_columns(const double* reader, Sums& sums, const double* reader_variance = nullptr) const;

  std::int64_t D() const { return D_; }
  std::int64_t E() const { return E_; }

 private:
  void scale_rows(const double* log_factors);
  void add_factor_errors(double strength, const double* a, const double* b, const FactorErrors&);
  void reflect(const TokenTransition&);  // times I - beta k^T k, which is its own transpose

  std::int64_t D_, E_;
  StateRoundings roundings_;
  std::vector<double> along_, along_variance_, along_terms_, along_peak_, along_value_;  // [E]
};

}  // namespace cplab

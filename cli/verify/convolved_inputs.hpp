// Q, K and V of one sequence behind their convolution: what they are, how far off they may be, and what
// becomes of right gradients of them and their errors (linear_tolerance.hpp has the model).
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "cli/verify/expected.hpp"
#include "cli/verify/linear_tolerance.hpp"
#include "reference/short_convolution.hpp"

namespace cplab {

class ConvolvedInputs {
 public:
  // Rows of one sequence [S,H,D] and factors [H,D,W], of Q, K and V.
  struct Rows {
    std::span<const double> rows, factors;
  };
  ConvolvedInputs(const Problem&, std::int64_t tokens, const std::array<Rows, 3>& of);

  // Puts what they are into the inputs; `errors()` says how far off.
  void take(reference::LinearInputs&) const;
  const MadeRows& errors() const { return errors_; }
  // Gradients of Q, K and V become those of the rows, and those of the factors join them.
  void go_back(Expected&) const;
  // What a sequence without tokens adds to the factors' gradients.
  static void without_tokens(const Problem&, Expected&);

 private:
  DType dtype_;
  std::array<Rows, 3> in_;
  std::array<reference::ConvolutionShape, 3> shapes_;
  std::array<std::vector<double>, 3> made_;
  MadeRows errors_;
};

}  // namespace cplab

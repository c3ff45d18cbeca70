// The short convolution before Q, K and V (Problem::convolution), around any algorithm of linear attention. A
// token's row takes the W - 1 rows before it: where a piece of a sequence begins in a rank, these rows, its
// halo, come from the ranks that hold them, in one exchange for Q, K and V. The backward is the same from
// right to left: the gradients of the first W - 1 rows behind a piece come from the ranks that hold these, so
// that each row's gradient, and what it adds to the factors' gradients, is summed where the row lies. (Sums
// of the halo's gradients could travel home instead, as in flash-linear-attention: the same bytes, but one
// more rounding of each of these rows, and the halo of the inputs kept for the backward.)
#pragma once

#include <string_view>
#include <vector>

#include "algorithms/core/redistribution.hpp"
#include "algorithms/linear/linear.hpp"

namespace cplab {

class WithConvolution final : public LinearAlgorithm {
 public:
  WithConvolution(const Scope& whole, LinearAlgorithm& inner) : s_(whole), inner_(inner) {}
  void forward(const LinearTensors&) override;
  void backward(const LinearTensors&) override;
  Lane comm() const override { return inner_.comm(); }

 private:
  // Rows that lie beside this rank's pieces, of Q and of K and V or of their gradients.
  struct Halo {
    Box q, kv;
    std::vector<Chunk> chunks;  // of this rank, which name them
  };
  Halo exchanged(const Box& q, const Box& kv, bool behind) const;
  void convolve(const Box& from, const Box& filter, const Box& halo, const Box& into,
                const std::vector<Chunk>& chunks, bool reverse) const;

  const Scope& s_;
  LinearAlgorithm& inner_;
  Builder& b_ = s_.b;
  Box q_, kv_;  // convolved
};

}  // namespace cplab

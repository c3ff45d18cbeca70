// Latent keys and values (MLA; DeepSeek-V2, arXiv 2405.04434) in softmax algorithms: what every token has in
// the place of K and V, and what every rank holds to make these of it.
#pragma once

#include "algorithms/core/builder.hpp"

namespace cplab {

// rows: [rows, 1, kv_latent + rope_size], the rope key behind; the weights of all query heads. All absent
// where K and V are inputs.
struct Latents {
  Box rows = {};
  Builder::Weights weights = {};
  bool given() const { return rows.given(); }
};
struct LatentGradients {
  Box rows = {};
  Builder::Weights weights = {};  // of this rank's share of the pairs, until they are summed over the ranks
};

// A buffer of latents or of their gradients.
Box latent_buffer(Builder&, std::string_view name, Role, Category, std::int64_t slots, std::int64_t rows);

// The problem's inputs and outputs, declared; absent where it has none.
Latents declare_latents(Builder&, std::int64_t rows);
LatentGradients declare_latent_gradients(Builder&, std::int64_t rows);

}  // namespace cplab

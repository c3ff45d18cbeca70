// See latents.hpp.
#include "reference/latents.hpp"

#include <algorithm>
#include <cstddef>

#include "reference/products.hpp"

namespace cplab::reference {
namespace {

std::vector<double> zeros(std::int64_t count) {
  return std::vector<double>(static_cast<std::size_t>(count), 0);
}

// Head h of [S, H, width], from that column on.
template <class T>
Rows<T> head(T* data, const LatentShape& s, std::int64_t h, std::int64_t width, std::int64_t cols) {
  return {data + h * width, s.S, cols, s.H * width};
}

template <class T>
Rows<T> weights(T* data, const LatentShape& s, std::int64_t h, std::int64_t cols) {
  return {data + h * s.C * cols, s.C, cols, cols};
}

}  // namespace

LatentKeys project(const LatentShape& s, const LatentInputs& in) {
  const std::int64_t D = s.X + s.R;
  LatentKeys made{zeros(s.S * s.H * D), zeros(s.S * s.H * s.E)};
  const Rows<const double> latents{in.latent.data(), s.S, s.C, s.C};
  for (std::int64_t h = 0; h < s.H; ++h) {
    products().add(latents, weights(in.key_weights.data(), s, h, s.X), head(made.k.data(), s, h, D, s.X));
    products().add(latents, weights(in.value_weights.data(), s, h, s.E), head(made.v.data(), s, h, s.E, s.E));
    for (std::int64_t i = 0; i < s.S; ++i)
      std::copy_n(in.rope_key.data() + i * s.R, s.R, made.k.data() + (i * s.H + h) * D + s.X);
  }
  return made;
}

LatentGradients latent_gradients(const LatentShape& s, const LatentInputs& in, std::span<const double> dk,
                                 std::span<const double> dv) {
  const std::int64_t D = s.X + s.R;
  LatentGradients sums{zeros(s.S * s.C), zeros(s.S * s.R), zeros(s.H * s.C * s.X), zeros(s.H * s.C * s.E)};
  const Rows<const double> latents{in.latent.data(), s.S, s.C, s.C};
  std::vector<double> part = zeros(s.S * s.C);
  const auto add = [&](Rows<const double> gradients, Rows<const double> of_head, Rows<double> of_weights) {
    products().store_with_transposed(gradients, of_head, {part.data(), s.S, s.C, s.C});
    for (std::size_t i = 0; i < part.size(); ++i) sums.dlatent[i] += part[i];
    products().add_of_transposed(latents, gradients, of_weights);
  };
  for (std::int64_t h = 0; h < s.H; ++h) {
    add(head(dk.data(), s, h, D, s.X), weights(in.key_weights.data(), s, h, s.X),
        weights(sums.dkey_weights.data(), s, h, s.X));
    add(head(dv.data(), s, h, s.E, s.E), weights(in.value_weights.data(), s, h, s.E),
        weights(sums.dvalue_weights.data(), s, h, s.E));
    for (std::int64_t i = 0; i < s.S; ++i)
      for (std::int64_t x = 0; x < s.R; ++x)
        sums.drope_key[static_cast<std::size_t>(i * s.R + x)] +=
            dk[static_cast<std::size_t>((i * s.H + h) * D + s.X + x)];
  }
  return sums;
}

}  // namespace cplab::reference

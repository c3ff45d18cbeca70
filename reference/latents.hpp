// Keys and values that are made of latents (MLA), in double, and the way back of their gradients, of one
// sequence: k[h] = [c W_k[h], r] and v[h] = c W_v[h], with the latent c and the rope key r of each token.
// dc = sum_h dk[h] W_k[h]^T + dv[h] W_v[h]^T and dr = sum_h dk[h], of the columns that each is in;
// dW_k[h] = c^T dk[h] and dW_v[h] = c^T dv[h].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cplab::reference {

struct LatentShape {
  std::int64_t S = 0, H = 0;  // tokens, heads
  std::int64_t C = 0, R = 0;  // columns of a latent and of a rope key
  std::int64_t X = 0, E = 0;  // columns of K that the weights make (K has X + R), and of V
};

// weights: [H,C,X] and [H,C,E]. All in C order.
struct LatentInputs {
  std::span<const double> latent, rope_key;  // [S,C], [S,R]
  std::span<const double> key_weights, value_weights;
};

struct LatentKeys {
  std::vector<double> k, v;  // [S,H,X+R], [S,H,E]
};
LatentKeys project(const LatentShape&, const LatentInputs&);

struct LatentGradients {
  std::vector<double> dlatent, drope_key, dkey_weights, dvalue_weights;
};
LatentGradients latent_gradients(const LatentShape&, const LatentInputs&, std::span<const double> dk,
                                 std::span<const double> dv);

}  // namespace cplab::reference

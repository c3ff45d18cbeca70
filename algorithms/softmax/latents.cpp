// Buffers of latents, and K and V that travel as such; see latents.hpp, WithProjection in softmax.hpp.
#include "algorithms/softmax/latents.hpp"

#include "algorithms/core/options.hpp"
#include "algorithms/softmax/softmax.hpp"

namespace cplab {

namespace {

bool has_latent(const Problem& p) {
  return p.has_latent();
}

}  // namespace

OptionInfo travels_option() {
  OptionInfo travels = word_option("travels", {"kv", "latent"},
                                   "K and V of each rank's rows, projected once, or the latents, which every "
                                   "rank projects that reads them");
  travels.serves = {has_latent, "latent keys and values (problem.kv_latent)"};
  return travels;
}

Box latent_buffer(Builder& b, std::string_view name, Role role, Category category, std::int64_t slots,
                  std::int64_t rows) {
  const Problem& p = b.problem();
  return b.buffer({name, role, category, slots, rows, 1, p.kv_latent + p.rope_size, p.kv_latent});
}

Latents declare_latents(Builder& b, std::int64_t rows) {
  const Problem& p = b.problem();
  if (!p.has_latent()) return {};
  const auto weights = [&](std::string_view name, std::int64_t width) {
    return b.buffer({name, Role::nominal, Category::input, 1, 1, p.heads, p.kv_latent * width});
  };
  const Box latents = latent_buffer(b, "latent", Role::nominal, Category::input, 1, rows);
  const Box of_keys = weights("key_weights", p.projected_size());
  return {latents, {of_keys, weights("value_weights", p.value_size)}};
}

LatentGradients declare_latent_gradients(Builder& b, std::int64_t rows) {
  const Problem& p = b.problem();
  if (!p.has_latent()) return {};
  const auto weights = [&](std::string_view name, std::int64_t width) {
    return b.buffer({name, Role::wide, Category::output, 1, 1, p.heads, p.kv_latent * width});
  };
  const Box dlatents = latent_buffer(b, "dlatent", Role::nominal, Category::output, 1, rows);
  const Box of_keys = weights("dkey_weights", p.projected_size());
  return {dlatents, {of_keys, weights("dvalue_weights", p.value_size)}};
}

Box WithProjection::projected(const Latents& latents, std::string_view name) const {
  // Of padding alone nobody need read them.
  const bool any = !token_rows(s_.keys[s_.place()].runs).empty();
  const Box kv =
      s_.kv_buffer(name, Role::nominal, any ? Category::working : Category::workspace, 1, s_.key_rows);
  if (s_.key_rows > 0) s_.b.project(compute_lane, latents.rows, latents.weights, kv);
  return kv;
}

void WithProjection::forward(const Forward& f) {
  Forward inner = f;
  inner.kv = kv_ = projected(f.latents, "kv_projected");
  inner_.forward(inner);
}

// Other layers that run between have freed K and V: they are made anew where they are read again, which costs
// a product and no memory.
void WithProjection::backward(const Backward& g) {
  Builder& b = s_.b;
  Backward inner = g;
  inner.kv = b.between_layers() && inner_.rereads_kv() ? projected(g.latents, "kv_again") : kv_;
  inner.dkv = s_.dkv_buffer("dkv_projected", Role::nominal, Category::working, 1, s_.key_rows);
  inner_.backward(inner);
  const std::vector<RowRange> tokens = token_rows(s_.keys[s_.place()].runs);
  if (s_.key_rows > 0)
    b.project_backward(compute_lane, inner.dkv, g.latents.weights, g.dlatents.rows, WriteMode::store);
  b.weight_gradient(compute_lane, g.latents.rows.rows(tokens), inner.dkv.rows(tokens), g.dlatents.weights,
                    WriteMode::store);
}

}  // namespace cplab

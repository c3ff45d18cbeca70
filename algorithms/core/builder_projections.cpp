// The builder's calls for latent keys and values.
#include "algorithms/core/builder.hpp"
#include "algorithms/core/builder_pools.hpp"

namespace cplab {

// Two for each product of a number of a row with one of the weights.
void Builder::attach_heads(Operation& op, HeadRange heads) const {
  const Problem& p = problem();
  const View& rows = plan_.views[plan_.accesses[op.reads.first].view];
  op.head_begin = static_cast<std::int32_t>(heads.begin);
  op.head_end = static_cast<std::int32_t>(heads.end);
  op.flops = 2.0 * static_cast<double>(row_count(plan_.rows_of(rows))) * static_cast<double>(p.kv_latent) *
             static_cast<double>(heads.count() * (p.projected_size() + p.value_size));
}

void Builder::project(Lane lane, const Box& latents, const Weights& weights, const Box& kv) {
  const Problem& p = problem();
  const HeadRange heads = kv.problem_heads();
  using enum Operand;
  attach_heads(
      emit_named(lane, OpKind::project,
                 {{latent, latents.columns(0, p.kv_latent)},
                  {rope_key, latents.columns(p.kv_latent, p.kv_latent + p.rope_size)},
                  {key_weights, weights.of_keys.of_problem(heads)},
                  {value_weights, weights.of_values.of_problem(heads)}},
                 {{k, kv.columns(0, p.head_size)}, {v, kv.columns(p.head_size, p.head_size + p.value_size)}}),
      heads);
}

void Builder::project_backward(Lane lane, const Box& dkv, const Weights& weights, const Box& dlatents,
                               WriteMode mode) {
  const Problem& p = problem();
  const HeadRange heads = dkv.problem_heads();
  using enum Operand;
  attach_heads(emit_named(lane, OpKind::project_backward,
                          {{dk, dkv.columns(0, p.head_size)},
                           {dv, dkv.columns(p.head_size, p.head_size + p.value_size)},
                           {key_weights, weights.of_keys.of_problem(heads)},
                           {value_weights, weights.of_values.of_problem(heads)}},
                          {{dlatent, dlatents.columns(0, p.kv_latent), mode},
                           {drope_key, dlatents.columns(p.kv_latent, p.kv_latent + p.rope_size), mode}}),
               heads);
}

void Builder::weight_gradient(Lane lane, const Box& latents, const Box& dkv, const Weights& gradients,
                              WriteMode mode) {
  const Problem& p = problem();
  const HeadRange heads = dkv.problem_heads();
  using enum Operand;
  attach_heads(emit_named(lane, OpKind::weight_gradient,
                          {{latent, latents.columns(0, p.kv_latent)},
                           {dk, dkv.columns(0, p.head_size)},
                           {dv, dkv.columns(p.head_size, p.head_size + p.value_size)}},
                          {{dkey_weights, gradients.of_keys.of_problem(heads), mode},
                           {dvalue_weights, gradients.of_values.of_problem(heads), mode}}),
               heads);
}

}  // namespace cplab

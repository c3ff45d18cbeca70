// The tensors of a softmax problem, declared once for all algorithms.
#include "algorithms/softmax/softmax.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/core/defaults.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/core/options.hpp"

namespace cplab {
namespace {

// "ring, all_gather and all_to_all"
std::string with_dynamic_masks() {
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : algorithms())
    if (algorithm.dynamic_masks) names.push_back(algorithm.name);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text.append(i == 0 ? "" : i + 1 < names.size() ? ", " : " and ").append(names[i]);
  return text;
}

// The algorithm over tensors that it takes as they are.
void run_tensors(const Scope& s, SoftmaxAlgorithm& algorithm) {
  Builder& b = s.b;
  const Problem& p = b.problem();
  using enum Category;
  const auto queries = [&](std::string_view name, Category category, std::int64_t width) {
    return s.query_buffer(name, Role::nominal, category, 1, s.rows, width);
  };
  Forward f;
  f.q = queries("q", input, p.head_size);
  f.latents = declare_latents(b, s.key_rows);
  if (!f.latents.given()) f.kv = s.kv_buffer("kv", Role::nominal, input, 1, s.key_rows);
  f.out = queries("out", output, p.value_size);
  f.lse = s.lse_buffer("lse", output, 1, s.rows);
  if (p.bias == BiasForm::full) {
    f.bias = queries("bias", input, p.pair_columns());
    if (p.keep != Keep::none) f.keep = queries("keep", input, p.pair_columns());
  }
  const auto parameter = [&](std::string_view name, Category category, std::int64_t width) {
    return b.buffer({name, Role::wide, category, 1, 1, p.heads, width});
  };
  if (p.sink) f.sink = parameter("sink", input, 1);
  if (p.bias == BiasForm::buckets) f.table = parameter("bias_table", input, p.buckets);
  MaxLogit max_logit(b);
  f.max_logit = &max_logit;
  algorithm.forward(f);
  max_logit.finish(algorithm.comm(), transport_of(b.scenario().schedule), s.team);
  if (!b.backward()) return;
  b.phase(Phase::backward);
  Backward g;
  g.q = f.q;
  g.kv = f.kv;
  g.lse = f.lse;
  g.dout = queries("dout", input, p.value_size);
  g.delta = s.lse_buffer("delta", working, 1, s.rows);
  g.dq = queries("dq", output, p.head_size);
  g.bias = f.bias;
  g.keep = f.keep;
  if (f.bias.given()) g.dbias = queries("dbias", output, p.pair_columns());
  g.table = f.table;
  if (f.table.given()) g.dtable = parameter("dbias_table", output, p.buckets);
  g.latents = f.latents;
  g.dlatents = declare_latent_gradients(b, s.key_rows);
  if (!g.latents.given()) g.dkv = s.dkv_buffer("dkv", Role::nominal, output, 1, s.key_rows);
  g.out = f.out;
  if (g.dtable.given()) b.fill(compute_lane, g.dtable, 0);
  algorithm.backward(g);
  // Gradients of parameters: this rank's rows, then all of the group's.
  const auto sum_over_ranks = [&](const Box& gradient) {
    if (s.P() > 1)
      b.all_reduce(algorithm.comm(), transport_of(b.scenario().schedule), s.team, Reduction::sum, gradient,
                   gradient);
  };
  if (f.sink.given()) {
    const Box dsink = parameter("dsink", output, 1);
    const Rows rows = rows_of_tokens(s);
    if (rows.empty())
      b.fill(compute_lane, dsink, 0);
    else
      b.sink_gradient(compute_lane, f.sink, g.lse.rows(rows), g.delta.rows(rows), dsink);
    sum_over_ranks(dsink);
  }
  if (g.dtable.given()) sum_over_ranks(g.dtable);
  if (!g.latents.given()) return;
  sum_over_ranks(g.dlatents.weights.of_keys);
  sum_over_ranks(g.dlatents.weights.of_values);
}

}  // namespace

Rows rows_of_tokens(const Scope& s) {
  Rows rows;
  for (const TokenRun& run : s.tokens[s.place()].runs)
    if (run.valid > 0) rows = rows.united(Rows::range(run.row, run.valid));
  return rows;
}

void run_whole(const Scope& s, SoftmaxAlgorithm& algorithm) {
  if (!s.b.problem().has_latent() || algorithm.projects()) return run_tensors(s, algorithm);
  WithProjection with_projection(s, algorithm);
  run_tensors(s, with_projection);
}

Box delta_by_first_tile(Builder& b, const Backward& g, bool first_has_all) {
  if (!g.out.given()) return {};
  const bool with_tile = !b.scenario().schedule.is_word("row_dot", "apart") && b.problem().has_plain_logits();
  if (first_has_all && with_tile) return g.out;
  b.row_dot(compute_lane, g.dout, g.out, g.delta);
  return {};
}

void WithQuerySum::backward(const Backward& g) {
  Builder& b = s_.b;
  const bool wide = wide_accumulator(b.scenario().schedule) && b.has_wide();
  if (!wide) return inner_.backward(g);
  const bool by_tiles = b.problem().has_plain_logits() && inner_.stores_dq_once() &&
                        defaults::tiles_round_dq(std::ranges::max(b.problem().lengths));
  Backward inner = g;
  inner.dq = s_.query_buffer("dq_sum", Role::wide, Category::working, 1, s_.rows, b.problem().head_size);
  if (by_tiles) inner.rounded_dq = g.dq;
  inner_.backward(inner);
  if (!by_tiles) b.cast(compute_lane, inner.dq, g.dq);
}

void require_softmax(const Scenario& s) {
  const bool dynamic_mask = s.problem.attention == Attention::dynamic_mask;
  const bool has_masks = find_algorithm(s.algorithm)->dynamic_masks;
  if (s.problem.attention == Attention::softmax || (dynamic_mask && has_masks)) return;
  throw ScenarioError(
      "problem.attention",
      s.algorithm + " computes softmax attention; legal here: " +
          (has_masks ? "\"softmax\", \"dynamic_mask\"" : "\"softmax\"") +
          (s.problem.attention == Attention::linear
               ? "; all_to_all, hierarchical, and those named lasp_ and affine_, compute linear attention"
               : "") +
          (dynamic_mask ? "; " + with_dynamic_masks() + " have dynamic masks" : ""));
}

}  // namespace cplab

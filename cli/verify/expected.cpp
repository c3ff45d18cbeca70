// References and their tolerances, sequence by sequence.
#include "cli/verify/expected.hpp"

#include <fmt/format.h>

#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "cli/verify/convolved_inputs.hpp"
#include "cli/verify/linear_tolerance.hpp"
#include "cli/verify/projected_keys.hpp"
#include "cli/verify/roundings.hpp"
#include "reference/dense_attention.hpp"
#include "reference/dynamic_mask.hpp"
#include "reference/linear_recurrence.hpp"

namespace cplab {

namespace {

// The rows of one sequence without its padding, from [tokens, heads, width]; none of an input that the
// problem does not have.
std::span<const double> sequence_rows(const Inputs& inputs, std::string_view name, std::int64_t first,
                                      std::int64_t count, std::int64_t row_elements) {
  const Tensor* tensor = inputs.find(name);
  if (tensor == nullptr) return {};
  return std::span<const double>(tensor->values)
      .subspan(static_cast<std::size_t>(first * row_elements),
               static_cast<std::size_t>(count * row_elements));
}

// What the dense reference gives for which output of softmax attention.
Expected by_name(reference::AttentionResult right, ExpectedErrors errors) {
  Expected expected;
  expected["out"] = {std::move(right.out), std::move(errors.out)};
  expected["lse"] = {std::move(right.lse), std::move(errors.lse)};
  expected["dq"] = {std::move(right.dq), std::move(errors.dq)};
  expected["dk"] = {std::move(right.dk), std::move(errors.dk)};
  expected["dv"] = {std::move(right.dv), std::move(errors.dv)};
  if (!right.dsink.empty()) expected["dsink"] = {std::move(right.dsink), std::move(errors.dsink)};
  expected["max_logit"] = {std::move(right.max_logit), std::move(errors.max_logit)};
  return expected;
}

Expected by_name(reference::DynamicMaskResult right, ExpectedErrors errors, std::string_view of_bias) {
  std::vector<double> dbias = std::move(right.dbias);
  ExpectedError of_dbias = std::move(errors.dbias);
  Expected expected = by_name(std::move(right.attention), std::move(errors));
  expected[of_bias] = {std::move(dbias), std::move(of_dbias)};
  return expected;
}

// What the recurrence gives for which output of linear attention. Without tokens its states are 0.
Expected by_name(reference::LinearResult right, LinearErrors errors) {
  Expected expected;
  expected["out"] = {std::move(right.out), std::move(errors.out)};
  expected["dq"] = {std::move(right.dq), std::move(errors.dq)};
  expected["dk"] = {std::move(right.dk), std::move(errors.dk)};
  expected["dv"] = {std::move(right.dv), std::move(errors.dv)};
  expected["dg"] = {std::move(right.dlog_decay), std::move(errors.dlog_decay)};
  expected["dbeta"] = {std::move(right.dbeta), std::move(errors.dbeta)};
  expected["state"] = {std::move(right.key_states), std::move(errors.key_states)};
  expected["dstate"] = {std::move(right.query_states), std::move(errors.query_states)};
  return expected;
}

// "reference of sequence 2 of 5".
std::string of_sequence(const char* what, std::size_t sequence, std::size_t sequences) {
  return sequences == 1 ? what : fmt::format("{} of sequence {} of {}", what, sequence + 1, sequences);
}

// One sequence: its number, its first token, and whom to tell.
struct SequenceJob {
  const Problem& of;
  const PlanRoundings& roundings;
  const Inputs& inputs;
  std::size_t sequence;
  std::int64_t first, first_key;
  Progress* progress;
  const SampledRows* sample = nullptr;
  std::span<const double> made_k = {}, made_v = {};  // of latents, in the place of inputs

  const Problem& problem() const { return of; }
  std::int64_t tokens() const { return problem().lengths[sequence]; }
  std::int64_t keys() const { return problem().lengths_of(Side::keys)[sequence]; }
  std::span<const double> rows(std::string_view name, std::int64_t row_elements) const {
    return sequence_rows(inputs, name, first, tokens(), row_elements);
  }
  // A parameter, which is of no token.
  std::span<const double> all(std::string_view name) const {
    const Tensor* tensor = inputs.find(name);
    return tensor == nullptr ? std::span<const double>() : std::span<const double>(tensor->values);
  }
  std::span<const double> key_rows(std::string_view name, std::int64_t row_elements) const {
    if (!made_k.empty() && name == "k") return made_k;
    if (!made_v.empty() && name == "v") return made_v;
    return sequence_rows(inputs, name, first_key, keys(), row_elements);
  }
  void stage(const char* what) const {
    if (progress)
      progress->stage(of_sequence(what, sequence, problem().lengths.size()), problem().heads, "heads");
  }
  std::function<void(std::int64_t)> after_head() const {
    if (!progress) return {};
    return [this](std::int64_t done) { progress->set_done(done, problem().heads); };
  }
};

// What is seen beside mask and window.
void take_mask(const Problem& p, std::size_t sequence, reference::AttentionShape& shape) {
  shape.chunk = p.chunk;
  shape.only_rectangles = p.only_rectangles;
  for (const MaskRectangle& r : p.rectangles_of(sequence))
    shape.rectangles.push_back(
        {r.q_begin, r.q_end, r.k_begin, r.k_end, static_cast<reference::Rectangle::Form>(r.form)});
}

// What `band`, rectangles and keys of their own let each query see.
reference::AttentionShape attention_shape(const SequenceJob& job) {
  const Problem& p = job.problem();
  const Window band = p.band();
  reference::AttentionShape shape{job.tokens(), p.heads, p.kv_heads, p.head_size,
                                  p.value_size, p.scale, band.left,  band.right};
  shape.keys = job.keys();
  shape.first_at = p.first_query_at(job.sequence);
  take_mask(p, job.sequence, shape);
  return shape;
}

// A sequence without queries, or without tokens. Gradients of keys that no query sees are 0, to the bit, and
// so is what the sequence has of those of parameters.
Expected without_queries(const Problem& p, const reference::AttentionShape& shape) {
  if (shape.keys == 0) return {};
  const auto zeros = [&](std::int64_t heads, std::int64_t rows, std::int64_t width) {
    return std::vector<double>(static_cast<std::size_t>(heads * rows * width), 0);
  };
  reference::AttentionResult right;
  ExpectedErrors exact;
  right.max_logit.assign(static_cast<std::size_t>(shape.H), -std::numeric_limits<double>::infinity());
  right.dk = zeros(shape.G, shape.N(), shape.D);
  right.dv = zeros(shape.G, shape.N(), shape.E);
  exact.max_logit.variance = exact.max_logit.terms = zeros(shape.H, 1, 1);
  exact.dk.variance = exact.dk.terms = right.dk;
  exact.dv.variance = exact.dv.terms = right.dv;
  if (p.sink) exact.dsink.variance = exact.dsink.terms = right.dsink = zeros(shape.H, 1, 1);
  Expected expected = by_name(std::move(right), std::move(exact));
  const auto also = [&](std::string_view name, std::vector<double> zero) {
    ExpectedError error{zero, zero};
    expected[name] = {std::move(zero), std::move(error)};
  };
  if (p.bias == BiasForm::keys) also("dbias", zeros(shape.G, shape.N(), 1));
  if (p.bias == BiasForm::full) also("dbias", {});
  if (p.bias == BiasForm::buckets) also("dbias_table", zeros(shape.H, p.buckets, 1));
  return expected;
}

Expected expected_softmax(const SequenceJob& job) {
  const Problem& p = job.problem();
  const reference::AttentionShape shape = attention_shape(job);
  if (shape.S == 0) return without_queries(p, shape);
  const auto q = job.rows("q", p.heads * p.head_size), k = job.key_rows("k", p.kv_heads * p.head_size);
  const auto v = job.key_rows("v", p.kv_heads * p.value_size),
             dout = job.rows("dout", p.heads * p.value_size);
  reference::RowSample of_sample;
  if (job.sample) of_sample = {job.sample->positions[job.sequence], {}, p.max_logit};
  if (job.sample && p.is_cross()) of_sample.keys = job.sample->keys[job.sequence];
  const reference::RowSample* const sample = job.sample ? &of_sample : nullptr;
  job.stage("reference");
  reference::AttentionResult right =
      reference::dense_attention(shape, q, k, v, dout, job.after_head(), sample, job.all("sink"));
  job.stage("tolerances");
  ExpectedErrors errors = expected_errors(p.dtype, job.roundings, shape, q, k, v, dout, right,
                                          job.after_head(), sample, job.all("sink"));
  return by_name(std::move(right), std::move(errors));
}

Expected expected_changed(const SequenceJob& job) {
  const Problem& p = job.problem();
  const bool full = p.bias == BiasForm::full, table = p.bias == BiasForm::buckets;
  reference::DynamicMaskShape shape;
  shape.attention = attention_shape(job);
  if (shape.attention.S == 0) return without_queries(p, shape.attention);
  shape.form = static_cast<reference::BiasForm>(p.bias);
  shape.bias_heads = full ? p.heads : p.kv_heads;
  shape.columns = full ? p.pair_columns() : table ? p.buckets : 1;
  shape.sinks = job.all("sink");
  shape.slopes = p.slopes;
  shape.max_distance = p.max_distance;
  shape.both_ways = p.band().right != 0;
  shape.selection = {static_cast<reference::KeepRule>(p.keep), p.top_k, p.block};
  shape.softcap = p.softcap;
  const auto q = job.rows("q", p.heads * p.head_size), k = job.key_rows("k", p.kv_heads * p.head_size);
  const auto v = job.key_rows("v", p.kv_heads * p.value_size),
             dout = job.rows("dout", p.heads * p.value_size);
  const auto bias = table                      ? job.all("bias_table")
                    : p.bias == BiasForm::keys ? job.key_rows("bias", shape.bias_heads)
                                               : job.rows("bias", shape.bias_heads * shape.columns);
  job.stage("reference");
  reference::DynamicMaskResult right =
      reference::dynamic_mask_attention(shape, q, k, v, bias, dout, job.after_head());
  job.stage("tolerances");
  ExpectedErrors errors =
      expected_errors(p.dtype, job.roundings, shape, q, k, v, bias, dout, right, job.after_head());
  return by_name(std::move(right), std::move(errors), table ? "dbias_table" : "dbias");
}

// One gate a head is a column's that all columns share.
reference::LinearShape shape_of_linear(const Problem& p, std::int64_t tokens) {
  using enum reference::Transition;
  const reference::Transition transition = p.transition == Transition::decay    ? decay
                                           : p.transition == Transition::matrix ? matrix
                                                                                : column;
  const bool of_heads = p.transition == Transition::head || p.gate == Gate::head;
  return {tokens,       p.heads,    p.head_size,
          p.value_size, transition, of_heads ? reference::Gate::head : reference::Gate::column};
}

Expected expected_linear(const SequenceJob& job, const std::vector<std::int64_t>& edges) {
  const Problem& p = job.problem();
  const std::int64_t of_keys = p.heads * p.head_size, of_values = p.heads * p.value_size;
  const reference::LinearShape shape = shape_of_linear(p, job.tokens());
  if (shape.S == 0) {
    reference::LinearResult none;
    none.key_states.assign(edges.size() * static_cast<std::size_t>(of_keys * p.value_size), 0);
    none.query_states = none.key_states;
    LinearErrors exact;
    exact.key_states = exact.query_states = {none.key_states, none.key_states};
    Expected expected = by_name(std::move(none), std::move(exact));
    if (p.convolves() && p.has_backward()) ConvolvedInputs::without_tokens(p, expected);
    return expected;
  }
  reference::LinearInputs in{job.rows("q", of_keys), job.rows("k", of_keys), job.rows("v", of_values)};
  in.dout = job.rows("dout", of_values);
  in.slopes = p.slopes;
  in.log_decay = job.rows("log_decay", p.heads * p.gate_columns());
  in.beta = job.rows("beta", p.heads);
  job.stage("reference");
  std::optional<ConvolvedInputs> convolved;
  if (p.convolves()) {
    using Rows = ConvolvedInputs::Rows;
    convolved.emplace(p, job.tokens(),
                      std::array{Rows{in.q, job.all("conv_q")}, Rows{in.k, job.all("conv_k")},
                                 Rows{in.v, job.all("conv_v")}});
    convolved->take(in);
  }
  reference::LinearResult right = reference::linear_recurrence(shape, in, edges, job.after_head());
  job.stage("tolerances");
  LinearErrors errors = expected_linear_errors(p.dtype, job.roundings, shape, in, edges, right,
                                               job.after_head(), convolved ? &convolved->errors() : nullptr);
  Expected expected = by_name(std::move(right), std::move(errors));
  if (convolved && p.has_backward()) convolved->go_back(expected);
  return expected;
}

Expected expected_projected(const SequenceJob& job) {
  const Problem& p = job.problem();
  if (job.tokens() == 0) return {};
  const ProjectedKeys keys(p, {job.key_rows("latent", p.kv_latent), job.key_rows("rope_key", p.rope_size),
                               job.all("key_weights"), job.all("value_weights")});
  PlanRoundings roundings = job.roundings;
  roundings.projected = &keys.errors();
  SequenceJob made{p, roundings, job.inputs, job.sequence, job.first, job.first_key, job.progress};
  made.made_k = keys.k(), made.made_v = keys.v();
  Expected expected = p.changes_logits() ? expected_changed(made) : expected_softmax(made);
  if (p.has_backward()) keys.go_back(roundings, expected);
  expected.erase("dk");
  expected.erase("dv");
  return expected;
}

Expected expected_of(const SequenceJob& job, const std::vector<std::int64_t>& edges) {
  if (job.problem().has_latent()) return expected_projected(job);
  switch (job.problem().attention) {
    case Attention::linear: return expected_linear(job, edges);
    default: return job.problem().changes_logits() ? expected_changed(job) : expected_softmax(job);
  }
}

}  // namespace

Expected expected_result(const Problem& problem, const PlanRoundings& roundings, const Inputs& inputs) {
  return expected_of({problem, roundings, inputs, 0, 0, 0, nullptr}, {});
}

std::vector<Expected> expected_results(const Plan& plan, const Inputs& inputs, const StateEdges& edges,
                                       Progress* progress, const SampledRows* sample, bool by_blocks,
                                       const DeclaredSums& sums) {
  const Problem& p = plan.scenario.problem;
  PlanRoundings roundings = count_roundings(plan);
  roundings.by_blocks = by_blocks;
  add_declared(sums, roundings);
  std::vector<Expected> expected;
  std::int64_t first = 0, first_key = 0;
  for (std::size_t b = 0; b < p.lengths.size(); ++b) {
    expected.push_back(expected_of({p, roundings, inputs, b, first, first_key, progress, sample}, edges[b]));
    first += p.padded_lengths[b];
    first_key += p.padded_lengths_of(Side::keys)[b];
  }
  return expected;
}

}  // namespace cplab

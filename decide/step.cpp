// A step from layers, stages and exchanges; see step.hpp.
#include "decide/step.hpp"

#include <algorithm>
#include <cmath>

#include "decide/fitted.hpp"
#include "decide/layer_work.hpp"
#include "decide/step_stage.hpp"
#include "sim/simulate.hpp"

namespace cplab {

using step_parts::add;
using step_parts::as_double;
using step_parts::scaled;

namespace {

// Runs of one binary differ by so much between releases and machines (the published rows of one recipe do).
constexpr double noise = 0.03;

// Of the half-widths of a step's terms, what a whole step is off by: bands are of single kernels and
// messages, whose errors average over a layer, and Fitted takes what they share. Of the eight rows marked
// `fit` whose host is not what is measured (docs/17-whole-models.md) the worst is off by half of its
// half-width.
constexpr double step_of_terms = 0.5;

// Layers of the stage that takes longest, where the last one has the head too. Frameworks cut evenly, or
// count the embedding and the head as a layer each.
double layers_of_slowest(std::int64_t layers, std::int64_t pp, double layer_s, double head_s,
                         bool& has_head) {
  has_head = true;
  if (pp == 1) return as_double(layers);
  const double even = std::ceil(as_double(layers) / as_double(pp));
  const double last = as_double(layers) - even * as_double(pp - 1);
  if (last > 0 && even * layer_s >= last * layer_s + head_s) {
    has_head = false;
    return even;
  }
  const double shared = std::ceil(as_double(layers + 2) / as_double(pp));
  const double last_shared = as_double(layers + 1) - shared * as_double(pp - 1);
  if (last_shared > 0 &&
      std::max(shared * layer_s, last_shared * layer_s + head_s) < std::max(even, last) * layer_s + head_s) {
    has_head = shared * layer_s < last_shared * layer_s + head_s;
    return has_head ? last_shared : shared;
  }
  return std::max(even, last);
}

// Pairs of query and key that a row of `tokens` in documents of `document` has, of a kind.
double live_pairs(const AttentionKind& kind, std::int64_t tokens, std::int64_t document) {
  std::int64_t length = document > 0 ? std::min(document, tokens) : tokens;
  if (kind.chunk > 0) length = std::min(length, kind.chunk);
  const double documents = as_double(tokens) / as_double(length), L = as_double(length);
  const double w = kind.window > 0 ? std::min(as_double(kind.window), L) : L;
  return documents * (w * (w + 1) / 2 + (L - w) * w);
}

double attention_flops(const AttentionKind& kind, std::int64_t tokens, std::int64_t document, bool backward) {
  const double D = as_double(kind.head_size), E = as_double(kind.value_size), H = as_double(kind.heads);
  if (kind.mixer == Mixer::gated_delta || kind.mixer == Mixer::decay)
    return as_double(tokens) * H * 6 * D * E * (backward ? 3 : 1);
  // Forward 2 (D + E) a pair, backward 4 (D + E): the model's, without what a kernel computes again.
  return live_pairs(kind, tokens, document) * H * 2 * (D + E) * (backward ? 3 : 1);
}

}  // namespace

std::vector<std::pair<std::int64_t, double>> documents_of(const Training& training) {
  if (training.lengths.empty()) return {{training.sequence, 1.0}};
  return training.lengths;
}

std::int64_t row_tokens(const Training& training) {
  if (training.sequence > 0) return training.sequence;
  std::int64_t longest = 0;
  for (const auto& [length, share] : training.lengths) longest = std::max(longest, length);
  return longest;
}

double tokens_of_rank(const Training& training, const ModelLayout& layout) {
  if (training.mode == Mode::decode) return as_double(layout.micro_batch);
  return as_double(layout.micro_batch * row_tokens(training)) / as_double(layout.cp);
}

double StepEstimate::seconds_of(TermKind kind) const {
  double sum = 0;
  for (const StepTerm& term : terms)
    if (term.kind == kind) sum += term.seconds();
  return sum;
}

StepModel::StepModel(const Model& model, const Training& training, const Hardware& hardware)
    : model_(model), training_(training), rates_(hardware), attention_(model, hardware) {}

AttentionCase StepModel::case_of(std::size_t kind, const ModelLayout& layout, std::int64_t document) const {
  AttentionCase of;
  of.kind = kind;
  of.tp = layout.tp;
  of.cp = layout.cp;
  of.batch = layout.micro_batch;
  of.sequence = row_tokens(training_);
  of.document = document >= of.sequence ? 0 : document;
  of.backward = training_.mode == Mode::training;
  of.decode = training_.mode == Mode::decode;
  return of;
}

// The mean over rows; spread_s grows by the variance of one layer's time over them.
AttentionCost StepModel::mixed_cost(std::size_t kind, const ModelLayout& layout, bool least,
                                    double& variance) {
  AttentionCost mean;
  double low = 0, high = 0, squares = 0;
  for (const auto& [document, share] : documents_of(training_)) {
    const AttentionCase of = case_of(kind, layout, document);
    AttentionCost one = least ? attention_.alone(of) : attention_.cost(of, layout.attention.at(kind));
    if (least) {
      const double part = 1 / as_double(of.cp);
      one.forward_s *= part;
      one.backward_s *= part;
      one.origins = scaled(one.origins, part);
      one.saved_bytes = static_cast<std::int64_t>(as_double(one.saved_bytes) * part);
      one.transient_bytes = 0;
    }
    const double time_s = one.forward_s + one.backward_s;
    mean.forward_s += share * one.forward_s;
    mean.backward_s += share * one.backward_s;
    low += share * one.low * time_s;
    high += share * one.high * time_s;
    squares += share * time_s * time_s;
    mean.exposed_transfer_s += share * one.exposed_transfer_s;
    mean.exposed_wait_s += share * one.exposed_wait_s;
    add(mean.origins, one.origins, share);
    mean.saved_bytes = std::max(mean.saved_bytes, one.saved_bytes);
    mean.transient_bytes = std::max(mean.transient_bytes, one.transient_bytes);
    mean.sent_bytes = std::max(mean.sent_bytes, one.sent_bytes);
    mean.formula = one.formula;
  }
  const double time_s = mean.forward_s + mean.backward_s;
  if (time_s > 0) mean.low = low / time_s, mean.high = high / time_s;
  variance = std::max(0.0, squares - time_s * time_s);
  return mean;
}

namespace {

// Adds one kind's attention to the mean layer, `share` of whose layers have it.
void add_attention(MeanLayer& layer, const AttentionCost& cost, double share) {
  const double time_s = cost.forward_s + cost.backward_s;
  if (time_s <= 0) return;
  const double exposed = std::min(time_s, cost.exposed_transfer_s + cost.exposed_wait_s);
  const double computing = (time_s - exposed) / time_s;
  const OriginSeconds unit = scaled(cost.origins, 1 / cost.origins.total());
  add(layer.attention_forward, unit, share * cost.forward_s * computing);
  add(layer.attention_backward, unit, share * cost.backward_s * computing);
  add(layer.attention_exposed_transfer, unit, share * cost.exposed_transfer_s);
  add(layer.attention_exposed_wait, unit, share * cost.exposed_wait_s);
  layer.attention_half_s += share * time_s * std::max(1 - cost.low, cost.high - 1);
  layer.attention_saved_bytes += share * as_double(cost.saved_bytes);
  layer.attention_transient_bytes = std::max(layer.attention_transient_bytes, cost.transient_bytes);
}

void add_work(LayerWork& mean, const LayerWork& one, double share) {
  mean.forward.add(one.forward, share);
  mean.backward.add(one.backward, share);
  mean.again.add(one.again, share);
  mean.peak_s += share * one.peak_s;
  mean.model_flops += share * one.model_flops;
  const auto part = [&](std::int64_t& sum, std::int64_t bytes) {
    sum += static_cast<std::int64_t>(share * as_double(bytes));
  };
  part(mean.saved_none_bytes, one.saved_none_bytes);
  part(mean.feed_forward_bytes, one.feed_forward_bytes);
  part(mean.saved_selective_bytes, one.saved_selective_bytes);
  part(mean.saved_full_bytes, one.saved_full_bytes);
  mean.norm_bytes = std::max(mean.norm_bytes, one.norm_bytes);
  mean.head_norm_bytes = std::max(mean.head_norm_bytes, one.head_norm_bytes);
  mean.working_bytes = std::max(mean.working_bytes, one.working_bytes);
}

LayerMemory layer_memory(const MeanLayer& layer, Recompute recompute) {
  LayerMemory memory;
  const double all = as_double(layer.work.saved_none_bytes) + layer.attention_saved_bytes;
  memory.input_bytes = as_double(layer.work.saved_full_bytes);
  switch (recompute) {
    case Recompute::none: memory.saved_bytes = all; break;
    case Recompute::selective:
      memory.saved_bytes = as_double(layer.work.saved_selective_bytes) + layer.attention_saved_bytes;
      memory.again_bytes = as_double(layer.work.saved_none_bytes - layer.work.saved_selective_bytes);
      break;
    case Recompute::full:
      memory.saved_bytes = memory.input_bytes;
      memory.again_bytes = all;
      break;
  }
  memory.again_feed_forward_bytes = std::min(memory.again_bytes, as_double(layer.work.feed_forward_bytes));
  memory.attention_bytes = std::max(layer.attention_transient_bytes, layer.work.head_norm_bytes);
  memory.working_bytes = layer.work.working_bytes;
  memory.norm_bytes = layer.work.norm_bytes;
  return memory;
}

}  // namespace

StepModel::Stage StepModel::stage_of(const ModelLayout& layout, bool least) {
  Stage stage;
  const double tokens = tokens_of_rank(training_, layout);
  const double layers = as_double(model_.layer_count());
  const bool trains = training_.mode == Mode::training;
  std::vector<double> variances(model_.attention.size());
  for (std::size_t kind = 0; kind < model_.attention.size(); ++kind)
    stage.attention.push_back(mixed_cost(kind, layout, least, variances[kind]));
  const std::string* placement = nullptr;
  for (const LayerRun& run : model_.layers) {
    const double share = as_double(run.count) / layers;
    add_attention(stage.layer, stage.attention[run.attention], share);
    add_work(stage.layer.work,
             layer_work(model_, model_.attention[run.attention], model_.feed_forward[run.feed_forward],
                        training_, layout, rates_, tokens),
             share);
    stage.spread_s += share * std::sqrt(variances[run.attention]);
    if (least || layout.cp == 1) continue;
    const std::string& own = layout.attention[run.attention].placement;
    if (placement != nullptr && *placement != own) stage.redistributions += trains ? 2 : 1;
    placement = &own;
  }
  stage.head = head_work(model_, training_, layout, rates_, tokens);
  const MeanLayer& layer = stage.layer;
  double forward_s = layer.attention_forward.total() + layer.work.forward.total() +
                     layer.attention_exposed_transfer.total() + layer.attention_exposed_wait.total();
  double backward_s = trains ? layer.attention_backward.total() + layer.work.backward.total() : 0;
  if (trains && layout.recompute == Recompute::selective) backward_s += layer.work.again.total();
  if (trains && layout.recompute == Recompute::full)
    backward_s += layer.work.forward.total() + layer.attention_forward.total();
  const double head_s = stage.head.forward.total() + (trains ? stage.head.backward.total() : 0);
  stage.layers =
      layers_of_slowest(model_.layer_count(), layout.pp, forward_s + backward_s, head_s, stage.has_head);
  stage.layers += trains && stage.has_head ? as_double(model_.prediction_layers) : 0;
  stage.forward_s = forward_s * stage.layers + (stage.has_head ? stage.head.forward.total() : 0);
  stage.backward_s = backward_s * stage.layers + (stage.has_head && trains ? stage.head.backward.total() : 0);
  stage.forward_s *= 1 + fitted.gaps;
  stage.backward_s *= 1 + fitted.gaps;
  stage.spread_s *= stage.layers;
  stage.memory = layer_memory(layer, trains ? layout.recompute : Recompute::full);
  return stage;
}

namespace {

// Time, and a band in which the terms' errors are independent of each other.
void sum_up(StepEstimate& step) {
  double squares = 0;
  for (const StepTerm& term : step.terms) {
    step.time_s += term.seconds();
    squares += term.half_s * term.half_s;
  }
  const double half =
      std::sqrt(step_of_terms * step_of_terms * squares + noise * noise * step.time_s * step.time_s);
  step.low_s = std::max(0.0, step.time_s - half);
  step.high_s = step.time_s + half;
}

}  // namespace

StepEstimate StepModel::estimate(const ModelLayout& layout, bool least) {
  StepEstimate step;
  const Stage stage = stage_of(layout, least);
  const bool trains = training_.mode == Mode::training;
  const double m = as_double(layout.micro_batches), times = m * stage.layers;
  const MeanLayer& layer = stage.layer;
  Terms terms(step);
  OriginSeconds attention = layer.attention_forward, products = layer.work.forward.products,
                moves = layer.work.forward.moves;
  OriginSeconds tensor = layer.work.forward.tensor_exchange, expert = layer.work.forward.expert_exchange,
                again;
  if (trains) {
    add(attention, layer.attention_backward);
    add(products, layer.work.backward.products);
    add(moves, layer.work.backward.moves);
    add(tensor, layer.work.backward.tensor_exchange);
    add(expert, layer.work.backward.expert_exchange);
    if (layout.recompute == Recompute::full) add(again, layer.attention_forward);
    const WorkSeconds& twice = layout.recompute == Recompute::full ? layer.work.forward : layer.work.again;
    if (layout.recompute != Recompute::none) {
      add(again, twice.products);
      add(again, twice.moves);
      add(tensor, twice.tensor_exchange);
      add(expert, twice.expert_exchange);
    }
  }
  terms.put("attention", TermKind::compute, scaled(attention, times), times * layer.attention_half_s);
  terms.add("attention: transfer", TermKind::transfer, layer.attention_exposed_transfer, times);
  terms.add("attention: waiting", TermKind::wait, layer.attention_exposed_wait, times);
  terms.add("products", TermKind::compute, products, times);
  terms.add("element-wise", TermKind::compute, moves, times);
  terms.add("recompute", TermKind::compute, again, times);
  terms.add("tensor-parallel exchange", TermKind::transfer, tensor, times);
  terms.add("expert exchange", TermKind::transfer, expert, times);
  if (stage.has_head) {
    OriginSeconds head;
    for (const WorkSeconds* part : {&stage.head.forward, trains ? &stage.head.backward : nullptr}) {
      if (part == nullptr) continue;
      add(head, part->products);
      add(head, part->moves);
      add(head, part->tensor_exchange);
    }
    terms.add("head and loss", TermKind::compute, head, m);
  }
  OriginSeconds gaps;
  gaps.add(Origin::assumed, fitted.gaps * step.seconds_of(TermKind::compute));
  terms.add("between kernels", TermKind::compute, gaps);
  add_exchanges(layout, stage, step);
  sum_up(step);

  const bool decodes = training_.mode == Mode::decode;
  const double row = decodes ? 1 : as_double(row_tokens(training_)),
               rows = as_double(layout.micro_batch * layout.micro_batches * layout.dp);
  step.tokens = rows * row;
  step.compared_s = trains ? step.time_s / step.tokens : step.time_s;
  step.tokens_s_gpu = step.tokens / step.time_s / as_double(layout.gpus());
  double pair_flops = 0;
  for (const LayerRun& run : model_.layers)
    for (const auto& [document, share] : documents_of(training_)) {
      const std::int64_t tokens = row_tokens(training_);
      const double row_flops = attention_flops(model_.attention[run.attention], tokens, document, trains);
      // The last token of a row alone sees twice the mean of its tokens.
      pair_flops += as_double(run.count) * share * row_flops * (decodes ? 2 / as_double(tokens) : 1);
    }
  const double of_products =
      (layer.work.model_flops * as_double(model_.layer_count()) + stage.head.model_flops) *
      (trains ? 1 : 1.0 / 3);
  step.model_flops = rows * (pair_flops + of_products * (decodes ? 1 : as_double(layout.cp)) *
                                              as_double(layout.tp) / as_double(layout.micro_batch));
  const double all_peak = as_double(layout.gpus()) * rates_.peak_flops(training_.dtype);
  step.share_of_peak = step.model_flops / step.time_s / all_peak;
  const double moved_s = layer.work.peak_s * as_double(model_.layer_count()) + stage.head.peak_s;
  step.limit_s = rows * pair_flops / (as_double(layout.gpus()) * rates_.peak_flops("bf16")) +
                 m * moved_s * (trains ? 1 : 1.0 / 3) / as_double(layout.pp);
  const Hardware& machine = hardware();
  const double cache = trains ? 0
                              : cache_bytes(model_, layout, as_double(row_tokens(training_)),
                                            as_double(layout.micro_batch), stage.layers);
  const std::int64_t logits = stage.has_head || layout.pp == 1 ? stage.head.logits_bytes : 0;
  step.memory = memory_need(model_, training_, layout, stage.memory, stage.layers, logits,
                            static_cast<std::int64_t>(cache), machine.fixed_bytes, machine.node.gpus);
  step.capacity_bytes = machine.gpu.capacity_bytes;
  step.fits = step.memory.total_bytes <= step.capacity_bytes;
  step.host_fits = training_.host_bytes == 0 || step.memory.host_bytes <= training_.host_bytes;
  step.attention = stage.attention;
  for (const AttentionCost& cost : stage.attention)
    if (!cost.formula.empty() &&
        std::find(step.formulas.begin(), step.formulas.end(), cost.formula) == step.formulas.end())
      step.formulas.push_back(cost.formula);
  return step;
}

StepEstimate StepModel::estimate(const ModelLayout& layout) {
  return estimate(layout, false);
}
StepEstimate StepModel::bound(const ModelLayout& layout) {
  return estimate(layout, true);
}

}  // namespace cplab

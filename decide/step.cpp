// A step from layers, stages and exchanges; see step.hpp.
#include "decide/step.hpp"

#include <algorithm>
#include <cmath>

#include "decide/stage.hpp"

namespace cplab {

namespace {

// Of the half-widths of a step's terms, what a whole step is off by: bands are of single kernels and
// messages, whose errors average over a layer, and Fitted takes what they share. Of the eight rows marked
// `fit` whose host is not what is measured (docs/17-whole-models.md) the worst is off by half of its
// half-width.
constexpr double step_of_terms = 0.5;

double half_of(const OriginSeconds& origins) {
  double half = 0;
  for (const Origin origin : {Origin::measured, Origin::interpolated, Origin::extrapolated, Origin::assumed})
    half += origins.of(origin) * (band(origin).high - 1);
  return half;
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

namespace {

// Time, and a band in which the terms' errors are independent of each other.
void sum_up(StepEstimate& step) {
  double squares = 0;
  for (const StepTerm& term : step.terms) {
    step.time_s += term.seconds();
    squares += term.half_s * term.half_s;
  }
  const double half = std::sqrt(step_of_terms * step_of_terms * squares +
                                release_noise * release_noise * step.time_s * step.time_s);
  step.low_s = std::max(0.0, step.time_s - half);
  step.high_s = step.time_s + half;
}

}  // namespace

void Terms::add(std::string_view name, TermKind kind, const OriginSeconds& origins, double times) {
  put(name, kind, scaled(origins, times), times * half_of(origins));
}
void Terms::add(std::string_view name, TermKind kind, double seconds, Origin origin) {
  OriginSeconds origins;
  origins.add(origin, seconds);
  put(name, kind, origins, half_of(origins));
}
void Terms::put(std::string_view name, TermKind kind, const OriginSeconds& origins, double half_s) {
  if (origins.total() > 0) step_.terms.push_back({name, kind, origins, half_s});
}

// What the layers of the slowest stage and the head do in all micro-batches.
void StepModel::add_layers(const ModelLayout& layout, const Stage& stage, StepEstimate& step) const {
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
    const WorkSeconds& second = layout.recompute == Recompute::full ? layer.work.forward : layer.work.again;
    if (layout.recompute != Recompute::none) {
      add(again, second.products);
      add(again, second.moves);
      add(tensor, second.tensor_exchange);
      add(expert, second.expert_exchange);
    }
  }
  terms.put("attention", TermKind::compute, scaled(attention, times), times * layer.attention_half_s);
  // What is computed again is exchanged again.
  const double exposed_s = layer.attention_exposed_transfer.total() + layer.attention_exposed_wait.total();
  const bool twice = trains && layout.recompute == Recompute::full && exposed_s > 0;
  const double exposed_times = times * (twice ? 1 + layer.forward_exposed_s / exposed_s : 1);
  terms.add("attention: transfer", TermKind::transfer, layer.attention_exposed_transfer, exposed_times);
  terms.add("attention: waiting", TermKind::wait, layer.attention_exposed_wait, exposed_times);
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
  terms.add("between kernels", TermKind::compute, m * stage.gaps_s, Origin::assumed);
  step.critical.add(stage.forward_path, m);
  step.critical.add(stage.backward_path, m);
}

// Tokens, FLOPs and shares of a step whose time is known.
void StepModel::add_figures(const ModelLayout& layout, const Stage& stage, StepEstimate& step) const {
  const bool trains = training_.mode == Mode::training, decodes = training_.mode == Mode::decode;
  const MeanLayer& layer = stage.layer;
  const double m = as_double(layout.micro_batches);
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
}

void StepModel::add_memory(const ModelLayout& layout, const Stage& stage, StepEstimate& step) const {
  const bool trains = training_.mode == Mode::training;
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
}

StepEstimate StepModel::estimate(const ModelLayout& layout, Detail detail) {
  StepEstimate step;
  const Stage stage = stage_of(layout, detail);
  add_layers(layout, stage, step);
  add_exchanges(layout, stage, step);
  sum_up(step);
  add_figures(layout, stage, step);
  add_memory(layout, stage, step);
  step.attention = stage.attention;
  for (const AttentionCost& cost : stage.attention)
    if (!cost.formula.empty() &&
        std::find(step.formulas.begin(), step.formulas.end(), cost.formula) == step.formulas.end())
      step.formulas.push_back(cost.formula);
  return step;
}

StepEstimate StepModel::estimate(const ModelLayout& layout) {
  return estimate(layout, Detail::simulated);
}
StepEstimate StepModel::bound(const ModelLayout& layout) {
  return estimate(layout, Detail::bound);
}

StepEstimate StepModel::planned(const ModelLayout& layout) {
  return estimate(layout, Detail::planned);
}

}  // namespace cplab

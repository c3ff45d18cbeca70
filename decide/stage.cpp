// One micro-batch through the slowest stage: attention, layers, head; see stage.hpp.
#include "decide/stage.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "decide/fitted.hpp"

namespace cplab {

void add(OriginSeconds& sum, const OriginSeconds& more, double times) {
  for (std::size_t i = 0; i < 4; ++i) sum.seconds[i] += times * more.seconds[i];
}

OriginSeconds scaled(const OriginSeconds& of, double times) {
  OriginSeconds result;
  add(result, of, times);
  return result;
}

namespace {

// Layers of the stage that takes longest, and whether that is the last one, which has the head too.
// Frameworks cut evenly, or count the embedding and the head as a layer each; whichever is faster.
double layers_of_slowest(std::int64_t layers, std::int64_t pp, double layer_s, double head_s,
                         bool& has_head) {
  has_head = true;
  if (pp == 1) return as_double(layers);
  const double even = std::ceil(as_double(layers) / as_double(pp));
  const double shared = std::ceil(as_double(layers + 2) / as_double(pp));
  double slowest = even, least_s = even * layer_s + head_s;
  bool found = false;
  for (const auto& [each, last] : {std::pair{even, as_double(layers) - even * as_double(pp - 1)},
                                   std::pair{shared, as_double(layers + 1) - shared * as_double(pp - 1)}}) {
    const double each_s = each * layer_s, last_s = last * layer_s + head_s, time_s = std::max(each_s, last_s);
    if (last <= 0 || (found && time_s >= least_s)) continue;
    found = true;
    least_s = time_s;
    has_head = last_s > each_s;
    slowest = has_head ? last : each;
  }
  return slowest;
}

}  // namespace

AttentionCost StepModel::cost_of(const AttentionCase& of, const ModelLayout& layout, Detail detail) {
  if (detail == Detail::simulated) return attention_.cost(of, layout.attention.at(of.kind));
  AttentionCost one = attention_.alone(of);
  const double part = 1 / as_double(of.cp);
  one.forward_s *= part;
  one.backward_s *= part;
  one.origins = scaled(one.origins, part);
  ResourceSeconds path;
  path.add(one.critical, part);
  one.critical = path;
  one.saved_bytes = static_cast<std::int64_t>(as_double(one.saved_bytes) * part);
  one.transient_bytes = 0;
  if (detail == Detail::planned) {
    const AttentionMemory memory = attention_.memory(of, layout.attention.at(of.kind));
    one.saved_bytes = memory.saved_bytes;
    one.transient_bytes = memory.transient_bytes;
  }
  return one;
}

// The mean over rows; spread_s grows by the variance of one layer's time over them.
AttentionCost StepModel::mixed_cost(std::size_t kind, const ModelLayout& layout, Detail detail,
                                    double& variance) {
  AttentionCost mean;
  double low = 0, high = 0, squares = 0;
  for (const auto& [document, share] : documents_of(training_)) {
    const AttentionCost one = cost_of(case_of(kind, layout, document), layout, detail);
    const double time_s = one.forward_s + one.backward_s;
    mean.forward_s += share * one.forward_s;
    mean.backward_s += share * one.backward_s;
    low += share * one.low * time_s;
    high += share * one.high * time_s;
    squares += share * time_s * time_s;
    mean.exposed_transfer_s += share * one.exposed_transfer_s;
    mean.exposed_wait_s += share * one.exposed_wait_s;
    add(mean.origins, one.origins, share);
    mean.critical.add(one.critical, share);
    mean.saved_bytes = std::max(mean.saved_bytes, one.saved_bytes);
    mean.transient_bytes = std::max(mean.transient_bytes, one.transient_bytes);
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
  const double both = cost.exposed_transfer_s + cost.exposed_wait_s, exposed = std::min(time_s, both);
  const double kept = both > 0 ? share * exposed / both : 0;
  const double computing = (time_s - exposed) / time_s;
  const OriginSeconds unit = scaled(cost.origins, 1 / cost.origins.total());
  add(layer.attention_forward, unit, share * cost.forward_s * computing);
  add(layer.attention_backward, unit, share * cost.backward_s * computing);
  add(layer.attention_exposed_transfer, unit, kept * cost.exposed_transfer_s);
  add(layer.attention_exposed_wait, unit, kept * cost.exposed_wait_s);
  layer.forward_exposed_s += share * exposed * cost.forward_s / time_s;
  layer.forward_path.add(cost.critical, share * cost.forward_s / time_s);
  layer.backward_path.add(cost.critical, share * cost.backward_s / time_s);
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

// One layer, forward and backward.
struct LayerTimes {
  double forward_s = 0, backward_s = 0;
  ResourceSeconds forward, backward;
};

LayerTimes layer_times(const MeanLayer& layer, Recompute recompute, bool trains) {
  LayerTimes times;
  times.forward_s = layer.attention_forward.total() + layer.forward_exposed_s + layer.work.forward.total();
  times.forward = layer.forward_path;
  times.forward.add(layer.work.forward.path);
  times.forward.add(layer.work.forward.tensor_path);
  if (!trains) return times;
  const double exposed_s = layer.attention_exposed_transfer.total() + layer.attention_exposed_wait.total();
  times.backward_s =
      layer.attention_backward.total() + exposed_s - layer.forward_exposed_s + layer.work.backward.total();
  times.backward = layer.backward_path;
  times.backward.add(layer.work.backward.path);
  times.backward.add(layer.work.backward.tensor_path);
  if (recompute == Recompute::selective) {
    times.backward_s += layer.work.again.total();
    times.backward.add(layer.work.again.path);
    times.backward.add(layer.work.again.tensor_path);
  } else if (recompute == Recompute::full) {
    times.backward_s += times.forward_s;
    times.backward.add(times.forward);
  }
  return times;
}

// Time that grows and shrinks with what kernels compute.
void add_beside_kernels(ResourceSeconds& path, double seconds) {
  ResourceSeconds kernels;
  for (const Resource each : {Resource::attention, Resource::products, Resource::memory})
    kernels.add(each, path.of(each));
  if (kernels.total() > 0)
    path.add(kernels, seconds / kernels.total());
  else
    path.add(Resource::launches, seconds);
}

}  // namespace

// What no kernel takes, in proportion to what kernels compute.
void StepModel::add_gaps(Stage& stage, Recompute recompute, bool trains) {
  const auto computing = [](const WorkSeconds& work) { return work.products.total() + work.moves.total(); };
  const LayerWork& work = stage.layer.work;
  const double heads = stage.has_head ? 1 : 0;
  const double forward_s = computing(work.forward) + stage.layer.attention_forward.total();
  const double gaps_s = fitted.gaps * (stage.layers * forward_s + heads * computing(stage.head.forward));
  stage.forward_s += gaps_s;
  add_beside_kernels(stage.forward_path, gaps_s);
  stage.gaps_s = gaps_s;
  if (!trains) return;
  double backward_s = computing(work.backward) + stage.layer.attention_backward.total();
  if (recompute == Recompute::selective) backward_s += computing(work.again);
  if (recompute == Recompute::full) backward_s += forward_s;
  const double back_s = fitted.gaps * (stage.layers * backward_s + heads * computing(stage.head.backward));
  stage.backward_s += back_s;
  add_beside_kernels(stage.backward_path, back_s);
  stage.gaps_s += back_s;
}

StepModel::Stage StepModel::stage_of(const ModelLayout& layout, Detail detail) {
  Stage stage;
  const double tokens = tokens_of_rank(training_, layout);
  const double layers = as_double(model_.layer_count());
  const bool trains = training_.mode == Mode::training;
  std::vector<double> variances(model_.attention.size());
  for (std::size_t kind = 0; kind < model_.attention.size(); ++kind)
    stage.attention.push_back(mixed_cost(kind, layout, detail, variances[kind]));
  const std::string* placement = nullptr;
  for (const LayerRun& run : model_.layers) {
    const double share = as_double(run.count) / layers;
    add_attention(stage.layer, stage.attention[run.attention], share);
    add_work(stage.layer.work,
             layer_work(model_, model_.attention[run.attention], model_.feed_forward[run.feed_forward],
                        training_, layout, rates_, tokens),
             share);
    stage.spread_s += share * std::sqrt(variances[run.attention]);
    if (detail == Detail::bound || layout.cp == 1) continue;
    const std::string& own = layout.attention[run.attention].placement;
    if (placement != nullptr && *placement != own) stage.redistributions += trains ? 2 : 1;
    placement = &own;
  }
  stage.head = head_work(model_, training_, layout, rates_, tokens);
  const MeanLayer& layer = stage.layer;
  const LayerTimes times = layer_times(layer, layout.recompute, trains);
  const double head_s = stage.head.forward.total() + (trains ? stage.head.backward.total() : 0);
  stage.layers = layers_of_slowest(model_.layer_count(), layout.pp, times.forward_s + times.backward_s,
                                   head_s, stage.has_head);
  stage.layers += trains && stage.has_head ? as_double(model_.prediction_layers) : 0;
  const double heads = stage.has_head ? 1 : 0, ways = trains ? 1 : 0;
  stage.forward_s = times.forward_s * stage.layers + heads * stage.head.forward.total();
  stage.backward_s = times.backward_s * stage.layers + heads * ways * stage.head.backward.total();
  stage.forward_path.add(times.forward, stage.layers);
  stage.forward_path.add(stage.head.forward.path, heads);
  stage.forward_path.add(stage.head.forward.tensor_path, heads);
  stage.backward_path.add(times.backward, stage.layers);
  stage.backward_path.add(stage.head.backward.path, heads * ways);
  stage.backward_path.add(stage.head.backward.tensor_path, heads * ways);
  stage.attention_path.add(layer.forward_path, stage.layers);
  stage.attention_path.add(layer.backward_path, stage.layers);
  // The plan of one attention layer alone has its launches.
  if (model_.hidden > 0) add_gaps(stage, layout.recompute, trains);
  stage.spread_s *= stage.layers;
  stage.memory = layer_memory(layer, trains ? layout.recompute : Recompute::full);
  return stage;
}

}  // namespace cplab

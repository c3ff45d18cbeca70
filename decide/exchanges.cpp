// What weights, gradients and the pipeline add to a step; see step.hpp.
#include <algorithm>
#include <cmath>

#include "decide/stage.hpp"

namespace cplab {

namespace {

// Weights or gradients on their way.
struct Moved {
  double seconds = 0;
  Origin origin = Origin::measured;
  ResourceSeconds path;
  void add(const Moved& more) {
    seconds += more.seconds;
    origin = worst(origin, more.origin);
    path.add(more.path);
  }
};

// What of a move sticks out from behind a share of what is computed meanwhile, and that of one of `layers`
// layers (0: of none), which has nothing to hide behind. Where it sticks out the path of the step, which has
// this `times` times, goes over the move and not over what is computed.
double exposed(const Moved& moved, const ResourceSeconds& behind, double share, double layers, double times,
               ResourceSeconds& path) {
  const double room = share * behind.total(), one = layers > 0 ? moved.seconds / layers : 0;
  if (layers > 0) path.add(moved.path, times / layers);
  if (moved.seconds <= room) return one;
  path.add(behind, -share * times);
  path.add(moved.path, times);
  return moved.seconds - room + one;
}

// The expected longest of n independent sums beside their mean, in standard deviations (normal, n from 2 on).
double longest_of(std::int64_t n) {
  return n < 2 ? 0 : std::sqrt(2 * std::log(as_double(n))) * (1 - 0.4 / as_double(n));
}

}  // namespace

// What weights, gradients and the pipeline add, beside what they hide behind.
void StepModel::add_exchanges(const ModelLayout& layout, const Stage& stage, StepEstimate& step) const {
  Terms terms(step);
  const LocalParameters local = local_parameters(model_, training_, layout);
  const double m = as_double(layout.micro_batches), layers = std::max(1.0, stage.layers);
  const bool trains = training_.mode == Mode::training;
  const bool adapters = training_.lora_rank > 0;
  const double trained_dense = adapters ? local.trained : local.dense,
               trained_experts = adapters ? 0 : local.experts;
  const GroupShape dense{dense_shards(layout), layout.tp},
      experts{expert_shards(layout), layout.ep * layout.etp};
  const auto both = [&](double dense_bytes, double expert_bytes) {
    const WireTime one = rates_.gather(dense, dense_bytes), more = rates_.gather(experts, expert_bytes);
    Moved moved{
        one.seconds + more.seconds, more.seconds > 0 ? worst(one.origin, more.origin) : one.origin, {}};
    one.add_to(moved.path);
    more.add_to(moved.path);
    return moved;
  };
  const Moved weights =
      both(local.dense * training_.parameter_bytes, local.experts * training_.parameter_bytes);
  const Moved gradients =
      both(trained_dense * training_.gradient_bytes, trained_experts * training_.gradient_bytes);
  ResourceSeconds& path = step.critical;
  if (trains && layout.zero >= 3) {
    // Every micro-batch gathers the weights of each layer, forward and backward, behind the layer before.
    Moved all = weights;
    all.add(gradients);
    const double forward = exposed(weights, stage.forward_path, 1, layers, m, path);
    const double backward = exposed(all, stage.backward_path, 1, 0, m, path) + gradients.seconds / layers;
    path.add(gradients.path, m / layers);
    terms.add("weights and gradients", TermKind::transfer, m * (forward + backward),
              worst(weights.origin, gradients.origin));
  } else if (trains) {
    // Gradients leave behind the last backward, layer by layer; weights come back behind the first forward.
    Moved reduced = gradients;
    if (layout.zero == 0) reduced.add(gradients);
    const double hides = (layers - 1) / layers;
    terms.add("gradients", TermKind::transfer,
              exposed(reduced, stage.backward_path, hides, 0, 1, path) + gradients.seconds / layers,
              gradients.origin);
    path.add(gradients.path, 1 / layers);
    if (layout.zero >= 1)
      terms.add("weights", TermKind::transfer, exposed(weights, stage.forward_path, hides, layers, 1, path),
                weights.origin);
  }
  add_pipeline(layout, stage, step);
  if (trains) add_optimizer(layout, stage, step);
}

// The bubble and hops of a pipeline, what layers of different placements trade, and waiting for long rows.
void StepModel::add_pipeline(const ModelLayout& layout, const Stage& stage, StepEstimate& step) const {
  Terms terms(step);
  const double m = as_double(layout.micro_batches);
  const bool trains = training_.mode == Mode::training;
  ResourceSeconds& path = step.critical;
  if (layout.pp > 1) {
    const double bytes =
        tokens_of_rank(training_, layout) / as_double(layout.tp) * as_double(model_.hidden) * 2;
    const WireTime hop = rates_.send(layout.tp * layout.cp * layout.dp, bytes);
    const double chunks = as_double(layout.pipeline_chunks), ways = trains ? 2 : 1;
    terms.add("pipeline bubble", TermKind::wait,
              as_double(layout.pp - 1) / chunks * (stage.forward_s + stage.backward_s), Origin::interpolated);
    path.add(stage.forward_path, as_double(layout.pp - 1) / chunks);
    path.add(stage.backward_path, as_double(layout.pp - 1) / chunks);
    const double hops = ways * (as_double(layout.pp - 1) + (chunks > 1 ? m : 0));
    terms.add("pipeline transfers", TermKind::transfer, hops * hop.seconds, hop.origin);
    hop.add_to(path, hops);
  }
  if (stage.redistributions > 0) {
    const double bytes =
        tokens_of_rank(training_, layout) * as_double(model_.hidden) * 2 / as_double(layout.tp);
    const WireTime one = rates_.all_to_all({layout.cp, layout.tp}, bytes);
    const double times = m * stage.redistributions / as_double(layout.pp);
    terms.add("redistribution", TermKind::transfer, times * one.seconds, one.origin);
    one.add_to(path, times);
  }
  if (stage.spread_s > 0 && layout.dp > 1 && !training_.balanced) {
    const double longer_s = stage.spread_s * std::sqrt(m) * longest_of(layout.dp);
    terms.add("replicas wait for the longest rows", TermKind::wait, longer_s, Origin::extrapolated);
    path.add(stage.attention_path, longer_s / stage.attention_path.total());
  }
}

// The update of the trained weights, and what goes to the host and back.
void StepModel::add_optimizer(const ModelLayout& layout, const Stage& stage, StepEstimate& step) const {
  Terms terms(step);
  const LocalParameters local = local_parameters(model_, training_, layout);
  const double m = as_double(layout.micro_batches), layers = std::max(1.0, stage.layers);
  const bool adapters = training_.lora_rank > 0;
  const double trained_dense = adapters ? local.trained : local.dense,
               trained_experts = adapters ? 0 : local.experts;
  ResourceSeconds& path = step.critical;
  const double shards = layout.zero >= 1 ? as_double(dense_shards(layout)) : 1,
               expert_parts = layout.zero >= 1 ? as_double(expert_shards(layout)) : 1;
  const double updated = trained_dense / shards + trained_experts / expert_parts;
  // Gradient read, master and moments read and written, weight written.
  const double bytes_each = training_.gradient_bytes +
                            2.0 * (training_.master_bytes + training_.optimizer_bytes) +
                            training_.parameter_bytes;
  if (layout.offload_optimizer) {
    const double update_s = updated * bytes_each / usual_host_update_bytes_s;
    terms.add("optimizer on the host", TermKind::compute, update_s, Origin::assumed);
    const Estimate there = rates_.to_host(updated * (training_.gradient_bytes + training_.parameter_bytes));
    terms.add("optimizer over PCIe", TermKind::transfer, there.seconds, there.origin);
    path.add(Resource::host, update_s + there.seconds);
  } else {
    const KernelTime moved = rates_.move(updated * bytes_each);
    terms.add("optimizer", TermKind::compute, moved.seconds, moved.origin);
    path.add(moved.bound, moved.seconds);
  }
  if (training_.offload_parameters) {
    const double held =
        local.dense / as_double(dense_shards(layout)) + local.experts / as_double(expert_shards(layout));
    const Estimate come = rates_.to_host(held * training_.parameter_bytes);
    const double longer_s =
        std::max(0.0, come.seconds - stage.forward_s) + std::max(0.0, come.seconds - stage.backward_s);
    terms.add("weights over PCIe", TermKind::transfer, m * longer_s, come.origin);
    path.add(Resource::host, m * longer_s);
  }
  if (layout.offload_checkpoints) {
    const Estimate away = rates_.to_host(stage.memory.input_bytes * layers);
    const double longer_s =
        std::max(0.0, away.seconds - stage.forward_s) + std::max(0.0, away.seconds - stage.backward_s);
    terms.add("checkpoints over PCIe", TermKind::transfer, m * longer_s, away.origin);
    path.add(Resource::host, m * longer_s);
  }
}

}  // namespace cplab

// What a step adds to the compute of its stages: weights, gradients, pipeline, optimizer, host; see step.hpp.
#include <algorithm>
#include <cmath>

#include "decide/step_stage.hpp"

namespace cplab {

using step_parts::as_double;

namespace {

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
    Estimate sum = rates_.gather(dense, dense_bytes);
    const Estimate more = rates_.gather(experts, expert_bytes);
    return Estimate{sum.seconds + more.seconds,
                    more.seconds > 0 ? worst(sum.origin, more.origin) : sum.origin};
  };
  const Estimate weights =
      both(local.dense * training_.parameter_bytes, local.experts * training_.parameter_bytes);
  const Estimate gradients =
      both(trained_dense * training_.gradient_bytes, trained_experts * training_.gradient_bytes);
  if (trains && layout.zero >= 3) {
    // Every micro-batch gathers the weights of each layer, forward and backward, behind the layer before.
    const double forward = std::max(0.0, weights.seconds - stage.forward_s) + weights.seconds / layers;
    const double backward =
        std::max(0.0, weights.seconds + gradients.seconds - stage.backward_s) + gradients.seconds / layers;
    terms.add("weights and gradients", TermKind::transfer, m * (forward + backward),
              worst(weights.origin, gradients.origin));
  } else if (trains) {
    // Gradients leave behind the last backward, layer by layer; weights come back behind the first forward.
    const double times = layout.zero == 0 ? 2 : 1;
    const double exposed =
        std::max(0.0, times * gradients.seconds - stage.backward_s * (layers - 1) / layers) +
        gradients.seconds / layers;
    terms.add("gradients", TermKind::transfer, exposed, gradients.origin);
    if (layout.zero >= 1)
      terms.add(
          "weights", TermKind::transfer,
          std::max(0.0, weights.seconds - stage.forward_s * (layers - 1) / layers) + weights.seconds / layers,
          weights.origin);
  }
  add_pipeline(layout, stage, step);
  if (trains) add_optimizer(layout, stage, step);
}

void StepModel::add_pipeline(const ModelLayout& layout, const Stage& stage, StepEstimate& step) const {
  Terms terms(step);
  const double m = as_double(layout.micro_batches);
  const bool trains = training_.mode == Mode::training;
  if (layout.pp > 1) {
    const double bytes =
        tokens_of_rank(training_, layout) / as_double(layout.tp) * as_double(model_.hidden) * 2;
    const Estimate hop = rates_.send(layout.tp * layout.cp * layout.dp, bytes);
    const double chunks = as_double(layout.pipeline_chunks), ways = trains ? 2 : 1;
    terms.add("pipeline bubble", TermKind::wait,
              as_double(layout.pp - 1) / chunks * (stage.forward_s + stage.backward_s), Origin::interpolated);
    terms.add("pipeline transfers", TermKind::transfer,
              ways * hop.seconds * (as_double(layout.pp - 1) + (chunks > 1 ? m : 0)), hop.origin);
  }
  if (stage.redistributions > 0) {
    const double bytes =
        tokens_of_rank(training_, layout) * as_double(model_.hidden) * 2 / as_double(layout.tp);
    const Estimate one = rates_.all_to_all({layout.cp, layout.tp}, bytes);
    terms.add("redistribution", TermKind::transfer,
              m * one.seconds * stage.redistributions / as_double(layout.pp), one.origin);
  }
  if (stage.spread_s > 0 && layout.dp > 1 && !training_.balanced)
    terms.add("replicas wait for the longest rows", TermKind::wait,
              stage.spread_s * std::sqrt(m) * longest_of(layout.dp), Origin::extrapolated);
}

void StepModel::add_optimizer(const ModelLayout& layout, const Stage& stage, StepEstimate& step) const {
  Terms terms(step);
  const LocalParameters local = local_parameters(model_, training_, layout);
  const double m = as_double(layout.micro_batches), layers = std::max(1.0, stage.layers);
  const bool adapters = training_.lora_rank > 0;
  const double trained_dense = adapters ? local.trained : local.dense,
               trained_experts = adapters ? 0 : local.experts;
  const double shards = layout.zero >= 1 ? as_double(dense_shards(layout)) : 1,
               expert_parts = layout.zero >= 1 ? as_double(expert_shards(layout)) : 1;
  const double updated = trained_dense / shards + trained_experts / expert_parts;
  // Gradient read, master and moments read and written, weight written.
  const double bytes_each = training_.gradient_bytes +
                            2.0 * (training_.master_bytes + training_.optimizer_bytes) +
                            training_.parameter_bytes;
  if (layout.offload_optimizer) {
    terms.add("optimizer on the host", TermKind::compute, updated * bytes_each / usual_host_update_bytes_s,
              Origin::assumed);
    terms.add("optimizer over PCIe", TermKind::transfer,
              rates_.to_host(updated * (training_.gradient_bytes + training_.parameter_bytes)).seconds,
              Origin::assumed);
  } else {
    const Estimate moved = rates_.move(updated * bytes_each);
    terms.add("optimizer", TermKind::compute, moved.seconds, moved.origin);
  }
  if (training_.offload_parameters) {
    const double held =
        local.dense / as_double(dense_shards(layout)) + local.experts / as_double(expert_shards(layout));
    const Estimate come = rates_.to_host(held * training_.parameter_bytes);
    const double exposed =
        std::max(0.0, come.seconds - stage.forward_s) + std::max(0.0, come.seconds - stage.backward_s);
    terms.add("weights over PCIe", TermKind::transfer, m * exposed, come.origin);
  }
  if (layout.offload_checkpoints) {
    const Estimate away = rates_.to_host(stage.memory.input_bytes * layers);
    const double exposed =
        std::max(0.0, away.seconds - stage.forward_s) + std::max(0.0, away.seconds - stage.backward_s);
    terms.add("checkpoints over PCIe", TermKind::transfer, m * exposed, away.origin);
  }
}

}  // namespace cplab

// What a layer does beside its attention: products, element-wise kernels, exchanges of tensor and expert
// parallelism, and the activations that it keeps. Of one GPU, for one micro-batch.
#pragma once

#include <cstdint>

#include "decide/layout.hpp"
#include "decide/machine_rates.hpp"
#include "decide/model.hpp"

namespace cplab {

// Seconds by what they are spent on.
struct WorkSeconds {
  OriginSeconds products, moves, tensor_exchange, expert_exchange;
  ResourceSeconds path;         // all but tensor_exchange, by what bounds them
  ResourceSeconds tensor_path;  // tensor_exchange
  void add(const WorkSeconds&, double times = 1);
  double total() const {
    return products.total() + moves.total() + tensor_exchange.total() + expert_exchange.total();
  }
};

struct LayerWork {
  WorkSeconds forward, backward;
  WorkSeconds again;  // what Recompute::selective computes a second time
  double peak_s = 0;  // products at peak_flops and moves at full bandwidth, forward and backward: no less
  double model_flops = 0;  // of products, forward and backward, each once
  // Kept between forward and backward beside what the attention's plan keeps, by what is recomputed.
  std::int64_t saved_none_bytes = 0, saved_selective_bytes = 0, saved_full_bytes = 0;
  std::int64_t feed_forward_bytes = 0;  // of saved_none_bytes, what the feed-forward part and its norm keep
  // What the backward of a norm holds where it is not one kernel: of the hidden width, and of q's and k's
  // heads.
  std::int64_t norm_bytes = 0, head_norm_bytes = 0;
  std::int64_t working_bytes =
      0;  // the most that the feed-forward part or a projection holds while it is computed
};

// Of tokens that one GPU has: micro_batch x sequence / cp. Tensor parallelism is with sequence parallelism
// (norms and kept inputs are spread over the tp ranks, arXiv 2205.05198): two gathers and two reduce-scatters
// forward, one gather more backward for each, since inputs are kept in parts. Experts: a token's row goes to
// each of its experts, and comes back; routing is taken to be even.
LayerWork layer_work(const Model&, const AttentionKind&, const FeedForwardKind&, const Training&,
                     const ModelLayout&, const MachineRates&, double tokens);

// Embedding, last norm, logits and loss, of the last pipeline stage. The logits are in fp32, in loss_chunks
// parts.
struct HeadWork {
  WorkSeconds forward, backward;
  double peak_s = 0, model_flops = 0;
  std::int64_t logits_bytes = 0;  // logits, and their gradient in the dtype of products, alive at once
};
HeadWork head_work(const Model&, const Training&, const ModelLayout&, const MachineRates&, double tokens);

}  // namespace cplab

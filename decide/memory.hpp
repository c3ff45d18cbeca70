// Memory of the GPU that needs most, by kind, and of a node's host.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "decide/layout.hpp"
#include "decide/model.hpp"

namespace cplab {

enum class MemoryKind : std::uint8_t {
  weights,
  gradients,
  optimizer,
  activations,  // kept between forward and backward, all micro-batches under way
  attention,    // what the plan of an attention layer needs beside what it keeps
  working,      // the rest of a layer while it is computed, and weights gathered for it
  logits,       // fp32, with their gradient
  cache,        // keys and values of tokens before (prefill, decode)
  context,      // CUDA context and communicators
  fragments,    // that an allocator leaves between blocks
};
std::string_view name(MemoryKind);

struct MemoryPart {
  MemoryKind kind = MemoryKind::weights;
  std::int64_t bytes = 0;
};

// Activations of one micro-batch and one layer, mean over the layers of a stage.
struct LayerMemory {
  double saved_bytes = 0;               // what is kept by the layout's recompute
  double again_bytes = 0;               // what one layer holds when it is computed again
  double again_feed_forward_bytes = 0;  // of them, what is gone when the backward reaches its attention
  double input_bytes = 0;               // its input alone: what goes to the host with offload_checkpoints
  std::int64_t attention_bytes = 0, working_bytes = 0;
  std::int64_t norm_bytes = 0;  // of a norm's backward, while all of the layer is held
};

struct MemoryNeed {
  std::vector<MemoryPart> parts;  // in the order of MemoryKind, none of 0
  std::int64_t total_bytes = 0;
  std::int64_t host_bytes = 0;  // of a node
  std::int64_t of(MemoryKind) const;
};

// Parameters that one GPU holds before ZeRO spreads them: of attention, dense feed-forward parts, embeddings;
// and of experts. Of the pipeline stage that holds most.
struct LocalParameters {
  double dense = 0, experts = 0;
  double trained = 0;  // of low-rank adapters; 0: all are trained
};
LocalParameters local_parameters(const Model&, const Training&, const ModelLayout&);
// Ranks over which ZeRO spreads dense parameters and experts: dp x cp, and what is left of it with the
// experts' ranks.
std::int64_t dense_shards(const ModelLayout&);
std::int64_t expert_shards(const ModelLayout&);

// Assumed share of all that is not weights, gradients and optimizer that an allocator leaves between its
// blocks.
constexpr double usual_fragments = 0.04;

// Keys and values of `tokens` of each of `rows` rows, and the states of linear layers, of `layers` layers of
// a stage, in the dtype of weights: what prefill leaves behind and decode reads. Of latent attention the
// latent.
double cache_bytes(const Model&, const ModelLayout&, double tokens, double rows, double layers);

MemoryNeed memory_need(const Model&, const Training&, const ModelLayout&, const LayerMemory&,
                       double layers_per_stage, std::int64_t logits_bytes, std::int64_t cache_bytes,
                       std::int64_t context_bytes, int gpus_per_node);

}  // namespace cplab

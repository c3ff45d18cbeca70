// Bytes by kind; see memory.hpp. Checked against published peaks in docs/17-whole-models.md.
#include "decide/memory.hpp"

#include <algorithm>
#include <cmath>

namespace cplab {

namespace {

double quotient(double a, std::int64_t b) {
  return a / static_cast<double>(b);
}

// Of a low-rank adapter of every projection: rank x (in + out) each.
double adapter_parameters(const Model& model, const Training& training) {
  double sum = 0;
  const auto h = static_cast<double>(model.hidden), r = static_cast<double>(training.lora_rank);
  for (const LayerRun& run : model.layers) {
    const AttentionKind& a = model.attention[run.attention];
    const FeedForwardKind& f = model.feed_forward[run.feed_forward];
    const auto q = static_cast<double>(a.heads * a.head_size),
               kv = static_cast<double>(a.kv_heads * a.head_size);
    double widths = (h + q) + 2 * (h + kv) + (q + h);
    const double parts = (f.gated ? 3.0 : 2.0) * std::max<double>(1, static_cast<double>(f.experts));
    widths += parts * (h + static_cast<double>(f.width));
    sum += static_cast<double>(run.count) * r * widths;
  }
  return sum;
}

}  // namespace

std::string_view name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::weights: return "weights";
    case MemoryKind::gradients: return "gradients";
    case MemoryKind::optimizer: return "optimizer";
    case MemoryKind::activations: return "saved activations";
    case MemoryKind::attention: return "transient attention";
    case MemoryKind::working: return "collectives and working";
    case MemoryKind::logits: return "logits";
    case MemoryKind::cache: return "key/value cache";
    case MemoryKind::context: return "context";
    case MemoryKind::fragments: return "fragmentation";
  }
  return "";
}

std::int64_t MemoryNeed::of(MemoryKind kind) const {
  for (const MemoryPart& part : parts)
    if (part.kind == kind) return part.bytes;
  return 0;
}

std::int64_t dense_shards(const ModelLayout& layout) {
  return layout.dp * layout.cp;
}

std::int64_t expert_shards(const ModelLayout& layout) {
  return std::max<std::int64_t>(1, layout.dp * layout.cp * layout.tp / (layout.ep * layout.etp));
}

LocalParameters local_parameters(const Model& model, const Training& training, const ModelLayout& layout) {
  LocalParameters local;
  const std::int64_t layers = model.layer_count();
  const double stage =
      std::ceil(quotient(static_cast<double>(layers), layout.pp)) / static_cast<double>(layers);
  for (const LayerRun& run : model.layers) {
    const double count = static_cast<double>(run.count) * stage;
    const FeedForwardKind& f = model.feed_forward[run.feed_forward];
    local.dense +=
        count *
        quotient(static_cast<double>(attention_parameters(model, model.attention[run.attention])), layout.tp);
    FeedForwardKind shared = f;
    if (f.experts > 0) {
      const double all = static_cast<double>(feed_forward_parameters(model, f, false));
      shared = FeedForwardKind{"shared", f.shared_width, f.gated, 0, 0, 0};
      const double beside =
          f.shared_width > 0 ? static_cast<double>(feed_forward_parameters(model, shared, false)) : 0;
      local.experts += count * (all - beside) / static_cast<double>(layout.ep * layout.etp);
      local.dense += count * quotient(beside, layout.tp);
    } else {
      local.dense +=
          count * quotient(static_cast<double>(feed_forward_parameters(model, f, false)), layout.tp);
    }
  }
  const double table =
      quotient(static_cast<double>(model.hidden) * static_cast<double>(model.vocabulary), layout.tp);
  // With a pipeline the first stage has one table and the last the other, or a copy of the same.
  local.dense += layout.pp > 1 || model.tied_embeddings ? table : 2 * table;
  if (training.lora_rank > 0)
    local.trained = adapter_parameters(model, training) * stage / static_cast<double>(layout.tp);
  return local;
}

namespace {

// The gradient of a matrix is a tensor of its own before it is added to the buffer of all, one for each
// shape, which allocators keep: of the matrices of one layer and of the head, in the dtype of products.
double fresh_gradient_bytes(const Model& model, const LocalParameters& local, const ModelLayout& layout,
                            double layers) {
  const double table =
      quotient(static_cast<double>(model.hidden) * static_cast<double>(model.vocabulary), layout.tp);
  const double tables = layout.pp > 1 || model.tied_embeddings ? table : 2 * table;
  return 2 * ((local.dense - tables + local.experts) / std::max(1.0, layers) + table);
}

struct StateBytes {
  double weights = 0, gradients = 0, optimizer = 0, host = 0, gathered = 0, fresh = 0;
};

StateBytes state_bytes(const Model& model, const Training& training, const ModelLayout& layout,
                       double layers) {
  const LocalParameters local = local_parameters(model, training, layout);
  StateBytes bytes;
  const bool trains = training.mode == Mode::training;
  const int zero = trains ? layout.zero : 0;
  const auto spread = [&](double dense, double experts, int from) {
    return zero >= from ? dense / static_cast<double>(dense_shards(layout)) +
                              experts / static_cast<double>(expert_shards(layout))
                        : dense + experts;
  };
  const double weight = training.parameter_bytes;
  bytes.weights = weight * spread(local.dense, local.experts, 3);
  // Two layers are gathered at a time: one is used, the next one comes.
  if (zero >= 3 && (dense_shards(layout) > 1 || training.offload_parameters))
    bytes.gathered = 2 * weight * (local.dense + local.experts) / std::max(1.0, layers);
  if (!trains) return bytes;
  const bool adapters = training.lora_rank > 0;
  const double dense = adapters ? local.trained : local.dense, experts = adapters ? 0 : local.experts;
  if (adapters) bytes.weights += weight * spread(local.trained, 0, 3);
  // Spread gradients leave for the host as they come, where the optimizer is.
  const double gradients = training.gradient_bytes * spread(dense, experts, 2);
  (layout.offload_optimizer && zero >= 2 ? bytes.host : bytes.gradients) += gradients;
  const double state = (training.master_bytes + training.optimizer_bytes) * spread(dense, experts, 1);
  (layout.offload_optimizer ? bytes.host : bytes.optimizer) += state;
  if (training.offload_parameters) {
    bytes.host += bytes.weights;
    bytes.weights = 0;
  }
  if (!adapters && training.parameter_bytes > 0)
    bytes.fresh = fresh_gradient_bytes(model, local, layout, layers);
  return bytes;
}

}  // namespace

double cache_bytes(const Model& model, const ModelLayout& layout, double tokens, double rows, double layers) {
  constexpr double element = 2, wide = 4;
  double sum = 0;
  for (const LayerRun& run : model.layers) {
    const AttentionKind& kind = model.attention[run.attention];
    if (kind.shares_keys) continue;
    const auto D = static_cast<double>(kind.head_size), E = static_cast<double>(kind.value_size);
    const double kept = kind.window > 0 ? std::min(tokens, static_cast<double>(kind.window)) : tokens;
    const double keys = std::max(1.0, quotient(static_cast<double>(kind.kv_heads), layout.tp));
    double bytes = 0;
    if (kind.mixer == Mixer::softmax)
      bytes = element * kept * keys * (D + E) / static_cast<double>(layout.cp);
    if (kind.mixer == Mixer::latent)
      bytes = element * kept * static_cast<double>(kind.kv_latent + kind.rope_size) /
              static_cast<double>(layout.cp);
    if (kind.mixer == Mixer::gated_delta || kind.mixer == Mixer::decay)
      bytes = wide * std::max(1.0, quotient(static_cast<double>(kind.heads), layout.tp)) * D * E;
    sum += static_cast<double>(run.count) * bytes;
  }
  return rows * sum * layers / static_cast<double>(model.layer_count());
}

MemoryNeed memory_need(const Model& model, const Training& training, const ModelLayout& layout,
                       const LayerMemory& layer, double layers_per_stage, std::int64_t logits_bytes,
                       std::int64_t cache_bytes, std::int64_t context_bytes, int gpus_per_node) {
  const StateBytes state = state_bytes(model, training, layout, layers_per_stage);
  // The first stage has as many micro-batches under way as there are stages (1F1B), each chunk of an
  // interleaved schedule a part more (arXiv 2104.04473).
  double under_way = static_cast<double>(std::min(layout.micro_batches, layout.pp));
  if (layout.pipeline_chunks > 1)
    under_way *= 1 + quotient(static_cast<double>(layout.pp - 1), layout.pp * layout.pipeline_chunks);
  double saved = 0, host = state.host;
  if (training.mode == Mode::training) {
    saved = layer.saved_bytes * layers_per_stage * under_way;
    if (layout.offload_checkpoints) {
      const double away = layer.input_bytes * layers_per_stage * under_way;
      host += away;
      saved -= away;
      saved += 2 * layer.input_bytes;  // one going, one coming
    }
  }
  const double activations = saved;
  // The backward goes through the feed-forward part first, and has let it go when it reaches the attention.
  // Logits are alive when no layer is computed.
  const double held = state.gathered + state.fresh, logits = static_cast<double>(logits_bytes);
  const double feed_forward = std::max(static_cast<double>(layer.working_bytes),
                                       layer.again_bytes + static_cast<double>(layer.norm_bytes));
  const double beside = layer.again_bytes - layer.again_feed_forward_bytes;
  const auto attention = static_cast<double>(layer.attention_bytes);
  const bool by_attention = attention + beside > feed_forward;
  const double working = held + (by_attention ? beside : feed_forward);
  const double layers = working + (by_attention ? attention : 0);
  MemoryNeed need;
  const double transient = std::max(layers, logits + held);
  const bool by_logits = logits + held > layers;
  const auto add = [&](MemoryKind kind, double bytes) {
    const auto whole = static_cast<std::int64_t>(std::llround(bytes));
    if (whole <= 0) return;
    need.parts.push_back({kind, whole});
    need.total_bytes += whole;
  };
  add(MemoryKind::weights, state.weights);
  add(MemoryKind::gradients, state.gradients);
  add(MemoryKind::optimizer, state.optimizer);
  add(MemoryKind::activations, activations);
  add(MemoryKind::attention, by_logits || !by_attention ? 0 : attention);
  add(MemoryKind::working, by_logits ? held : working);
  add(MemoryKind::logits, by_logits ? logits : 0);
  add(MemoryKind::cache, static_cast<double>(cache_bytes));
  add(MemoryKind::context, static_cast<double>(context_bytes));
  add(MemoryKind::fragments, usual_fragments * (activations + transient));
  need.host_bytes = static_cast<std::int64_t>(std::llround(host * gpus_per_node));
  return need;
}

}  // namespace cplab

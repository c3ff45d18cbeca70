// What follows from a model's sizes: its counts, its parameters, and whether it can be.
#include "decide/model.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace cplab {

namespace {

// Above what any model has, and small enough that no product of sizes of one layer leaves 64 bits.
constexpr std::int64_t most_hidden = std::int64_t{1} << 18;
constexpr std::int64_t most_vocabulary = std::int64_t{1} << 24;
constexpr std::int64_t most_heads = std::int64_t{1} << 12;
constexpr std::int64_t most_head_size = std::int64_t{1} << 12;
constexpr std::int64_t most_width = std::int64_t{1} << 22;
constexpr std::int64_t most_experts = std::int64_t{1} << 14;
constexpr std::int64_t most_layers = std::int64_t{1} << 14;
constexpr std::int64_t most_tokens = std::int64_t{1} << 31;
constexpr double most_parameters = 1e15;

// Inputs `from`, outputs `to`.
std::int64_t matrix(std::int64_t from, std::int64_t to, bool bias) {
  return from * to + (bias ? to : 0);
}

std::int64_t softmax_parameters(const Model& model, const AttentionKind& kind) {
  const std::int64_t q = kind.heads * kind.head_size, out = kind.heads * kind.value_size;
  const std::int64_t k = kind.kv_heads * kind.head_size, v = kind.kv_heads * kind.value_size;
  std::int64_t count = matrix(model.hidden, q, kind.bias) + matrix(out, model.hidden, kind.output_bias);
  if (!kind.shares_keys) count += matrix(model.hidden, k, kind.bias) + matrix(model.hidden, v, kind.bias);
  if (kind.output_gate) count += matrix(model.hidden, out, kind.bias);
  if (kind.sink) count += kind.heads;
  if (kind.head_norms) count += (kind.shares_keys ? 1 : 2) * kind.head_size;
  if (kind.whole_norms) count += q + (kind.shares_keys ? 0 : k);
  return count;
}

std::int64_t latent_parameters(const Model& model, const AttentionKind& kind) {
  const std::int64_t q = kind.heads * kind.head_size, out = kind.heads * kind.value_size;
  // Of queries: to the latent, its norm, to the heads. Keys and values share a latent; the columns that are
  // rotated come straight from the hidden row.
  std::int64_t count = kind.query_latent > 0 ? matrix(model.hidden, kind.query_latent, kind.bias) +
                                                   kind.query_latent + kind.query_latent * q
                                             : matrix(model.hidden, q, false);
  count += matrix(model.hidden, kind.kv_latent + kind.rope_size, kind.bias) + kind.kv_latent;
  count += kind.kv_latent * kind.heads * (kind.head_size - kind.rope_size + kind.value_size);
  if (kind.output_gate) count += matrix(model.hidden, out, false);
  return count + matrix(out, model.hidden, kind.output_bias);
}

std::int64_t state_parameters(const Model& model, const AttentionKind& kind) {
  const std::int64_t key = kind.kv_heads * kind.head_size, value = kind.heads * kind.value_size;
  const std::int64_t columns = 2 * key + value;  // q, k, v
  std::int64_t count =
      matrix(model.hidden, columns, kind.bias) + matrix(value, model.hidden, kind.output_bias);
  if (kind.output_gate)
    count +=
        kind.gate_rank > 0 ? (model.hidden + value) * kind.gate_rank : matrix(model.hidden, value, kind.bias);
  count += columns * kind.convolution + (kind.convolution_bias ? columns : 0);
  if (kind.gate_rank > 0) {
    // b of each head; of each of its columns a decay with a bias, and a rate a head.
    const std::int64_t decays = kind.heads * kind.head_size;
    count += matrix(model.hidden, kind.heads, false) + (model.hidden + decays) * kind.gate_rank + decays +
             kind.heads + kind.value_size;
  } else if (kind.mixer == Mixer::gated_delta) {
    // Of each value head b and g are projected; g has a bias and a rate. One norm serves all heads.
    count += matrix(model.hidden, 2 * kind.heads, false) + 2 * kind.heads + kind.value_size;
  } else {
    // The step is projected; its bias, the rate and the weight of the token itself are one a head.
    if (kind.token_decay) count += matrix(model.hidden, kind.heads, kind.bias) + 3 * kind.heads;
    count += value;  // the norm of what comes out
  }
  return count;
}

std::int64_t norm_parameters(const Model& model, const FeedForwardKind& kind) {
  // A layer without a feed-forward part has not its norms either.
  return (kind.width > 0 ? model.layer_norms : model.layer_norms / 2) * model.hidden;
}

std::int64_t layer_parameters(const Model& model, const LayerRun& run, bool active) {
  const FeedForwardKind& feed_forward = model.feed_forward.at(run.feed_forward);
  return attention_parameters(model, model.attention.at(run.attention)) +
         feed_forward_parameters(model, feed_forward, active) + norm_parameters(model, feed_forward);
}

void require_in(std::int64_t value, std::int64_t low, std::int64_t high, const char* key,
                const std::string& where) {
  if (value >= low && value <= high) return;
  throw ModelError(key, where + key + " is " + std::to_string(value) + "; legal: from " +
                            std::to_string(low) + " to " + std::to_string(high));
}

void validate(const AttentionKind& kind) {
  const std::string where = "attention \"" + kind.name + "\": ";
  require_in(kind.heads, 1, most_heads, "heads", where);
  require_in(kind.kv_heads, 1, most_heads, "kv_heads", where);
  if (kind.heads % kind.kv_heads != 0)
    throw ModelError("kv_heads", where + "kv_heads must divide heads = " + std::to_string(kind.heads) +
                                     ", but is " + std::to_string(kind.kv_heads) +
                                     "; legal: " + divisors_text(kind.heads));
  require_in(kind.head_size, 1, most_head_size, "head_size", where);
  require_in(kind.value_size, 1, most_head_size, "value_size", where);
  if (kind.window != -1) require_in(kind.window, 1, most_tokens, "window", where);
  require_in(kind.chunk, 0, most_tokens, "chunk", where);
  require_in(kind.convolution, 0, 64, "convolution", where);
  require_in(kind.gate_rank, 0, most_head_size, "gate_rank", where);
  if (kind.mixer == Mixer::latent) {
    require_in(kind.query_latent, 0, most_hidden, "query_latent", where);
    require_in(kind.kv_latent, 1, most_hidden, "kv_latent", where);
    require_in(kind.rope_size, 0, kind.head_size, "rope_size", where);
  }
}

void validate(const FeedForwardKind& kind) {
  const std::string where = "feed-forward \"" + kind.name + "\": ";
  require_in(kind.width, 0, most_width, "width", where);
  require_in(kind.experts, 0, most_experts, "experts", where);
  require_in(kind.shared_width, 0, most_width, "shared_width", where);
  if (kind.experts > 0) {
    require_in(kind.width, 1, most_width, "width", where);
    require_in(kind.chosen, 1, kind.experts, "chosen", where);
  }
}

}  // namespace

std::string_view name(Mixer mixer) {
  constexpr std::array<std::string_view, 4> names{"softmax", "latent", "gated_delta", "decay"};
  return names.at(static_cast<std::size_t>(mixer));
}

std::string divisors_text(std::int64_t number) {
  std::string text;
  for (std::int64_t each = 1; each <= number; ++each)
    if (number % each == 0) text += (text.empty() ? "" : " ") + std::to_string(each);
  return text;
}

std::int64_t Model::layer_count() const {
  return std::accumulate(layers.begin(), layers.end(), std::int64_t{0},
                         [](std::int64_t sum, const LayerRun& run) { return sum + run.count; });
}

std::int64_t Model::layers_of_attention(std::size_t kind) const {
  return std::accumulate(
      layers.begin(), layers.end(), std::int64_t{0},
      [&](std::int64_t sum, const LayerRun& run) { return sum + (run.attention == kind ? run.count : 0); });
}

std::int64_t attention_parameters(const Model& model, const AttentionKind& kind) {
  switch (kind.mixer) {
    case Mixer::softmax: return softmax_parameters(model, kind);
    case Mixer::latent: return latent_parameters(model, kind);
    default: return state_parameters(model, kind);
  }
}

std::int64_t feed_forward_parameters(const Model& model, const FeedForwardKind& kind, bool active) {
  const auto network = [&](std::int64_t width) {
    return (kind.gated ? 2 : 1) * matrix(model.hidden, width, kind.bias) +
           matrix(width, model.hidden, kind.bias);
  };
  if (kind.width == 0) return 0;
  if (kind.experts == 0) return network(kind.width);
  std::int64_t count = (active ? kind.chosen : kind.experts) * network(kind.width) +
                       matrix(model.hidden, kind.experts, kind.bias);
  if (kind.shared_width > 0) count += network(kind.shared_width) + (kind.shared_gate ? model.hidden : 0);
  return count;
}

std::int64_t embedding_parameters(const Model& model) {
  return (model.tied_embeddings ? 1 : 2) * model.vocabulary * model.hidden;
}

std::int64_t parameters(const Model& model, bool active) {
  std::int64_t count = embedding_parameters(model) + model.hidden;  // and the last norm
  for (const LayerRun& run : model.layers) count += run.count * layer_parameters(model, run, active);
  return count;
}

std::int64_t prediction_parameters(const Model& model, bool active) {
  if (model.prediction_layers == 0) return 0;
  const std::int64_t joining = 2 * model.hidden * model.hidden + 3 * model.hidden;
  return model.prediction_layers * (layer_parameters(model, model.layers.back(), active) + joining);
}

void validate(const Model& model) {
  require_in(model.hidden, 1, most_hidden, "hidden", "");
  require_in(model.vocabulary, 1, most_vocabulary, "vocabulary", "");
  require_in(model.prediction_layers, 0, 64, "prediction_layers", "");
  require_in(model.layer_norms, 0, 8, "layer_norms", "");
  for (const AttentionKind& kind : model.attention) validate(kind);
  for (const FeedForwardKind& kind : model.feed_forward) validate(kind);
  std::int64_t layers = 0;
  double total = static_cast<double>(embedding_parameters(model));
  for (const LayerRun& run : model.layers) {
    require_in(run.count, 1, most_layers, "layers", "a run of layers: ");
    layers += run.count;
    require_in(layers, 1, most_layers, "layers", "");
    if (run.attention >= model.attention.size() || run.feed_forward >= model.feed_forward.size())
      throw ModelError("layers", "a run of layers names a kind that the model has not");
    total += static_cast<double>(run.count) * static_cast<double>(layer_parameters(model, run, false));
  }
  require_in(layers, 1, most_layers, "layers", "");
  if (total > most_parameters)
    throw ModelError("hidden", "the sizes make more than 10^15 parameters, which no model has");
}

}  // namespace cplab

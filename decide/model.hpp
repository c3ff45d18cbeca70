// A language model as far as time and memory of a step depend on it: its layers by kind, and what surrounds
// them. Plain data, filled by cli/files/model_file from a Hugging Face config.json or from [model] of a
// scenario.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cplab {

// What a layer mixes tokens with.
// softmax: scaled dot products of H query heads and G key/value heads.
// latent: MLA (DeepSeek-V2, arXiv 2405.04434): keys and values are projections of one latent row per token.
// gated_delta: S_t = exp(g_t) (I - b_t k_t k_t^T) S_{t-1} + b_t k_t v_t^T (Gated DeltaNet, arXiv 2412.06464).
// decay: S_t = exp(g_t) S_{t-1} + k_t v_t^T, a constant g per head (lightning attention, arXiv 2401.04658) or
// one of the token (Mamba-2, arXiv 2405.21060).
enum class Mixer : std::uint8_t { softmax, latent, gated_delta, decay };
std::string_view name(Mixer);

// One kind of attention layer. Sizes are of the whole model, before tensor parallelism cuts them.
struct AttentionKind {
  std::string name = {};  // "global", "window 4096", "latent", "gated delta": as answers call it
  Mixer mixer = Mixer::softmax;
  // softmax, latent: query and key/value heads (of latent as many as query heads once they are projected).
  // gated_delta, decay: value heads, and key heads, each of which serves several of them.
  std::int64_t heads = 0, kv_heads = 0;
  std::int64_t head_size = 0, value_size = 0;  // D and E; of latent D includes the rope_size
  std::int64_t window = -1;  // keys before its own that a query sees, its own counted; -1: all
  std::int64_t chunk = 0;    // tokens see only their own chunk of so many; 0: no chunks
  bool sink = false;         // a learnable logit per head without value (gpt-oss)
  double softcap = 0;        // of logits (Gemma 2); 0: none
  bool output_gate = false;  // a gate as wide as out, projected from the layer's input
  bool bias = false;         // the projections to q, k, v have biases (of latent: those to the latents)
  bool output_bias = false;  // and so has the one from out
  bool head_norms = false;   // RMSNorm of each head's q and k, with a weight for each of the D columns
  bool whole_norms = false;  // RMSNorm of q and of k over all heads at once (OLMo 2)
  // latent: the widths of the latents of queries (0: q is projected directly) and of keys and values, and of
  // the columns of a head that rotary embedding turns, which all heads of a token share among the keys.
  std::int64_t query_latent = 0, kv_latent = 0, rope_size = 0;
  std::int64_t convolution = 0;  // taps of the short causal convolution over q, k, v; 0: none
  bool convolution_bias = false;
  // Of gated_delta: decays of each column of a head, and decays and gate are projected over so narrow a row
  // (Kimi Linear); 0: one decay a head, and both straight from the layer's input.
  std::int64_t gate_rank = 0;
  bool token_decay = false;  // of decay: g is projected from the token (Mamba-2), else a constant
  // Of a softmax layer whose keys and values are those of an earlier layer: it projects and keeps none.
  bool shares_keys = false;
};

// The feed-forward part of a layer; of experts each token takes `chosen`. width 0: the layer has none.
struct FeedForwardKind {
  std::string name;                      // "dense", "128 experts, 8 each"
  std::int64_t width = 0;                // of the dense one, or of one expert
  bool gated = true;                     // gate, up and down matrices (SwiGLU); else up and down
  std::int64_t experts = 0, chosen = 0;  // 0: dense
  std::int64_t shared_width = 0;         // of what every token takes beside its experts; 0: nothing
  bool shared_gate = false;              // a sigmoid per token on it (Qwen2-MoE)
  bool bias = false;                     // all matrices have biases, the router's too
};

// `count` layers in a row with the same two parts, by index into Model::attention and Model::feed_forward.
struct LayerRun {
  std::size_t attention = 0, feed_forward = 0;
  std::int64_t count = 0;
};

struct Model {
  std::string name;
  std::int64_t hidden = 0, vocabulary = 0;
  bool tied_embeddings = false;  // one matrix for tokens in and logits out
  std::int64_t layer_norms = 2;  // RMSNorms of the hidden width in a layer (Gemma 2 has four)
  std::int64_t prediction_layers =
      0;  // of multi-token prediction, each a layer like the last one; they train only
  std::int64_t max_positions = 0;  // that the config names; 0: none. Beyond it an answer says so.
  std::vector<AttentionKind> attention;
  std::vector<FeedForwardKind> feed_forward;
  std::vector<LayerRun> layers;  // in order of depth
  // Keys of the config that nobody knows, as paths ("text_config.altup"), sorted: they may matter.
  std::vector<std::string> unread;
  // Sizes that the config leaves to its architecture, as text: "head_dim = 128".
  std::vector<std::string> assumed;

  std::int64_t layer_count() const;  // without prediction layers
  std::int64_t layers_of_attention(std::size_t kind) const;
};

// Parameters (weights and biases, elements) of one part; `active` counts of experts the chosen ones. The
// norms of the hidden width belong to neither.
std::int64_t attention_parameters(const Model&, const AttentionKind&);
std::int64_t feed_forward_parameters(const Model&, const FeedForwardKind&, bool active);
// Of the token embedding and, unless it is the same matrix, of the one that makes logits.
std::int64_t embedding_parameters(const Model&);
// Of the whole model without its prediction layers: layers, norms, embeddings. `active` includes both
// embeddings.
std::int64_t parameters(const Model&, bool active);
// Of the prediction layers, which use the embeddings of the model: each has a layer like the last one, the
// projection of two rows (hidden state and next token) to one, and three norms. 0 without such layers.
std::int64_t prediction_parameters(const Model&, bool active);

// "1 2 4 7 14 28": what divides a number of heads, for messages.
std::string divisors_text(std::int64_t number);

// The model cannot be: `key` is the field of AttentionKind, FeedForwardKind or Model that is wrong.
struct ModelError : std::runtime_error {
  ModelError(std::string key_, const std::string& message)
      : std::runtime_error(message), key(std::move(key_)) {}
  std::string key;
};
// Throws ModelError for sizes that are not positive, heads that do not divide, runs that name no kind,
// numbers beyond what any model has.
void validate(const Model&);

}  // namespace cplab

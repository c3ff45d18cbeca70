// The architectures of Hugging Face configs that are read: what differs between them as data. What a config
// may leave out is taken from here, with the values that transformers takes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cplab {

// Which of the projections of softmax attention have biases.
enum class Biases : std::uint8_t {
  none,
  inputs,          // q, k, v, unless the config says qkv_bias = false
  by_key,          // all four if attention_bias
  inputs_by_key,   // q, k, v if attention_bias
  out_by_own_key,  // q, k, v if attention_bias, out if attention_out_bias
  by_use_bias,     // all of the model if use_bias
};

// Norms of q and k: none, one a head, one over all heads, one a head if use_qk_norm.
enum class QkNorms : std::uint8_t { none, heads, whole, heads_by_key };

// Which layers have a window where layer_types does not say it.
enum class Windows : std::uint8_t {
  none,
  all,          // if sliding_window is given
  last_layers,  // from max_window_layers on, if use_sliding_window
  pattern,      // all but each sliding_window_pattern-th
  chunks,       // llama4: all but each no_rope_layer_interval-th see their own chunk
};

// Which layers have experts.
enum class Mixtures : std::uint8_t {
  none,
  all,
  behind_dense,  // from first_k_dense_replace on, every moe_layer_freq-th
  sparse_step,   // every decoder_sparse_step-th, but those of mlp_only_layers
  span,  // ernie4_5_moe: from moe_layer_start_index to moe_layer_end_index, every moe_layer_interval-th
  interleaved,  // llama4: every interleave_moe_layer_step-th
};

// What the layers that are no softmax attention are.
// kimi_delta: gated delta with a decay of each column; its keys stand in linear_attn_config.
enum class States : std::uint8_t { none, gated_delta, kimi_delta, lightning, mamba2 };

struct Architecture {
  std::string_view type;                       // model_type
  std::vector<std::string_view> aliases = {};  // other model_types that are read the same way
  bool latent = false;                         // MLA
  std::int64_t kv_heads = 0;                   // if the config does not say; 0: as many as heads
  std::int64_t head_size = 0;                  // the same; 0: hidden / heads
  Biases biases = Biases::by_key;
  bool biased = false;  // attention_bias or use_bias where the config does not say
  QkNorms norms = QkNorms::none;
  bool tied = false;             // tie_word_embeddings where the config does not say
  std::int64_t layer_norms = 2;  // of the hidden width in a layer
  Windows windows = Windows::none;
  std::int64_t pattern = 0;  // sliding_window_pattern where the config does not say
  std::int64_t window = 0;   // sliding_window, the same
  bool sink = false;
  Mixtures mixtures = Mixtures::none;
  std::string_view expert_width = "moe_intermediate_size";
  bool shared_gate = false;
  bool expert_bias = false;
  bool gated = true;  // the feed-forward part
  States states = States::none;
  std::int64_t state_period = 0;  // every so many layers one of softmax attention, where nothing says it
  // Sizes that configs of this architecture leave out, with the value that is meant.
  std::vector<std::pair<std::string_view, std::int64_t>> sizes = {};
};

const std::vector<Architecture>& architectures();
// Of this model_type; null: not known.
const Architecture* find_architecture(std::string_view type);
// All that are known, aliases too, sorted.
std::vector<std::string> known_model_types();

// Why a model_type that many know is not read: "attends to keys that an indexer selects, ...". Empty: no
// reason but that it has no row.
std::string_view why_not_planned(std::string_view type);

// Does nothing that is planned depend on this key of a config: rotary constants, dropout, ids of tokens, how
// it was made?
bool has_no_effect(std::string_view key);

}  // namespace cplab

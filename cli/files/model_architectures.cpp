// The table of architectures; see model_architectures.hpp. Sources: the configuration and modelling files of
// transformers 4.56 to 5.24, and of the models' own repositories.
#include "cli/files/model_architectures.hpp"

#include <algorithm>
#include <array>

namespace cplab {

namespace {

std::vector<Architecture> dense_architectures() {
  return {
      {.type = "llama"},
      {.type = "mistral", .kv_heads = 8, .biases = Biases::none, .windows = Windows::all},
      {.type = "ministral",
       .aliases = {"ministral3"},
       .kv_heads = 8,
       .biases = Biases::none,
       .windows = Windows::all},
      {.type = "qwen2",
       .aliases = {"qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "qwen2_5_omni_text"},
       .biases = Biases::inputs,
       .windows = Windows::last_layers},
      {.type = "qwen3",
       .aliases = {"qwen3_vl_text"},
       .head_size = 128,
       .norms = QkNorms::heads,
       .windows = Windows::last_layers},
      {.type = "gemma", .head_size = 256, .tied = true},
      {.type = "gemma2",
       .head_size = 256,
       .tied = true,
       .layer_norms = 4,
       .windows = Windows::pattern,
       .pattern = 2,
       .window = 4096},
      {.type = "gemma3_text",
       .aliases = {"gemma3"},
       .head_size = 256,
       .norms = QkNorms::heads,
       .tied = true,
       .layer_norms = 4,
       .windows = Windows::pattern,
       .pattern = 6,
       .window = 4096,
       .sizes = {{"num_attention_heads", 8}, {"num_key_value_heads", 4}, {"vocab_size", 262208}}},
      {.type = "phi3", .biases = Biases::none, .windows = Windows::all},
      {.type = "olmo2", .norms = QkNorms::whole},
      {.type = "olmo3", .norms = QkNorms::whole, .windows = Windows::pattern, .pattern = 4, .window = 4096},
      {.type = "glm", .head_size = 128, .biases = Biases::inputs_by_key, .biased = true},
      {.type = "glm4", .head_size = 128, .biases = Biases::inputs_by_key, .biased = true, .layer_norms = 4},
      {.type = "smollm3", .tied = true},
      {.type = "seed_oss", .head_size = 128, .biases = Biases::out_by_own_key, .biased = true},
      {.type = "granite", .tied = false},
      {.type = "cohere", .norms = QkNorms::none, .tied = true, .layer_norms = 1},
      {.type = "cohere2",
       .tied = true,
       .layer_norms = 1,
       .windows = Windows::pattern,
       .pattern = 4,
       .window = 4096},
      {.type = "exaone4",
       .biases = Biases::none,
       .norms = QkNorms::heads,
       .windows = Windows::pattern,
       .pattern = 4,
       .window = 4096},
      {.type = "starcoder2",
       .biases = Biases::by_use_bias,
       .biased = true,
       .tied = true,
       .layer_norms = 4,
       .windows = Windows::all,
       .gated = false},
      {.type = "ernie4_5", .biases = Biases::by_use_bias, .tied = true},
      {.type = "hunyuan_v1_dense", .norms = QkNorms::heads_by_key},
      {.type = "internlm2", .aliases = {"internlm3"}, .biases = Biases::none},
      {.type = "arcee", .gated = false},
      {.type = "nemotron", .layer_norms = 4, .gated = false},
      {.type = "apertus", .norms = QkNorms::heads, .gated = false},
  };
}

std::vector<Architecture> expert_architectures() {
  return {
      {.type = "mixtral",
       .kv_heads = 8,
       .biases = Biases::none,
       .windows = Windows::all,
       .mixtures = Mixtures::all,
       .expert_width = "intermediate_size"},
      {.type = "qwen2_moe",
       .biases = Biases::inputs,
       .windows = Windows::last_layers,
       .mixtures = Mixtures::sparse_step,
       .shared_gate = true},
      {.type = "qwen3_moe",
       .aliases = {"qwen3_vl_moe_text", "qwen3_omni_moe_text"},
       .norms = QkNorms::heads,
       .windows = Windows::last_layers,
       .mixtures = Mixtures::sparse_step},
      {.type = "gpt_oss",
       .head_size = 64,
       .biased = true,
       .windows = Windows::pattern,
       .pattern = 2,
       .window = 128,
       .sink = true,
       .mixtures = Mixtures::all,
       .expert_width = "intermediate_size",
       .expert_bias = true},
      {.type = "deepseek", .mixtures = Mixtures::behind_dense},
      {.type = "deepseek_v2", .latent = true, .mixtures = Mixtures::behind_dense},
      {.type = "deepseek_v3",
       .aliases = {"kimi_k2", "glm4_moe_lite"},
       .latent = true,
       .mixtures = Mixtures::behind_dense},
      {.type = "llama4_text",
       .aliases = {"llama4"},
       .head_size = 128,
       .windows = Windows::chunks,
       .pattern = 4,
       .window = 8192,
       .mixtures = Mixtures::interleaved,
       .expert_width = "intermediate_size"},
      {.type = "glm4_moe",
       .aliases = {"glm4v_moe_text"},
       .head_size = 128,
       .biases = Biases::inputs_by_key,
       .norms = QkNorms::heads_by_key,
       .mixtures = Mixtures::behind_dense},
      {.type = "dots1", .norms = QkNorms::heads, .mixtures = Mixtures::behind_dense},
      {.type = "olmoe",
       .norms = QkNorms::whole,
       .mixtures = Mixtures::all,
       .expert_width = "intermediate_size"},
      {.type = "granitemoe", .mixtures = Mixtures::all, .expert_width = "intermediate_size"},
      {.type = "bailing_moe",
       .aliases = {"bailing_moe_v2"},
       .biases = Biases::none,
       .norms = QkNorms::heads_by_key,
       .mixtures = Mixtures::behind_dense},
      {.type = "ernie4_5_moe", .biases = Biases::by_use_bias, .tied = true, .mixtures = Mixtures::span},
      {.type = "minimax_m2",
       .head_size = 128,
       .biases = Biases::none,
       .norms = QkNorms::whole,
       .mixtures = Mixtures::all,
       .expert_width = "intermediate_size"},
  };
}

std::vector<Architecture> state_architectures() {
  return {
      {.type = "qwen3_next",
       .head_size = 256,
       .norms = QkNorms::heads,
       .mixtures = Mixtures::sparse_step,
       .shared_gate = true,
       .states = States::gated_delta,
       .state_period = 4},
      {.type = "qwen3_5_text",
       .aliases = {"qwen3_5"},
       .head_size = 256,
       .norms = QkNorms::heads,
       .states = States::gated_delta,
       .state_period = 4},
      {.type = "qwen3_5_moe_text",
       .aliases = {"qwen3_5_moe"},
       .head_size = 256,
       .norms = QkNorms::heads,
       .mixtures = Mixtures::all,
       .shared_gate = true,
       .states = States::gated_delta,
       .state_period = 4},
      {.type = "minimax",
       .aliases = {"minimax_text_01", "minimax_m1"},
       .biases = Biases::none,
       .mixtures = Mixtures::all,
       .expert_width = "intermediate_size",
       .states = States::lightning,
       .state_period = 2},
      {.type = "kimi_linear",
       .latent = true,
       .mixtures = Mixtures::behind_dense,
       .states = States::kimi_delta,
       .state_period = 4},
      {.type = "nemotron_h",
       .head_size = 128,
       .mixtures = Mixtures::behind_dense,
       .gated = false,
       .states = States::mamba2},
      {.type = "bamba", .states = States::mamba2},
      {.type = "granitemoehybrid", .states = States::mamba2},
      {.type = "mamba2", .states = States::mamba2},
  };
}

}  // namespace

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> all = [] {
    std::vector<Architecture> table = dense_architectures();
    for (const auto& more : {expert_architectures(), state_architectures()})
      table.insert(table.end(), more.begin(), more.end());
    return table;
  }();
  return all;
}

const Architecture* find_architecture(std::string_view type) {
  for (const Architecture& each : architectures())
    if (each.type == type || std::find(each.aliases.begin(), each.aliases.end(), type) != each.aliases.end())
      return &each;
  return nullptr;
}

std::vector<std::string> known_model_types() {
  std::vector<std::string> types;
  for (const Architecture& each : architectures()) {
    types.emplace_back(each.type);
    types.insert(types.end(), each.aliases.begin(), each.aliases.end());
  }
  std::sort(types.begin(), types.end());
  return types;
}

std::string_view why_not_planned(std::string_view type) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 14> reasons{{
      {"deepseek_v32", "attends to keys that an indexer selects"},
      {"deepseek_v4", "attends to keys that an indexer selects"},
      {"glm_moe_dsa", "attends to keys that an indexer selects"},
      {"falcon_h1", "attends and keeps a state side by side in one layer"},
      {"hymba", "attends and keeps a state side by side in one layer"},
      {"jamba", "keeps the states of Mamba-1"},
      {"mamba", "keeps the states of Mamba-1"},
      {"falcon_mamba", "keeps the states of Mamba-1"},
      {"rwkv", "keeps states of another recurrence"},
      {"recurrent_gemma", "keeps states of another recurrence"},
      {"gemma3n", "has embeddings in every layer"},
      {"gemma4", "has embeddings in every layer"},
      {"bert", "has an encoder"},
      {"t5", "has an encoder"},
  }};
  const auto* found =
      std::find_if(reasons.begin(), reasons.end(), [&](const auto& each) { return each.first == type; });
  return found == reasons.end() ? std::string_view() : found->second;
}

bool has_no_effect(std::string_view key) {
  static constexpr std::array names{
      "activation_function",
      "architectures",
      "attention_multiplier",
      "attention_out_multiplier",
      "attention_softmax_in_fp32",
      "attn_factor",
      "attn_implementation",
      "attn_output_gate",
      "attn_rotary_emb",
      "attn_scale",
      "attn_temperature_tuning",
      "auto_map",
      "aux_loss_alpha",
      "block_size",
      "cache_implementation",
      "chunk_size",
      "chunk_size_feed_forward",
      "clip_qkv",
      "dtype",
      "embedding_multiplier",
      "ep_size",
      "final_logit_softcapping",
      "floor_scale",
      "for_llm_compressor",
      "hidden_act",
      "hidden_activation",
      "initial_context_length",
      "initializer_factor",
      "initializer_range",
      "language_model_only",
      "logit_scale",
      "logits_scaling",
      "mamba_chunk_size",
      "mamba_ssm_dtype",
      "max_new_tokens",
      "mlp_hidden_act",
      "mm_tokens_per_image",
      "model_max_length",
      "mrope_interleaved",
      "mtp_use_dedicated_embeddings",
      "n_group",
      "norm_topk_prob",
      "norm_type",
      "normalization_function",
      "num_logits_to_keep",
      "original_max_position_embeddings",
      "output_attentions",
      "output_hidden_states",
      "output_router_logits",
      "partial_rotary_factor",
      "position_embedding_type",
      "postnorm",
      "pretraining_tp",
      "problem_type",
      "query_pre_attn_scalar",
      "rescale_prenorm_residual",
      "residual_in_fp32",
      "residual_multiplier",
      "return_dict",
      "rms_norm",
      "rotary_dim",
      "routed_scaling_factor",
      "scale_attention_softmax_in_fp32",
      "scale_attn_weights",
      "scoring_func",
      "seq_aux",
      "shared_moe_mode",
      "sliding_window_size",
      "swiglu_alpha",
      "swiglu_limit",
      "topk_group",
      "topk_method",
      "torch_dtype",
      "torchscript",
      "transformers_version",
      "use_cache",
      "use_mamba_kernels",
      "use_pos_enc",
      "use_return_dict",
      "use_routing_bias",
      "z_loss_coefficient",
  };
  static constexpr std::array beginnings{"_",          "rope_", "router_",       "time_step_",
                                         "layernorm_", "yarn_", "mlp_multiplier"};
  static constexpr std::array ends{"_token_id",     "_token_index", "_token_ids", "dropout",
                                   "_pdrop",        "_eps",         "_epsilon",   "_aux_loss_coef",
                                   "_alpha_factor", "_beta_factor"};
  return std::find(names.begin(), names.end(), key) != names.end() ||
         std::any_of(beginnings.begin(), beginnings.end(),
                     [&](const char* each) { return key.starts_with(each); }) ||
         std::any_of(ends.begin(), ends.end(), [&](const char* each) { return key.ends_with(each); });
}

}  // namespace cplab

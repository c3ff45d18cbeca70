// Words of other tools for what is not here, or not one key: what is said of them is a whole sentence. Where
// a feature comes, its row goes.
#include "cli/synonyms.hpp"

namespace cplab::synonyms {

const std::vector<Synonyms>& explained() {
  static const std::vector<Synonyms> table{
      {"tokens that all queries see beside their window (StreamingLLM's sinks) are not in this version; a "
       "logit without a value in every row's sum is problem.sink = \"head\".",
       {"sink_tokens", "num_sink_tokens", "sink_size"}},
      {"there is no dropout: results are compared with a reference, which draws nothing at random.",
       {"dropout", "attn_dropout", "attention_dropout", "dropout_p", "p_dropout", "attn_pdrop",
        "attention_probs_dropout_prob", "dropout_rate", "dropout_prob"}},
      {"a scenario is one attention call of one layer; other layers are not counted.",
       {"layers", "num_layers", "n_layers", "n_layer", "num_hidden_layers", "depth", "decoder_layers"}},
      {"a scenario is one attention call: heads, head_size and tokens of it, and no model around it.",
       {"hidden_size", "hidden", "d_model", "n_embd", "ffn", "ffn_hidden_size", "ffn_dim",
        "intermediate_size", "vocab_size", "vocabulary", "model", "model_name", "preset", "num_experts",
        "moe", "experts", "mlp", "embedding"}},
      {"a scenario is one attention call; under tensor parallelism give heads and kv_heads of one "
       "tensor-parallel rank.",
       {"tp", "tp_size", "tensor_parallel", "tensor_parallel_size", "tensor_model_parallel_size", "tp_degree",
        "tensor_parallel_degree"}},
      {"a scenario is one attention call, which this kind of parallelism does not change.",
       {"pp", "pp_size", "pipeline_parallel", "pipeline_parallel_size", "pipeline_model_parallel_size", "ep",
        "ep_size", "expert_parallel", "expert_parallel_size", "expert_model_parallel_size", "vpp", "fsdp",
        "zero", "zero_stage", "hsdp"}},
      {"a scenario is one attention call; there is no training step around it.",
       {"lr", "learning_rate", "optimizer", "optim", "epochs", "adam", "micro_batches", "num_microbatches",
        "gradient_accumulation_steps", "recompute", "activation_checkpointing", "gradient_checkpointing",
        "activation_recompute", "checkpointing", "trainer", "weight_decay", "training_args"}},
      {"it is applied to q and k before attention, and is no part of it.",
       {"rope", "rope_theta", "rotary", "rotary_emb", "rotary_dim", "rotary_base", "rope_scaling",
        "rotary_percent", "position_embedding", "position_embedding_type", "qk_norm", "qk_layernorm",
        "q_norm", "k_norm"}},
      {"positions begin at 0; queries that stand behind earlier keys are kv_sequence with align = "
       "\"bottom_right\".",
       {"q_offset", "kv_offset", "k_offset", "query_offset", "offset", "position_ids", "start_pos",
        "cache_position", "q_start", "seqlen_offset", "seqlen_offsets"}},
      {"a cache of earlier keys is kv_sequence (or kv_lengths) with align = \"bottom_right\"; how it lies in "
       "memory is not described.",
       {"kv_cache", "cache", "kv_cache_dtype", "page_size", "block_table", "paged", "paged_kv", "cache_len",
        "past_key_values", "decode", "decoding", "num_splits", "split_kv", "use_cache", "cache_seqlens"}},
      {"latent attention is problem.kv_latent (kv_lora_rank) and rope_size (qk_rope_head_dim), beside the "
       "heads that they expand to: head_size = 192 (qk_nope_head_dim + qk_rope_head_dim), value_size = 128.",
       {"q_lora_rank", "qk_nope_head_dim", "mla"}},
      {"a mask is given by lengths, mask, window, chunk, prefix, groups and mask_rectangles = [[q0, q1, k0, "
       "k1, "
       "\"full\"|\"causal\"|\"inverse_causal\"], ...]: write one rectangle for each pair of ranges (with "
       "mask = "
       "\"none\" nothing else is seen).",
       {"q_ranges", "k_ranges", "attn_type_map", "attn_types", "slice_map", "block_mask", "mask_mod",
        "score_mod", "attn_mask_tensor", "global_tokens", "attention_pattern", "dense_mask",
        "flex_attention"}},
      {"nothing fails, and links are shared but not congested; [[simulate.slow]] says which ranks are "
       "slower.",
       {"congestion", "failure", "failures"}},
      {"speeds come from the measured tables of the hardware file; where it is one of a data sheet, from its "
       "section [efficiency].",
       {"efficiency", "mfu", "flops_efficiency", "utilization", "utilisation", "bandwidth_efficiency"}},
      {"times and bytes are predicted, no price and no energy.",
       {"price", "cost", "cost_per_hour", "dollars", "energy", "power", "watts", "tdp"}},
      {"out and lse are always results, attention weights never.",
       {"return_lse", "output_lse", "return_softmax", "return_softmax_lse", "need_weights",
        "return_attn_probs", "output_attentions"}},
      {"--seed N of run and verify draws inputs, simulate.seed the jitter of kernels.",
       {"random_seed", "manual_seed", "rng"}},
      {"all there is to say is said; --quiet says less.",
       {"verbose", "v", "vv", "debug", "log_level", "loglevel", "log", "info"}},
  };
  return table;
}

const std::vector<Synonyms>& explained_commands() {
  static const std::vector<Synonyms> table{
      {"there is none yet.", {"advise"}},
      {"scripts in plots/ draw results (plots/timeline.py --help).", {"plot", "draw", "figure", "chart"}},
  };
  return table;
}

const std::vector<Synonyms>& machines() {
  static constexpr std::string_view own_file =
      "no such machine is shipped: write what its data sheet says as a100x8.toml does, with [efficiency], or "
      "measure it with cplab calibrate.";
  static const std::vector<Synonyms> table{
      {"h100x8", {"h100", "h100_sxm", "h100_80gb", "dgx_h100", "hgx_h100", "p5", "hopper", "dgx"}},
      {"h200x4", {"h200", "h200_sxm", "dgx_h200", "hgx_h200", "p5e"}},
      {"a100x8", {"a100", "a100_sxm", "a100_80gb", "dgx_a100", "p4de", "ampere"}},
      {"h800x8", {"h800"}},
      {"b200x8", {"b200", "hgx_b200", "dgx_b200", "p6", "blackwell"}},
      {"gb200-nvl72", {"gb200", "nvl72", "gb200_nvl72", "gb200x72"}},
      {"gb300-nvl72", {"gb300", "b300", "gb300_nvl72", "gb300x72"}},
      {"mi300x8", {"mi300", "mi300x"}},
      {own_file,
       {"b100",    "a800", "h20",     "gh200", "l40",    "l40s",   "l4",  "v100",  "a10",   "a40",
        "rtx4090", "4090", "rtx3090", "mi250", "mi325x", "mi355x", "tpu", "tpuv5", "gaudi", "trainium"}},
  };
  return table;
}

}  // namespace cplab::synonyms

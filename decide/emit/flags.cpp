// The flags that may be emitted: where each is declared and what of a layout it says. tests/decide compares
// them with the lists of arguments that scripts/framework_arguments.py reads from the frameworks' sources.
#include "decide/emit/emit.hpp"

#include <array>

namespace cplab {
namespace {

struct Row {
  std::string_view flag, file, says;
  bool open = false;
};
struct Source {
  std::string_view repository, seen;
};

constexpr Source megatron_source = {"NVIDIA/Megatron-LM", "commit d98e8a64ddf3, 2026-08-22"};
constexpr std::string_view core_parallel = "megatron/core/model_parallel_config.py";
constexpr std::string_view core_layers = "megatron/core/transformer/transformer_config.py";
constexpr std::string_view megatron_arguments = "megatron/training/arguments.py";
constexpr std::string_view megatron_training = "megatron/training/config/training_config.py";
constexpr std::array megatron_rows = {
    Row{"--tensor-model-parallel-size", core_parallel, "tp"},
    Row{"--sequence-parallel", core_parallel, "tp: activations between its products are cut too"},
    Row{"--context-parallel-size", core_parallel, "cp"},
    Row{"--cp-comm-type", megatron_arguments, "algorithm, for all layers or for each"},
    Row{"--hierarchical-context-parallel-sizes", core_parallel, "inner ranks of hierarchical and usp"},
    Row{"--pipeline-model-parallel-size", core_parallel, "pp"},
    Row{"--num-virtual-stages-per-pipeline-rank", megatron_arguments, "pipeline_chunks"},
    Row{"--expert-model-parallel-size", core_parallel, "ep"},
    Row{"--expert-tensor-parallel-size", core_parallel, "etp"},
    Row{"--use-distributed-optimizer", megatron_arguments, "zero of 1 and more"},
    Row{"--use-megatron-fsdp", "megatron/training/config/common_config.py", "zero of 2 and 3"},
    Row{"--data-parallel-sharding-strategy", megatron_arguments, "zero of 2 and 3"},
    Row{"--ckpt-format", megatron_training, "zero of 2 and 3: the one format that goes with it"},
    Row{"--recompute-granularity", core_layers, "recompute"},
    Row{"--recompute-method", core_layers, "recompute = full"},
    Row{"--recompute-num-layers", core_layers, "recompute = full"},
    Row{"--recompute-modules", core_layers, "recompute = selective"},
    Row{"--bf16", core_parallel, "dtype"},
    Row{"--fp16", core_parallel, "dtype"},
    Row{"--fp8-format", core_layers, "dtype"},
    Row{"--fp4-format", core_layers, "dtype"},
    Row{"--optimizer-cpu-offload", megatron_arguments, "offload_optimizer"},
    Row{"--optimizer-offload-fraction", megatron_arguments, "offload_optimizer"},
    Row{"--use-precision-aware-optimizer", megatron_arguments, "offload_optimizer, which needs it"},
    Row{"--cpu-offloading-num-layers", core_parallel, "offload_checkpoints"},
    Row{"--cross-entropy-loss-fusion", core_parallel, "loss_chunks above 1, the nearest to it"},
    Row{"--cross-entropy-fusion-impl", core_parallel, "loss_chunks above 1, the nearest to it"},
    Row{"--window-size", megatron_arguments, "window"},
    Row{"--window-attn-skip-freq", megatron_arguments, "which layers have the window"},
    Row{"--softmax-type", core_layers, "sink"},
    Row{"--micro-batch-size", megatron_training, "micro_batch"},
    Row{"--global-batch-size", megatron_training, "micro_batch x micro_batches x dp"},
    Row{"--seq-length", megatron_arguments, "sequence"},
};

constexpr Source torchtitan_source = {"pytorch/torchtitan", "commit b5bcd76c66d0, 2026-08-21"};
constexpr std::string_view titan_config = "torchtitan/config/configs.py";
constexpr std::string_view titan_checkpoint = "torchtitan/distributed/activation_checkpoint.py";
constexpr std::array torchtitan_rows = {
    Row{"--parallelism.tensor_parallel_degree", titan_config, "tp"},
    Row{"--parallelism.context_parallel_degree", titan_config, "cp"},
    Row{"--parallelism.context_parallel_load_balancer", titan_config, "placement"},
    Row{"--parallelism.pipeline_parallel_degree", titan_config, "pp"},
    Row{"--parallelism.pipeline_parallel_schedule", titan_config, "pipeline_chunks"},
    Row{"--parallelism.pipeline_parallel_layers_per_stage", titan_config, "pipeline_chunks"},
    Row{"--parallelism.num_pp_microbatches", titan_config, "micro_batches of a pipeline"},
    Row{"--parallelism.expert_parallel_degree", titan_config, "ep"},
    Row{"--parallelism.data_parallel_replicate_degree", titan_config, "dp with zero = 0"},
    Row{"--parallelism.data_parallel_shard_degree", titan_config, "dp with zero of 1 and more"},
    Row{"--parallelism.fsdp_reshard_after_forward", titan_config, "zero of 2 or 3"},
    Row{"--training.max_context_length", titan_config, "sequence"},
    Row{"--training.num_tokens_per_microbatch_per_dp_rank", titan_config, "micro_batch x sequence"},
    Row{"--training.num_tokens_per_train_step", titan_config, "tokens of a step"},
    Row{"--training.mixed_precision_param", titan_config, "dtype"},
    Row{"--training.enable_cpu_offload", titan_config, "offload_optimizer"},
    Row{"--loss.num_chunks", "torchtitan/components/loss.py", "loss_chunks"},
    Row{"activation-checkpoint:none", titan_checkpoint, "recompute = none"},
    Row{"activation-checkpoint:selective", titan_checkpoint, "recompute = selective"},
    Row{"activation-checkpoint:full", titan_checkpoint, "recompute = full"},
};

constexpr Source verl_source = {"verl-project/verl", "commit 1dda039b9c63, 2026-08-22"};
constexpr std::string_view verl_fsdp = "verl/trainer/config/engine/fsdp.yaml";
constexpr std::string_view verl_core = "verl/trainer/config/engine/megatron.yaml";
constexpr std::string_view verl_model = "verl/trainer/config/model/hf_model.yaml";
constexpr std::string_view verl_sft = "verl/trainer/config/sft_trainer_engine.yaml";
constexpr std::array verl_rows = {
    Row{"engine=fsdp", verl_fsdp, "that only cp and dp are above 1"},
    Row{"optim=fsdp", "verl/trainer/config/optim/fsdp.yaml", "the optimizer of that engine"},
    Row{"engine.strategy", verl_fsdp, "offload_optimizer, which needs fsdp2"},
    Row{"engine.ulysses_sequence_parallel_size", verl_fsdp, "cp of all_to_all"},
    Row{"engine.fsdp_size", verl_fsdp, "zero = 0 or more"},
    Row{"engine.reshard_after_forward", verl_fsdp, "zero of 2 or 3"},
    Row{"engine.offload_policy", verl_fsdp, "offload_optimizer"},
    Row{"engine.dtype", verl_fsdp, "dtype"},
    Row{"engine=megatron", verl_core, "that other degrees are above 1, or another algorithm is asked for"},
    Row{"optim=megatron", "verl/trainer/config/optim/megatron.yaml", "the optimizer of that engine"},
    Row{"engine.tensor_model_parallel_size", verl_core, "tp"},
    Row{"engine.sequence_parallel", verl_core, "tp: activations between its products are cut too"},
    Row{"engine.context_parallel_size", verl_core, "cp"},
    Row{"engine.pipeline_model_parallel_size", verl_core, "pp"},
    Row{"engine.virtual_pipeline_model_parallel_size", verl_core, "pipeline_chunks"},
    Row{"engine.expert_model_parallel_size", verl_core, "ep"},
    Row{"engine.expert_tensor_parallel_size", verl_core, "etp"},
    Row{"engine.use_distributed_optimizer", verl_core, "zero of 1 and more"},
    Row{"engine.use_megatron_fsdp", verl_core, "zero of 2 and 3"},
    Row{"engine.override_ddp_config", verl_core, "zero of 2 and 3", true},
    Row{"engine.override_transformer_config", verl_core, "algorithm, dtype, loss_chunks, offload_checkpoints",
        true},
    Row{"engine.override_transformer_config.recompute_granularity", verl_core, "recompute"},
    Row{"engine.override_transformer_config.recompute_method", verl_core, "recompute = full"},
    Row{"engine.override_transformer_config.recompute_num_layers", verl_core, "recompute = full"},
    Row{"engine.override_transformer_config.recompute_modules", verl_core, "recompute = selective"},
    Row{"optim.override_optimizer_config", "verl/trainer/config/optim/megatron.yaml", "offload_optimizer",
        true},
    Row{"model.use_remove_padding", verl_model, "cp of all_to_all, which needs it"},
    Row{"model.enable_gradient_checkpointing", verl_model, "recompute"},
    Row{"model.enable_activation_offload", verl_model, "offload_checkpoints"},
    Row{"model.use_fused_kernels", verl_model, "loss_chunks above 1, the nearest to it"},
    Row{"model.lora_rank", verl_model, "lora_rank with the FSDP engine"},
    Row{"model.lora.rank", verl_model, "lora_rank with the Megatron engine"},
    Row{"data.train_batch_size", verl_sft, "micro_batch x micro_batches x dp"},
    Row{"data.micro_batch_size_per_gpu", verl_sft, "micro_batch"},
    Row{"data.max_length", verl_sft, "sequence"},
    Row{"trainer.balance_batch", verl_sft, "balanced"},
    Row{"data.use_dynamic_bsz", verl_sft, "lengths"},
    Row{"data.max_token_len_per_gpu", verl_sft, "micro_batch x sequence / cp, of lengths"},
};

constexpr Source swift_source = {"modelscope/ms-swift", "commit 3602360a5623, 2026-08-22"};
constexpr Source transformers_source = {"huggingface/transformers", "release 5.24.0"};
constexpr std::string_view transformers_arguments = "src/transformers/training_args.py";
constexpr std::string_view swift_core = "swift/megatron/arguments/megatron_args.py";
constexpr std::string_view swift_trainer = "swift/trainers/arguments.py";
constexpr std::string_view swift_template = "swift/arguments/base_args/template_args.py";
constexpr std::array swift_rows = {
    Row{"--sequence_parallel_size", swift_template, "cp; its algorithm follows from the heads"},
    Row{"--padding_free", swift_template, "a ring among the ranks, or lengths"},
    Row{"--attn_impl", "swift/arguments/base_args/model_args.py", "what padding_free needs"},
    Row{"--deepspeed", transformers_arguments, "zero and offload_optimizer"},
    Row{"--gradient_checkpointing", swift_trainer, "recompute"},
    Row{"--use_liger_kernel", swift_trainer, "loss_chunks above 1, the nearest to it"},
    Row{"--per_device_train_batch_size", swift_trainer, "micro_batch"},
    Row{"--gradient_accumulation_steps", swift_trainer, "micro_batches"},
    Row{"--packing", "swift/arguments/base_args/base_args.py", "lengths"},
    Row{"--max_length", swift_template, "sequence"},
    Row{"--torch_dtype", "swift/arguments/base_args/model_args.py", "dtype"},
    Row{"--tuner_type", "swift/arguments/base_args/base_args.py", "whether lora_rank is above 0"},
    Row{"--lora_rank", "swift/arguments/tuner_args.py", "lora_rank"},
    Row{"--tensor_model_parallel_size", swift_core, "tp"},
    Row{"--sequence_parallel", swift_core, "tp: activations between its products are cut too"},
    Row{"--context_parallel_size", swift_core, "cp"},
    Row{"--cp_comm_type", swift_core, "algorithm, for all layers or for each"},
    Row{"--cp_partition_mode", swift_core, "placement"},
    Row{"--sequence_packing_scheduler", swift_core, "balanced"},
    Row{"--pipeline_model_parallel_size", swift_core, "pp"},
    Row{"--virtual_pipeline_model_parallel_size", swift_core, "pipeline_chunks"},
    Row{"--expert_model_parallel_size", swift_core, "ep"},
    Row{"--expert_tensor_parallel_size", swift_core, "etp"},
    Row{"--use_distributed_optimizer", swift_core, "zero of 1 and more"},
    Row{"--use_megatron_fsdp", swift_core, "zero of 2 and 3"},
    Row{"--data_parallel_sharding_strategy", swift_core, "zero of 2 and 3"},
    Row{"--recompute_granularity", swift_core, "recompute"},
    Row{"--recompute_method", swift_core, "recompute = full"},
    Row{"--recompute_num_layers", swift_core, "recompute = full"},
    Row{"--recompute_modules", swift_core, "recompute = selective"},
    Row{"--fp8_format", swift_core, "dtype"},
    Row{"--fp4_format", swift_core, "dtype"},
    Row{"--optimizer_cpu_offload", swift_core, "offload_optimizer"},
    Row{"--optimizer_offload_fraction", swift_core, "offload_optimizer"},
    Row{"--use_precision_aware_optimizer", swift_core, "offload_optimizer, which needs it"},
    Row{"--cross_entropy_loss_fusion", swift_core, "loss_chunks above 1, the nearest to it"},
    Row{"--cross_entropy_fusion_impl", swift_core, "loss_chunks above 1, the nearest to it"},
    Row{"--micro_batch_size", swift_core, "micro_batch"},
    Row{"--global_batch_size", swift_core, "micro_batch x micro_batches x dp"},
};

constexpr Source deepspeed_source = {"deepspeedai/DeepSpeed", "commit edaa72212672, 2026-08-22"};
constexpr std::string_view speed_constants = "deepspeed/runtime/constants.py";
constexpr std::string_view speed_experts = "deepspeed/module_inject/auto_ep_config.py";
constexpr std::string_view speed_offload = "deepspeed/runtime/zero/offload_config.py";
constexpr std::string_view speed_precision = "deepspeed/runtime/precision_config.py";
constexpr std::array deepspeed_rows = {
    Row{"sequence_parallel_size", "deepspeed/runtime/config.py", "cp"},
    Row{"tensor_parallel.autotp_size", "deepspeed/runtime/tensor_parallel/config.py", "tp"},
    Row{"expert_parallel.enabled", speed_experts, "that the model has experts"},
    Row{"expert_parallel.autoep_size", speed_experts, "ep"},
    Row{"expert_parallel.expert_tensor_parallel_size", speed_experts, "etp"},
    Row{"zero_optimization.stage", "deepspeed/runtime/zero/config.py", "zero"},
    Row{"zero_optimization.offload_optimizer.device", speed_offload, "offload_optimizer"},
    Row{"zero_optimization.offload_optimizer.pin_memory", speed_offload, "offload_optimizer"},
    Row{"activation_checkpointing.cpu_checkpointing", "deepspeed/runtime/activation_checkpointing/config.py",
        "offload_checkpoints"},
    Row{"bf16.enabled", speed_precision, "dtype"},
    Row{"fp16.enabled", speed_precision, "dtype"},
    Row{"train_micro_batch_size_per_gpu", speed_constants, "micro_batch"},
    Row{"gradient_accumulation_steps", speed_constants, "micro_batches"},
    Row{"train_batch_size", speed_constants, "micro_batch x micro_batches x dp"},
};

constexpr Source vllm_source = {"vllm-project/vllm", "release 0.33.0"};
constexpr std::string_view vllm_arguments = "vllm/engine/arg_utils.py";
constexpr std::array vllm_rows = {
    Row{"--tensor-parallel-size", vllm_arguments, "tp; tp x cp of decoding"},
    Row{"--prefill-context-parallel-size", vllm_arguments, "cp of prompts"},
    Row{"--decode-context-parallel-size", vllm_arguments, "cp of decoding"},
    Row{"--cp-kv-cache-interleave-size", vllm_arguments, "placement of decoding"},
    Row{"--pipeline-parallel-size", vllm_arguments, "pp"},
    Row{"--data-parallel-size", vllm_arguments, "dp"},
    Row{"--enable-expert-parallel", vllm_arguments, "ep above 1"},
    Row{"--max-model-len", vllm_arguments, "sequence"},
    Row{"--max-num-seqs", vllm_arguments, "micro_batch"},
    Row{"--dtype", vllm_arguments, "dtype"},
    Row{"--quantization", vllm_arguments, "dtype"},
    Row{"--enable-lora", vllm_arguments, "that lora_rank is above 0"},
    Row{"--max-lora-rank", vllm_arguments, "lora_rank"},
};

constexpr Source sglang_source = {"sgl-project/sglang", "release 0.5.23"};
constexpr std::string_view sglang_parallel = "python/sglang/srt/arg_groups/fields/parallel.py";
constexpr std::string_view sglang_model = "python/sglang/srt/arg_groups/fields/model.py";
constexpr std::string_view sglang_lora = "python/sglang/srt/arg_groups/fields/lora.py";
constexpr std::array sglang_rows = {
    Row{"--tp-size", sglang_parallel, "tp x cp"},
    Row{"--attn-cp-size", sglang_parallel, "cp of prompts"},
    Row{"--enable-prefill-cp", sglang_parallel, "cp of prompts above 1"},
    Row{"--cp-strategy", sglang_parallel, "placement of prompts"},
    Row{"--dcp-size", sglang_parallel, "cp of decoding"},
    Row{"--pp-size", sglang_parallel, "pp"},
    Row{"--dp-size", sglang_parallel, "dp"},
    Row{"--ep-size", sglang_parallel, "ep"},
    Row{"--context-length", sglang_model, "sequence"},
    Row{"--max-running-requests", "python/sglang/srt/arg_groups/fields/schedule.py", "micro_batch"},
    Row{"--dtype", sglang_model, "dtype"},
    Row{"--quantization", sglang_model, "dtype"},
    Row{"--enable-lora", sglang_lora, "that lora_rank is above 0"},
    Row{"--max-lora-rank", sglang_lora, "lora_rank"},
};

template <std::size_t n>
std::vector<EmittedFlag> table(Framework framework, const std::array<Row, n>& rows, const Source& source) {
  std::vector<EmittedFlag> flags;
  for (const Row& row : rows) {
    const Source& from = row.file == transformers_arguments ? transformers_source : source;
    flags.push_back({framework, row.flag, row.file, row.says, from.repository, from.seen, row.open});
  }
  return flags;
}

}  // namespace

std::vector<EmittedFlag> flags_of(Framework framework) {
  switch (framework) {
    case Framework::megatron: return table(framework, megatron_rows, megatron_source);
    case Framework::torchtitan: return table(framework, torchtitan_rows, torchtitan_source);
    case Framework::verl: return table(framework, verl_rows, verl_source);
    case Framework::ms_swift: return table(framework, swift_rows, swift_source);
    case Framework::deepspeed: return table(framework, deepspeed_rows, deepspeed_source);
    case Framework::vllm: return table(framework, vllm_rows, vllm_source);
    case Framework::sglang: return table(framework, sglang_rows, sglang_source);
  }
  return {};
}

}  // namespace cplab

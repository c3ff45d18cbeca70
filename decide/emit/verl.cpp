// verl, its trainer of supervised fine-tuning: Hydra overrides for the FSDP engine, whose context parallelism
// is Ulysses, or for the Megatron engine. Its reinforcement learning has the same keys elsewhere.
#include "decide/emit/frameworks.hpp"

namespace cplab::emitting {
namespace {

std::string number(std::int64_t value) {
  return std::to_string(value);
}

bool fits_fsdp(const Request& r) {
  const ModelLayout& l = r.layout;
  return l.tp == 1 && l.pp == 1 && l.ep == 1 && l.etp == 1 && l.pipeline_chunks == 1 &&
         r.all(Exchange::heads);
}

void write_data(Output& out, const Request& r) {
  out.flag("data.train_batch_size", r.global_batch());
  out.flag("data.max_length", r.longest());
  if (r.training.balanced || !r.training.lengths.empty()) {
    out.flag("trainer.balance_batch", std::string(r.training.balanced ? "True" : "False"));
    out.note("verl.trainer.sft_trainer_ray alone balances");
  }
  if (r.training.lengths.empty()) {
    out.flag("data.use_dynamic_bsz", std::string("False"));
    out.flag("data.micro_batch_size_per_gpu", r.layout.micro_batch);
    return;
  }
  // Sequences of different lengths are put together up to so many tokens; verl multiplies them by cp.
  out.flag("data.use_dynamic_bsz", std::string("True"));
  out.flag("data.max_token_len_per_gpu", r.layout.micro_batch * r.longest() / r.layout.cp);
}

void write_fsdp(Output& out, const Request& r) {
  const ModelLayout& l = r.layout;
  out.flag("engine=fsdp");
  out.flag("optim=fsdp");
  out.flag("engine.strategy", std::string("fsdp2"));
  out.flag("engine.ulysses_sequence_parallel_size", l.cp);
  if (l.cp > 1) {
    out.flag("model.use_remove_padding", std::string("True"));  // Ulysses refuses padded rows
    for (const Asked& one : r.attention) say_heads(out, r, one, l.cp, true);
    say_choices(out, r, "contiguous", {});
  }
  out.flag("engine.fsdp_size", std::string(l.zero == 0 ? "1" : "-1"));
  if (l.zero == 1) out.cannot("ZeRO 1, gradients whole on each rank; ZeRO 2 stands in");
  if (l.zero > 0) out.flag("engine.reshard_after_forward", std::string(l.zero == 3 ? "True" : "False"));
  if (l.recompute == Recompute::selective) out.cannot("a selective recompute; full recompute stands in");
  out.flag("model.enable_gradient_checkpointing",
           std::string(l.recompute == Recompute::none ? "False" : "True"));
  if (l.offload_checkpoints) {
    if (l.recompute == Recompute::none) out.illegal("checkpoints on the host without recompute");
    out.flag("model.enable_activation_offload", std::string("True"));
  }
  if (l.offload_optimizer) {
    out.flag("engine.offload_policy", std::string("True"));
    out.cannot("the optimizer alone on the host; parameters and gradients go there too");
  }
  out.flag("engine.dtype", std::string(r.training.dtype == "fp16" ? "float16" : "bfloat16"));
  if (r.training.dtype.starts_with("fp") && r.training.dtype != "fp16")
    out.cannot(r.training.dtype + " with the FSDP engine; bf16 stands in");
  say_state_bytes(out, r.training);
  if (l.loss_chunks > 1) {
    out.cannot("logits in " + number(l.loss_chunks) + " chunks; the fused kernel cuts them as it likes");
    out.flag("model.use_fused_kernels", std::string("True"));
  }
  if (r.uses_lora()) out.flag("model.lora_rank", r.training.lora_rank);
}

}  // namespace

std::string verl(const Request& r) {
  Output out(Framework::verl);
  say_step(out, r, Mode::training);
  out.note(
      "of reinforcement learning: engine. is actor_rollout_ref.actor.fsdp_config. or .megatron., and model. "
      "is "
      "actor_rollout_ref.model.");
  if (fits_fsdp(r)) {
    write_fsdp(out, r);
  } else {
    out.flag("engine=megatron");
    out.flag("optim=megatron");
    megatron_core(out, r);
    if (r.uses_lora()) out.flag("model.lora.rank", r.training.lora_rank);
  }
  write_data(out, r);
  return out.as_array("verl, " + gpus_in_words(r.layout) + ": torchrun ... -m verl.trainer.sft_trainer",
                      "VERL_ARGS");
}

}  // namespace cplab::emitting

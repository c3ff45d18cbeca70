// torchtitan: fields of its trainer's configuration as command-line options. Under context parallelism its
// models gather K and V.
#include "decide/emit/frameworks.hpp"

namespace cplab::emitting {
namespace {

std::string number(std::int64_t value) {
  return std::to_string(value);
}

void write_degrees(Output& out, const Request& r) {
  const ModelLayout& l = r.layout;
  out.flag("--parallelism.tensor_parallel_degree", l.tp);
  out.flag("--parallelism.context_parallel_degree", l.cp);
  out.flag("--parallelism.pipeline_parallel_degree", l.pp);
  if (l.pp > 1) out.flag("--parallelism.num_pp_microbatches", l.micro_batches);
  if (l.pipeline_chunks > 1) {
    out.flag("--parallelism.pipeline_parallel_schedule", std::string("Interleaved1F1B"));
    out.flag("--parallelism.pipeline_parallel_layers_per_stage",
             r.model.layer_count() / (l.pp * l.pipeline_chunks));
  }
  if (r.has_experts()) {
    out.flag("--parallelism.expert_parallel_degree", l.ep);
    if (l.etp > 1) out.cannot("experts cut over etp " + number(l.etp) + " ranks; each expert is whole");
  }
}

void write_sharding(Output& out, const ModelLayout& l) {
  out.flag("--parallelism.data_parallel_replicate_degree", l.zero == 0 ? l.dp : 1);
  out.flag("--parallelism.data_parallel_shard_degree", l.zero == 0 ? 1 : l.dp);
  if (l.zero == 0) {
    if (l.cp > 1) out.cannot("ZeRO 0 under context parallelism: FSDP shards over its ranks all the same");
    return;
  }
  if (l.zero == 1) out.cannot("ZeRO 1, gradients whole on each rank; ZeRO 2 stands in");
  out.flag("--parallelism.fsdp_reshard_after_forward", std::string(l.zero == 3 ? "always" : "never"));
}

void write_exchange(Output& out, const Request& r) {
  if (r.layout.cp == 1) return;
  bool zigzag = true;
  for (const Asked& one : r.attention) {
    if (one.exchange != Exchange::gather) out.cannot(one.words() + "; all_gather stands in");
    zigzag = zigzag && one.choice->placement != "contiguous";
  }
  out.flag("--parallelism.context_parallel_load_balancer", std::string(zigzag ? "headtail" : "None"));
  say_choices(out, r, zigzag ? "zigzag" : "contiguous", {});
}

void write_step(Output& out, const Request& r) {
  const ModelLayout& l = r.layout;
  out.flag("--training.max_context_length", r.longest());
  out.flag("--training.num_tokens_per_microbatch_per_dp_rank", l.micro_batch * r.longest());
  out.flag("--training.num_tokens_per_train_step", r.global_batch() * r.longest());
  if (r.training.dtype == "bf16")
    out.flag("--training.mixed_precision_param", std::string("bfloat16"));
  else
    out.cannot(r.training.dtype + " by an argument (the model's configuration says it)");
  say_state_bytes(out, r.training);
  if (l.loss_chunks > 1) {
    out.flag("--loss.num_chunks", l.loss_chunks);
    out.note("the number of chunks needs a configuration whose loss is ChunkedLossWrapper");
  }
  if (l.offload_optimizer) {
    out.flag("--training.enable_cpu_offload");
    out.cannot("the optimizer alone on the host; parameters and gradients go there too");
  }
  if (l.offload_checkpoints) out.cannot("kept inputs of layers on the host; they stay on the GPU");
  if (r.uses_lora())
    out.cannot("LoRA of rank " + number(r.training.lora_rank) +
               " by an argument (the model's configuration says it)");
}

}  // namespace

std::string torchtitan(const Request& r) {
  Output out(Framework::torchtitan);
  say_step(out, r, Mode::training);
  write_degrees(out, r);
  write_sharding(out, r.layout);
  write_exchange(out, r);
  write_step(out, r);
  // A sub-command: what follows it would be read as its own arguments.
  switch (r.layout.recompute) {
    case Recompute::none: out.flag("activation-checkpoint:none"); break;
    case Recompute::full: out.flag("activation-checkpoint:full"); break;
    case Recompute::selective:
      out.cannot(
          "which parts a selective recompute keeps; results of attention and of every second product are "
          "kept");
      out.flag("activation-checkpoint:selective");
      break;
  }
  return out.as_array("torchtitan, " + gpus_in_words(r.layout) + ": ./run_train.sh", "TORCHTITAN_ARGS");
}

}  // namespace cplab::emitting

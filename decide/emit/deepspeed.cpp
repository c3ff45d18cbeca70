// DeepSpeed: its configuration. What a training program does itself (pipeline, recompute, loss) it is not
// told.
#include "decide/emit/frameworks.hpp"

namespace cplab::emitting {
namespace {

std::string number(std::int64_t value) {
  return std::to_string(value);
}

void write_parallel(Output& out, const Request& r) {
  const ModelLayout& l = r.layout;
  out.flag("sequence_parallel_size", l.cp);
  for (const Asked& one : r.attention) {
    if (one.exchange == Exchange::none) continue;
    if (one.exchange != Exchange::heads) out.cannot(one.words() + "; all_to_all (Ulysses) stands in");
    say_heads(out, r, one, l.cp, true);
  }
  if (l.cp > 1) {
    say_choices(out, r, "contiguous", {});
    if (r.longest() % l.cp != 0)
      out.illegal(number(r.longest()) + " tokens do not divide over cp " + number(l.cp) + " ranks");
    out.note("the program calls UlyssesSPAttentionHF.register_with_transformers(sequence_parallel_size = " +
             number(l.cp) + ", seq_length = " + number(r.longest()) + ")");
  } else {
    out.note("the program cuts its sequences at " + number(r.longest()) + " tokens");
  }
  if (l.tp > 1) out.flag("tensor_parallel.autotp_size", l.tp);
  if (l.pp > 1)
    out.cannot(
        "a pipeline of " + number(l.pp) + " stages (the program's PipelineModule says it)" +
        (l.pipeline_chunks > 1 ? ", interleaved in " + number(l.pipeline_chunks) + " pieces a stage" : ""));
  else if (l.pipeline_chunks > 1)
    out.cannot("a pipeline in " + number(l.pipeline_chunks) + " pieces a stage");
  if (!r.has_experts()) return;
  if (l.tp > 1 && l.cp > 1) out.illegal("tensor and sequence parallelism beside its expert parallelism");
  if (l.etp > 1) out.illegal("experts cut over etp " + number(l.etp) + " ranks");
  out.flag("expert_parallel.enabled", std::string("true"));
  out.flag("expert_parallel.autoep_size", l.ep);
  out.flag("expert_parallel.expert_tensor_parallel_size", l.etp);
}

void write_memory(Output& out, const Request& r) {
  const ModelLayout& l = r.layout;
  out.flag("zero_optimization.stage", l.zero);
  if (l.offload_optimizer) {
    if (l.zero == 0) out.illegal("an optimizer on the host under ZeRO 0");
    out.flag("zero_optimization.offload_optimizer.device", std::string("\"cpu\""));
    out.flag("zero_optimization.offload_optimizer.pin_memory", std::string("true"));
  }
  if (l.recompute != Recompute::none)
    out.cannot(std::string(name(l.recompute)) + " recompute (the program's model says it)");
  if (l.offload_checkpoints) {
    out.flag("activation_checkpointing.cpu_checkpointing", std::string("true"));
    out.note("for checkpoints made by deepspeed.checkpointing alone, not by the model's own");
  }
  if (l.loss_chunks > 1)
    out.cannot("logits in " + number(l.loss_chunks) +
               " chunks (TiledFusedLogitsLoss of the program, shards = " + number(l.loss_chunks) + ")");
  if (r.uses_lora())
    out.cannot("LoRA of rank " + number(r.training.lora_rank) + " (the program's model has its adapters)");
}

}  // namespace

std::string deepspeed(const Request& r) {
  Output out(Framework::deepspeed);
  say_step(out, r, Mode::training);
  write_parallel(out, r);
  write_memory(out, r);
  out.flag(r.training.dtype == "fp16" ? "fp16.enabled" : "bf16.enabled", std::string("true"));
  if (r.training.dtype == "fp8" || r.training.dtype == "fp4")
    out.cannot(r.training.dtype + " (the program's layers say it); bf16 stands in");
  say_state_bytes(out, r.training);
  out.flag("train_micro_batch_size_per_gpu", r.layout.micro_batch);
  out.flag("gradient_accumulation_steps", r.layout.micro_batches);
  out.flag("train_batch_size", r.global_batch());
  return out.as_json("DeepSpeed, " + gpus_in_words(r.layout) +
                     ": deepspeed ... --deepspeed_config FILE with this " + "(Hjson: comments may stay)");
}

}  // namespace cplab::emitting

// ms-swift: `swift sft`, where ranks of a sequence trade as many heads as divide and the rest is a ring, or
// `megatron sft` for everything else.
#include <numeric>

#include "decide/emit/frameworks.hpp"

namespace cplab::emitting {
namespace {

std::string number(std::int64_t value) {
  return std::to_string(value);
}

// How many ranks would trade heads: swift takes the greatest common divisor of heads and ranks.
std::int64_t trading(const Request& r, const Asked& one) {
  return std::gcd(one.kind->heads, r.layout.cp);
}

bool fits_swift(const Request& r) {
  const ModelLayout& l = r.layout;
  if (l.tp * l.pp * l.ep * l.etp * l.pipeline_chunks != 1) return false;
  for (const Asked& one : r.attention) {
    if (one.exchange == Exchange::none) continue;
    const bool ours = one.exchange == Exchange::ring || one.exchange == Exchange::heads ||
                      one.exchange == Exchange::two_level;
    if (!ours || one.inner != trading(r, one)) return false;
  }
  return true;
}

void write_swift(Output& out, const Request& r) {
  const ModelLayout& l = r.layout;
  out.flag("--sequence_parallel_size", l.cp);
  bool rings = false;
  for (const Asked& one : r.attention) {
    if (one.exchange != Exchange::none)
      out.note(one.words() + ": of " + number(l.cp) + " ranks " + number(trading(r, one)) +
               " trade heads, as many as divide " + number(one.kind->heads) +
               " heads; a ring joins the rest");
    rings = rings || (one.exchange != Exchange::none && trading(r, one) < l.cp);
  }
  if (rings || !r.training.lengths.empty()) {
    out.flag("--padding_free", std::string("true"));
    out.flag("--attn_impl", std::string("flash_attn"));
  }
  if (l.cp > 1) say_choices(out, r, rings ? "zigzag" : "contiguous", {"inner_ranks"});
  std::string stage = "zero" + number(l.zero);
  if (l.offload_optimizer && l.zero < 2) {
    out.cannot("an optimizer on the host under ZeRO " + number(l.zero) + "; ZeRO 2 stands in");
    stage = "zero2";
  }
  if (l.offload_optimizer) stage += "_offload";
  if (l.offload_optimizer && l.zero == 3)
    out.cannot("the optimizer alone on the host; parameters go there too");
  out.flag("--deepspeed", stage);
  if (l.recompute == Recompute::selective) out.cannot("a selective recompute; full recompute stands in");
  out.flag("--gradient_checkpointing", std::string(l.recompute == Recompute::none ? "false" : "true"));
  if (l.offload_checkpoints) out.cannot("kept inputs of layers on the host; they stay on the GPU");
  out.flag("--torch_dtype", std::string(r.training.dtype == "fp16" ? "float16" : "bfloat16"));
  if (r.training.dtype.starts_with("fp") && r.training.dtype != "fp16")
    out.cannot(r.training.dtype + " without megatron sft; bf16 stands in");
  say_state_bytes(out, r.training);
  if (l.loss_chunks > 1) {
    out.cannot("logits in " + number(l.loss_chunks) + " chunks; the fused kernel cuts them as it likes");
    out.flag("--use_liger_kernel", std::string("true"));
  }
  out.flag("--per_device_train_batch_size", l.micro_batch);
  out.flag("--gradient_accumulation_steps", l.micro_batches);
  out.note("dp " + number(l.dp) + " is what the number of GPUs leaves");
}

}  // namespace

std::string ms_swift(const Request& r) {
  Output out(Framework::ms_swift);
  say_step(out, r, Mode::training);
  const bool plain = fits_swift(r);
  if (plain) {
    write_swift(out, r);
    if (r.training.balanced) say_balance(out);
  } else {
    megatron_core(out, r);
    out.flag("--micro_batch_size", r.layout.micro_batch);
    out.flag("--global_batch_size", r.global_batch());
    if (r.training.balanced) out.flag("--sequence_packing_scheduler", std::string("dp_balanced"));
  }
  out.flag("--max_length", r.longest());
  if (!r.training.lengths.empty()) out.flag("--packing", std::string("true"));
  out.flag("--tuner_type", std::string(r.uses_lora() ? "lora" : "full"));
  if (r.uses_lora()) out.flag("--lora_rank", r.training.lora_rank);
  return out.as_array("ms-swift, " + gpus_in_words(r.layout) + ": " + (plain ? "swift" : "megatron") + " sft",
                      "SWIFT_ARGS");
}

}  // namespace cplab::emitting

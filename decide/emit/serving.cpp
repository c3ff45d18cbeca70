// vLLM and SGLang: a server's arguments. Context parallelism is another thing for prompts than for tokens
// that are generated, and decoding shares the ranks of tensor parallelism in both.
#include "decide/emit/frameworks.hpp"

namespace cplab::emitting {
namespace {

std::string number(std::int64_t value) {
  return std::to_string(value);
}

void write_precision(Output& out, const Training& t) {
  out.flag("--dtype", std::string(t.dtype == "fp16" ? "float16" : "bfloat16"));
  if (t.dtype == "fp8") out.flag("--quantization", std::string("fp8"));
  if (t.dtype == "fp4") out.cannot("fp4 of weights that are not stored so; bf16 stands in");
  if (t.parameter_bytes != 2) out.cannot(number(t.parameter_bytes) + " bytes of the parameter itself");
}

// What the server does whatever is asked: `theirs` while it reads a prompt, and decoding's gathered queries.
void say_exchange(Output& out, const Request& r, Exchange theirs, const std::string& stands_in) {
  for (const Asked& one : r.attention)
    if (one.exchange != Exchange::none && one.exchange != theirs)
      out.cannot(one.words() + "; " + stands_in + " stands in");
}

void say_limits(Output& out, const Request& r) {
  if (r.model.max_positions > 0 && r.longest() > r.model.max_positions)
    out.illegal(number(r.longest()) + " tokens beyond the " + number(r.model.max_positions) +
                " positions of the model's config");
}

void say_serving_pipeline(Output& out, const ModelLayout& l) {
  if (l.pipeline_chunks > 1) out.cannot("a pipeline in " + number(l.pipeline_chunks) + " pieces a stage");
  if (l.micro_batches > 1)
    out.cannot(number(l.micro_batches) +
               " micro-batches of a step; the scheduler cuts requests as they come");
}

// Decoding's ranks of vLLM share the tokens of key/value heads that tensor parallelism would repeat.
void say_vllm_decoding(Output& out, const Request& r) {
  const std::int64_t cp = r.layout.cp, ranks = r.layout.tp * cp;
  out.note("tp x cp = " + number(ranks) + " ranks cut the weights; each " + number(cp) +
           " of them share the tokens of the same key/value heads");
  for (const AttentionKind& kind : r.model.attention) {
    if (kind.mixer != Mixer::softmax) continue;
    if (ranks / kind.kv_heads < cp)
      out.illegal(number(kind.kv_heads) + " key/value heads of " + kind.name + " layers over " +
                  number(ranks) + " ranks leave less than " + number(cp) + " ranks for each");
    else if (kind.heads / kind.kv_heads % cp != 0)
      out.illegal(number(kind.heads / kind.kv_heads) + " query heads for each key/value head of " +
                  kind.name + " layers do not divide over cp " + number(cp));
  }
}

// Experts lie whole on all ranks of the expert-parallel group, which is no free degree of vLLM.
void write_vllm_experts(Output& out, const Request& r, std::int64_t group) {
  const ModelLayout& l = r.layout;
  if (!r.has_experts()) return;
  if (l.ep > 1) out.flag("--enable-expert-parallel");
  if (l.ep > 1 && l.ep != group)
    out.cannot("ep " + number(l.ep) + "; experts spread over all " + number(group) + " ranks of a stage");
  if (l.etp > 1 && l.ep > 1) out.cannot("etp " + number(l.etp) + "; each expert is whole");
  if (l.ep == 1 && l.etp != group)
    out.cannot("etp " + number(l.etp) + "; experts are cut over all " + number(group) + " ranks of a stage");
}

}  // namespace

void say_training_only(Output& out, const Request& r) {
  const ModelLayout& l = r.layout;
  const auto say = [&](const std::string& what) { out.cannot(what + ": a server does not train"); };
  if (l.zero > 0) say("ZeRO " + number(l.zero));
  if (l.recompute != Recompute::none) say(std::string(name(l.recompute)) + " recompute");
  if (l.loss_chunks > 1) say("logits in " + number(l.loss_chunks) + " chunks");
  if (l.offload_checkpoints) say("kept inputs of layers on the host");
  if (l.offload_optimizer) say("an optimizer on the host");
  if (r.training.gradient_bytes != 4) say(number(r.training.gradient_bytes) + " bytes of gradient");
  if (r.training.master_bytes != 4) say(number(r.training.master_bytes) + " bytes of master weight");
  if (r.training.optimizer_bytes != 8) say(number(r.training.optimizer_bytes) + " bytes of moments");
}

std::string vllm(const Request& r) {
  Output out(Framework::vllm);
  const ModelLayout& l = r.layout;
  const bool decodes = r.training.mode == Mode::decode;
  say_step(out, r, r.training.mode == Mode::training ? Mode::prefill : r.training.mode);
  // Decoding's ranks share K and V among ranks that cut the weights all the same.
  out.flag("--tensor-parallel-size", decodes ? l.tp * l.cp : l.tp);
  if (decodes) {
    out.flag("--decode-context-parallel-size", l.cp);
    if (l.cp > 1) say_vllm_decoding(out, r);
  } else {
    out.flag("--prefill-context-parallel-size", l.cp);
  }
  if (l.cp > 1) {
    say_exchange(out, r, Exchange::gather, "all_gather");
    if (decodes) out.flag("--cp-kv-cache-interleave-size", 1);  // token by token: striped
    say_choices(out, r, decodes ? "striped" : "zigzag", {});
  }
  out.flag("--pipeline-parallel-size", l.pp);
  say_serving_pipeline(out, l);
  out.flag("--data-parallel-size", l.dp);
  write_vllm_experts(out, r, l.tp * l.cp * l.dp);
  out.flag("--max-model-len", r.longest());
  say_limits(out, r);
  out.flag("--max-num-seqs", l.micro_batch);
  write_precision(out, r.training);
  if (r.uses_lora()) {
    out.flag("--enable-lora");
    out.flag("--max-lora-rank", r.training.lora_rank);
  }
  say_training_only(out, r);
  return out.as_array("vLLM, " + gpus_in_words(l) + ": vllm serve MODEL", "VLLM_ARGS");
}

std::string sglang(const Request& r) {
  Output out(Framework::sglang);
  const ModelLayout& l = r.layout;
  const bool decodes = r.training.mode == Mode::decode;
  say_step(out, r, r.training.mode == Mode::training ? Mode::prefill : r.training.mode);
  out.flag("--tp-size", l.tp * l.cp);  // of which attention takes cp, or decoding shares K and V over cp
  if (decodes) {
    out.flag("--dcp-size", l.cp);
  } else {
    out.flag("--attn-cp-size", l.cp);
  }
  if (l.cp > 1) {
    out.note("--tp-size is tp x cp: cp is taken out of it");
    say_exchange(out, r, Exchange::gather, "all_gather");
    const bool striped = r.attention.front().choice->placement == "striped";
    if (!decodes) {
      out.flag("--enable-prefill-cp");
      out.flag("--cp-strategy", std::string(striped ? "interleave" : "zigzag"));
    }
    say_choices(out, r, decodes || striped ? "striped" : "zigzag", {});
  }
  out.flag("--pp-size", l.pp);
  say_serving_pipeline(out, l);
  out.flag("--dp-size", l.dp);
  if (r.has_experts()) {
    out.flag("--ep-size", l.ep);
    if (l.ep * l.etp != l.tp * l.cp)
      out.cannot("ep " + number(l.ep) + " x etp " + number(l.etp) + "; experts lie on all " +
                 number(l.tp * l.cp) + " ranks of --tp-size");
  }
  out.flag("--context-length", r.longest());
  say_limits(out, r);
  out.flag("--max-running-requests", l.micro_batch);
  write_precision(out, r.training);
  if (r.uses_lora()) {
    out.flag("--enable-lora");
    out.flag("--max-lora-rank", r.training.lora_rank);
  }
  say_training_only(out, r);
  return out.as_array("SGLang, " + gpus_in_words(l) + ": python -m sglang.launch_server --model-path MODEL",
                      "SGLANG_ARGS");
}

}  // namespace cplab::emitting

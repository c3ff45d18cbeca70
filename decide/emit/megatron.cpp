// Megatron-LM, and what of it those take who wrap its core (megatron sft of ms-swift, verl's Megatron
// engine): the same settings under each one's names. Which exchange takes windows and sinks is Transformer
// Engine's rule.
#include <algorithm>
#include <array>

#include "decide/emit/frameworks.hpp"

namespace cplab::emitting {
namespace {

using Words = std::vector<std::string>;

std::string number(std::int64_t value) {
  return std::to_string(value);
}

std::string dashed(std::string_view field) {
  std::string name(field);
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

// The settings of Megatron's configuration under the names of whom the output is for.
class Settings {
 public:
  explicit Settings(Output& out) : out_(out) {}

  void set(std::string_view field, const Words& values) {
    if (out_.framework() == Framework::verl) return set_verl(field, values);
    const bool own = out_.framework() == Framework::megatron;
    const std::string flag = "--" + (own ? dashed(field) : std::string(field));
    if (out_.knows(flag)) return out_.flag(flag, values);
    std::string text(field);
    for (const std::string& value : values) text += " " + value;
    out_.cannot(text);
  }
  void set(std::string_view field, std::int64_t value) { set(field, Words{number(value)}); }
  void turn(std::string_view field, bool on) {
    switch (out_.framework()) {
      case Framework::megatron:
        if (on) set(field, Words{});
        return;
      case Framework::verl: return set(field, Words{on ? "True" : "False"});
      default: return set(field, Words{on ? "true" : "false"});
    }
  }

 private:
  void set_verl(std::string_view field, const Words& values) {
    std::string value = values.at(0);
    if (values.size() > 1 || field == "recompute_modules") {
      value = "[" + value;
      for (std::size_t i = 1; i < values.size(); ++i) value += "," + values[i];
      value += "]";
    }
    const std::string own = "engine." + std::string(field);
    const std::string inner = "engine.override_transformer_config." + std::string(field);
    if (out_.knows(own)) return out_.flag(own, value);
    if (out_.knows(inner)) return out_.flag(inner, value);
    // Fields of the core's own configuration go through a mapping; those of Megatron-LM's programs do not.
    static constexpr std::array core = {
        "cp_comm_type", "cross_entropy_loss_fusion", "cross_entropy_fusion_impl", "fp8",
        "fp4",          "cpu_offloading_num_layers"};
    if (std::find(core.begin(), core.end(), field) != core.end())
      return out_.entry("engine.override_transformer_config", field, value);
    out_.cannot(std::string(field) + " " + value);
  }
  Output& out_;
};

// The communication of one kind of layer. Transformer Engine takes a window with all_gather and a2a, a sink
// with a2a alone.
std::string comm_type(Output& out, const Request& r, const Asked& one) {
  const auto stands_in = [&](const std::string& type) {
    out.cannot(one.words() +
               (one.kind->sink   ? " with a sink"
                : one.windowed() ? " with a window"
                                 : "") +
               "; " + type + " stands in");
    return type;
  };
  const bool linear = one.kind->mixer == Mixer::gated_delta || one.kind->mixer == Mixer::decay;
  if (one.exchange == Exchange::scan || (linear && one.exchange != Exchange::heads)) return stands_in("a2a");
  std::string type;
  switch (one.exchange) {
    case Exchange::heads: type = "a2a"; break;
    case Exchange::gather: type = one.kind->sink ? stands_in("a2a") : "all_gather"; break;
    case Exchange::strided_gather: type = stands_in(one.kind->sink ? "a2a" : "all_gather"); break;
    case Exchange::two_level:
      type = one.inner == 1 ? "p2p" : one.inner == r.layout.cp ? "a2a" : "a2a+p2p";
      if (one.name() != "hierarchical") stands_in(type);
      if (type != "a2a+p2p") out.note(one.words() + " in teams of " + number(one.inner) + " is " + type);
      break;
    case Exchange::other: type = stands_in("p2p"); break;
    default: type = "p2p";
  }
  const bool travels = type == "p2p" || type == "a2a+p2p";
  if (travels && one.kind->sink) type = stands_in("a2a");
  if (travels && !one.kind->sink && one.windowed()) type = stands_in("all_gather");
  if (type == "a2a") say_heads(out, r, one, r.layout.cp, false);
  if (type == "a2a+p2p") say_heads(out, r, one, one.inner, false);
  return type;
}

void write_exchange(Output& out, Settings& settings, const Request& r) {
  Words types;
  std::int64_t inner = 0;
  const bool wraps = out.framework() != Framework::megatron;
  for (const Asked& one : r.attention) {
    std::string type = comm_type(out, r, one);
    if (type == "a2a+p2p" && wraps) {
      out.cannot("hierarchical_context_parallel_sizes, which " + one.words() + " need; p2p stands in");
      type = "p2p";
    }
    if (type == "a2a+p2p" && inner != 0 && inner != one.inner)
      out.cannot("teams of " + number(one.inner) + " ranks for " + one.words() + "; teams of " +
                 number(inner) + " stand in");
    else if (type == "a2a+p2p")
      inner = one.inner;
    types.push_back(type);
  }
  const bool same = std::equal(types.begin() + 1, types.end(), types.begin());
  Words flat{types.front()};
  if (!same && out.framework() == Framework::ms_swift) {
    const bool trades = std::find(types.begin(), types.end(), "a2a") != types.end();
    flat = {trades ? "a2a" : "all_gather"};
    out.cannot("a communication of its own for each kind of layer; " + flat.front() + " stands in for all");
  } else if (!same) {
    flat.clear();
    for (const LayerRun& run : r.model.layers)
      flat.insert(flat.end(), static_cast<std::size_t>(run.count), types[run.attention]);
  }
  settings.set("cp_comm_type", flat);
  if (inner != 0)
    settings.set("hierarchical_context_parallel_sizes", Words{number(inner), number(r.layout.cp / inner)});
  if (r.longest() % (2 * r.layout.cp) != 0)
    out.illegal(number(r.longest()) + " tokens do not divide into the 2 x cp = " + number(2 * r.layout.cp) +
                " pieces of zigzag");
  const bool contiguous = std::all_of(r.attention.begin(), r.attention.end(),
                                      [](const Asked& one) { return one.choice->placement == "contiguous"; });
  const bool has_mode = out.framework() == Framework::ms_swift && contiguous;
  if (has_mode) settings.set("cp_partition_mode", Words{"contiguous"});
  std::vector<std::string_view> expressed;
  if (!wraps) expressed.emplace_back("inner_ranks");
  say_choices(out, r, has_mode ? "contiguous" : "zigzag", expressed);
}

void write_pipeline(Output& out, Settings& settings, const ModelLayout& l) {
  settings.set("pipeline_model_parallel_size", l.pp);
  if (l.pipeline_chunks == 1) return;
  settings.set(out.framework() == Framework::megatron ? "num_virtual_stages_per_pipeline_rank"
                                                      : "virtual_pipeline_model_parallel_size",
               l.pipeline_chunks);
}

void write_sharding(Output& out, Settings& settings, const ModelLayout& l) {
  settings.turn("use_distributed_optimizer", l.zero >= 1);
  if (l.zero == 0) out.note("ZeRO 0: every replica has the whole optimizer state");
  if (l.zero < 2) return;
  settings.turn("use_megatron_fsdp", true);
  out.note("Megatron's FSDP wants CUDA_DEVICE_MAX_CONNECTIONS unset or above 1");
  const std::string strategy = l.zero == 2 ? "optim_grads" : "optim_grads_params";
  if (out.framework() == Framework::verl)
    out.entry("engine.override_ddp_config", "data_parallel_sharding_strategy", strategy);
  else
    settings.set("data_parallel_sharding_strategy", Words{strategy});
  // Megatron's FSDP writes its checkpoints in this format alone.
  if (out.framework() == Framework::megatron) settings.set("ckpt_format", Words{"fsdp_dtensor"});
}

void write_recompute(Output& out, Settings& settings, const Request& r) {
  const ModelLayout& l = r.layout;
  if (l.recompute == Recompute::none) {
    if (out.framework() == Framework::ms_swift) settings.set("recompute_granularity", Words{"none"});
    if (out.framework() == Framework::verl) settings.set("recompute_granularity", Words{"null"});
    return;
  }
  if (l.recompute == Recompute::full) {
    settings.set("recompute_granularity", Words{"full"});
    settings.set("recompute_method", Words{"uniform"});
    settings.set("recompute_num_layers", 1);
    return;
  }
  settings.set("recompute_granularity", Words{"selective"});
  const bool dense =
      std::any_of(r.model.feed_forward.begin(), r.model.feed_forward.end(),
                  [](const FeedForwardKind& kind) { return kind.experts == 0 && kind.width > 0; });
  Words modules;
  if (dense) modules.emplace_back("mlp");
  if (r.has_experts()) modules.emplace_back("moe");
  // Delayed scaling, the recipe that is taken where none is named, cannot compute norms again.
  if (r.training.dtype == "fp8")
    out.cannot("that norms are computed again under fp8 with delayed scaling; they are kept");
  else
    modules.emplace_back("layernorm");
  settings.set("recompute_modules", modules);
}

void write_precision(Output& out, Settings& settings, const Training& t) {
  const bool half = t.dtype == "fp16";
  if (out.framework() == Framework::megatron)
    settings.turn(half ? "fp16" : "bf16", true);
  else
    settings.set(out.framework() == Framework::verl ? "dtype" : "torch_dtype",
                 Words{half ? "float16" : "bfloat16"});
  const bool override_only = out.framework() == Framework::verl;
  if (t.dtype == "fp8") settings.set(override_only ? "fp8" : "fp8_format", Words{"hybrid"});
  if (t.dtype == "fp4") settings.set(override_only ? "fp4" : "fp4_format", Words{"e2m1"});
  say_state_bytes(out, t);
}

void write_offload(Output& out, Settings& settings, const Request& r) {
  const ModelLayout& l = r.layout;
  if (l.offload_optimizer && l.zero == 0)
    out.illegal("an optimizer on the host that is not distributed (ZeRO 0)");
  if (l.offload_optimizer && out.framework() == Framework::verl) {
    out.entry("optim.override_optimizer_config", "optimizer_cpu_offload", "True");
    out.entry("optim.override_optimizer_config", "optimizer_offload_fraction", "1.0");
    out.entry("optim.override_optimizer_config", "use_precision_aware_optimizer", "True");
  } else if (l.offload_optimizer) {
    settings.turn("optimizer_cpu_offload", true);
    settings.set("optimizer_offload_fraction", Words{"1.0"});
    settings.turn("use_precision_aware_optimizer", true);
  }
  if (!l.offload_checkpoints) return;
  if (l.recompute != Recompute::none || l.pp > 1 || out.framework() == Framework::ms_swift) {
    out.cannot("kept inputs of layers on the host beside recompute or a pipeline; they stay on the GPU");
    return;
  }
  // Megatron wants one layer at least to stay.
  settings.set("cpu_offloading_num_layers", r.model.layer_count() - 1);
}

void write_loss(Output& out, Settings& settings, const ModelLayout& l) {
  if (l.loss_chunks == 1) return;
  out.cannot("logits in " + number(l.loss_chunks) +
             " chunks; the fused cross-entropy stands in, all at once");
  settings.turn("cross_entropy_loss_fusion", true);
  settings.set("cross_entropy_fusion_impl", Words{"te"});
}

// A window and sinks, which Megatron-LM takes as arguments; its wrappers read them in the model's config.
void write_attention_form(Output& out, Settings& settings, const Request& r) {
  std::int64_t window = -1;
  std::string per_layer;
  bool everywhere = true;
  for (const LayerRun& run : r.model.layers) {
    const AttentionKind& kind = r.model.attention[run.attention];
    const bool windowed = kind.window >= 0 && kind.mixer == Mixer::softmax;
    everywhere = everywhere && windowed;
    if (windowed && window >= 0 && window != kind.window)
      out.cannot("a window of " + number(kind.window) + " beside one of " + number(window));
    if (windowed && window < 0) window = kind.window;
    per_layer +=
        (per_layer.empty() ? "[" : "+[") + std::string(windowed ? "1" : "0") + "]*" + number(run.count);
  }
  if (window >= 0) settings.set("window_size", Words{number(window - 1) + ",0"});
  if (window >= 0 && !everywhere) settings.set("window_attn_skip_freq", Words{per_layer});
  if (std::any_of(r.model.attention.begin(), r.model.attention.end(),
                  [](const AttentionKind& kind) { return kind.sink; }))
    settings.set("softmax_type", Words{"learnable"});
}

}  // namespace

void megatron_core(Output& out, const Request& r) {
  const ModelLayout& l = r.layout;
  Settings settings(out);
  settings.set("tensor_model_parallel_size", l.tp);
  if (l.tp > 1) settings.turn("sequence_parallel", true);
  settings.set("context_parallel_size", l.cp);
  if (l.cp > 1) write_exchange(out, settings, r);
  write_pipeline(out, settings, l);
  if (r.has_experts()) {
    settings.set("expert_model_parallel_size", l.ep);
    settings.set("expert_tensor_parallel_size", l.etp);
  }
  out.note("dp " + number(l.dp) + " is what the number of GPUs leaves");
  write_sharding(out, settings, l);
  write_recompute(out, settings, r);
  write_precision(out, settings, r.training);
  write_offload(out, settings, r);
  write_loss(out, settings, l);
  if (out.framework() == Framework::megatron) write_attention_form(out, settings, r);
}

std::string megatron(const Request& r) {
  Output out(Framework::megatron);
  say_step(out, r, Mode::training);
  megatron_core(out, r);
  out.flag("--micro-batch-size", r.layout.micro_batch);
  out.flag("--global-batch-size", r.global_batch());
  out.flag("--seq-length", r.longest());
  if (r.uses_lora()) out.cannot("LoRA of rank " + number(r.training.lora_rank) + "; all weights are trained");
  return out.as_array("Megatron-LM, " + gpus_in_words(r.layout) + ": torchrun ... pretrain_gpt.py",
                      "MEGATRON_ARGS");
}

}  // namespace cplab::emitting

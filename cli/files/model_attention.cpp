// The attention layers of a config: which layer is of which form, and the sizes of each form.
#include <algorithm>

#include "cli/files/model_parts.hpp"
#include "cli/vocabulary.hpp"

namespace cplab {

namespace {

// layer_types, or layers_block_type as some architectures call it.
const char* key_of_layer_types(const JsonConfig& config) {
  return config.has("layer_types") ? "layer_types" : "layers_block_type";
}

LayerForm form_of_word(const JsonConfig& config, const char* key, const std::string& word) {
  if (word == "full_attention" || word == "attention") return LayerForm::full;
  if (word == "sliding_attention") return LayerForm::windowed;
  if (word == "chunked_attention") return LayerForm::chunked;
  if (word == "linear_attention" || word == "mamba" || word == "mamba2") return LayerForm::state;
  const std::vector<std::string> legal{"full_attention", "sliding_attention", "chunked_attention",
                                       "linear_attention"};
  config.fail(key, "\"" + word + "\" is not known" + clause(meant_value(key, word, legal)) +
                       " Legal: " + quoted_list(legal) + ", \"attention\", \"mamba\"");
}

void require_length(const ModelReading& reading, const char* key, std::size_t length) {
  if (static_cast<std::int64_t>(length) == reading.layers) return;
  reading.config.fail(key, "holds " + std::to_string(length) + " entries, but num_hidden_layers is " +
                               std::to_string(reading.layers) + "; legal: one for each layer");
}

// Every `period`-th layer, the last of each group, is a full one.
std::vector<LayerForm> every(const ModelReading& reading, std::int64_t period, LayerForm other) {
  std::vector<LayerForm> forms;
  for (std::int64_t i = 1; i <= reading.layers; ++i)
    forms.push_back(period > 0 && i % period == 0 ? LayerForm::full : other);
  return forms;
}

std::vector<LayerForm> chunked_forms(ModelReading& reading) {
  const JsonConfig& config = reading.config;
  const std::int64_t interval = config.maybe_integer({"no_rope_layer_interval"}, 1, most::layers)
                                    .value_or(reading.architecture.pattern);
  std::vector<LayerForm> forms = every(reading, interval, LayerForm::chunked);
  // 0: no rotation, which is a layer that sees all.
  if (const auto rotated = config.maybe_integers("no_rope_layers"); rotated && !rotated->empty()) {
    require_length(reading, "no_rope_layers", rotated->size());
    for (std::size_t i = 0; i < rotated->size(); ++i)
      forms[i] = (*rotated)[i] == 0 ? LayerForm::full : LayerForm::chunked;
  }
  if (config.maybe_integer({"attention_chunk_size"}, 0, most::tokens).value_or(1) == 0)
    std::fill(forms.begin(), forms.end(), LayerForm::full);
  return forms;
}

// Of architectures with windows.
std::vector<LayerForm> window_forms(ModelReading& reading) {
  const JsonConfig& config = reading.config;
  const Architecture& architecture = reading.architecture;
  const auto given = config.maybe_integer({"sliding_window"}, 0, most::tokens);
  const bool any = given.value_or(architecture.window) > 0;
  const std::vector<LayerForm> full(static_cast<std::size_t>(reading.layers), LayerForm::full);
  // Asked for in any case: they are known, also where they change nothing.
  const bool used = config.flag("use_sliding_window", false);
  const auto from = config.maybe_integer({"max_window_layers"}, 0, most::layers);
  // "LLLG": a letter a layer, L has a window.
  if (architecture.windows == Windows::pattern && config.is_text("sliding_window_pattern")) {
    const std::string letters = config.text("sliding_window_pattern");
    if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos)
      config.fail("sliding_window_pattern", "legal: a whole number, or letters L (window) and G, a group");
    std::vector<LayerForm> forms = full;
    for (std::size_t i = 0; i < forms.size() && any; ++i)
      if (letters[i % letters.size()] == 'L') forms[i] = LayerForm::windowed;
    return forms;
  }
  const auto pattern =
      config.maybe_integer({"sliding_window_pattern", "_sliding_window_pattern"}, 0, most::layers);
  if (!any) return full;
  switch (architecture.windows) {
    case Windows::all: return every(reading, 0, LayerForm::windowed);
    case Windows::pattern: return every(reading, pattern.value_or(architecture.pattern), LayerForm::windowed);
    case Windows::last_layers: {
      if (!used) return full;
      std::vector<LayerForm> forms = full;
      constexpr std::int64_t first = 28;  // what transformers takes
      for (std::int64_t i = from.value_or(first); i < reading.layers; ++i)
        forms[static_cast<std::size_t>(i)] = LayerForm::windowed;
      return forms;
    }
    default: return full;
  }
}

// Layers of softmax attention by their numbers, from 1 on.
std::optional<std::vector<LayerForm>> kimi_forms(const ModelReading& reading) {
  if (!reading.config.is_object("linear_attn_config")) return {};
  const JsonConfig linear = reading.config.object("linear_attn_config");
  linear.ignore("kda_layers");
  const auto numbers = linear.maybe_integers("full_attn_layers");
  if (!numbers) return {};
  std::vector<LayerForm> forms(static_cast<std::size_t>(reading.layers), LayerForm::state);
  for (const std::int64_t number : *numbers) {
    if (number < 1 || number > reading.layers)
      linear.fail("full_attn_layers", "names layer " + std::to_string(number) + "; legal: from 1 to " +
                                          std::to_string(reading.layers));
    forms[static_cast<std::size_t>(number - 1)] = LayerForm::full;
  }
  return forms;
}

std::vector<LayerForm> state_forms(ModelReading& reading) {
  const JsonConfig& config = reading.config;
  if (const auto types = config.maybe_integers("attn_type_list")) {
    require_length(reading, "attn_type_list", types->size());
    std::vector<LayerForm> forms;
    for (const std::int64_t type : *types) {
      if (type != 0 && type != 1) config.fail("attn_type_list", "legal entries: 0 (linear), 1 (softmax)");
      forms.push_back(type == 0 ? LayerForm::state : LayerForm::full);
    }
    return forms;
  }
  if (const auto indices = config.maybe_integers("attn_layer_indices")) {
    std::vector<LayerForm> forms(static_cast<std::size_t>(reading.layers), LayerForm::state);
    for (const std::int64_t index : *indices) {
      if (index < 0 || index >= reading.layers)
        config.fail("attn_layer_indices", "names layer " + std::to_string(index) + "; legal: from 0 to " +
                                              std::to_string(reading.layers - 1));
      forms[static_cast<std::size_t>(index)] = LayerForm::full;
    }
    return forms;
  }
  if (const auto forms = kimi_forms(reading)) return *forms;
  const auto interval = config.maybe_integer({"full_attention_interval"}, 1, most::layers);
  return every(reading, interval.value_or(reading.architecture.state_period), LayerForm::state);
}

AttentionKind delta_kind(ModelReading& reading) {
  AttentionKind kind{.mixer = Mixer::gated_delta};
  kind.heads = reading.size({"linear_num_value_heads"}, most::heads);
  kind.kv_heads = reading.size({"linear_num_key_heads"}, most::heads);
  kind.head_size = reading.size({"linear_key_head_dim"}, most::head_size);
  kind.value_size = reading.size({"linear_value_head_dim"}, most::head_size);
  kind.convolution = reading.size({"linear_conv_kernel_dim"}, 64, 4);
  kind.output_gate = true;
  if (kind.heads % kind.kv_heads != 0)
    reading.config.fail("linear_num_key_heads",
                        "must divide linear_num_value_heads = " + std::to_string(kind.heads) +
                            "; legal: " + divisors_text(kind.heads));
  return kind;
}

// linear_attn_config of Kimi Linear, or the same keys without that object.
AttentionKind kimi_delta_kind(ModelReading& reading) {
  const bool own = reading.config.is_object("linear_attn_config");
  const JsonConfig linear = own ? reading.config.object("linear_attn_config") : reading.config;
  const auto key = [&](const char* within, const char* flat) {
    return std::vector<std::string_view>{own ? within : flat};
  };
  AttentionKind kind{.mixer = Mixer::gated_delta};
  kind.heads = kind.kv_heads = linear.integer(key("num_heads", "linear_num_heads"), 1, most::heads);
  kind.head_size = kind.value_size = kind.gate_rank =
      linear.integer(key("head_dim", "linear_head_dim"), 1, most::head_size);
  kind.convolution =
      linear.maybe_integer(key("short_conv_kernel_size", "linear_conv_kernel_dim"), 0, 64).value_or(4);
  kind.output_gate = true;
  return kind;
}

AttentionKind mamba_kind(ModelReading& reading) {
  const JsonConfig& config = reading.config;
  AttentionKind kind{.mixer = Mixer::decay};
  kind.heads = reading.size({"mamba_n_heads", "mamba_num_heads", "num_heads"}, most::heads);
  kind.kv_heads = reading.size({"mamba_n_groups", "n_groups"}, most::heads);
  kind.head_size = reading.size({"mamba_d_state", "ssm_state_size", "state_size"}, most::head_size);
  const std::int64_t expand = reading.size({"mamba_expand", "expand"}, 64, 2);
  const bool automatic = config.is_text("mamba_d_head");
  if (automatic) config.ignore("mamba_d_head");
  const std::vector<std::string_view> sizes =
      automatic ? std::vector<std::string_view>{"mamba_head_dim"}
                : std::vector<std::string_view>{"mamba_d_head", "mamba_head_dim", "head_dim"};
  kind.value_size =
      reading.size(sizes, most::head_size, std::max<std::int64_t>(1, expand * reading.hidden / kind.heads));
  kind.convolution = reading.size({"mamba_d_conv", "conv_kernel"}, 64, 4);
  kind.convolution_bias = config.flag("mamba_conv_bias", true) && config.flag("use_conv_bias", true);
  kind.bias = kind.output_bias = config.flag("mamba_proj_bias", false) || config.flag("use_bias", false);
  kind.output_gate = kind.token_decay = true;
  if (kind.heads % kind.kv_heads != 0)
    config.fail(
        config.has("mamba_n_groups") ? "mamba_n_groups" : "n_groups",
        "must divide the " + std::to_string(kind.heads) + " heads; legal: " + divisors_text(kind.heads));
  return kind;
}

std::int64_t head_size_of(ModelReading& reading, std::int64_t heads) {
  if (reading.architecture.head_size > 0)
    return reading.size({"head_dim"}, most::head_size, reading.architecture.head_size);
  if (!reading.config.has("head_dim") && reading.hidden % heads != 0)
    reading.config.fail("head_dim", "missing, and hidden_size = " + std::to_string(reading.hidden) +
                                        " is no multiple of num_attention_heads = " + std::to_string(heads));
  return reading.size({"head_dim"}, most::head_size, std::max<std::int64_t>(1, reading.hidden / heads));
}

void read_biases(ModelReading& reading, AttentionKind& kind) {
  const JsonConfig& config = reading.config;
  const bool by_key = config.flag("attention_bias", reading.architecture.biased);
  switch (reading.architecture.biases) {
    case Biases::none: break;
    case Biases::inputs: kind.bias = config.flag("qkv_bias", true); break;
    case Biases::by_key: kind.bias = kind.output_bias = by_key; break;
    case Biases::inputs_by_key: kind.bias = by_key; break;
    case Biases::out_by_own_key:
      kind.bias = by_key;
      kind.output_bias = config.flag("attention_out_bias", false);
      break;
    case Biases::by_use_bias:
      kind.bias = kind.output_bias = config.flag("use_bias", reading.architecture.biased);
      break;
  }
}

AttentionKind latent_kind(ModelReading& reading, std::int64_t heads) {
  const JsonConfig& config = reading.config;
  AttentionKind kind{.mixer = Mixer::latent};
  kind.heads = kind.kv_heads = heads;
  config.ignore("num_key_value_heads");
  config.ignore("head_dim");
  config.ignore("qk_head_dim");
  kind.rope_size = reading.size({"qk_rope_head_dim"}, most::head_size);
  kind.head_size = kind.rope_size + reading.size({"qk_nope_head_dim"}, most::head_size);
  kind.value_size = reading.size({"v_head_dim"}, most::head_size);
  kind.kv_latent = reading.size({"kv_lora_rank"}, most::hidden);
  kind.query_latent = config.maybe_integer({"q_lora_rank"}, 0, most::hidden).value_or(0);
  kind.bias = kind.output_bias = config.flag("attention_bias", false);
  return kind;
}

AttentionKind softmax_kind(ModelReading& reading) {
  const JsonConfig& config = reading.config;
  const Architecture& architecture = reading.architecture;
  const std::int64_t heads = reading.size({"num_attention_heads"}, most::heads);
  if (architecture.latent) return latent_kind(reading, heads);
  AttentionKind kind;
  kind.heads = heads;
  kind.kv_heads = reading.size({"num_key_value_heads"}, most::heads,
                               architecture.kv_heads > 0 ? architecture.kv_heads : heads);
  if (heads % kind.kv_heads != 0)
    config.fail("num_key_value_heads", "must divide num_attention_heads = " + std::to_string(heads) +
                                           ", but is " + std::to_string(kind.kv_heads) +
                                           "; legal: " + divisors_text(heads));
  kind.head_size = kind.value_size = head_size_of(reading, heads);
  read_biases(reading, kind);
  kind.sink = architecture.sink;
  kind.softcap = config.number("attn_logit_softcapping", 0);
  const bool asked = config.flag("use_qk_norm", false);
  kind.head_norms =
      architecture.norms == QkNorms::heads || (architecture.norms == QkNorms::heads_by_key && asked);
  kind.whole_norms = architecture.norms == QkNorms::whole;
  kind.output_gate = architecture.states == States::gated_delta;
  return kind;
}

}  // namespace

std::vector<LayerForm> layer_forms(ModelReading& reading) {
  const JsonConfig& config = reading.config;
  std::vector<LayerForm> forms;
  switch (reading.architecture.windows) {
    case Windows::none:
      forms = reading.architecture.states == States::none ? every(reading, 1, LayerForm::full)
                                                          : state_forms(reading);
      config.ignore("sliding_window");  // null where there are no windows
      config.ignore("use_sliding_window");
      config.ignore("max_window_layers");
      break;
    case Windows::chunks: forms = chunked_forms(reading); break;
    default: forms = window_forms(reading);
  }
  const char* key = key_of_layer_types(config);
  const auto words = config.maybe_texts(key);
  if (!words) return forms;
  require_length(reading, key, words->size());
  for (std::size_t i = 0; i < words->size(); ++i) forms[i] = form_of_word(config, key, (*words)[i]);
  return forms;
}

AttentionKind attention_kind(ModelReading& reading, LayerForm form) {
  const JsonConfig& config = reading.config;
  AttentionKind kind;
  if (form != LayerForm::state) {
    kind = softmax_kind(reading);
    const std::int64_t window = reading.architecture.window;
    if (form == LayerForm::windowed)
      kind.window = window > 0 ? reading.size({"sliding_window"}, most::tokens, window)
                               : config.integer({"sliding_window"}, 1, most::tokens);
    // One as wide as the longest sequence that the model takes is none.
    const auto longest = config.maybe_integer({"max_position_embeddings"}, 1, most::tokens);
    if (longest && kind.window >= *longest) kind.window = -1;
    if (form == LayerForm::chunked)
      kind.chunk = reading.size({"attention_chunk_size"}, most::tokens, window > 0 ? window : 8192);
  } else if (reading.architecture.states == States::gated_delta) {
    kind = delta_kind(reading);
  } else if (reading.architecture.states == States::kimi_delta) {
    kind = kimi_delta_kind(reading);
  } else if (reading.architecture.states == States::lightning) {
    kind.mixer = Mixer::decay;
    kind.heads = kind.kv_heads = reading.size({"num_attention_heads"}, most::heads);
    kind.head_size = kind.value_size = head_size_of(reading, kind.heads);
    kind.output_gate = true;
  } else if (reading.architecture.states == States::mamba2) {
    kind = mamba_kind(reading);
  } else {
    config.fail(key_of_layer_types(config),
                "names a linear layer, which " + std::string(reading.architecture.type) + " does not have");
  }
  kind.name = name_of(kind);
  return kind;
}

std::string name_of(const AttentionKind& kind) {
  switch (kind.mixer) {
    case Mixer::gated_delta: return "gated delta";
    case Mixer::decay: return kind.token_decay ? "mamba2" : "lightning";
    case Mixer::latent: return "latent";
    case Mixer::softmax: break;
  }
  if (kind.window > 0) return "window " + std::to_string(kind.window);
  if (kind.chunk > 0) return "chunk " + std::to_string(kind.chunk);
  return "global";
}

}  // namespace cplab

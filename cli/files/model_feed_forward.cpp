// The feed-forward parts of a config: which layer has experts, and the sizes of either form.
#include <algorithm>

#include "cli/files/model_parts.hpp"
#include "cli/vocabulary.hpp"

namespace cplab {

namespace {

const std::vector<std::string_view> expert_counts{"num_experts", "num_local_experts", "n_routed_experts",
                                                  "moe_num_experts"};

// "dense" and "sparse", a word a layer.
std::optional<std::vector<bool>> listed(const ModelReading& reading) {
  const auto words = reading.config.maybe_texts("mlp_layer_types");
  if (!words) return {};
  if (static_cast<std::int64_t>(words->size()) != reading.layers)
    reading.config.fail("mlp_layer_types", "holds " + std::to_string(words->size()) +
                                               " entries, but num_hidden_layers is " +
                                               std::to_string(reading.layers));
  std::vector<bool> experts;
  for (const std::string& word : *words) {
    if (word != "dense" && word != "sparse")
      reading.config.fail("mlp_layer_types", "\"" + word + "\" is not known; legal: \"dense\", \"sparse\"");
    experts.push_back(word == "sparse");
  }
  return experts;
}

std::vector<bool> behind_dense(const ModelReading& reading) {
  const JsonConfig& config = reading.config;
  const std::int64_t dense = config.maybe_integer({"first_k_dense_replace"}, 0, most::layers).value_or(0);
  std::vector<bool> experts;
  if (config.is_list("moe_layer_freq")) {
    const auto flags = config.maybe_integers("moe_layer_freq");
    if (static_cast<std::int64_t>(flags->size()) != reading.layers)
      config.fail("moe_layer_freq", "holds " + std::to_string(flags->size()) +
                                        " entries, but num_hidden_layers is " +
                                        std::to_string(reading.layers));
    for (const std::int64_t flag : *flags) experts.push_back(flag != 0);
    return experts;
  }
  const std::int64_t each = config.maybe_integer({"moe_layer_freq"}, 1, most::layers).value_or(1);
  for (std::int64_t i = 0; i < reading.layers; ++i) experts.push_back(i >= dense && i % each == 0);
  return experts;
}

std::vector<bool> stepped(const ModelReading& reading) {
  const JsonConfig& config = reading.config;
  const std::int64_t step = config.maybe_integer({"decoder_sparse_step"}, 1, most::layers).value_or(1);
  const auto dense = config.maybe_integers("mlp_only_layers").value_or(std::vector<std::int64_t>());
  std::vector<bool> experts;
  for (std::int64_t i = 0; i < reading.layers; ++i)
    experts.push_back((i + 1) % step == 0 && std::find(dense.begin(), dense.end(), i) == dense.end());
  return experts;
}

std::vector<bool> interleaved(const ModelReading& reading) {
  const JsonConfig& config = reading.config;
  const std::int64_t step = config.maybe_integer({"interleave_moe_layer_step"}, 1, most::layers).value_or(1);
  const auto named = config.maybe_integers("moe_layers");
  std::vector<bool> experts;
  for (std::int64_t i = 0; i < reading.layers; ++i)
    experts.push_back(named ? std::find(named->begin(), named->end(), i) != named->end()
                            : (i + 1) % step == 0);
  return experts;
}

// A letter a block, and the key that says it.
std::pair<const char*, std::string> block_pattern(const JsonConfig& config) {
  for (const char* key : {"layers_block_type", "layer_types"}) {
    const auto words = config.maybe_texts(key);
    if (!words) continue;
    std::string letters;
    for (const std::string& word : *words) {
      const char letter = word == "linear_attention" || word == "mamba"     ? 'M'
                          : word == "full_attention" || word == "attention" ? '*'
                          : word == "mlp"                                   ? '-'
                          : word == "moe"                                   ? 'E'
                                                                            : '?';
      if (letter == '?')
        config.fail(key, "\"" + word + "\" is not known; legal: \"mamba\", \"attention\", \"mlp\", \"moe\"");
      letters += letter;
    }
    return {key, letters};
  }
  return {"hybrid_override_pattern", config.text("hybrid_override_pattern")};
}

std::vector<bool> in_span(const ModelReading& reading) {
  const JsonConfig& config = reading.config;
  const std::int64_t first = config.maybe_integer({"moe_layer_start_index"}, 0, most::layers).value_or(1);
  const bool to_the_end = config.is_negative("moe_layer_end_index");
  if (to_the_end) config.ignore("moe_layer_end_index");
  const std::int64_t last =
      to_the_end
          ? reading.layers - 1
          : config.maybe_integer({"moe_layer_end_index"}, 0, most::layers).value_or(reading.layers - 1);
  const std::int64_t each = config.maybe_integer({"moe_layer_interval"}, 1, most::layers).value_or(1);
  std::vector<bool> experts;
  for (std::int64_t i = 0; i < reading.layers; ++i)
    experts.push_back(i >= first && i <= last && (i + 1) % each == 0);
  return experts;
}

std::int64_t shared_width_of(const ModelReading& reading, std::int64_t expert_width) {
  const JsonConfig& config = reading.config;
  if (reading.architecture.mixtures == Mixtures::interleaved) return expert_width;  // llama4: one, as wide
  if (const auto width = config.maybe_integer({"shared_expert_intermediate_size", "shared_intermediate_size",
                                               "moe_shared_expert_intermediate_size"},
                                              0, most::width))
    return *width;
  const auto count =
      config.maybe_integer({"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"}, 0, 64);
  return count.value_or(0) * expert_width;
}

}  // namespace

std::vector<PatternLayer> pattern_layers(const ModelReading& reading) {
  const JsonConfig& config = reading.config;
  const auto [key, pattern] = block_pattern(config);
  using Kind = PatternLayer::FeedForward;
  std::vector<PatternLayer> layers;
  for (const char block : pattern) {
    if (block == 'M' || block == '*') {
      layers.push_back({.attends = block == '*'});
    } else if (block != '-' && block != 'E') {
      config.fail(key, std::string("the letter ") + block + " is not known; legal: M, *, -, E");
    } else if (layers.empty() || layers.back().feed_forward != Kind::none) {
      config.fail(key, "a feed-forward block without an attention or state block before it is not planned");
    } else {
      layers.back().feed_forward = block == '-' ? Kind::dense : Kind::experts;
    }
  }
  if (reading.layers > 0 && reading.layers != static_cast<std::int64_t>(pattern.size()))
    config.fail(key, "holds " + std::to_string(pattern.size()) + " blocks, but num_hidden_layers is " +
                         std::to_string(reading.layers));
  return layers;
}

std::vector<bool> expert_layers(ModelReading& reading) {
  const JsonConfig& config = reading.config;
  const std::vector<bool> none(static_cast<std::size_t>(reading.layers), false);
  const Mixtures mixtures = reading.architecture.mixtures;
  const bool optional = mixtures == Mixtures::behind_dense || reading.architecture.states == States::mamba2;
  const auto count = config.maybe_integer(expert_counts, 0, most::experts);
  if (mixtures == Mixtures::none && !(optional && count.value_or(0) > 0)) {
    if (count.value_or(0) > 0)
      config.fail("num_experts",
                  "a model of type " + std::string(reading.architecture.type) + " has no experts");
    return none;
  }
  if (optional && count.value_or(0) == 0) return none;
  if (const auto layers = listed(reading)) return *layers;
  switch (mixtures) {
    case Mixtures::behind_dense: return behind_dense(reading);
    case Mixtures::sparse_step: return stepped(reading);
    case Mixtures::interleaved: return interleaved(reading);
    case Mixtures::span: return in_span(reading);
    default: return std::vector<bool>(static_cast<std::size_t>(reading.layers), true);
  }
}

FeedForwardKind dense_kind(ModelReading& reading) {
  const JsonConfig& config = reading.config;
  FeedForwardKind kind;
  kind.gated = reading.architecture.gated;
  kind.bias = config.flag("mlp_bias", false);
  if (reading.architecture.biases == Biases::by_use_bias)
    kind.bias = config.flag("use_bias", reading.architecture.biased);
  if (reading.architecture.type == "mamba2") {
    kind.name = "none";
    return kind;
  }
  if (reading.architecture.mixtures == Mixtures::interleaved)
    kind.width = reading.size({"intermediate_size_mlp", "intermediate_size"}, most::width);
  else if (reading.architecture.type == "granitemoehybrid")
    kind.width = reading.size({"shared_intermediate_size", "intermediate_size"}, most::width);
  else
    kind.width = reading.size({"intermediate_size"}, most::width);
  kind.name = name_of(kind);
  return kind;
}

FeedForwardKind expert_kind(ModelReading& reading) {
  const JsonConfig& config = reading.config;
  FeedForwardKind kind;
  kind.gated = reading.architecture.gated;
  kind.bias = reading.architecture.expert_bias;
  kind.experts = reading.size(expert_counts, most::experts);
  kind.chosen = reading.size({"num_experts_per_tok", "experts_per_token", "num_experts_per_token", "moe_k"},
                             most::experts);
  if (kind.chosen > kind.experts)
    config.fail("num_experts_per_tok", "a token takes " + std::to_string(kind.chosen) + " of " +
                                           std::to_string(kind.experts) + " experts; legal: from 1 to " +
                                           std::to_string(kind.experts));
  const bool hybrid = reading.architecture.type == "granitemoehybrid";
  kind.width = reading.size({hybrid ? "intermediate_size" : reading.architecture.expert_width}, most::width);
  kind.shared_width = shared_width_of(reading, kind.width);
  kind.shared_gate = reading.architecture.shared_gate && kind.shared_width > 0;
  kind.name = name_of(kind);
  return kind;
}

std::string name_of(const FeedForwardKind& kind) {
  if (kind.experts > 0)
    return std::to_string(kind.experts) + " experts, " + std::to_string(kind.chosen) + " each";
  return kind.width > 0 ? "dense" : "none";
}

}  // namespace cplab

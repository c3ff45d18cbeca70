// Reading model configs; see model_file.hpp.
#include "cli/files/model_file.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

#include "cli/console.hpp"
#include "cli/files/json_config.hpp"
#include "cli/files/model_architectures.hpp"
#include "cli/files/model_parts.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/files/text_file.hpp"
#include "cli/memory_need.hpp"
#include "cli/vocabulary.hpp"

namespace cplab {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_config_bytes = std::size_t{4} << 20;

std::size_t common_beginning(std::string_view a, std::string_view b) {
  const auto ends = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<std::size_t>(ends.first - a.begin());
}

// Those that begin like the given one first.
std::vector<std::string> nearest_first(const std::string& given, std::vector<std::string> words) {
  std::stable_sort(words.begin(), words.end(), [&](const std::string& a, const std::string& b) {
    return common_beginning(a, given) > common_beginning(b, given);
  });
  const auto best = std::find(words.begin(), words.end(), nearest(given, words));
  if (best != words.end()) std::rotate(words.begin(), best, best + 1);
  return words;
}

const Architecture& architecture_of(const JsonConfig& config) {
  const std::vector<std::string> known = known_model_types();
  if (!config.has("model_type"))
    config.fail("model_type",
                "missing; it says how the other keys are to be read. Legal: " + quoted_list(known));
  const std::string type = config.text("model_type");
  // MiniMax-M2 shares the name with its predecessors.
  const auto classes = config.is_list("architectures") ? config.maybe_texts("architectures") : std::nullopt;
  const bool second =
      type == "minimax" && classes && !classes->empty() && classes->front().find("M2") != std::string::npos;
  const Architecture* found = find_architecture(second ? "minimax_m2" : type);
  if (found == nullptr) {
    if (const std::string_view why = why_not_planned(type); !why.empty())
      config.fail("model_type", "\"" + type + "\" " + std::string(why) +
                                    ", which is not planned. Legal, nearest first: " +
                                    quoted_list(nearest_first(type, known)));
    const std::string hint = nearest(type, known);
    config.fail("model_type", "\"" + type + "\" is not known" +
                                  clause(hint.empty() ? "" : "did you mean \"" + hint + "\"?") +
                                  " Legal, nearest first: " + quoted_list(nearest_first(type, known)));
  }
  return *found;
}

// Of a config with images or sound, the part that holds the language model.
JsonConfig language_part(const JsonConfig& root) {
  for (const char* key : {"text_config", "llm_config", "language_config"})
    if (root.is_object(key)) {
      for (const char* own : {"model_type", "vocab_size"}) root.ignore(own);
      return root.object(key);
    }
  if (root.is_object("thinker_config")) {
    root.ignore("model_type");
    return language_part(root.object("thinker_config"));
  }
  return root;
}

bool tied(const JsonConfig& root, const JsonConfig& config, const Architecture& architecture) {
  constexpr const char* key = "tie_word_embeddings";
  const bool outer = root.flag(key, architecture.tied);
  return config.flag(key, outer);
}

std::size_t index_of(std::vector<AttentionKind>& kinds, const AttentionKind& kind) {
  const auto same = [&](const AttentionKind& each) { return each.name == kind.name; };
  const auto found = std::find_if(kinds.begin(), kinds.end(), same);
  if (found != kinds.end()) return static_cast<std::size_t>(found - kinds.begin());
  kinds.push_back(kind);
  return kinds.size() - 1;
}

void add_layer(Model& model, std::size_t attention, std::size_t feed_forward) {
  if (!model.layers.empty() && model.layers.back().attention == attention &&
      model.layers.back().feed_forward == feed_forward)
    ++model.layers.back().count;
  else
    model.layers.push_back({attention, feed_forward, 1});
}

// Of a hybrid pattern, where a layer may lack a feed-forward part.
void read_pattern(ModelReading& reading, const std::vector<PatternLayer>& layers, Model& model) {
  using Part = PatternLayer::FeedForward;
  std::map<Part, std::size_t> feed_forward;
  for (const PatternLayer& layer : layers) {
    const AttentionKind kind = attention_kind(reading, layer.attends ? LayerForm::full : LayerForm::state);
    const std::size_t attention = index_of(model.attention, kind);
    if (!feed_forward.contains(layer.feed_forward)) {
      feed_forward[layer.feed_forward] = model.feed_forward.size();
      model.feed_forward.push_back(layer.feed_forward == Part::none      ? FeedForwardKind{.name = "none"}
                                   : layer.feed_forward == Part::experts ? expert_kind(reading)
                                                                         : dense_kind(reading));
    }
    add_layer(model, attention, feed_forward[layer.feed_forward]);
  }
}

void read_layers(ModelReading& reading, Model& model) {
  if (reading.architecture.type == "nemotron_h") return read_pattern(reading, pattern_layers(reading), model);
  const std::vector<LayerForm> forms = layer_forms(reading);
  const std::vector<bool> experts = expert_layers(reading);
  std::map<LayerForm, std::size_t> attention;
  std::map<bool, std::size_t> feed_forward;
  for (std::size_t i = 0; i < forms.size(); ++i) {
    if (!attention.contains(forms[i]))
      attention[forms[i]] = index_of(model.attention, attention_kind(reading, forms[i]));
    if (!feed_forward.contains(experts[i])) {
      feed_forward[experts[i]] = model.feed_forward.size();
      model.feed_forward.push_back(experts[i] ? expert_kind(reading) : dense_kind(reading));
    }
    add_layer(model, attention[forms[i]], feed_forward[experts[i]]);
  }
}

// Sizes of layers that this model has none of, and switches that say what the architecture does anyway:
// known, and without effect.
void ignore_idle_keys(const JsonConfig& config) {
  for (const char* key : {"intermediate_size",
                          "moe_intermediate_size",
                          "shared_expert_intermediate_size",
                          "intermediate_size_mlp",
                          "num_key_value_heads",
                          "num_attention_heads",
                          "head_dim",
                          "first_k_dense_replace",
                          "moe_layer_freq",
                          "n_shared_experts",
                          "num_experts_per_tok",
                          "sliding_window",
                          "sliding_window_pattern",
                          "decoder_sparse_step",
                          "mlp_only_layers",
                          "attention_bias",
                          "mlp_bias",
                          "use_bias",
                          "use_qk_norm",
                          "layer_types",
                          "no_rope_layers",
                          "no_rope_layer_interval",
                          "full_attention_interval",
                          "shared_intermediate_size",
                          "attention_chunk_size",
                          "experts_per_token",
                          "attn_type_list",
                          "num_local_experts",
                          "qk_norm_type",
                          "max_window_layers",
                          "use_sliding_window",
                          "num_experts",
                          "mlp_layer_types"})
    config.ignore(key);
}

std::vector<std::string> unread_keys(const JsonConfig& root) {
  std::vector<std::string> keys = root.unasked();
  std::erase_if(keys, [](const std::string& path) {
    return has_no_effect(std::string_view(path).substr(path.rfind('.') + 1));
  });
  return keys;
}

Model read(const JsonConfig& root, const std::string& model_name) {
  const JsonConfig config = language_part(root);
  const Architecture& architecture = architecture_of(config);
  if (root.flag("is_encoder_decoder", false))
    root.fail("is_encoder_decoder", "models with an encoder are not planned; legal: false");
  ModelReading reading{config, architecture};
  reading.hidden = reading.size({"hidden_size"}, most::hidden);
  const std::vector<std::string_view> depth{"num_hidden_layers"};
  // A pattern of blocks says how many there are.
  reading.layers = architecture.type == "nemotron_h"
                       ? config.maybe_integer(depth, 1, most::layers).value_or(0)
                       : reading.size(depth, most::layers);
  Model model;
  model.name = model_name;
  model.hidden = reading.hidden;
  model.vocabulary = reading.size({"vocab_size"}, most::vocabulary);
  model.tied_embeddings = tied(root, config, architecture);
  model.layer_norms = architecture.layer_norms;
  model.prediction_layers =
      config.maybe_integer({"num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers"}, 0, 64)
          .value_or(0);
  model.max_positions = config.maybe_integer({"max_position_embeddings"}, 1, most::tokens).value_or(0);
  read_layers(reading, model);
  model.assumed = std::move(reading.assumed);
  std::sort(model.assumed.begin(), model.assumed.end());
  model.assumed.erase(std::unique(model.assumed.begin(), model.assumed.end()), model.assumed.end());
  try {
    validate(model);
  } catch (const ModelError& error) {
    config.fail("hidden_size", error.what());  // each size alone is legal
  }
  ignore_idle_keys(config);
  model.unread = unread_keys(root);
  return model;
}

std::string name_of_file(const std::string& path) {
  const fs::path file(path);
  const fs::path folder = file.parent_path().filename();
  return file.stem() == "config" && !folder.empty() && folder != "." && folder != ".." ? folder.string()
                                                                                       : file.stem().string();
}

// The size that configs of this architecture leave out.
std::optional<std::int64_t> left_out(const Architecture& architecture, std::string_view key) {
  for (const auto& [each, value] : architecture.sizes)
    if (each == key) return value;
  return {};
}

fs::path models_folder() {
  return fs::path(scenarios_folder()) / "models";
}

}  // namespace

std::int64_t ModelReading::size(const std::vector<std::string_view>& keys, std::int64_t high) {
  if (const auto meant = left_out(architecture, keys.front())) return size(keys, high, *meant);
  return config.integer(keys, 1, high);
}

std::int64_t ModelReading::size(const std::vector<std::string_view>& keys, std::int64_t high,
                                std::int64_t otherwise) {
  if (const auto given = config.maybe_integer(keys, 1, high)) return *given;
  otherwise = left_out(architecture, keys.front()).value_or(otherwise);
  assumed.push_back(std::string(keys.front()) + " = " + std::to_string(otherwise));
  return otherwise;
}

Model parse_model(const std::string& text, const std::string& file_name) {
  require_json_memory(text, file_name);
  return read(JsonConfig::parse(text, file_name), name_of_file(file_name));
}

Model read_model_file(const std::string& path) {
  return parse_model(read_text_file(path, most_config_bytes), path);
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  if (scenarios_folder().empty()) return names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(models_folder(), error))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

Model find_model(const std::string& name_or_path) {
  if (text_for_file(name_or_path) != nullptr) return read_model_file(name_or_path);
  if (name_or_path.find('\0') != std::string::npos) throw InputError("a file name holds no NUL");
  std::error_code error;
  const fs::path path(name_or_path);
  if (fs::exists(path / "config.json", error)) return read_model_file((path / "config.json").string());
  if (fs::exists(path, error) && !fs::is_directory(path, error)) return read_model_file(name_or_path);
  const std::vector<std::string> names = model_names();
  if (std::find(names.begin(), names.end(), name_or_path) != names.end())
    return read_model_file((models_folder() / (name_or_path + ".json")).string());
  if (!path.has_parent_path() && !path.has_extension()) require_scenarios_folder();
  const std::string hint = nearest(name_or_path, names);
  throw InputError(name_or_path +
                   ": no such model: neither a preset nor a config.json, nor a folder that has one" +
                   clause(hint.empty() ? "" : "did you mean " + hint + "?") +
                   " Presets, nearest first: " + quoted_list(nearest_first(name_or_path, names)));
}

}  // namespace cplab

// Section [model] of a scenario: a config or a preset with changes, or a model by hand.
#include <algorithm>
#include <filesystem>

#include "cli/files/model_file.hpp"
#include "cli/files/model_parts.hpp"
#include "cli/files/scenario_words.hpp"
#include "cli/keys/keys.hpp"

namespace cplab {

namespace {

namespace fs = std::filesystem;

// The whole number at `key`; none if the table has not got it.
std::optional<std::int64_t> size_at(const Table& table, const char* key) {
  if (!table.has(key)) return {};
  return whole_or(table, key, 0);
}

std::int64_t need(const Table& table, const char* key) {
  if (const auto size = size_at(table, key)) return *size;
  table.fail(key,
             "missing; a model by hand needs layers, hidden, ffn (or experts and expert_ffn), vocabulary and "
             "heads; or name one: preset = \"NAME\", config = \"PATH\"");
}

// What of a model a value is for: it changes every kind that has such a size.
void change_attention(const Table& table, Model& model) {
  const auto change = [&](const char* key, std::int64_t AttentionKind::*size) {
    const auto value = size_at(table, key);
    if (!value) return;
    bool any = false;
    for (AttentionKind& kind : model.attention) {
      if (kind.mixer != Mixer::softmax) continue;
      kind.*size = *value;
      any = true;
    }
    if (!any) table.fail(key, "the model has no layer of softmax attention whose size this is");
  };
  // Fewer heads have no more key heads than that, unless the section says how many.
  const bool alike = !table.has("kv_heads") &&
                     std::all_of(model.attention.begin(), model.attention.end(),
                                 [](const AttentionKind& kind) { return kind.heads == kind.kv_heads; });
  change("heads", &AttentionKind::heads);
  if (alike && table.has("heads")) change("heads", &AttentionKind::kv_heads);
  change("kv_heads", &AttentionKind::kv_heads);
  change("head_size", &AttentionKind::head_size);
  if (table.has("head_size") && !table.has("value_size")) change("head_size", &AttentionKind::value_size);
  change("value_size", &AttentionKind::value_size);
}

void change_window(const Table& table, Model& model) {
  const auto window = size_at(table, "window");
  if (!window) return;
  if (*window == 0) table.fail("window", "legal: -1 (all keys), or a count of tokens from 1 on");
  const auto has_window = [](const AttentionKind& kind) { return kind.window > 0; };
  const bool some = std::any_of(model.attention.begin(), model.attention.end(), has_window);
  bool any = false;
  for (AttentionKind& kind : model.attention) {
    if (kind.mixer != Mixer::softmax || (some && !has_window(kind))) continue;
    kind.window = *window;
    kind.name = name_of(kind);
    any = true;
  }
  if (!any) table.fail("window", "the model has no layer of softmax attention that could have one");
}

void change_feed_forward(const Table& table, Model& model) {
  const auto change = [&](const char* key, std::int64_t FeedForwardKind::*size, bool experts) {
    const auto value = size_at(table, key);
    if (!value) return;
    bool any = false;
    for (FeedForwardKind& kind : model.feed_forward) {
      if ((kind.experts > 0) != experts || (!experts && kind.width == 0)) continue;
      kind.*size = *value;
      any = true;
    }
    if (!any)
      table.fail(key, experts ? "the model has no experts"
                              : "the model has no layer with a dense feed-forward part");
  };
  if (size_at(table, "experts") == 0) table.fail("experts", "legal over a preset or a config: from 1 on");
  change("ffn", &FeedForwardKind::width, false);
  change("experts_per_token", &FeedForwardKind::chosen, true);
  change("expert_ffn", &FeedForwardKind::width, true);
  change("shared_ffn", &FeedForwardKind::shared_width, true);
  change("experts", &FeedForwardKind::experts, true);
  for (FeedForwardKind& kind : model.feed_forward) kind.name = name_of(kind);
}

// The first `layers`; of a model whose layers are all alike also more than it has.
void change_layers(const Table& table, Model& model) {
  const auto layers = size_at(table, "layers");
  if (!layers) return;
  if (model.layers.size() == 1) {
    model.layers.front().count = *layers;
    return;
  }
  if (*layers > model.layer_count())
    table.fail("layers", "is " + std::to_string(*layers) + ", but the layers differ and the model has " +
                             std::to_string(model.layer_count()) + "; legal: from 1 to " +
                             std::to_string(model.layer_count()) + ", the first so many");
  std::int64_t left = *layers;
  std::erase_if(model.layers, [&](LayerRun& run) {
    run.count = std::min(run.count, left);
    left -= run.count;
    return run.count == 0;
  });
}

Model by_hand(const Table& table) {
  Model model;
  const std::int64_t layers = need(table, "layers");
  model.hidden = need(table, "hidden");
  model.vocabulary = need(table, "vocabulary");
  AttentionKind kind;
  kind.heads = need(table, "heads");
  kind.kv_heads = size_at(table, "kv_heads").value_or(kind.heads);
  if (!table.has("head_size") && model.hidden % kind.heads != 0)
    table.fail("head_size", "missing, and hidden = " + std::to_string(model.hidden) +
                                " is no multiple of heads = " + std::to_string(kind.heads));
  kind.head_size = size_at(table, "head_size").value_or(model.hidden / kind.heads);
  kind.value_size = size_at(table, "value_size").value_or(kind.head_size);
  kind.bias = flag(table, "bias");
  const std::int64_t window = size_at(table, "window").value_or(-1);
  const std::int64_t every = whole(table, "global_every");
  if (every > 0 && window < 0) table.fail("global_every", "needs window: it says which layers have none");
  kind.name = name_of(kind);
  FeedForwardKind feed_forward;
  feed_forward.experts = size_at(table, "experts").value_or(0);
  feed_forward.gated = flag(table, "gated");
  if (feed_forward.experts > 0) {
    feed_forward.chosen = need(table, "experts_per_token");
    feed_forward.width = need(table, "expert_ffn");
    feed_forward.shared_width = size_at(table, "shared_ffn").value_or(0);
    if (table.has("ffn"))
      table.fail("ffn", "all layers have experts; legal with experts: expert_ffn, shared_ffn");
  } else {
    for (const char* key : {"experts_per_token", "expert_ffn", "shared_ffn"})
      if (table.has(key)) table.fail(key, "needs experts");
    feed_forward.width = need(table, "ffn");
  }
  feed_forward.name = name_of(feed_forward);
  model.feed_forward = {feed_forward};
  model.attention = {kind};
  model.layers = {{0, 0, layers}};
  if (window == -1) return model;
  change_window(table, model);
  if (every == 0) return model;
  model.attention.push_back(kind);
  model.layers.clear();
  for (std::int64_t done = 0; done < layers; done += every) {
    const std::int64_t group = std::min(every, layers - done);
    const std::int64_t windowed = group == every ? group - 1 : group;
    if (windowed > 0) model.layers.push_back({0, 0, windowed});
    if (group == every) model.layers.push_back({1, 0, 1});
  }
  return model;
}

std::string config_path(const Table& table, const std::string& scenario) {
  const fs::path given(table.text("config"));
  if (given.native().find('\0') != std::string::npos) table.fail("config", "a file name holds no NUL");
  const fs::path beside = fs::path(scenario).parent_path() / given;
  std::error_code error;
  if (!scenario.empty() && !table.is_set("config") && fs::exists(beside, error)) return beside.string();
  if (fs::exists(given, error)) return given.string();
  table.fail("config",
             "\"" + given.string() + "\" is not there" +
                 (scenario.empty() || given.is_absolute() ? "" : "; looked for: " + beside.string()) +
                 "; legal: the path of a config.json, or preset = \"NAME\" instead (`cplab list models`)");
}

Model named(const Table& table, const std::string& scenario) {
  if (table.has("config")) return find_model(config_path(table, scenario));
  const std::string preset = table.text("preset");
  const std::vector<std::string> names = model_names();
  if (!names.empty() && std::find(names.begin(), names.end(), preset) == names.end())
    (void)word_of(table, "preset", names);
  return find_model(preset);
}

// The key of this section for a field of a model that is wrong.
const char* key_of(const ModelError& error, const Table& table) {
  const auto is = [&](const char* key) { return error.key == key; };
  if (is("width")) return table.has("expert_ffn") ? "expert_ffn" : "ffn";
  if (is("shared_width")) return "shared_ffn";
  if (is("chosen")) return "experts_per_token";
  const KeyInfo* const row = find_key("model." + error.key);
  return row && row->type == KeyType::whole ? row->name_in_section().data() : "hidden";  // of a literal
}

}  // namespace

const std::vector<std::string>& model_keys() {
  static const std::vector<std::string> keys = names_of(model_key_table());
  return keys;
}

Model read_model(const Table& table, const std::string& scenario) {
  for (const std::string& key : model_keys()) (void)table.has(key);
  table.finish();
  if (table.has("config") && table.has("preset"))
    table.fail("preset", "goes without config: either names the whole model");
  const bool given = table.has("config") || table.has("preset");
  Model model = given ? named(table, scenario) : by_hand(table);
  if (given) {
    for (const char* key : {"global_every", "bias", "gated"})
      if (table.has(key)) table.fail(key, "only a model by hand has it; legal without preset and config");
    model.hidden = size_at(table, "hidden").value_or(model.hidden);
    model.vocabulary = size_at(table, "vocabulary").value_or(model.vocabulary);
    change_attention(table, model);
    change_window(table, model);
    change_feed_forward(table, model);
    change_layers(table, model);
  }
  model.name = table.text("name", given ? model.name : "model");
  model.tied_embeddings = table.flag("tied_embeddings", model.tied_embeddings);
  model.prediction_layers = size_at(table, "prediction_layers").value_or(model.prediction_layers);
  model.max_positions = size_at(table, "max_positions").value_or(model.max_positions);
  try {
    validate(model);
  } catch (const ModelError& error) {
    table.fail(key_of(error, table), error.what());
  }
  return model;
}

}  // namespace cplab

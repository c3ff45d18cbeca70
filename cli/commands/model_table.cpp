// The presets of scenarios/models as data and as a table; see model_table.hpp.
#include "cli/commands/model_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/files/model_file.hpp"
#include "decide/model.hpp"

namespace cplab {

namespace {

ListedModel listed(const std::string& name) {
  const Model model = find_model(name);
  ListedModel entry;
  entry.name = name;
  entry.file = "models/" + name + ".json";
  entry.layers = model.layer_count();
  entry.hidden = model.hidden;
  entry.vocabulary = model.vocabulary;
  for (std::size_t kind = 0; kind < model.attention.size(); ++kind) {
    entry.attention.emplace_back(model.attention[kind].name, model.layers_of_attention(kind));
    // Of the layers that attend, where others keep a state.
    const bool attends =
        model.attention[kind].mixer == Mixer::softmax || model.attention[kind].mixer == Mixer::latent;
    if (entry.heads > 0 && !attends) continue;
    entry.heads = model.attention[kind].heads;
    entry.kv_heads = model.attention[kind].kv_heads;
  }
  for (const FeedForwardKind& kind : model.feed_forward) {
    if (kind.experts == 0) continue;
    entry.experts = kind.experts;
    entry.experts_per_token = kind.chosen;
  }
  entry.parameters = parameters(model, false);
  entry.active_parameters = parameters(model, true);
  entry.unread = model.unread;
  return entry;
}

std::string attention_text(const ListedModel& model) {
  if (model.attention.size() == 1) return model.attention.front().first;
  std::string text;
  for (const auto& [kind, layers] : model.attention)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", layers, kind);
  return text;
}

std::string billions(std::int64_t count) {
  return fmt::format("{:.2f}", static_cast<double>(count) / 1e9);
}

}  // namespace

std::vector<ListedModel> listed_models() {
  std::vector<ListedModel> models;
  for (const std::string& name : model_names()) models.push_back(listed(name));
  std::stable_sort(models.begin(), models.end(),
                   [](const ListedModel& a, const ListedModel& b) { return a.parameters < b.parameters; });
  return models;
}

TextTable model_table(const std::vector<ListedModel>& models) {
  TextTable table({{"model", "", Align::left},
                   {"layers", "", Align::right},
                   {"hidden", "", Align::right},
                   {"heads/kv", "", Align::right},
                   {"attention", "", Align::left},
                   {"experts", "", Align::right},
                   {"parameters", "10^9", Align::right},
                   {"active", "10^9", Align::right}});
  for (const ListedModel& model : models)
    table.add_row({model.name, std::to_string(model.layers), std::to_string(model.hidden),
                   fmt::format("{}/{}", model.heads, model.kv_heads), attention_text(model),
                   model.experts > 0 ? fmt::format("{} of {}", model.experts_per_token, model.experts) : "",
                   billions(model.parameters), billions(model.active_parameters)});
  return table;
}

}  // namespace cplab

// Parts of the reader of model configs: the kinds of layers, and which layer is of which kind.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cli/files/json_config.hpp"
#include "cli/files/model_architectures.hpp"
#include "decide/model.hpp"

namespace cplab {

// What a config is read with. `assumed` gathers the sizes that it left out.
struct ModelReading {
  const JsonConfig& config;
  const Architecture& architecture;
  std::int64_t hidden = 0, layers = 0;
  std::vector<std::string> assumed = {};

  // The size of the first of these keys, else what the architecture means by leaving it out; an error if it
  // means nothing.
  std::int64_t size(const std::vector<std::string_view>& keys, std::int64_t high);
  // The same with the value that is meant.
  std::int64_t size(const std::vector<std::string_view>& keys, std::int64_t high, std::int64_t otherwise);
};

// Above these no config is read: plan/problem's limits, or what no model has.
namespace most {
constexpr std::int64_t hidden = std::int64_t{1} << 18;
constexpr std::int64_t vocabulary = std::int64_t{1} << 24;
constexpr std::int64_t layers = std::int64_t{1} << 14;
constexpr std::int64_t heads = std::int64_t{1} << 12;
constexpr std::int64_t head_size = std::int64_t{1} << 12;
constexpr std::int64_t width = std::int64_t{1} << 22;
constexpr std::int64_t experts = std::int64_t{1} << 14;
constexpr std::int64_t tokens = std::int64_t{1} << 31;
}  // namespace most

// What a layer of a hybrid pattern is, where mixers and feed-forward parts are blocks of their own.
struct PatternLayer {
  bool attends = false;  // else it keeps a state
  enum class FeedForward : std::uint8_t { none, dense, experts } feed_forward = FeedForward::none;
};
// Of nemotron_h: hybrid_override_pattern, a letter a block, M (state), * (attention), - (dense), E (experts),
// or the same as words in layers_block_type. A block behind a mixer is of its layer. InputError for a
// feed-forward part that no mixer stands before.
std::vector<PatternLayer> pattern_layers(const ModelReading&);

enum class LayerForm : std::uint8_t { full, windowed, chunked, state };

// One for each layer. Throws InputError for a list of another length, or of words that are not known.
std::vector<LayerForm> layer_forms(ModelReading&);
// The kind of layers of this form.
AttentionKind attention_kind(ModelReading&, LayerForm);

// For each layer: has it experts?
std::vector<bool> expert_layers(ModelReading&);
FeedForwardKind dense_kind(ModelReading&);
FeedForwardKind expert_kind(ModelReading&);

// "window 4096", "128 experts, 8 each": as answers call them.
std::string name_of(const AttentionKind&);
std::string name_of(const FeedForwardKind&);

}  // namespace cplab

// Names of the problem's words, and the schedule's look-ups.
#include "plan/problem.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <stdexcept>

#include "plan/rectangles.hpp"
#include "plan/visible.hpp"

namespace cplab {
namespace {
constexpr std::array<std::string_view, 3> attention_names{"softmax", "linear", "dynamic_mask"};
constexpr std::array<std::string_view, 4> transition_names{"decay", "head", "column", "matrix"};
constexpr std::array<std::string_view, 2> gate_names{"column", "head"};
constexpr std::array<std::string_view, 5> bias_names{"none", "full", "keys", "alibi", "buckets"};
constexpr std::array<std::string_view, 3> keep_names{"none", "top_k", "relu"};
constexpr std::array<std::string_view, 4> dtype_names{"fp64", "fp32", "bf16", "fp16"};
constexpr std::array<std::string_view, 3> format_names{"bshd", "sbhd", "thd"};
constexpr std::array<std::string_view, 3> direction_names{"forward", "forward+backward", "backward"};
constexpr std::array<std::string_view, 3> form_names{"full", "causal", "inverse_causal"};
constexpr std::array<std::string_view, 2> align_names{"top_left", "bottom_right"};
}  // namespace

std::string_view name(Diagonal value) {
  return align_names.at(static_cast<std::size_t>(value));
}
std::string_view name(Attention value) {
  return attention_names.at(static_cast<std::size_t>(value));
}
std::string_view name(BiasForm value) {
  return bias_names.at(static_cast<std::size_t>(value));
}
std::string_view name(Keep value) {
  return keep_names.at(static_cast<std::size_t>(value));
}
std::string_view name(Transition value) {
  return transition_names.at(static_cast<std::size_t>(value));
}
std::string_view name(Gate value) {
  return gate_names.at(static_cast<std::size_t>(value));
}
std::string_view name(DType value) {
  return dtype_names.at(static_cast<std::size_t>(value));
}
std::string_view name(Format value) {
  return format_names.at(static_cast<std::size_t>(value));
}
std::string_view name(Direction value) {
  return direction_names.at(static_cast<std::size_t>(value));
}

std::string_view name(MaskRectangle::Form value) {
  return form_names.at(static_cast<std::size_t>(value));
}

Window Problem::band() const {
  Window both = window;
  if (causal) both.right = 0;  // the intersection with any right bound >= 0
  return both;
}

std::vector<std::int64_t> bucket_starts(const Problem& p) {
  const std::int64_t count = p.band().right != 0 ? p.buckets / 2 : p.buckets, exact = count / 2;
  std::vector<std::int64_t> starts;
  for (std::int64_t bucket = 1; bucket < count; ++bucket) {
    if (bucket <= exact) {
      starts.push_back(bucket);
      continue;
    }
    // The smallest distance n with exact + floor(log(n / exact) / log(max / exact) (count - exact)) >=
    // bucket.
    const double share = static_cast<double>(bucket - exact) / static_cast<double>(count - exact),
                 ratio = static_cast<double>(p.max_distance) / static_cast<double>(exact);
    starts.push_back(std::max(
        starts.back(), static_cast<std::int64_t>(
                           std::ceil(static_cast<double>(exact) * std::pow(ratio, share) * (1 - 1e-12)))));
  }
  return starts;
}

std::int64_t Problem::pair_columns() const {
  const std::vector<std::int64_t>& keys = padded_lengths_of(Side::keys);
  return keys.empty() ? 0 : *std::max_element(keys.begin(), keys.end());
}

std::string to_string(const OptionValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const std::int64_t* count = std::get_if<std::int64_t>(&value)) return std::to_string(*count);
  return std::get<std::string>(value);
}

const OptionValue* Schedule::find(std::string_view key) const {
  for (const auto& [name, value] : options)
    if (name == key) return &value;
  return nullptr;
}

void Schedule::set(std::string_view key, OptionValue value) {
  for (auto& [name, old] : options) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  options.emplace_back(std::string(key), std::move(value));
}

namespace {
template <class T>
const T& get(const Schedule& schedule, std::string_view key) {
  const OptionValue* value = schedule.find(key);
  if (!value || !std::holds_alternative<T>(*value))
    throw std::logic_error("schedule option read before it was resolved: " + std::string(key));
  return std::get<T>(*value);
}
}  // namespace

bool Schedule::is_on(std::string_view key) const {
  return get<bool>(*this, key);
}
std::int64_t Schedule::count(std::string_view key) const {
  return get<std::int64_t>(*this, key);
}
const std::string& Schedule::word(std::string_view key) const {
  return get<std::string>(*this, key);
}

bool Schedule::is_word(std::string_view key, std::string_view word) const {
  const OptionValue* value = find(key);
  const std::string* text = value ? std::get_if<std::string>(value) : nullptr;
  return text && *text == word;
}

namespace {

void require_count(std::int64_t value, std::int64_t most, const char* key) {
  if (value < 1 || value > most)
    throw ScenarioError(key, std::to_string(value) + " is not legal; legal: 1 to " + std::to_string(most));
}

void require_lengths(const Problem& p, Side side) {
  const std::vector<std::int64_t>&lengths = p.lengths_of(side), &padded_lengths = p.padded_lengths_of(side);
  const std::string prefix = side == Side::keys ? "problem.kv_" : "problem.";
  const std::string key = prefix + (p.packed ? "lengths" : "sequence");
  const std::string padded_key = p.packed ? prefix + "padded_lengths" : key;
  if (lengths.size() != padded_lengths.size())
    throw ScenarioError(prefix + "padded_lengths", "needs one entry for every sequence");
  if (std::ssize(lengths) > limits::sequences)
    throw ScenarioError(p.packed ? key : "problem.batch",
                        "more than " + std::to_string(limits::sequences) + " sequences");
  std::int64_t tokens = 0;
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const std::int64_t padded = padded_lengths[b];
    if (lengths[b] < 0 || padded < lengths[b])
      throw ScenarioError(padded_key,
                          "sequence " + std::to_string(b) + ": needs 0 <= length <= padded length");
    // Keeps counts of token pairs within 64 bits. The sum cannot overflow: each term is tested before it is
    // added.
    if (padded > limits::tokens || (tokens += padded) > limits::tokens)
      throw ScenarioError(padded > lengths[b] ? padded_key : key,
                          "more than " + std::to_string(limits::tokens) +
                              " tokens in all sequences together, with their padding");
  }
}

// One slope for every head where the problem has slopes, else none, because `otherwise`.
void require_slopes(const Problem& p, bool has, const std::string& otherwise) {
  if (p.slopes.size() != (has ? static_cast<std::size_t>(p.heads) : 0))
    throw ScenarioError(
        "problem.slopes",
        has ? "needs one slope for every head, which are " + std::to_string(p.heads) : otherwise);
  for (const double slope : p.slopes)
    if (!(slope >= 0) || !std::isfinite(slope))
      throw ScenarioError(
          "problem.slopes",
          "a slope is " + std::to_string(slope) + "; legal: finite numbers from 0 on (" +
              (p.attention == Attention::linear ? "decay = exp(-slope))" : "bias = -slope |t - p|)"));
}

void require_cross(const Problem& p) {
  if (!p.is_cross()) {
    if (p.kv_sequence != 0 || !p.kv_padded_lengths.empty())
      throw ScenarioError(p.packed ? "problem.kv_padded_lengths" : "problem.kv_sequence",
                          "keys of their own have lengths of their own");
    return;
  }
  const char* key = p.packed ? "problem.kv_lengths" : "problem.kv_sequence";
  if (p.attention != Attention::softmax)
    throw ScenarioError(key, std::string(name(p.attention)) +
                                 " attention has its keys at the queries' tokens; cross attention is "
                                 "attention = \"softmax\"");
  if (p.kv_lengths.size() != p.lengths.size())
    throw ScenarioError(key,
                        "needs one entry for every sequence, which are " + std::to_string(p.lengths.size()));
  require_lengths(p, Side::keys);
}

void require_linear(const Problem& p) {
  if (p.gate != Gate::column && p.transition != Transition::matrix)
    throw ScenarioError("problem.gate",
                        "only transition = \"matrix\" has it; legal beside others: \"column\"");
  if (p.convolves() && p.attention != Attention::linear)
    throw ScenarioError("problem.convolution",
                        "only attention = \"linear\" has a convolution before Q, K and V; legal here: 0");
  if (p.convolution != 0 && (p.convolution < 2 || p.convolution > limits::convolution))
    throw ScenarioError("problem.convolution", std::to_string(p.convolution) +
                                                   " is not legal; legal: 0 (none), 2 to " +
                                                   std::to_string(limits::convolution));
  if (p.attention != Attention::linear) {
    if (p.transition != Transition::decay)
      throw ScenarioError("problem.transition", "only linear attention has transitions");
    return require_slopes(p, p.bias == BiasForm::alibi, "has no meaning without bias = \"alibi\"");
  }
  if (p.kv_heads != p.heads)
    throw ScenarioError("problem.kv_heads", "linear attention has a key head for every query head; legal: " +
                                                std::to_string(p.heads));
  require_slopes(p, p.transition == Transition::decay,
                 "has no meaning where transition is " + std::string(name(p.transition)));
  if (!p.causal || p.window.left >= 0 || p.window.right > 0)
    throw ScenarioError("problem.mask",
                        "linear attention with decay is causal and has no window; legal: "
                        "\"causal\", window [-1, -1]");
}

// What changes logits and what is added to a row's sum.
void require_logits(const Problem& p) {
  const bool linear = p.attention == Attention::linear, dynamic = p.attention == Attention::dynamic_mask;
  const char* key = p.bias != BiasForm::none ? "problem.bias"
                    : p.sink                 ? "problem.sink"
                    : p.softcap != 0         ? "problem.softcap"
                                             : nullptr;
  if (linear && key) throw ScenarioError(key, "linear attention has no logits");
  if (p.max_logit && !p.has_plain_logits())
    throw ScenarioError("problem.max_logit",
                        "is the largest scale q.k, of softmax attention without softcap and bias; legal "
                        "here: false");
  if (dynamic && p.sink)
    throw ScenarioError("problem.sink",
                        "only attention = \"softmax\" has sinks: a row without a kept key has no sum");
  if (dynamic && p.places_bias())
    throw ScenarioError("problem.bias",
                        "dynamic mask attention selects keys by stored biases; legal here: "
                        "\"none\", \"full\", \"keys\"");
  if (!(p.softcap >= 0) || !std::isfinite(p.softcap))
    throw ScenarioError("problem.softcap", "legal: numbers from 0 on; 0 is no softcap");
  if (p.bias == BiasForm::full && p.heads * p.pair_columns() > limits::pair_elements)
    throw ScenarioError("problem.bias",
                        "a full bias has heads x sequence = " + std::to_string(p.heads * p.pair_columns()) +
                            " numbers for every query; at most " + std::to_string(limits::pair_elements));
  const bool buckets = p.bias == BiasForm::buckets;
  if (!buckets && (p.buckets != 0 || p.max_distance != 0))
    throw ScenarioError(p.buckets != 0 ? "problem.buckets" : "problem.max_distance",
                        "only bias = \"buckets\" has it");
  const bool both_ways = p.band().right != 0;
  const std::int64_t least = both_ways ? 4 : 2;
  if (buckets && (p.buckets < least || p.buckets > limits::buckets || p.buckets % (both_ways ? 4 : 2) != 0))
    throw ScenarioError("problem.buckets", std::to_string(p.buckets) + " is not legal; legal: multiples of " +
                                               std::to_string(least) + " from " + std::to_string(least) +
                                               " to " + std::to_string(limits::buckets) +
                                               (both_ways ? ", half of them for later keys" : ""));
  const std::int64_t exact = p.buckets / (both_ways ? 4 : 2);
  if (buckets && (p.max_distance <= exact || p.max_distance > limits::tokens))
    throw ScenarioError("problem.max_distance", "legal: more than " + std::to_string(exact) +
                                                    ", the distances that have a bucket each, to " +
                                                    std::to_string(limits::tokens));
}

void require_latent(const Problem& p) {
  if (!p.has_latent()) {
    if (p.rope_size != 0)
      throw ScenarioError("problem.rope_size", "only latent keys and values (kv_latent) have it");
    return;
  }
  const std::string here = "latent keys and values (kv_latent)";
  if (p.attention != Attention::softmax)
    throw ScenarioError("problem.kv_latent", "only attention = \"softmax\" has " + here);
  if (p.kv_heads != p.heads)
    throw ScenarioError("problem.kv_heads",
                        here + " make a key head for every query head; legal: " + std::to_string(p.heads));
  if (p.is_cross())
    throw ScenarioError(p.packed ? "problem.kv_lengths" : "problem.kv_sequence",
                        here + " are of the queries' tokens");
  if (p.bias == BiasForm::keys)
    throw ScenarioError("problem.bias", "a bias that travels with K and V is not among " + here +
                                            "; legal: \"none\", \"alibi\", \"buckets\", \"full\"");
  if (p.max_logit)
    throw ScenarioError("problem.max_logit",
                        "of keys that are computed, in the dtype of the problem, it is "
                        "not compared; legal with kv_latent: false");
  if (p.rope_size < 1 || p.rope_size >= p.head_size)
    throw ScenarioError("problem.rope_size",
                        "the last columns of each head's K, the same for all heads; "
                        "legal: 1 to " +
                            std::to_string(p.head_size - 1));
  require_count(p.kv_latent, limits::head_size, "problem.kv_latent");
  if (p.heads * p.kv_latent * (p.head_size + p.value_size) > limits::weight_elements)
    throw ScenarioError("problem.kv_latent", "the weights of all heads have more than " +
                                                 std::to_string(limits::weight_elements) + " numbers");
}

void require_dynamic_mask(const Problem& p) {
  if (p.attention != Attention::dynamic_mask) {
    if (p.keep != Keep::none) throw ScenarioError("problem.keep", "only attention = \"dynamic_mask\" has it");
    return;
  }
  if (p.keep != Keep::none && p.bias == BiasForm::none)
    throw ScenarioError("problem.keep",
                        "keys are selected by their biases, and there are none; legal with "
                        "bias = \"none\": \"none\"");
  if (p.keep == Keep::top_k ? p.top_k < 1 || p.top_k > limits::tokens : p.top_k != 0)
    throw ScenarioError("problem.top_k", p.keep == Keep::top_k
                                             ? "legal: 1 to " + std::to_string(limits::tokens)
                                             : std::string("only keep = \"top_k\" has it"));
  if (p.block < 0 || p.block > limits::tokens || (p.block > 0 && p.keep == Keep::none))
    throw ScenarioError("problem.block",
                        p.keep == Keep::none
                            ? std::string("there is no selection that it could smooth; legal "
                                          "with keep = \"none\": 0")
                            : "legal: 0 to " + std::to_string(limits::tokens));
}

}  // namespace

void require_sizes(const Problem& p, const Parallel& parallel) {
  require_count(p.heads, limits::heads, "problem.heads");
  require_count(p.kv_heads, limits::heads, "problem.kv_heads");
  require_count(p.head_size, limits::head_size, "problem.head_size");
  require_count(p.value_size, limits::head_size, "problem.value_size");
  if (p.heads % p.kv_heads != 0)
    throw ScenarioError("problem.kv_heads", "heads (" + std::to_string(p.heads) +
                                                ") must be a multiple of kv_heads (" +
                                                std::to_string(p.kv_heads) + ")");
  if (p.heads * (p.head_size + p.value_size) > limits::row_elements)
    throw ScenarioError("problem.heads", "heads x (head_size + value_size) is " +
                                             std::to_string(p.heads * (p.head_size + p.value_size)) +
                                             "; at most " + std::to_string(limits::row_elements));
  if (p.max_logit && p.attention != Attention::softmax)
    throw ScenarioError("problem.max_logit", "only softmax attention has logits; legal with " +
                                                 std::string(name(p.attention)) + ": false");
  require_linear(p);
  if (!std::isfinite(p.scale))
    throw ScenarioError("problem.scale", "the softmax scale must be a finite number");
  for (const std::int64_t bound : {p.window.left, p.window.right})
    if (bound < -1 || bound > limits::tokens)
      throw ScenarioError("problem.window", "a bound is " + std::to_string(bound) +
                                                "; legal: a count of tokens up to " +
                                                std::to_string(limits::tokens) + ", or -1 for unlimited");
  require_count(parallel.ranks, limits::world, "parallel.ranks");
  require_count(parallel.replicas, limits::world, "parallel.replicas");
  if (parallel.world() > limits::world)
    throw ScenarioError("parallel.replicas", "ranks x replicas is " + std::to_string(parallel.world()) +
                                                 "; at most " + std::to_string(limits::world));
  require_lengths(p, Side::queries);
  require_cross(p);
  require_rectangles(p);
  if (parallel.keys_everywhere && !p.is_cross())
    throw ScenarioError("parallel.kv_placement",
                        "only keys of their own (problem.kv_sequence, problem.kv_lengths) can be on every "
                        "rank; legal without them: \"same\"");
  // Everything a plan computes in bytes and offsets stays far inside the 64-bit integers if the largest
  // tensor of the whole problem, held once per slot and rank, does.
  double tokens = 0;
  for (const std::vector<std::int64_t>& of_side : {p.padded_lengths, p.kv_padded_lengths})
    for (const std::int64_t padded : of_side)
      tokens += static_cast<double>(padded) + 2.0 * static_cast<double>(parallel.ranks);
  require_logits(p);
  require_latent(p);
  require_dynamic_mask(p);
  std::int64_t row = p.heads * (p.head_size + p.value_size) + p.kv_latent;
  if (p.bias == BiasForm::full) row = std::max(row, p.heads * p.pair_columns());
  const double bytes = 8 * tokens * static_cast<double>(row);
  if (bytes * static_cast<double>(parallel.ranks + 4) > 4e18)
    throw ScenarioError(p.packed ? "problem.lengths" : "problem.sequence",
                        "tensors of this size do not fit 64-bit byte counts");
}

int head_start_us(const Schedule& schedule) {
  const OptionValue* value = schedule.find("head_start_us");
  const auto* count = value ? std::get_if<std::int64_t>(value) : nullptr;
  return count ? static_cast<int>(*count) : 0;
}

int reserved_sms(const Schedule& schedule, int sms) {
  const OptionValue* value = schedule.find("reserved_sms");
  const auto* count = value ? std::get_if<std::int64_t>(value) : nullptr;
  if (!count) return 0;
  if (*count < 0 || *count >= sms)
    throw ScenarioError("schedule.reserved_sms", "must be from 0 to " + std::to_string(sms - 1) +
                                                     ", all but one of a GPU's multiprocessors, but is " +
                                                     std::to_string(*count));
  return static_cast<int>(*count);
}

}  // namespace cplab

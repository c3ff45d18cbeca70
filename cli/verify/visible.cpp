// Which features of a problem its random inputs can see; see visible.hpp.
#include "cli/verify/visible.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "cli/verify/expected.hpp"
#include "cli/verify/tolerance.hpp"

namespace cplab {

namespace {

constexpr double tolerances_wanted = 10;
constexpr double largest_factor = 64;  // beyond, nearly every row is one key's
constexpr std::int64_t most_tokens = 128, most_heads = 2;

// What one part of a problem does is seen by leaving it out of problem and inputs.
struct Feature {
  std::string name;
  std::function<void(Problem&, Inputs&)> leave_out;
};

void fill(Inputs& inputs, std::string_view tensor, double value) {
  if (inputs.find(tensor) != nullptr) std::ranges::fill(inputs[tensor].values, value);
}

std::vector<Feature> linear_features(const Problem& p) {
  std::vector<Feature> all;
  if (std::ranges::any_of(p.slopes, [](double slope) { return slope > 0; }))
    all.push_back({"slopes", [](Problem& q, Inputs&) { std::ranges::fill(q.slopes, 0.0); }});
  if (p.transition != Transition::decay)
    all.push_back({"log_decay", [](Problem&, Inputs& in) { fill(in, "log_decay", 0); }});
  if (p.transition == Transition::matrix)
    all.push_back({"beta", [](Problem&, Inputs& in) { fill(in, "beta", 1); }});
  return all;
}

std::vector<Feature> features_of(const Problem& p, std::int64_t longest) {
  if (p.attention == Attention::linear) return linear_features(p);
  std::vector<Feature> all;
  const Window window = p.window;
  const bool hides = (window.left >= 0 && window.left < longest - 1) ||
                     (!p.causal && window.right >= 0 && window.right < longest - 1);
  if (hides) all.push_back({"window", [](Problem& q, Inputs&) { q.window = {}; }});
  const double usual = 1 / std::sqrt(static_cast<double>(p.head_size));
  if (std::abs(p.scale - usual) > 1e-6 * usual)
    all.push_back({fmt::format("scale {:.6g}", p.scale), [usual](Problem& q, Inputs&) { q.scale = usual; }});
  if (p.softcap > 0)
    all.push_back({fmt::format("softcap {:.6g}", p.softcap), [](Problem& q, Inputs&) { q.softcap = 0; }});
  constexpr double next_to_no_logit = -1e4;
  if (p.sink) all.push_back({"sink", [](Problem&, Inputs& in) { fill(in, "sink", next_to_no_logit); }});
  const auto keep_all = [](Problem& q, Inputs&) { q.keep = Keep::none, q.block = 0; };
  if (p.bias != BiasForm::none) {
    all.push_back({"bias", [keep_all](Problem& q, Inputs& in) {
                     keep_all(q, in), fill(in, "bias", 0), fill(in, "bias_table", 0);
                     std::ranges::fill(q.slopes, 0.0);
                   }});
  }
  if (p.keep == Keep::relu || (p.keep == Keep::top_k && p.top_k < longest)) all.push_back({"keep", keep_all});
  if (p.block > 1 && p.keep != Keep::none) all.push_back({"block", [](Problem& q, Inputs&) { q.block = 0; }});
  return all;
}

// A small problem of the same kind.
Problem small_part(const Problem& p, std::int64_t longest) {
  Problem small = p;
  const std::int64_t tokens = std::min(longest, most_tokens);
  const double part = static_cast<double>(tokens) / static_cast<double>(longest);
  const auto scaled = [&](std::int64_t count) {
    return static_cast<std::int64_t>(std::lround(static_cast<double>(count) * part));
  };
  small.packed = false;
  small.batch = 1;
  small.sequence = tokens;
  small.lengths = small.padded_lengths = {tokens};
  small.kv_sequence = 0;
  small.kv_lengths = small.kv_padded_lengths = {};
  small.only_rectangles = false;
  small.chunk = small.prefix = 0;
  small.groups.clear();
  small.rectangles.clear();
  small.heads = std::min(p.heads / p.kv_heads, most_heads);
  small.kv_heads = 1;
  if (p.window.left > 0) small.window.left = std::max<std::int64_t>(1, scaled(p.window.left));
  if (p.window.right > 0) small.window.right = std::max<std::int64_t>(1, scaled(p.window.right));
  if (p.keep == Keep::top_k) small.top_k = std::max<std::int64_t>(1, scaled(p.top_k));
  if (!p.slopes.empty()) {
    // The head that forgets most, or whose bias is largest.
    small.slopes.assign(static_cast<std::size_t>(small.heads), *std::ranges::max_element(p.slopes) / part);
  }
  return small;
}

// By how many tolerances, all of it or one element, a tensor changes. Minus infinity that comes or goes
// counts as beyond all.
double tolerances_between(const ExpectedTensor& with, const ExpectedTensor& without, DType dtype,
                          std::int64_t width) {
  constexpr double beyond_all = std::numeric_limits<double>::infinity();
  double change2 = 0, right2 = 0, terms2 = 0, variance = 0, most = 0;
  for (std::size_t i = 0; i < with.right.size(); ++i) {
    const double right = with.right[i];
    const double change = right == without.right[i] ? 0 : std::abs(right - without.right[i]);
    if (std::isinf(change)) return beyond_all;
    change2 += change * change;
    if (std::isfinite(right)) right2 += right * right;
    terms2 += with.error.terms[i];
    variance += with.error.variance[i];
    if (change > 0) most = std::max(most, change / element_tolerance(with.error.variance[i]));
  }
  const double size = std::sqrt(std::max(right2, terms2));
  if (change2 == 0 || size == 0) return most;
  const auto rows = static_cast<std::int64_t>(with.right.size()) / std::max<std::int64_t>(1, width);
  return std::max(most, std::sqrt(change2) / size / relative_tolerance(dtype, variance, size, rows, width));
}

void enlarge_q(Inputs& inputs, double factor) {
  if (factor == 1) return;
  for (double& value : inputs["q"].values) value *= factor;
}

// By feature the outputs that it changes by less than wanted, with q so much larger.
using Unseen = std::vector<std::pair<std::string, std::vector<std::string>>>;
Unseen unseen_with(const Problem& small, const std::vector<Feature>& features, const Inputs& drawn,
                   double factor) {
  // As plans round that have several tiles.
  PlanRoundings roundings;
  for (Roundings* of : {&roundings.out, &roundings.dq, &roundings.dkv, &roundings.dlatent}) {
    of->tiles = true;
    of->running = 2;
    of->casts = 1;
    of->tile_count = 8;
    of->operations = 4;
  }
  Inputs inputs = drawn;
  enlarge_q(inputs, factor);
  const Expected with = expected_result(small, roundings, inputs);
  Unseen unseen;
  for (const Feature& feature : features) {
    Problem other = small;
    Inputs changed = inputs;
    feature.leave_out(other, changed);
    const Expected without = expected_result(other, roundings, changed);
    std::vector<std::string> tensors;
    for (const ProblemTensor& tensor : tensors_of(small, Category::output)) {
      const double change = tolerances_between(with.at(tensor.name), without.at(tensor.name), small.dtype,
                                               token_row(small, tensor).width);
      if (change < tolerances_wanted) tensors.emplace_back(tensor.name);
    }
    if (!tensors.empty()) unseen.emplace_back(feature.name, std::move(tensors));
  }
  return unseen;
}

std::size_t tensors_in(const Unseen& unseen) {
  std::size_t count = 0;
  for (const auto& [feature, tensors] : unseen) count += tensors.size();
  return count;
}

}  // namespace

VisibleInputs visible_inputs(const Problem& p, std::uint64_t seed) {
  VisibleInputs visible{random_inputs(p, seed), {}};
  const std::int64_t longest = p.lengths.empty() ? 0 : std::ranges::max(p.lengths);
  const std::vector<Feature> features = features_of(p, longest);
  if (features.empty() || longest == 0) return visible;
  const Problem small = small_part(p, longest);
  const Inputs drawn = random_inputs(small, seed);
  double factor = 1;
  Unseen unseen = unseen_with(small, features, drawn, factor);
  if (p.attention != Attention::linear) {
    for (double larger = 2; !unseen.empty() && larger <= largest_factor; larger *= 2) {
      Unseen other = unseen_with(small, features, drawn, larger);
      if (tensors_in(other) < tensors_in(unseen)) unseen = std::move(other), factor = larger;
    }
  }
  enlarge_q(visible.inputs, factor);
  if (factor > 1) {
    std::string names;
    for (const Feature& feature : features) names += (names.empty() ? "" : ", ") + feature.name;
    visible.notes.push_back(fmt::format(
        "random inputs: q is {:.0f} times standard normal, so that results show {}", factor, names));
  }
  for (const auto& [feature, tensors] : unseen) {
    std::string names;
    for (const std::string& tensor : tensors) names += (names.empty() ? "" : ", ") + tensor;
    visible.notes.push_back(
        fmt::format("random inputs: {} changes {} by less than {:.0f} tolerances: a kernel that "
                    "forgets it could pass there; --inputs may see more",
                    feature, names, tolerances_wanted));
  }
  return visible;
}

}  // namespace cplab

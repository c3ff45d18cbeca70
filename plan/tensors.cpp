// The table of tensors; see tensors.hpp.
#include "plan/tensors.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace cplab {

namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

std::int64_t extent(const Problem& p, char axis) {
  switch (axis) {
    case 'B': return p.batch;
    case 'S': return p.sequence;
    case 'T': return total_tokens(p);
    case 'L': return p.is_cross() ? p.kv_sequence : p.sequence;
    case 'U': return total_tokens(p, Side::keys);
    case 'H': return p.heads;
    case 'G': return p.kv_heads;
    case 'D': return p.head_size;
    case 'E': return p.value_size;
    case 'K': return p.pair_columns();
    case 'N': return p.buckets;
    case 'C': return p.kv_latent;
    case 'R': return p.rope_size;
    case 'X': return p.projected_size();
    case 'W': return p.convolution;
    default: return 1;
  }
}

std::int64_t product(const Problem& p, std::string_view axes, std::string_view of) {
  std::int64_t product = 1;
  for (const char axis : axes)
    if (of.find(axis) != std::string_view::npos) product *= extent(p, axis);
  return product;
}

bool has_head_gates(const Problem& p) {
  return p.transition == Transition::head || (p.transition == Transition::matrix && p.gate == Gate::head);
}
bool asks_max_logit(const Problem& p) {
  return p.max_logit;
}
bool has_column_gates(const Problem& p) {
  return p.gate_columns() > 0 && !has_head_gates(p);
}
bool has_full_bias(const Problem& p) {
  return p.bias == BiasForm::full;
}
bool has_key_bias(const Problem& p) {
  return p.bias == BiasForm::keys;
}
bool has_sink(const Problem& p) {
  return p.sink;
}
bool has_table(const Problem& p) {
  return p.bias == BiasForm::buckets;
}
bool selects_pairs(const Problem& p) {
  return has_full_bias(p) && p.keep != Keep::none;
}
bool selects_keys(const Problem& p) {
  return has_key_bias(p) && p.keep != Keep::none;
}
bool has_latent(const Problem& p) {
  return p.has_latent();
}
bool has_keys(const Problem& p) {
  return !p.has_latent();
}
bool convolves(const Problem& p) {
  return p.convolves();
}
bool has_beta(const Problem& p) {
  return p.transition == Transition::matrix;
}

bool has(const Problem& p, const ProblemTensor& tensor) {
  return std::find(tensor.attention.begin(), tensor.attention.end(), p.attention) != tensor.attention.end() &&
         (tensor.phase == Phase::forward || p.has_backward()) && (!tensor.asked || tensor.asked(p));
}

}  // namespace

std::span<const ProblemTensor> tensor_table() {
  using enum Category;
  using enum Phase;
  using enum Attention;
  constexpr Role nominal = Role::nominal, wide = Role::wide;
  static const std::vector<Attention> all{Attention::softmax, Attention::linear, Attention::dynamic_mask};
  static const std::vector<Attention> with_softmax{Attention::softmax, Attention::dynamic_mask};
  static const std::vector<ProblemTensor> table{
      {"q", "BSHD", nominal, input, forward, all, "q"},
      {"k", "BLGD", nominal, input, forward, all, "kv", 0, has_keys},
      {"v", "BLGE", nominal, input, forward, all, "kv", 0, has_keys},
      {"dout", "BSHE", nominal, input, backward, all, "dout"},
      {"out", "BSHE", nominal, output, forward, all, "out"},
      {"lse", "BHS", wide, output, forward, with_softmax, "lse", minus_infinity},
      {"dq", "BSHD", nominal, output, backward, all, "dq"},
      {"dk", "BLGD", nominal, output, backward, all, "dkv", 0, has_keys},
      {"dv", "BLGE", nominal, output, backward, all, "dkv", 0, has_keys},
      {"max_logit", "H", wide, output, forward, {softmax}, "max_logit", minus_infinity, asks_max_logit},
      {"log_decay",
       "BSHD",
       wide,
       input,
       forward,
       {linear},
       "log_decay",
       0,
       has_column_gates,
       Values::log_factor},
      {"log_decay",
       "BSH",
       wide,
       input,
       forward,
       {linear},
       "log_decay",
       0,
       has_head_gates,
       Values::log_factor},
      {"beta", "BSH", wide, input, forward, {linear}, "beta", 0, has_beta, Values::strength},
      {"dg", "BSHD", wide, output, backward, {linear}, "dlog_decay", 0, has_column_gates},
      {"dg", "BSH", wide, output, backward, {linear}, "dlog_decay", 0, has_head_gates},
      {"dbeta", "BSH", wide, output, backward, {linear}, "dbeta", 0, has_beta},
      {"bias", "BSHK", nominal, input, forward, with_softmax, "bias", 0, has_full_bias},
      {"keep", "BSHK", nominal, input, forward, {dynamic_mask}, "keep", 0, selects_pairs, Values::selected},
      {"bias", "BLG", nominal, input, forward, with_softmax, "kv", 0, has_key_bias},
      {"keep", "BLG", nominal, input, forward, {dynamic_mask}, "kv", 0, selects_keys, Values::selected},
      {"dbias", "BSHK", nominal, output, backward, with_softmax, "dbias", 0, has_full_bias},
      {"dbias", "BLG", nominal, output, backward, with_softmax, "dkv", 0, has_key_bias},
      {"sink", "H", wide, input, forward, {softmax}, "sink", 0, has_sink},
      {"bias_table", "HN", wide, input, forward, {softmax}, "bias_table", 0, has_table},
      {"dsink", "H", wide, output, backward, {softmax}, "dsink", 0, has_sink, Values::any, Reduction::sum},
      {"dbias_table",
       "HN",
       wide,
       output,
       backward,
       {softmax},
       "dbias_table",
       0,
       has_table,
       Values::any,
       Reduction::sum},
      {"latent", "BL1C", nominal, input, forward, {softmax}, "latent", 0, has_latent},
      {"rope_key", "BL1R", nominal, input, forward, {softmax}, "latent", 0, has_latent},
      {"key_weights",
       "HCX",
       nominal,
       input,
       forward,
       {softmax},
       "key_weights",
       0,
       has_latent,
       Values::weights},
      {"value_weights",
       "HCE",
       nominal,
       input,
       forward,
       {softmax},
       "value_weights",
       0,
       has_latent,
       Values::weights},
      {"dlatent", "BL1C", nominal, output, backward, {softmax}, "dlatent", 0, has_latent},
      {"drope_key", "BL1R", nominal, output, backward, {softmax}, "dlatent", 0, has_latent},
      {"dkey_weights",
       "HCX",
       wide,
       output,
       backward,
       {softmax},
       "dkey_weights",
       0,
       has_latent,
       Values::any,
       Reduction::sum},
      {"dvalue_weights",
       "HCE",
       wide,
       output,
       backward,
       {softmax},
       "dvalue_weights",
       0,
       has_latent,
       Values::any,
       Reduction::sum},
      {"conv_q", "HDW", nominal, input, forward, {linear}, "conv_q", 0, convolves, Values::weights},
      {"conv_k", "GDW", nominal, input, forward, {linear}, "conv_k", 0, convolves, Values::weights},
      {"conv_v", "GEW", nominal, input, forward, {linear}, "conv_v", 0, convolves, Values::weights},
      {"dconv_q",
       "HDW",
       wide,
       output,
       backward,
       {linear},
       "dconv_q",
       0,
       convolves,
       Values::any,
       Reduction::sum},
      {"dconv_k",
       "GDW",
       wide,
       output,
       backward,
       {linear},
       "dconv_k",
       0,
       convolves,
       Values::any,
       Reduction::sum},
      {"dconv_v",
       "GEW",
       wide,
       output,
       backward,
       {linear},
       "dconv_v",
       0,
       convolves,
       Values::any,
       Reduction::sum},
  };
  return table;
}

std::string tensor_names(Category category) {
  std::string names;
  for (const ProblemTensor& tensor : tensor_table()) {
    if (tensor.category != category || tensor.values == Values::selected) continue;
    if (names.ends_with(tensor.name)) continue;  // another form of the same
    names += (names.empty() ? "" : ", ") + std::string(tensor.name);
  }
  return names;
}

std::vector<ProblemTensor> tensors_of(const Problem& p, Category category) {
  std::vector<ProblemTensor> found;
  for (const ProblemTensor& tensor : tensor_table())
    if (tensor.category == category && has(p, tensor)) {
      // Behind the last one of its buffer.
      const auto last = std::find_if(found.rbegin(), found.rend(), [&](const ProblemTensor& other) {
        return other.buffer == tensor.buffer;
      });
      found.insert(last == found.rend() ? found.end() : last.base(), tensor);
    }
  return found;
}

std::int64_t total_tokens(const Problem& p, Side side) {
  const std::vector<std::int64_t>& padded = p.padded_lengths_of(side);
  return std::accumulate(padded.begin(), padded.end(), std::int64_t{0});
}

std::string axes_of(const Problem& p, const ProblemTensor& tensor) {
  std::string axes(tensor.axes);
  if (!p.is_cross()) std::replace(axes.begin(), axes.end(), 'L', 'S');
  if (!p.packed) return axes;
  std::erase(axes, 'B');
  std::replace(axes.begin(), axes.end(), 'S', 'T');
  std::replace(axes.begin(), axes.end(), 'L', 'U');
  return axes;
}

std::vector<std::int64_t> shape_of(const Problem& p, const ProblemTensor& tensor) {
  std::vector<std::int64_t> shape;
  for (const char axis : axes_of(p, tensor)) shape.push_back(extent(p, axis));
  return shape;
}

TokenRow token_row(const Problem& p, const ProblemTensor& tensor) {
  constexpr std::string_view heads = "HG", columns = "DEKNCRXW";
  TokenRow row;
  row.heads = product(p, tensor.axes, heads);
  row.width = product(p, tensor.axes, columns);
  for (const ProblemTensor& other : tensor_table()) {
    if (other.buffer != tensor.buffer || !has(p, other)) continue;
    if (other.name == tensor.name) row.first_column = row.buffer_width;
    row.buffer_width += product(p, other.axes, columns);
  }
  return row;
}

}  // namespace cplab

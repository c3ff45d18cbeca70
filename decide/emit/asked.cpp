// Words and comments that frameworks share.
#include "decide/emit/asked.hpp"

#include <algorithm>
#include <stdexcept>

#include "algorithms/core/defaults.hpp"
#include "algorithms/core/list.hpp"

namespace cplab::emitting {
namespace {

std::string number(std::int64_t value) {
  return std::to_string(value);
}

// A share without the zeros that to_string puts behind it.
std::string share(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  return text.back() == '.' ? text + "0" : text;
}

Exchange exchange_of(const AttentionChoice& choice) {
  if (choice.algorithm.empty()) return Exchange::none;
  const Algorithm* algorithm = find_algorithm(choice.algorithm);
  if (!algorithm) throw std::invalid_argument("no algorithm is called \"" + choice.algorithm + "\"");
  const std::string_view name = algorithm->name;
  if (name == "ring") return Exchange::ring;
  if (name == "all_gather") return Exchange::gather;
  if (name == "head_strided") return Exchange::strided_gather;
  if (name == "all_to_all") return Exchange::heads;
  if (name == "hierarchical" || name == "usp") return Exchange::two_level;
  return name.starts_with("lasp_") || name.starts_with("affine_") ? Exchange::scan : Exchange::other;
}

std::int64_t inner_ranks(const AttentionKind& kind, const AttentionChoice& choice,
                         const ModelLayout& layout) {
  if (const OptionValue* given = choice.schedule.find("inner_ranks")) return std::get<std::int64_t>(*given);
  const std::int64_t heads = std::max<std::int64_t>(1, kind.heads / layout.tp);
  std::int64_t most = 1;
  for (std::int64_t inner = 1; inner <= std::min(layout.cp, defaults::most_inner_ranks()); ++inner)
    if (layout.cp % inner == 0 && heads % inner == 0) most = inner;
  return most;
}

void say_divisions(Output& out, const Request& r) {
  const ModelLayout& l = r.layout;
  const std::int64_t layers = r.model.layer_count(), stages = l.pp * l.pipeline_chunks;
  if (stages > 1 && layers % stages != 0)
    out.illegal(number(layers) + " layers do not divide into " + number(stages) + " pieces of the pipeline");
  if (l.pipeline_chunks > 1 && l.pp == 1) out.illegal("an interleaved pipeline of one stage");
  if (!r.has_experts()) {
    if (l.ep * l.etp > 1)
      out.illegal("ep " + number(l.ep) + " and etp " + number(l.etp) + " of a model without experts");
    return;
  }
  if (l.tp * l.cp * l.dp % (l.ep * l.etp) != 0)
    out.illegal("ep x etp = " + number(l.ep * l.etp) +
                " does not divide tp x cp x dp = " + number(l.tp * l.cp * l.dp));
  for (const FeedForwardKind& kind : r.model.feed_forward)
    if (kind.experts > 0 && kind.experts % l.ep != 0)
      out.illegal(number(kind.experts) + " experts do not divide into ep " + number(l.ep));
}

}  // namespace

std::string_view Asked::name() const {
  return find_algorithm(choice->algorithm)->name;
}

std::vector<Asked> asked(const Model& model, const ModelLayout& layout) {
  if (model.attention.size() != layout.attention.size())
    throw std::invalid_argument("a layout has one choice for each kind of attention layer: " +
                                number(static_cast<std::int64_t>(layout.attention.size())) + " for " +
                                number(static_cast<std::int64_t>(model.attention.size())));
  std::vector<Asked> all;
  for (std::size_t k = 0; k < model.attention.size(); ++k) {
    const AttentionKind& kind = model.attention[k];
    const AttentionChoice& choice = layout.attention[k];
    Asked one{&kind, &choice, layout.cp == 1 ? Exchange::none : exchange_of(choice), 1};
    if (one.exchange == Exchange::heads) one.inner = layout.cp;
    if (one.exchange == Exchange::two_level) one.inner = inner_ranks(kind, choice, layout);
    all.push_back(one);
  }
  return all;
}

std::int64_t Request::longest() const {
  std::int64_t most = training.sequence;
  for (const auto& [length, weight] : training.lengths) most = std::max(most, length);
  return most;
}

bool Request::has_experts() const {
  return std::any_of(model.feed_forward.begin(), model.feed_forward.end(),
                     [](const FeedForwardKind& kind) { return kind.experts > 0; });
}

bool Request::all(Exchange exchange) const {
  return std::all_of(attention.begin(), attention.end(), [&](const Asked& one) {
    return one.exchange == Exchange::none || one.exchange == exchange;
  });
}

std::string gpus_in_words(const ModelLayout& l) {
  return number(l.gpus()) + " GPUs = tp " + number(l.tp) + " x cp " + number(l.cp) + " x pp " + number(l.pp) +
         " x dp " + number(l.dp);
}

void say_step(Output& out, const Request& r, Mode theirs) {
  out.note("a step: micro-batch " + number(r.layout.micro_batch) + " x " + number(r.layout.micro_batches) +
           " times x dp " + number(r.layout.dp) + " = " + number(r.global_batch()) + " sequences of " +
           number(r.longest()) + " tokens");
  const bool trains = theirs == Mode::training;
  if (trains != (r.training.mode == Mode::training))
    out.cannot(std::string(name(r.training.mode)) +
               (trains ? ": these are flags of a training step" : ": these are flags of a server"));
  if (!r.training.lengths.empty()) {
    std::string text = "that sequences differ in length (the data do)";
    for (const auto& [length, weight] : r.training.lengths)
      text += ", " + number(length) + " tokens in a share of " + share(weight);
    out.cannot(text);
  }
  const bool has_flag = out.framework() == Framework::verl || out.framework() == Framework::ms_swift;
  if (r.training.balanced && !has_flag) say_balance(out);
  say_divisions(out, r);
}

void say_balance(Output& out) {
  out.cannot("rows dealt so that replicas take equally long (the data loader does)");
}

void say_choices(Output& out, const Request& r, std::string_view theirs,
                 const std::vector<std::string_view>& expressed) {
  for (const Asked& one : r.attention) {
    if (one.exchange == Exchange::none) continue;
    const std::string& placement = one.choice->placement;
    if (!placement.empty() && placement != theirs)
      out.cannot("placement " + placement + " for " + one.words() +
                 (theirs.empty() ? std::string() : "; " + std::string(theirs) + " stands in"));
    for (const auto& [key, value] : one.choice->schedule.options) {
      if (std::find(expressed.begin(), expressed.end(), key) != expressed.end()) continue;
      const bool halo = key == "rotation" && one.windowed();
      out.cannot(key + " = " + to_string(value) + " for " + one.words() +
                 (halo ? " (a halo: only keys that a window reaches travel)" : ""));
    }
  }
}

void say_state_bytes(Output& out, const Training& t) {
  const auto differs = [&](std::string_view what, int bytes, int usual) {
    if (bytes != usual)
      out.cannot(number(bytes) + " bytes of " + std::string(what) + " for each parameter; " + number(usual) +
                 " where nothing else is said");
  };
  differs("the parameter itself", t.parameter_bytes, 2);
  differs("gradient", t.gradient_bytes, 4);
  differs("master weight", t.master_bytes, 4);
  differs("moments", t.optimizer_bytes, 8);
}

void say_heads(Output& out, const Request& r, const Asked& one, std::int64_t ranks, bool repeats) {
  if (ranks <= 1) return;
  const std::int64_t heads = one.kind->heads / r.layout.tp;
  const std::int64_t keys = std::max<std::int64_t>(1, one.kind->kv_heads / r.layout.tp);
  if (heads % ranks != 0)
    out.illegal(number(heads) + " heads of a TP rank's " + one.kind->name + " layers do not divide over " +
                number(ranks) + " ranks that trade them");
  else if (keys % ranks != 0 && !(repeats && ranks % keys == 0))
    out.illegal(number(keys) + " key/value heads of a TP rank's " + one.kind->name +
                " layers do not divide over " + number(ranks) + " ranks that trade them");
}

}  // namespace cplab::emitting

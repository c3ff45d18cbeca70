// Linear attention of whole sequences behind a trade; see whole_sequences.hpp.
#include "algorithms/linear/whole_sequences.hpp"

#include <algorithm>
#include <memory>

#include "algorithms/core/defaults.hpp"
#include "algorithms/linear/affine.hpp"
#include "algorithms/linear/decoupled.hpp"
#include "algorithms/linear/linear_trade.hpp"

namespace cplab {
namespace {

// One rank's algorithm: nothing is scanned over ranks.
std::unique_ptr<LinearAlgorithm> of_one_rank(const LinearScope& s) {
  static const DecoupledChoices chunks;
  static const AffineChoices tokens;
  if (has_slopes(s.problem())) return decoupled(s, chunks);
  return affine(s, tokens);
}

}  // namespace

bool has_slopes(const Problem& p) {
  return p.attention == Attention::linear && p.transition == Transition::decay;
}

std::vector<OptionInfo> whole_sequence_options() {
  std::vector<OptionInfo> options;
  for (OptionInfo& option : decoupled_options()) {
    if (option.key != "chunk" && option.key != "backward_states") continue;
    option.serves = {has_slopes, "linear attention with slopes"};
    options.push_back(option);
  }
  return options;
}

void resolve_whole_sequence_defaults(Scenario& s, std::int64_t members) {
  if (!has_slopes(s.problem) || s.schedule.find("chunk")) return;
  const Problem& p = s.problem;
  const std::int64_t longest = std::max<std::int64_t>(1, std::ranges::max(p.lengths)),
                     sequences = (std::ssize(p.lengths) + s.parallel.replicas - 1) / s.parallel.replicas,
                     heads = std::max<std::int64_t>(1, p.heads / members);
  s.schedule.set("chunk", defaults::chunk_rows(longest, sequences, heads, p.value_size));
}

void validate_whole_sequences(const Scenario& s, std::int64_t members) {
  require_divided_heads(s, members, "parallel.ranks");
  if (has_slopes(s.problem)) require_few_chunks(s, members);
}

void build_traded_sequences(Builder& b) {
  const Scope whole(b);
  const Team self = alone(b.everyone());
  const LinearScope inside(scope_of_share(whole, self));
  const std::unique_ptr<LinearAlgorithm> inner = of_one_rank(inside);
  LinearTrade trade(whole, b.everyone(), whole.tokens, inside.scope, *inner);
  run_linear(whole, trade);
}

}  // namespace cplab

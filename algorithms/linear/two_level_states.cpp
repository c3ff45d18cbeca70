// A chain of states between trades; see two_level_states.hpp.
#include "algorithms/linear/two_level_states.hpp"

#include <algorithm>
#include <memory>

#include "algorithms/core/defaults.hpp"
#include "algorithms/core/grid.hpp"
#include "algorithms/linear/affine.hpp"
#include "algorithms/linear/decoupled.hpp"
#include "algorithms/linear/linear_trade.hpp"
#include "algorithms/linear/whole_sequences.hpp"

namespace cplab {
namespace {

constexpr InnerOrder neighbours = InnerOrder::consecutive;

// Each place waits for what enters, brings it through its own tokens, and passes on what leaves.
void chain_of_states(const LinearScope& s, StateScan& scan, const AffineMap& own, const Box& carry) {
  for (int i = 0; i + 1 < s.P(); ++i) {
    scan.hop(i, own.state, carry);
    if (scan.index() == i + 1 && scan.needed(i) && scan.needed(i + 1))
      scan.combine(carry, own.state, {i + 1, i + 1}, own.transition);
  }
}

std::unique_ptr<LinearAlgorithm> chained(const LinearScope& s) {
  static const DecoupledChoices chunks{
      .scan = [](const LinearScope& scope, StateScan& scan, const Box& own, const Box& carry) {
        chain_of_states(scope, scan, {own, {}}, carry);
      }};
  static const AffineChoices tokens{.scan = chain_of_states,
                                    .asks_transition = [](const LinearScope&, const StateScan& scan) {
                                      return scan.needed(scan.index() - 1) && scan.needed(scan.index());
                                    }};
  if (has_slopes(s.problem())) return decoupled(s, chunks);
  return affine(s, tokens);
}

}  // namespace

std::vector<OptionInfo> two_level_state_options() {
  std::vector<OptionInfo> options = whole_sequence_options();
  options.push_back(state_wire_option());
  options.back().serves = options.front().serves;
  return options;
}

void resolve_two_level_state_defaults(Scenario& s) {
  const std::int64_t P = s.parallel.ranks;
  if (!s.schedule.find("inner_ranks"))
    s.schedule.set("inner_ranks", inner_ranks_by_machine(P, s.problem.heads));
  const std::int64_t A = s.schedule.count("inner_ranks");
  if (!has_slopes(s.problem) || s.schedule.find("chunk") || P % A != 0) return;
  std::int64_t longest = 1, most = 1;
  for (int replica = 0; replica < static_cast<int>(s.parallel.replicas); ++replica) {
    const Stretches stretches(joined(placed(s, replica), inner_teams(P, A, neighbours)), false);
    longest = std::max(longest, stretches.longest());
    most = std::max(most, stretches.most());
  }
  const std::int64_t heads = std::max<std::int64_t>(1, s.problem.heads / A);
  s.schedule.set("chunk", defaults::chunk_rows(longest, most, heads, s.problem.value_size));
}

void validate_two_level_states(const Scenario& s) {
  const std::int64_t A = s.schedule.count("inner_ranks");
  require_divided_ranks(s, "inner_ranks");
  require_divided_heads(s, A, "schedule.inner_ranks");
  if (has_slopes(s.problem)) require_few_chunks(s, A);
}

void build_two_level_states(Builder& b) {
  const std::int64_t A = b.scenario().schedule.count("inner_ranks");
  const Scope whole(b);
  if (A == 1) {
    const LinearScope all(b);
    const std::unique_ptr<LinearAlgorithm> chain = chained(all);
    return run_linear(whole, *chain);
  }
  const Grid grid(b, A);
  const Team &inner = grid.inner(), &outer = grid.outer();
  const Distribution& all = whole.tokens;
  const Distribution& tokens = b.shared().kept(of_members(all, inner.positions));
  const Distribution& of_teams =
      b.shared().made("joined by teams", all, [&] { return joined(all, inner_teams(b.P(), A, neighbours)); });
  const HeadRange heads = b.shared().split_heads(tokens)[inner.place].heads;
  const LinearScope inside(Scope(b, outer, with_heads(of_teams, heads), Layout::heads_first));
  const std::unique_ptr<LinearAlgorithm> chain = chained(inside);
  LinearTrade trade(whole, inner, tokens, inside.scope, *chain);
  run_linear(whole, trade);
}

}  // namespace cplab

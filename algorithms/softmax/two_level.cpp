// The two levels, made of a trade around a ring.
#include "algorithms/softmax/two_level.hpp"

#include <algorithm>
#include <string>

#include "algorithms/core/defaults.hpp"
#include "algorithms/core/options.hpp"
#include "algorithms/softmax/ring_attention.hpp"
#include "algorithms/softmax/trade.hpp"

namespace cplab {
namespace {

// By team of ranks that trade: their positions.
std::vector<std::vector<int>> inner_teams(std::int64_t ranks, std::int64_t inner, InnerOrder order) {
  const std::int64_t outer = ranks / inner;
  std::vector<std::vector<int>> teams(static_cast<std::size_t>(outer));
  for (std::int64_t team = 0; team < outer; ++team)
    for (std::int64_t i = 0; i < inner; ++i)
      teams[static_cast<std::size_t>(team)].push_back(
          static_cast<int>(order == InnerOrder::consecutive ? team * inner + i : i * outer + team));
  return teams;
}

// The tokens that meet in one place of a ring, by place; those of one rank in its own runs, as a plain ring
// has them.
Distribution joined(const Distribution& tokens, const std::vector<std::vector<int>>& teams) {
  Distribution ring;
  for (const std::vector<int>& team : teams)
    ring.members.push_back(team.size() == 1 ? tokens[team[0]]
                                            : in_sequence_order(gathered(of_members(tokens, team)))[0]);
  return ring;
}

}  // namespace

Distribution of_members(const Distribution& tokens, const std::vector<int>& positions) {
  Distribution some;
  for (const int position : positions) some.members.push_back(tokens[position]);
  return some;
}

Grid::Grid(Builder& b, std::int64_t inner)
    : self_(alone(b.everyone())),
      inner_(inner == 1       ? self_
             : inner == b.P() ? b.everyone()
                              : b.team("inner")),
      outer_(inner == 1       ? b.everyone()
             : inner == b.P() ? self_
                              : b.team("outer")) {}

std::vector<TeamSpec> two_level_teams(const Scenario& s, InnerOrder order) {
  return two_level_teams(s.parallel.ranks, s.schedule.count("inner_ranks"), order);
}

std::vector<TeamSpec> two_level_teams(std::int64_t P, std::int64_t A, InnerOrder order) {
  if (A == 1 || A == P) return {};
  TeamSpec inner{"inner", inner_teams(P, A, order)}, outer{"outer", {}};
  for (std::size_t i = 0; i < static_cast<std::size_t>(A); ++i) {
    std::vector<int>& ring = outer.members.emplace_back();
    for (const std::vector<int>& team : inner.members) ring.push_back(team[i]);
  }
  return {inner, outer};
}

void build_two_level(Builder& b, InnerOrder order, bool one_by_one) {
  const Schedule& schedule = b.scenario().schedule;
  const std::int64_t A = schedule.count("inner_ranks");
  const std::vector<std::vector<int>> teams = inner_teams(b.P(), A, order);
  const Grid grid(b, A);
  const Team &inner = grid.inner(), &outer = grid.outer();
  const Scope whole(b);
  const Distribution& tokens = b.shared().kept(of_members(whole.tokens, inner.positions));
  const HeadRange heads = b.shared().split_heads(tokens)[inner.place].heads;
  const Distribution& of_rings =
      b.shared().made("joined by teams", whole.tokens, [&] { return joined(whole.tokens, teams); });
  const Scope inside(b, outer, with_heads(of_rings, heads),
                     A == 1 ? Layout::rows_first : Layout::heads_first);
  RingAttention ring(inside, ring_options(schedule));
  TradeOptions options = trade_options(schedule);
  options.one_by_one = one_by_one;
  WithQuerySum with_sum(inside, ring);
  Trade trade(whole, inner, tokens, tokens, inside, with_sum, options);
  run_whole(whole, trade);
}

std::vector<OptionInfo> two_level_options() {
  std::vector<OptionInfo> options = ring_option_infos();
  options.push_back(pack_above_option());
  options.push_back(least_option("inner_ranks", 1, 1, "ranks that trade heads for tokens"));
  options.back() = defaults::by_machine(options.back());
  options.back().default_rule = options.back().machine_rule;
  return options;
}

std::int64_t inner_ranks_by_machine(std::int64_t ranks, std::int64_t heads) {
  std::int64_t most = 1;
  for (std::int64_t inner = 1; inner <= std::min(ranks, defaults::most_inner_ranks()); ++inner)
    if (ranks % inner == 0 && heads % inner == 0) most = inner;
  return most;
}

void require_divided_ranks(const Scenario& s, std::string_view option) {
  const std::int64_t P = s.parallel.ranks, A = s.schedule.count(option);
  if (P % A != 0)
    throw ScenarioError("schedule." + std::string(option),
                        std::to_string(A) + " does not divide parallel.ranks (" + std::to_string(P) + ")");
}

void resolve_two_level_defaults(Scenario& s, InnerOrder order) {
  const std::int64_t P = s.parallel.ranks;
  if (!s.schedule.find("inner_ranks"))
    s.schedule.set("inner_ranks", inner_ranks_by_machine(P, s.problem.heads));
  const std::int64_t A = s.schedule.count("inner_ranks");
  std::vector<RingTokens> rings;
  for (int replica = 0; replica < static_cast<int>(s.parallel.replicas) && P % A == 0; ++replica) {
    const Distribution tokens = joined(placed(s, replica), inner_teams(P, A, order));
    rings.push_back({tokens, tokens});
  }
  resolve_ring_defaults(s, rings);
}

void validate_two_level(const Scenario& s) {
  require_softmax(s);
  validate_ring_options(s.schedule);
  require_divided_ranks(s, "inner_ranks");
  require_divided_heads(s, s.schedule.count("inner_ranks"), "schedule.inner_ranks");
}

Algorithm algorithm_of_node_rings(void (*build)(Builder&)) {
  Algorithm a = algorithm_of_rings(build);
  a.options.push_back(defaults::by_machine(least_option("node_ranks", 1, 1, "ranks of an inner ring")));
  a.options.back().default_rule = a.options.back().machine_rule;
  a.resolve_defaults = [](Scenario& s) {
    const std::int64_t P = s.parallel.ranks;
    if (!s.schedule.find("node_ranks")) s.schedule.set("node_ranks", inner_ranks_by_machine(P, P));
    resolve_plain_ring_defaults(s);
  };
  a.validate = [](const Scenario& s) {
    validate_plain_rings(s);
    require_divided_ranks(s, "node_ranks");
  };
  a.teams = [](const Scenario& s) {
    std::vector<TeamSpec> teams =
        two_level_teams(s.parallel.ranks, s.schedule.count("node_ranks"), InnerOrder::consecutive);
    if (!teams.empty()) teams.erase(teams.begin());  // the inner rings are of the whole group
    return teams;
  };
  return a;
}

}  // namespace cplab

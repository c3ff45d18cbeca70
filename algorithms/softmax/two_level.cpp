// The two levels, made of a trade around a ring.
#include "algorithms/softmax/two_level.hpp"

#include <algorithm>
#include <string>

#include "algorithms/core/defaults.hpp"
#include "algorithms/core/options.hpp"
#include "algorithms/softmax/ring_attention.hpp"
#include "algorithms/softmax/trade.hpp"

namespace cplab {
void build_two_level(Builder& b, InnerOrder order, bool one_by_one) {
  const Schedule& schedule = b.scenario().schedule;
  const std::int64_t A = schedule.count("inner_ranks");
  const std::vector<std::vector<int>> teams = inner_teams(b.P(), A, order);
  const Grid grid(b, A);
  const Team &inner = grid.inner(), &outer = grid.outer();
  const Scope whole(b);
  const auto traded = [&](const Distribution& placed) -> const Distribution& {
    return b.shared().kept(of_members(placed, inner.positions));
  };
  const Distribution &tokens = traded(whole.tokens), &key_tokens = traded(whole.key_tokens);
  const HeadRange heads = b.shared().split_heads(tokens)[inner.place].heads;
  const auto of_rings = [&](const Distribution& placed) {
    return with_heads(b.shared().made("joined by teams", placed, [&] { return joined(placed, teams); }),
                      heads);
  };
  const Scope inside(b, outer, of_rings(whole.tokens), of_rings(whole.key_tokens),
                     A == 1 ? Layout::rows_first : Layout::heads_first);
  RingAttention ring(inside, ring_options(schedule));
  TradeOptions options = trade_options(schedule);
  options.one_by_one = one_by_one;
  WithQuerySum with_sum(inside, ring);
  Trade trade(whole, inner, tokens, key_tokens, inside, with_sum, options);
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

void resolve_two_level_defaults(Scenario& s, InnerOrder order) {
  const std::int64_t P = s.parallel.ranks;
  if (!s.schedule.find("inner_ranks"))
    s.schedule.set("inner_ranks", inner_ranks_by_machine(P, s.problem.heads));
  const std::int64_t A = s.schedule.count("inner_ranks");
  std::vector<RingTokens> rings;
  for (int replica = 0; replica < static_cast<int>(s.parallel.replicas) && P % A == 0; ++replica) {
    const auto teams = inner_teams(P, A, order);
    const Distribution tokens = joined(placed(s, replica), teams);
    rings.push_back({tokens, s.problem.is_cross() ? joined(placed_keys(s, replica), teams) : tokens});
  }
  resolve_ring_defaults(s, rings);
}

void validate_two_level(const Scenario& s) {
  validate_plain_rings(s);
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

// Mutations of what ranks do together: replicas of key heads, levels of a hierarchy, several groups at once.
#include <algorithm>
#include <optional>
#include <utility>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/faults/mutations.hpp"
#include "algorithms/softmax/ring_attention.hpp"
#include "algorithms/softmax/trade.hpp"
#include "derive/edges.hpp"

namespace cplab::mutations {
namespace {

// A message in a ring of a sub-group, of some of the ranks; the context-parallel groups come first
// (Plan::groups).
bool is_ring_of_team(const Plan& plan, const Operation& op) {
  const bool of_team = op.kind == OpKind::exchange && op.group >= plan.scenario.parallel.groups.size();
  return of_team && std::ssize(plan.groups[op.group].ranks) < plan.scenario.parallel.ranks;
}

// A trade of heads for tokens inside a team, and its tokens attended as if they were all.
void build_inner_level(Builder& b) {
  const Team& inner = b.team("inner");
  const Team self = alone(inner);
  const Scope whole(b);
  Distribution of_members;
  for (const int position : inner.positions) of_members.members.push_back(whole.tokens[position]);
  const Distribution& tokens = b.shared().kept(of_members);
  const Distribution all = split_heads(tokens);
  const Scope inside(b, self, {{all[inner.place]}}, Layout::heads_first);
  RingAttention ring(inside, ring_options(b.scenario().schedule));
  Trade trade(whole, inner, tokens, tokens, inside, ring, trade_options(b.scenario().schedule));
  run_whole(whole, trade);
}

// The first two communications of different groups, one behind the other, of which the second, a hop in a
// ring, waits for nothing from the first on.
std::optional<std::pair<std::size_t, std::size_t>> independent_pair(const Plan& plan, const RankPlan& rank) {
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < rank.operations.size(); ++i) {
    const Operation& op = rank.operations[i];
    if (!is_communication(op.kind)) continue;
    const std::optional<std::size_t> before = std::exchange(last, i);
    if (!before || !is_ring_of_team(plan, op)) continue;
    const Operation& other = rank.operations[*before];
    const auto sends = std::ranges::count_if(rank.parts_of(op), &Part::send);
    const bool both = sends > 0 && sends < static_cast<std::ptrdiff_t>(op.parts.count);
    const bool waits = std::ranges::any_of(rank.after(op), [&](auto e) { return e >= *before; });
    if (both && !waits && other.group != op.group && other.phase == op.phase) return {{*before, i}};
  }
  return {};
}

}  // namespace

void replicated_double_count(Plan& plan) {
  bool found = false;
  for (RankPlan& rank : plan.ranks) {
    const auto add = find_operation(rank, OpKind::add, Phase::backward, [&](const Operation& op) {
      const std::uint32_t from = rank.view_of(op, Operand::from).buffer;
      if (rank.buffers[from].planes == 0) return false;  // no gradients of K and V
      return std::ranges::any_of(rank.operations, [&](const Operation& other) {
        return is_communication(other.kind) && brings(rank, other, from);
      });
    });
    if (add < 0) continue;
    const auto i = static_cast<std::size_t>(add);
    insert_operation(rank, i + 1, rank.operations[i]);
    derive_edges(rank);
    found = true;
  }
  if (!found)
    no_place("replicated-double-count", "a key head that several ranks hold (all_to_all, kv_heads < ranks)");
}

void hierarchical_level_missing(Plan& plan) {
  const Scenario s = plan.scenario;
  Algorithm algorithm = *find_algorithm(s.algorithm);
  const auto teams = algorithm.teams ? algorithm.teams(s) : std::vector<TeamSpec>();
  if (s.problem.attention == Attention::linear || !s.schedule.find("inner_ranks") ||
      std::ranges::find(teams, "inner", &TeamSpec::name) == teams.end())
    no_place("hierarchical-level-missing",
             "a ring across teams (softmax attention, hierarchical or usp, 1 < inner_ranks < ranks)");
  algorithm.build = build_inner_level;
  plan = build_plan(s, algorithm);
}

// Every group has a lane of its own, as frameworks give each a stream. Half of the ranks, like the squares of
// one colour on a chessboard, issue two independent operations of different groups the other way round. Only
// over NCCL, which runs what is launched on a communicator in order, is that a fault: all go over it.
void communicator_order(Plan& plan) {
  const auto place = [&](const RankPlan& rank, const Operation& op) {
    const std::vector<int>& members = plan.groups[op.group].ranks;
    return std::ranges::find(members, rank.rank) - members.begin();
  };
  bool everywhere = true;
  for (RankPlan& rank : plan.ranks) {
    for (Operation& op : rank.operations) {
      if (is_communication(op.kind)) op.transport = Transport::nccl;
      if (is_ring_of_team(plan, op)) ++op.lane.index;
    }
    derive_edges(rank);
    const auto pair = independent_pair(plan, rank);
    everywhere &= pair.has_value();
    if (!pair) continue;
    const auto [first, second] = *pair;
    if ((place(rank, rank.operations[first]) + place(rank, rank.operations[second])) % 2 == 0) continue;
    move_operation(rank, second, first);
    derive_edges(rank);
  }
  if (!everywhere)
    no_place("communicator-order",
             "a ring across teams, in which every rank sends and receives, beside what they do inside "
             "(hierarchical or usp, 1 < inner_ranks < ranks)");
}

}  // namespace cplab::mutations

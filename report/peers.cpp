// Peers of communications; see peers.hpp.
#include "report/peers.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "derive/walk.hpp"

namespace cplab {
namespace {

class Came {
 public:
  // `names`: who came last, too.
  Came(const Plan& plan, const Timeline& timeline, bool names) : timeline_(timeline) {
    for (const RankPlan& rank : plan.ranks) {
      came_s.emplace_back(rank.operations.size(), 0.0);
      if (names) last.emplace_back(rank.operations.size());
    }
  }
  void come(OpRef waiting, OpRef peer, bool sends = false) {
    double& at = came_s[waiting.rank][waiting.operation];
    at = std::max(at, start_s(peer));
    if (last.empty() || waiting == peer) return;
    LastPeer& named = last[waiting.rank][waiting.operation];
    const bool later = named.ref.operation == no_operation || start_s(peer) > start_s(named.ref);
    if (later || (sends && !named.sends && start_s(peer) == start_s(named.ref))) named = {peer, sends};
  }
  void come_together(const std::vector<OpRef>& members) {
    const auto start = [this](OpRef ref) { return start_s(ref); };
    const OpRef all = *std::ranges::max_element(members, {}, start);
    for (const OpRef member : members) come(member, all);
    if (last.empty()) return;
    for (const OpRef member : members) come(all, member);
  }
  double start_s(OpRef ref) const { return timeline_.ranks[ref.rank][ref.operation].start_s; }

  std::vector<std::vector<double>> came_s;
  std::vector<std::vector<LastPeer>> last;

 private:
  const Timeline& timeline_;
};

// Operations that begin when all members of their group have come: all_reduce, barrier, and what has messages
// from each member to each.
bool is_meeting(const Operation& op) {
  return is_communication(op.kind) && op.kind != OpKind::exchange;
}

// Whether the operation has a message to and one from every member, in the order of the group.
bool trades_with_all(const RankPlan& rank, const Operation& op, const std::vector<int>& group) {
  const std::span<const Part> parts = rank.parts_of(op);
  auto part = parts.begin();
  for (const int member : group) {
    bool sends = false, receives = false;
    for (; part != parts.end() && part->peer == member; ++part) (part->send ? sends : receives) = true;
    if (!sends || !receives) return false;
  }
  return part == parts.end();
}

// One end of a message of an exchange, of a rank that is known.
struct End {
  std::uint32_t peer = 0, operation = 0;
  std::uint16_t group = 0;
  Lane lane;
  bool same_channel(const End& other) const { return peer == other.peer && group == other.group; }
};

// The sends or the receives of a rank by peer, then group; those of one channel as the rank lists them. None
// where some channel is on several lanes: then the order in which they are posted is not the list's.
std::optional<std::vector<End>> ends_by_channel(const RankPlan& rank, std::size_t ranks, bool sends) {
  std::vector<std::uint32_t> first(ranks + 1);
  for (const Operation& op : rank.operations)
    for (const Part& part : rank.parts_of(op))
      if (op.kind == OpKind::exchange && part.send == sends) ++first[static_cast<std::size_t>(part.peer) + 1];
  for (std::size_t r = 0; r < ranks; ++r) first[r + 1] += first[r];
  std::vector<End> ends(first[ranks]);
  std::vector<std::uint32_t> next = first;
  for (std::uint32_t i = 0; i < rank.operations.size(); ++i) {
    const Operation& op = rank.operations[i];
    if (op.kind != OpKind::exchange) continue;
    for (const Part& part : rank.parts_of(op)) {
      if (part.send != sends) continue;
      const auto peer = static_cast<std::uint32_t>(part.peer);
      ends[next[peer]++] = {peer, i, op.group, op.lane};
    }
  }
  const auto by_group = [](const End& a, const End& b) { return a.group < b.group; };
  for (std::size_t r = 0; r < ranks; ++r) {
    const std::span of_peer(ends.begin() + first[r], ends.begin() + first[r + 1]);
    if (!std::ranges::is_sorted(of_peer, by_group)) std::ranges::stable_sort(of_peer, by_group);
  }
  for (std::size_t i = 1; i < ends.size(); ++i)
    if (ends[i].same_channel(ends[i - 1]) && ends[i].lane != ends[i - 1].lane) return {};
  return ends;
}

// The n-th send of a channel meets its n-th receive: senders one after the other, so that every receiver's
// list, which is in the order of senders, is read once.
bool come_by_channels(const Plan& plan, Came& came) {
  const std::size_t ranks = plan.ranks.size();
  std::vector<std::vector<End>> receives;
  for (const RankPlan& rank : plan.ranks) {
    std::optional<std::vector<End>> ends = ends_by_channel(rank, ranks, false);
    if (!ends) return false;
    receives.push_back(std::move(*ends));
  }
  std::vector<std::size_t> read(ranks);
  for (std::uint32_t sender = 0; sender < ranks; ++sender) {
    const std::optional<std::vector<End>> sends = ends_by_channel(plan.ranks[sender], ranks, true);
    if (!sends) return false;
    for (const End& send : *sends) {
      const std::vector<End>& list = receives[send.peer];
      std::size_t& at = read[send.peer];
      const std::pair wanted{sender, send.group};
      while (at < list.size() && std::pair{list[at].peer, list[at].group} < wanted) ++at;
      if (at == list.size() || std::pair{list[at].peer, list[at].group} != wanted) continue;
      const OpRef from{sender, send.operation}, into{send.peer, list[at++].operation};
      came.come(from, into);
      came.come(into, from, true);
    }
  }
  return true;
}

// The n-th meeting of every member of a group is one. False where a member's are on several lanes, or where
// one has no message for some member.
bool come_by_meetings(const Plan& plan, Came& came) {
  std::map<std::uint16_t, std::vector<std::vector<std::uint32_t>>> meetings;  // by group, by member
  for (const RankPlan& rank : plan.ranks) {
    for (std::uint32_t i = 0; i < rank.operations.size(); ++i) {
      const Operation& op = rank.operations[i];
      if (!is_meeting(op)) continue;
      const std::vector<int>& group = plan.groups.at(op.group).ranks;
      const bool has_parts = op.kind != OpKind::all_reduce && op.kind != OpKind::barrier;
      if (has_parts && !trades_with_all(rank, op, group)) return false;
      auto& of_group = meetings[op.group];
      of_group.resize(group.size());
      const auto place = static_cast<std::size_t>(std::ranges::find(group, rank.rank) - group.begin());
      std::vector<std::uint32_t>& list = of_group.at(place);
      if (!list.empty() && rank.operations[list.back()].lane != op.lane) return false;
      list.push_back(i);
    }
  }
  for (const auto& [group, of_group] : meetings) {
    const auto fewest = std::ranges::min_element(of_group, {}, &std::vector<std::uint32_t>::size)->size();
    const std::vector<int>& ranks = plan.groups[group].ranks;
    for (std::size_t n = 0; n < fewest; ++n) {
      std::vector<OpRef> members;
      for (std::size_t m = 0; m < ranks.size(); ++m)
        members.push_back({static_cast<std::uint32_t>(ranks[m]), of_group[m][n]});
      came.come_together(members);
    }
  }
  return true;
}

// Where every channel is on one lane at either end the messages of a channel are posted in the order in which
// the ranks list them, and no walk is needed.
bool come_by_lists(const Plan& plan, Came& came) {
  for (std::uint32_t r = 0; r < plan.ranks.size(); ++r)
    for (std::uint32_t i = 0; i < plan.ranks[r].operations.size(); ++i)
      if (is_communication(plan.ranks[r].operations[i].kind)) came.come({r, i}, {r, i});
  return come_by_meetings(plan, came) && come_by_channels(plan, came);
}

// By readiness and matching, whatever the lanes.
void come_by_walk(const Plan& plan, Came& came) {
  Walk walk(plan);
  std::vector<OpRef> ready, members;
  std::vector<Match> matched;
  walk.begin(ready);
  while (!ready.empty()) {
    const OpRef ref = ready.back();
    ready.pop_back();
    const Operation& op = plan.ranks[ref.rank].operations[ref.operation];
    if (is_communication(op.kind)) came.come(ref, ref);
    if (op.kind == OpKind::all_reduce || op.kind == OpKind::barrier) {
      members.clear();
      if (!walk.meet(ref, members)) continue;
      came.come_together(members);
      for (const OpRef member : members) walk.complete(member, ready);
      continue;
    }
    if (!is_communication(op.kind) || op.parts.count == 0) {
      walk.complete(ref, ready);
      continue;
    }
    matched.clear();
    walk.post(ref, matched);
    walk.started(ref, ready);
    for (const Match& match : matched) {
      came.come(match.sender, match.receiver);
      came.come(match.receiver, match.sender, true);
      if (walk.part_done(match.sender)) walk.complete(match.sender, ready);
      if (walk.part_done(match.receiver)) walk.complete(match.receiver, ready);
    }
  }
}

Came come_all(const Plan& plan, const Timeline& timeline, bool names) {
  Came by_lists(plan, timeline, names);
  if (come_by_lists(plan, by_lists)) return by_lists;
  Came by_walk(plan, timeline, names);
  come_by_walk(plan, by_walk);
  return by_walk;
}

}  // namespace

std::vector<std::vector<double>> peers_came_s(const Plan& plan, const Timeline& timeline) {
  return std::move(come_all(plan, timeline, false).came_s);
}

std::vector<std::vector<LastPeer>> last_peers(const Plan& plan, const Timeline& timeline) {
  return std::move(come_all(plan, timeline, true).last);
}

}  // namespace cplab

// Sends and receives: pairs their parts, reports those without partner, and compares the order in which pairs
// of ranks launch what involves both. Parts of one ordered pair of ranks in one group match in the order of
// issue.
#include "check/matching.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "plan/layout.hpp"

namespace cplab::checking {
namespace {

class Matching {
 public:
  Matching(const Model& model, Findings& findings, Interpreter& interpreter, CheckResult& result)
      : model_(model), findings_(findings), interpreter_(interpreter), result_(result), pairs_(model) {}

  bool run() {
    number();
    for (std::uint32_t r = 0; r < model_.ranks.size(); ++r) pair_parts(r);
    leftovers();
    launch_order();
    const bool completed = check_progress(pairs_, findings_, interpreter_, result_);
    if (completed && !findings_.has(FindingKind::order)) check_launches(pairs_, findings_);
    return completed;
  }

 private:
  struct Channel {  // parts of one direction that have no partner yet, linked in order
    std::uint32_t first = none, last = none;
    bool sends = false;
    std::uint32_t latest[2] = {none, none};  // part received, sent
  };
  void number() {
    pairs_.first_part.reserve(model_.first_operation.back() + 1);
    for (std::uint32_t r = 0; r < model_.ranks.size(); ++r) {
      const RankModel& rank = model_.ranks[r];
      for (std::uint32_t i = 0; i < rank.plan->operations.size(); ++i) {
        pairs_.rank_of.push_back(r);
        pairs_.first_part.push_back(static_cast<std::uint32_t>(pairs_.op_of_part.size()));
        pairs_.op_of_part.insert(pairs_.op_of_part.end(), rank.parts(i).size(), pairs_.flat(r, i));
      }
    }
    pairs_.first_part.push_back(static_cast<std::uint32_t>(pairs_.op_of_part.size()));
    pairs_.partner.assign(pairs_.op_of_part.size(), none);
    next_.assign(pairs_.op_of_part.size(), none);
    pairs_.skip.assign(pairs_.op_of_part.size(), 0);
    pairs_.meeting.assign(pairs_.rank_of.size(), none);
    meeting_count_.resize(model_.plan->groups.size());
    meetings_of_.resize(model_.plan->groups.size());
    channels_.reserve(4 * model_.ranks.size());
  }

  static std::uint64_t channel_key(std::uint32_t group, std::uint32_t from, std::uint32_t into) {
    return (std::uint64_t{group} << 48) | (std::uint64_t{from} << 24) | into;
  }

  void pair_parts(std::uint32_t r) {
    const RankModel& rank = model_.ranks[r];
    for (std::uint32_t i = 0; i < rank.plan->operations.size(); ++i) {
      const Operation& op = rank.op(i);
      const std::uint32_t at = pairs_.flat(r, i);
      if (!communicates(op) || op.group >= model_.groups->size()) {
        std::fill(pairs_.skip.begin() + pairs_.first_part[at],
                  pairs_.skip.begin() + pairs_.first_part[at + 1], 1);
        continue;
      }
      const std::int32_t own = model_.groups->position(op.group, r);
      if (is_collective(op) && own >= 0) join_meeting(at, op.group, static_cast<std::uint32_t>(own));
      const auto parts = rank.parts(i);
      for (std::uint32_t k = 0; k < parts.size(); ++k) {
        const std::uint32_t p = pairs_.first_part[at] + k;
        const int peer = parts[k].peer;
        if (parts[k].view >= rank.boxes.size() || !rank.boxes[parts[k].view].valid ||
            model_.groups->position(op.group, peer) < 0 || own < 0) {
          pairs_.skip[p] = 1;  // reported as malformed
          continue;
        }
        if (parts[k].send && static_cast<std::uint32_t>(peer) != r) {
          ++result_.messages;
          result_.sent_bytes[r] += model_.bytes(rank, rank.boxes[parts[k].view]);
        }
        pair_part(p, op.group, r, static_cast<std::uint32_t>(peer), parts[k].send);
      }
    }
  }

  // Whether their lane or event edges order two operations of one rank.
  bool ordered(std::uint32_t x, std::uint32_t y) const {
    const RankModel& rank = pairs_.rank_model(y);
    return rank.lane_of[pairs_.local(x)] == rank.lane_of[pairs_.local(y)] ||
           rank.comes_before(pairs_.local(x), pairs_.local(y));
  }

  // Messages of one direction match in the order in which they are posted, so the plan must fix that order.
  void keep_order(std::uint32_t before, std::uint32_t p) {
    if (before == none) return;
    const std::uint32_t x = pairs_.op_of_part[before], y = pairs_.op_of_part[p];
    if (ordered(x, y)) return;
    const RankModel& rank = pairs_.rank_model(y);
    const Part& mine = pairs_.part(p);
    findings_.add(FindingKind::order, rank.plan, pairs_.local(y), none,
                  pairs_.describe(y) + (mine.send ? " sends to rank " : " receives from rank ") +
                      std::to_string(mine.peer) + " as " + pairs_.describe(x) +
                      " does on another lane, and nothing orders the two");
  }

  void pair_part(std::uint32_t p, std::uint32_t group, std::uint32_t rank, std::uint32_t peer, bool send) {
    const std::uint64_t key = send ? channel_key(group, rank, peer) : channel_key(group, peer, rank);
    Channel& channel = channels_[key];
    keep_order(channel.latest[send], p);
    channel.latest[send] = p;
    if (channel.first != none && channel.sends != send) {
      const std::uint32_t other = channel.first;
      channel.first = next_[other];
      pairs_.partner[p] = other;
      pairs_.partner[other] = p;
      return;
    }
    channel.sends = send;
    (channel.first == none ? channel.first : next_[channel.last]) = p;
    channel.last = p;
  }

  void join_meeting(std::uint32_t op, std::uint32_t group, std::uint32_t position) {
    auto& counts = meeting_count_[group];
    if (counts.empty()) counts.assign(model_.plan->groups[group].ranks.size(), 0);
    const std::uint32_t k = counts[position]++;
    auto& list = meetings_of_[group];
    if (k == list.size()) {
      list.push_back(static_cast<std::uint32_t>(pairs_.meetings.size()));
      pairs_.meetings.emplace_back().members.assign(counts.size(), none);
    }
    pairs_.meetings[list[k]].members[position] = op;
    pairs_.meeting[op] = list[k];
    // The k-th collective of a group meets the peers' k-th, so the plan must order any two of them.
    const std::uint32_t before = k == 0 ? none : pairs_.meetings[list[k - 1]].members[position];
    if (before == none || ordered(before, op)) return;
    findings_.add(FindingKind::order, pairs_.rank_model(op).plan, pairs_.local(op), none,
                  pairs_.describe(op) + " is a collective of group " + model_.plan->groups[group].name +
                      " as " + pairs_.describe(before) + " on another lane is, and nothing orders the two");
  }

  // Reports parts without a partner. Where one side of a channel lacks a part, all later parts pair up with
  // the wrong ones: the first pair whose steps differ is nearer to the mistake than the part that is left
  // over.
  void leftovers() {
    std::map<std::uint64_t, Channel> sorted;
    for (const auto& [key, channel] : channels_)
      if (channel.first != none) sorted.emplace(key, channel);
    for (const auto& [key, channel] : sorted) {
      pairs_.lost = true;
      std::uint32_t wrong = channel.first;
      const auto other = [&](std::uint32_t p) { return pairs_.partner[p]; };
      const std::uint32_t rank = pairs_.rank_of[pairs_.op_of_part[wrong]];
      for (std::uint32_t op = model_.first_operation[rank]; op < pairs_.op_of_part[channel.first]; ++op) {
        bool found = false;
        for (std::uint32_t p = pairs_.first_part[op]; p < pairs_.first_part[op + 1] && !found; ++p) {
          if (pairs_.skip[p] || other(p) == none || pairs_.part(p).send != channel.sends) continue;
          const Part& mine = pairs_.part(p);
          const auto peer = static_cast<std::uint32_t>(mine.peer);
          if ((mine.send ? channel_key(pairs_.operation(op).group, rank, peer)
                         : channel_key(pairs_.operation(op).group, peer, rank)) != key)
            continue;
          const Operation &a = pairs_.operation(op), &b = pairs_.operation(pairs_.op_of_part[other(p)]);
          found = a.step != b.step || a.phase != b.phase;
          if (found) wrong = p;
        }
        if (found) break;
      }
      const Part& mine = pairs_.part(wrong);
      const std::uint32_t op = pairs_.op_of_part[wrong];
      findings_.add(FindingKind::unmatched, pairs_.rank_model(op).plan, pairs_.local(op), buffer_of(wrong),
                    pairs_.describe(op) + (mine.send ? " sends to rank " : " receives from rank ") +
                        std::to_string(mine.peer) + ", which has no matching " +
                        (mine.send ? "receive" : "send"));
    }
    for (std::size_t g = 0; g < meetings_of_.size(); ++g)
      for (std::uint32_t m : meetings_of_[g]) test_meeting(g, m);
  }

  std::uint32_t buffer_of(std::uint32_t p) const {
    return pairs_.rank_model(pairs_.op_of_part[p]).boxes[pairs_.part(p).view].buffer;
  }

  void test_meeting(std::size_t group, std::uint32_t m) {
    const std::vector<std::uint32_t>& members = pairs_.meetings[m].members;
    const auto first =
        std::find_if(members.begin(), members.end(), [](std::uint32_t op) { return op != none; });
    const Operation& a = pairs_.operation(*first);
    const auto say = [&](const std::string& what) {
      findings_.add(FindingKind::unmatched, pairs_.rank_model(*first).plan, pairs_.local(*first), none,
                    pairs_.describe(*first) + what);
    };
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i] == none) {
        pairs_.lost = true;
        return say(" waits for rank " + std::to_string(model_.plan->groups[group].ranks[i]) +
                   ", which never joins it");
      }
      const Operation& b = pairs_.operation(members[i]);
      if (a.kind != b.kind || (a.kind == OpKind::all_reduce && a.reduction != b.reduction))
        return say(" meets " + pairs_.id(members[i]) + ", which is another kind of operation");
      if (a.transport != b.transport)
        return say(" meets " + pairs_.id(members[i]) + ", which goes over another transport");
      if (a.channels != b.channels)
        return say(" meets " + pairs_.id(members[i]) + ", which has another number of channels");
      if (a.kind != OpKind::all_reduce) {
        test_parts(members[i]);
        continue;
      }
      const Box *x = operand(*first), *y = operand(members[i]);
      if (x && y && !fits(pairs_.rank_model(*first), *x, pairs_.rank_model(members[i]), *y))
        return say(" meets " + pairs_.id(members[i]) +
                   ", whose operands have another size, dtype, layout or planes");
    }
  }

  // The parts of a collective must have their partners in the same collective.
  void test_parts(std::uint32_t op) {
    for (std::uint32_t p = pairs_.first_part[op]; p < pairs_.first_part[op + 1]; ++p) {
      if (pairs_.skip[p] || pairs_.partner[p] == none) continue;
      const std::uint32_t other = pairs_.op_of_part[pairs_.partner[p]];
      if (pairs_.meeting[other] == pairs_.meeting[op]) continue;
      return findings_.add(FindingKind::unmatched, pairs_.rank_model(op).plan, pairs_.local(op), buffer_of(p),
                           pairs_.describe(op) + " has a part that meets " + pairs_.describe(other) +
                               ", which is not the same collective");
    }
  }

  const Box* operand(std::uint32_t op) const {
    const RankModel& rank = pairs_.rank_model(op);
    return rank.forms[pairs_.local(op)] == Form::good ? &rank.operand(pairs_.local(op), Operand::from)
                                                      : nullptr;
  }

  // Launch order, for each pair of ranks a < b: what a launches with b, b must launch in the same order.
  void launch_order() {
    struct Peer {
      std::uint32_t rank = none;     // a
      std::uint32_t current = none;  // operation of a
      std::uint32_t latest = 0;      // 1 + the latest partner of current and all before
      std::uint32_t before = 0;      // the same without current
      std::uint32_t latest_op = none, before_op = none;
    };
    std::vector<Peer> peers(model_.ranks.size());
    const auto visit = [&](std::uint32_t op, std::uint32_t other) {
      const std::uint32_t a = pairs_.rank_of[op], b = pairs_.rank_of[other];
      if (b <= a) return;
      Peer& peer = peers[b];
      if (peer.rank != a) peer = Peer{a, none, 0, 0, none, none};
      if (peer.current != op) peer.current = op, peer.before = peer.latest, peer.before_op = peer.latest_op;
      if (other + 1 < peer.before) {
        findings_.add(FindingKind::order, pairs_.rank_model(op).plan, pairs_.local(op), none,
                      "rank " + std::to_string(pairs_.rank_model(op).plan->rank) + " issues " +
                          pairs_.id(op) + " after " + pairs_.id(peer.before_op) + ", but rank " +
                          std::to_string(pairs_.rank_model(other).plan->rank) + " issues its side " +
                          pairs_.id(other) + " before " + pairs_.id(peer.before - 1));
      } else if (other + 1 > peer.latest) {
        peer.latest = other + 1, peer.latest_op = op;
      }
    };
    for (std::uint32_t op = 0; op < pairs_.rank_of.size(); ++op) {
      if (!is_launched(pairs_.operation(op))) continue;
      for (std::uint32_t p = pairs_.first_part[op]; p < pairs_.first_part[op + 1]; ++p)
        if (pairs_.partner[p] != none) visit(op, pairs_.op_of_part[pairs_.partner[p]]);
      if (pairs_.meeting[op] == none) continue;
      for (std::uint32_t other : pairs_.meetings[pairs_.meeting[op]].members)
        if (other != none) visit(op, other);
    }
  }

  const Model& model_;
  Findings& findings_;
  Interpreter& interpreter_;
  CheckResult& result_;
  Pairing pairs_;
  std::vector<std::uint32_t> next_;  // by part: the next of its channel without partner
  std::unordered_map<std::uint64_t, Channel> channels_;
  std::vector<std::vector<std::uint32_t>> meeting_count_;  // by group and member
  std::vector<std::vector<std::uint32_t>> meetings_of_;    // by group
};

}  // namespace

bool fits(const RankModel& a, const Box& x, const RankModel& b, const Box& y) {
  const auto cut = [](const RankModel& rank, const Box& box) {
    View columns;
    columns.width_begin = box.width_begin, columns.width_end = box.width_end;
    return plane_cut(rank.plan->buffers[box.buffer], columns);
  };
  return cut(a, x) == cut(b, y) && x.rows == y.rows && x.slots() == y.slots() && x.heads() == y.heads() &&
         x.width() == y.width() && a.plan->buffers[x.buffer].role == b.plan->buffers[y.buffer].role &&
         nest_alike(a.plan->buffers[x.buffer], b.plan->buffers[y.buffer], x.rows, x.heads());
}

bool check_matching(Model& model, Findings& findings, Interpreter& interpreter, CheckResult& result) {
  return Matching(model, findings, interpreter, result).run();
}

}  // namespace cplab::checking

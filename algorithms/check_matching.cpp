// Sends and receives: pairs their parts, lets the plan happen with zero buffering, prints the cycle of ranks
// if it cannot, and compares the order in which pairs of ranks launch what involves both.
//
// Parts of one ordered pair of ranks in one group match in the order of issue. An operation completes when
// the partners of all its parts have started: nothing is buffered.
#include <algorithm>
#include <deque>
#include <map>
#include <string>

#include "algorithms/check_model.hpp"

namespace cplab::checking {
namespace {

class Matching {
 public:
  Matching(Model& model, Findings& findings, Interpreter& interpreter, CheckResult& result)
      : model_(model), findings_(findings), interpreter_(interpreter), result_(result) {}

  bool run() {
    number();
    for (std::uint32_t r = 0; r < model_.ranks.size(); ++r) pair_parts(r);
    leftovers();
    launch_order();
    walk();
    if (done_ < rank_of_.size()) blocked();
    return done_ == rank_of_.size() && !lost_;
  }

 private:
  // Operations of all ranks are numbered one after the other, and so are their parts.
  std::uint32_t flat(std::uint32_t rank, std::uint32_t operation) const {
    return model_.first_operation[rank] + operation;
  }
  std::uint32_t local(std::uint32_t op) const { return op - model_.first_operation[rank_of_[op]]; }
  const RankModel& rank_model(std::uint32_t op) const { return model_.ranks[rank_of_[op]]; }
  const Operation& operation(std::uint32_t op) const { return rank_model(op).op(local(op)); }
  const Part& part(std::uint32_t p) const {
    const std::uint32_t op = op_of_part_[p];
    return rank_model(op).parts(local(op))[p - first_part_[op]];
  }
  std::string id(std::uint32_t op) const { return operation_id(*rank_model(op).plan, operation(op)); }

  struct Channel {  // parts of one direction that have no partner yet, linked in order
    std::uint32_t first = none, last = none;
    bool sends = false;
  };
  struct Meeting {  // an all_reduce or barrier of a group
    std::vector<std::uint32_t> members;
    std::uint32_t posted = 0;
    std::uint32_t start_round = 0;
  };

  static bool meets(const Operation& op) {
    return op.kind == OpKind::all_reduce || op.kind == OpKind::barrier;
  }
  static bool communicates(const Operation& op) {
    return op.kind >= OpKind::exchange && op.kind <= OpKind::barrier;
  }

  void number() {
    first_part_.reserve(model_.first_operation.back() + 1);
    for (std::uint32_t r = 0; r < model_.ranks.size(); ++r) {
      const RankModel& rank = model_.ranks[r];
      for (std::uint32_t i = 0; i < rank.plan->operations.size(); ++i) {
        rank_of_.push_back(r);
        first_part_.push_back(static_cast<std::uint32_t>(op_of_part_.size()));
        op_of_part_.insert(op_of_part_.end(), rank.parts(i).size(), flat(r, i));
      }
    }
    first_part_.push_back(static_cast<std::uint32_t>(op_of_part_.size()));
    partner_.assign(op_of_part_.size(), none);
    next_.assign(op_of_part_.size(), none);
    skip_.assign(op_of_part_.size(), 0);
    meeting_.assign(rank_of_.size(), none);
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
      const std::uint32_t at = flat(r, i);
      if (!communicates(op) || op.group >= model_.group_position.size()) {
        std::fill(skip_.begin() + first_part_[at], skip_.begin() + first_part_[at + 1], 1);
        continue;
      }
      const auto& position = model_.group_position[op.group];
      if (meets(op) && position[r] >= 0) join_meeting(at, op.group, static_cast<std::uint32_t>(position[r]));
      const auto parts = rank.parts(i);
      for (std::uint32_t k = 0; k < parts.size(); ++k) {
        const std::uint32_t p = first_part_[at] + k;
        const int peer = parts[k].peer;
        if (parts[k].view >= rank.boxes.size() || !rank.boxes[parts[k].view].valid || peer < 0 ||
            static_cast<std::size_t>(peer) >= position.size() ||
            position[static_cast<std::size_t>(peer)] < 0) {
          skip_[p] = 1;  // reported as malformed
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

  void pair_part(std::uint32_t p, std::uint32_t group, std::uint32_t rank, std::uint32_t peer, bool send) {
    const std::uint64_t key = send ? channel_key(group, rank, peer) : channel_key(group, peer, rank);
    Channel& channel = channels_[key];
    if (channel.first != none && channel.sends != send) {
      const std::uint32_t other = channel.first;
      channel.first = next_[other];
      partner_[p] = other;
      partner_[other] = p;
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
      list.push_back(static_cast<std::uint32_t>(meetings_.size()));
      meetings_.emplace_back().members.assign(counts.size(), none);
    }
    meetings_[list[k]].members[position] = op;
    meeting_[op] = list[k];
  }

  // Parts without a partner. If the two sides of a channel count differently, the first pair whose steps
  // differ tells better where the plan is wrong than the last part does.
  void leftovers() {
    std::map<std::uint64_t, Channel> sorted;
    for (const auto& [key, channel] : channels_)
      if (channel.first != none) sorted.emplace(key, channel);
    for (const auto& [key, channel] : sorted) {
      lost_ = true;
      std::uint32_t wrong = channel.first;
      const auto other = [&](std::uint32_t p) { return partner_[p]; };
      const std::uint32_t rank = rank_of_[op_of_part_[wrong]];
      for (std::uint32_t op = model_.first_operation[rank]; op < op_of_part_[channel.first]; ++op) {
        bool found = false;
        for (std::uint32_t p = first_part_[op]; p < first_part_[op + 1] && !found; ++p) {
          if (skip_[p] || other(p) == none || part(p).send != channel.sends) continue;
          const Part& mine = part(p);
          const auto peer = static_cast<std::uint32_t>(mine.peer);
          if ((mine.send ? channel_key(operation(op).group, rank, peer)
                         : channel_key(operation(op).group, peer, rank)) != key)
            continue;
          const Operation &a = operation(op), &b = operation(op_of_part_[other(p)]);
          found = a.step != b.step || a.phase != b.phase;
          if (found) wrong = p;
        }
        if (found) break;
      }
      const Part& mine = part(wrong);
      const std::uint32_t op = op_of_part_[wrong];
      findings_.add(FindingKind::unmatched, rank_model(op).plan, local(op), buffer_of(wrong),
                    describe_operation(rank_model(op), local(op)) +
                        (mine.send ? " sends to rank " : " receives from rank ") + std::to_string(mine.peer) +
                        ", which has no matching " + (mine.send ? "receive" : "send"));
    }
    for (std::size_t g = 0; g < meetings_of_.size(); ++g)
      for (std::uint32_t m : meetings_of_[g]) test_meeting(g, m);
  }

  std::uint32_t buffer_of(std::uint32_t p) const {
    return rank_model(op_of_part_[p]).boxes[part(p).view].buffer;
  }

  void test_meeting(std::size_t group, std::uint32_t m) {
    const std::vector<std::uint32_t>& members = meetings_[m].members;
    const auto first =
        std::find_if(members.begin(), members.end(), [](std::uint32_t op) { return op != none; });
    const Operation& a = operation(*first);
    const auto say = [&](const std::string& what) {
      findings_.add(FindingKind::unmatched, rank_model(*first).plan, local(*first), none,
                    describe_operation(rank_model(*first), local(*first)) + what);
    };
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (members[i] == none) {
        lost_ = true;
        return say(" waits for rank " + std::to_string(model_.plan->groups[group].ranks[i]) +
                   ", which never joins it");
      }
      const Operation& b = operation(members[i]);
      if (a.kind != b.kind || (a.kind == OpKind::all_reduce && a.reduction != b.reduction))
        return say(" meets " + id(members[i]) + ", which is another kind of operation");
      if (a.kind != OpKind::all_reduce) continue;
      const Box *x = operand(*first), *y = operand(members[i]);
      if (x && y && !fits(rank_model(*first), *x, rank_model(members[i]), *y))
        return say(" meets " + id(members[i]) + ", whose operands have another size or dtype");
    }
  }

  const Box* operand(std::uint32_t op) const {
    const RankModel& rank = rank_model(op);
    return rank.forms[local(op)] == Form::good ? &rank.boxes[rank.reads(local(op))[0].view] : nullptr;
  }

  static bool fits(const RankModel& a, const Box& x, const RankModel& b, const Box& y) {
    return x.rows == y.rows && x.slots() == y.slots() && x.heads() == y.heads() && x.width() == y.width() &&
           a.plan->buffers[x.buffer].role == b.plan->buffers[y.buffer].role;
  }

  // Launch order, by pairs of ranks: the partners on b of what a issues may not go back.
  void launch_order() {
    struct Peer {
      std::uint32_t rank = none;     // for which a this is
      std::uint32_t current = none;  // operation of a
      std::uint32_t latest = 0;      // 1 + last partner of it and all before
      std::uint32_t before = 0;      // the same without it
      std::uint32_t latest_op = none, before_op = none;
    };
    std::vector<Peer> peers(model_.ranks.size());
    const auto visit = [&](std::uint32_t op, std::uint32_t other) {
      const std::uint32_t a = rank_of_[op], b = rank_of_[other];
      if (b <= a) return;
      Peer& peer = peers[b];
      if (peer.rank != a) peer = Peer{a, none, 0, 0, none, none};
      if (peer.current != op) peer.current = op, peer.before = peer.latest, peer.before_op = peer.latest_op;
      if (other + 1 < peer.before) {
        findings_.add(FindingKind::order, rank_model(op).plan, local(op), none,
                      "rank " + std::to_string(rank_model(op).plan->rank) + " issues " + id(op) + " after " +
                          id(peer.before_op) + ", but rank " + std::to_string(rank_model(other).plan->rank) +
                          " issues its side " + id(other) + " before " + id(peer.before - 1));
      } else if (other + 1 > peer.latest) {
        peer.latest = other + 1, peer.latest_op = op;
      }
    };
    for (std::uint32_t op = 0; op < rank_of_.size(); ++op) {
      for (std::uint32_t p = first_part_[op]; p < first_part_[op + 1]; ++p)
        if (partner_[p] != none) visit(op, op_of_part_[partner_[p]]);
      if (meeting_[op] == none) continue;
      for (std::uint32_t other : meetings_[meeting_[op]].members)
        if (other != none) visit(op, other);
    }
  }

  // ---- the walk: every rank runs what it can, in program order ------------------------------------

  struct LaneState {
    std::uint32_t done = 0;  // operations complete
    std::uint32_t round = 0;
    bool posted = false;  // its head is a communication that has started
  };

  void walk() {
    const std::size_t count = rank_of_.size();
    started_.assign(count, 0);
    start_round_.assign(count, 0);
    round_.assign(count, 0);
    pending_.assign(count, 0);
    lanes_.resize(model_.ranks.size());
    host_.assign(model_.ranks.size(), none);
    queued_.assign(model_.ranks.size(), 1);
    for (std::uint32_t r = 0; r < model_.ranks.size(); ++r) {
      lanes_[r].resize(model_.ranks[r].lanes.size());
      host_[r] = next_host_sync(r, 0);
      queue_.push_back(r);
    }
    while (!queue_.empty()) {
      const std::uint32_t r = queue_.front();
      queue_.pop_front();
      queued_[r] = 0;
      for (std::uint32_t i = next_ready(r); i != none; i = next_ready(r)) start(r, i);
    }
  }

  std::uint32_t next_host_sync(std::uint32_t r, std::uint32_t from) const {
    const auto& list = model_.ranks[r].plan->operations;
    while (from < list.size() && list[from].kind != OpKind::host_sync) ++from;
    return from < list.size() ? from : none;
  }

  bool complete(std::uint32_t r, std::uint32_t i) const {
    const RankModel& rank = model_.ranks[r];
    return lanes_[r][rank.lane_of[i]].done > rank.place[i];
  }

  bool is_ready(std::uint32_t r, std::uint32_t i) const {
    bool ready = i <= host_[r];
    model_.ranks[r].for_each_edge(i, [&](std::uint32_t e) { ready = ready && complete(r, e); });
    return ready;
  }

  // The earliest in program order: what races does so as the program reads.
  std::uint32_t next_ready(std::uint32_t r) const {
    const RankModel& rank = model_.ranks[r];
    std::uint32_t best = none;
    for (std::size_t l = 0; l < rank.lanes.size(); ++l) {
      const LaneState& lane = lanes_[r][l];
      if (lane.posted || lane.done == rank.lanes[l].size()) continue;
      const std::uint32_t i = rank.lanes[l][lane.done];
      if (i < best && is_ready(r, i)) best = i;
    }
    return best;
  }

  void start(std::uint32_t r, std::uint32_t i) {
    const RankModel& rank = model_.ranks[r];
    const std::uint32_t op = flat(r, i);
    LaneState& lane = lanes_[r][rank.lane_of[i]];
    std::uint32_t round = std::max(lane.round, host_round(r));
    rank.for_each_edge(i, [&](std::uint32_t e) { round = std::max(round, round_[flat(r, e)]); });
    start_round_[op] = round;
    round_[op] = round + (communicates(rank.op(i)) ? 1 : 0);
    started_[op] = 1;
    if (!communicates(rank.op(i))) {
      interpreter_.run(r, i);
      return finish(op);
    }
    lane.posted = true;
    if (meeting_[op] != none) return meet(op);
    std::uint32_t& pending = pending_[op];
    for (std::uint32_t p = first_part_[op]; p < first_part_[op + 1]; ++p) pending += !skip_[p];
    if (pending == 0) return finish(op);
    for (std::uint32_t p = first_part_[op]; p < first_part_[op + 1]; ++p) {
      const std::uint32_t other = partner_[p];
      if (other == none || !started_[op_of_part_[other]]) continue;
      const std::uint32_t peer = op_of_part_[other];
      if (peer == op && !part(p).send) continue;  // to itself: moved with the send
      part(p).send ? move(p, other) : move(other, p);
      round_[op] = std::max(round_[op], start_round_[peer] + 1);
      round_[peer] = std::max(round_[peer], round + 1);
      --pending_[op];
      if (--pending_[peer] == 0 && peer != op) finish(peer);
    }
    if (pending == 0) finish(op);
  }

  std::uint32_t host_round(std::uint32_t r) const { return host_rounds_.empty() ? 0 : host_rounds_[r]; }

  void move(std::uint32_t send, std::uint32_t receive) {
    const std::uint32_t a = op_of_part_[send], b = op_of_part_[receive];
    const RankModel &from = rank_model(a), &into = rank_model(b);
    const Part &x = part(send), &y = part(receive);
    const Box &source = from.boxes[x.view], &target = into.boxes[y.view];
    const bool same = fits(from, source, into, target);
    const bool kinds = operation(a).kind == operation(b).kind;
    if (!same || !kinds) mismatch(a, b, source, target, kinds);
    bool first = true;  // what was received into this view before?
    if (operation(b).kind == OpKind::reduce_scatter) {
      auto& views = received_[b];
      first = std::find(views.begin(), views.end(), y.view) == views.end();
      if (first) views.push_back(y.view);
    }
    interpreter_.transfer(rank_of_[a], local(a), x, rank_of_[b], local(b), y, same && kinds, first);
  }

  void mismatch(std::uint32_t a, std::uint32_t b, const Box& source, const Box& target, bool kinds) {
    const auto shape = [](const Box& box) {
      return std::to_string(box.slots()) + " x " + std::to_string(box.rows) + " x " +
             std::to_string(box.heads()) + " x " + std::to_string(box.width());
    };
    const Role sent = rank_model(a).plan->buffers[source.buffer].role,
               got = rank_model(b).plan->buffers[target.buffer].role;
    std::string text = describe_operation(rank_model(b), local(b)) + " receives ";
    if (!kinds) {
      text += "what " + describe_operation(rank_model(a), local(a)) +
              " sends, which is another kind of operation";
    } else {
      text += shape(target) + " " + std::string(name(got)) + " (slots x rows x heads x width) but " + id(a) +
              " sends " + shape(source) + " " + std::string(name(sent));
    }
    findings_.add(FindingKind::unmatched, rank_model(b).plan, local(b), target.buffer, std::move(text));
  }

  void meet(std::uint32_t op) {
    Meeting& meeting = meetings_[meeting_[op]];
    meeting.start_round = std::max(meeting.start_round, start_round_[op]);
    if (++meeting.posted < meeting.members.size()) return;
    if (operation(op).kind == OpKind::all_reduce) {
      std::vector<std::pair<std::uint32_t, std::uint32_t>> members;
      for (std::uint32_t other : meeting.members) members.emplace_back(rank_of_[other], local(other));
      interpreter_.all_reduce(members);
    }
    for (std::uint32_t other : meeting.members) {
      round_[other] = meeting.start_round + 1;
      finish(other);
    }
  }

  void finish(std::uint32_t op) {
    const std::uint32_t r = rank_of_[op], i = local(op);
    LaneState& lane = lanes_[r][model_.ranks[r].lane_of[i]];
    ++lane.done;
    lane.posted = false;
    lane.round = round_[op];
    ++done_;
    result_.rounds = std::max<std::int64_t>(result_.rounds, round_[op]);
    if (i == host_[r]) {
      if (host_rounds_.empty()) host_rounds_.assign(model_.ranks.size(), 0);
      host_rounds_[r] = std::max(host_rounds_[r], round_[op]);
      host_[r] = next_host_sync(r, i + 1);
    }
    if (!queued_[r]) {
      queued_[r] = 1;
      queue_.push_back(r);
    }
  }

  // ---- what never completes -----------------------------------------------------------------------

  // The started communication that operation i of rank r waits behind, or none.
  std::uint32_t blocker(std::uint32_t r, std::uint32_t i) const {
    const RankModel& rank = model_.ranks[r];
    for (std::size_t hops = 0; hops <= rank.plan->operations.size(); ++hops) {
      const std::uint16_t l = rank.lane_of[i];
      const std::uint32_t head = rank.lanes[l][lanes_[r][l].done];
      if (lanes_[r][l].posted) return flat(r, head);
      std::uint32_t cause = none;
      if (head > host_[r]) cause = host_[r];
      rank.for_each_edge(head, [&](std::uint32_t e) {
        if (cause == none && !complete(r, e)) cause = e;
      });
      if (cause == none) return none;
      i = cause;
    }
    return none;
  }

  // The operation of a peer that a started one waits for and that has not started; none: a part without
  // partner holds it, or what it waits for has only unmatched causes.
  std::uint32_t awaited(std::uint32_t op) const {
    for (std::uint32_t p = first_part_[op]; p < first_part_[op + 1]; ++p)
      if (!skip_[p] && partner_[p] != none && !started_[op_of_part_[partner_[p]]])
        return op_of_part_[partner_[p]];
    if (meeting_[op] == none) return none;
    for (std::uint32_t other : meetings_[meeting_[op]].members)
      if (other != none && !started_[other]) return other;
    return none;
  }

  void blocked() {
    std::vector<std::uint32_t> mark(rank_of_.size(), none);  // by operation: the search that came here
    bool cycle_found = false;
    for (std::uint32_t r = 0; r < model_.ranks.size(); ++r) {
      for (const LaneState& lane : lanes_[r]) {
        if (!lane.posted) continue;
        const auto l = static_cast<std::size_t>(&lane - lanes_[r].data());
        const std::uint32_t from = flat(r, model_.ranks[r].lanes[l][lane.done]);
        std::vector<std::uint32_t> path;
        std::uint32_t op = from;
        while (op != none && mark[op] == none) {
          mark[op] = from;
          path.push_back(op);
          const std::uint32_t wanted = awaited(op);
          op = wanted == none ? none : blocker(rank_of_[wanted], local(wanted));
        }
        if (op != none && mark[op] == from) {
          path.erase(path.begin(), std::find(path.begin(), path.end(), op));
          report_cycle(path);
          cycle_found = true;
        }
      }
    }
    if (cycle_found || lost_) return;
    for (std::uint32_t op = 0; op < rank_of_.size(); ++op) {
      if (complete(rank_of_[op], local(op))) continue;
      return findings_.add(FindingKind::deadlock, rank_model(op).plan, local(op), none,
                           describe_operation(rank_model(op), local(op)) + " can never run");
    }
  }

  void report_cycle(std::vector<std::uint32_t> path) {
    std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
    std::string ranks, waits;
    for (std::uint32_t op : path) {
      ranks += std::to_string(rank_model(op).plan->rank) + " -> ";
      waits += (waits.empty() ? "" : ", ") + std::string("rank ") +
               std::to_string(rank_model(op).plan->rank) + " waits in " +
               describe_operation(rank_model(op), local(op));
    }
    ranks += std::to_string(rank_model(path.front()).plan->rank);
    findings_.add(FindingKind::deadlock, rank_model(path.front()).plan, local(path.front()), none,
                  "ranks wait for each other: " + ranks + " (" + waits + ")");
  }

  Model& model_;
  Findings& findings_;
  Interpreter& interpreter_;
  CheckResult& result_;

  std::vector<std::uint32_t> rank_of_;     // by operation
  std::vector<std::uint32_t> first_part_;  // by operation
  std::vector<std::uint32_t> op_of_part_;
  std::vector<std::uint32_t> partner_;  // by part
  std::vector<std::uint32_t> next_;     // by part: the next of its channel without partner
  std::vector<std::uint8_t> skip_;      // by part: malformed
  std::unordered_map<std::uint64_t, Channel> channels_;
  std::vector<std::uint32_t> meeting_;  // by operation
  std::vector<Meeting> meetings_;
  std::vector<std::vector<std::uint32_t>> meeting_count_;  // by group and member
  std::vector<std::vector<std::uint32_t>> meetings_of_;    // by group
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> received_;
  bool lost_ = false;  // something has no partner

  std::vector<std::uint8_t> started_;
  std::vector<std::uint32_t> start_round_, round_, pending_;
  std::vector<std::vector<LaneState>> lanes_;
  std::vector<std::uint32_t> host_;  // by rank: the earliest host_sync that is not complete
  std::vector<std::uint32_t> host_rounds_;
  std::deque<std::uint32_t> queue_;
  std::vector<std::uint8_t> queued_;
  std::size_t done_ = 0;
};

}  // namespace

bool check_matching(Model& model, Findings& findings, Interpreter& interpreter, CheckResult& result) {
  return Matching(model, findings, interpreter, result).run();
}

}  // namespace cplab::checking

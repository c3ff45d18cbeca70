// Runs the plan symbolically: each rank starts whatever is ready, the earliest in program order first. A
// communication completes only when the other ends of all its parts have started: nothing is buffered. What
// can never complete is reported with the cycle of ranks that wait for each other.
#include <algorithm>
#include <deque>
#include <string>

#include "check/matching.hpp"
#include "plan/layout.hpp"

namespace cplab::checking {
namespace {

class Progress {
 public:
  // Without an interpreter (check_launches) a rank's communication runs one operation at a time, in issue
  // order.
  Progress(Pairing& pairs, Findings& findings, Interpreter* interpreter, CheckResult& result)
      : model_(*pairs.model),
        pairs_(pairs),
        findings_(findings),
        interpreter_(interpreter),
        result_(result) {}

  bool run() {
    walk();
    if (done_ < pairs_.rank_of.size()) blocked();
    return done_ == pairs_.rank_of.size() && !pairs_.lost;
  }

 private:
  struct LaneState {
    std::uint32_t done = 0;  // operations complete
    std::uint32_t round = 0;
    bool posted = false;  // its next operation is a communication that has started
  };

  void walk() {
    const std::size_t count = pairs_.rank_of.size();
    started_.assign(count, 0);
    start_round_.assign(count, 0);
    round_.assign(count, 0);
    pending_.assign(count, 0);
    lanes_.resize(model_.ranks.size());
    host_.assign(model_.ranks.size(), none);
    launch_.assign(model_.ranks.size(), none);
    for (Pairing::Meeting& meeting : pairs_.meetings) meeting.posted = meeting.start_round = 0;
    queued_.assign(model_.ranks.size(), 1);
    for (std::uint32_t r = 0; r < model_.ranks.size(); ++r) {
      lanes_[r].resize(model_.ranks[r].lanes.size());
      host_[r] = next_host_sync(r, 0);
      launch_[r] = next_launch(r, 0);
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

  std::uint32_t next_launch(std::uint32_t r, std::uint32_t from) const {
    const auto& list = model_.ranks[r].plan->operations;
    while (from < list.size() && !is_launched(list[from])) ++from;
    return from < list.size() ? from : none;
  }

  // In check_launches: i is launched on a communicator, and an earlier launch of its rank is not complete.
  bool waits_for_launch(std::uint32_t r, std::uint32_t i) const {
    return !interpreter_ && is_launched(model_.ranks[r].op(i)) && i != launch_[r];
  }

  bool complete(std::uint32_t r, std::uint32_t i) const {
    const RankModel& rank = model_.ranks[r];
    return lanes_[r][rank.lane_of[i]].done > rank.place[i];
  }

  bool is_ready(std::uint32_t r, std::uint32_t i) const {
    bool ready = i <= host_[r] && !waits_for_launch(r, i);
    model_.ranks[r].for_each_edge(i, [&](std::uint32_t e) { ready = ready && complete(r, e); });
    // Stricter than the plan says: waits until that communication is complete. In a right plan it completes
    // without the operation that waits for its start; where it cannot, the plan is reported as a deadlock.
    model_.ranks[r].for_each_start_edge(i, [&](std::uint32_t e) { ready = ready && complete(r, e); });
    return ready;
  }

  // The earliest in program order. (Races are found elsewhere; here, operations that race run as written.)
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
    const std::uint32_t op = pairs_.flat(r, i);
    LaneState& lane = lanes_[r][rank.lane_of[i]];
    std::uint32_t round = std::max(lane.round, host_round(r));
    rank.for_each_edge(i, [&](std::uint32_t e) { round = std::max(round, round_[pairs_.flat(r, e)]); });
    rank.for_each_start_edge(
        i, [&](std::uint32_t e) { round = std::max(round, start_round_[pairs_.flat(r, e)]); });
    start_round_[op] = round;
    round_[op] = round + (communicates(rank.op(i)) ? 1 : 0);
    started_[op] = 1;
    if (!communicates(rank.op(i))) {
      if (interpreter_) interpreter_->run(r, i);
      return finish(op);
    }
    lane.posted = true;
    std::uint32_t& pending = pending_[op];
    for (std::uint32_t p = pairs_.first_part[op]; p < pairs_.first_part[op + 1]; ++p)
      pending += !pairs_.skip[p];
    pending += pairs_.meeting[op] != none;  // a collective also waits until all members have started
    if (pending == 0) return finish(op);
    keep_in_place(r, i);
    for (std::uint32_t p = pairs_.first_part[op]; p < pairs_.first_part[op + 1]; ++p) {
      const std::uint32_t other = pairs_.partner[p];
      if (other == none || !started_[pairs_.op_of_part[other]]) continue;
      const std::uint32_t peer = pairs_.op_of_part[other];
      if (peer == op && !pairs_.part(p).send) continue;  // to itself: moved with its send part
      pairs_.part(p).send ? move(p, other) : move(other, p);
      round_[op] = std::max(round_[op], start_round_[peer] + 1);
      round_[peer] = std::max(round_[peer], round + 1);
      --pending_[op];
      if (--pending_[peer] == 0 && peer != op) finish(peer);
    }
    if (pairs_.meeting[op] != none) return meet(op);
    if (pending == 0) finish(op);
  }

  // A rank's own part whose source and target are one view is not moved. In a reduce_scatter it counts as
  // received, so that the other ranks' parts are added to it.
  void keep_in_place(std::uint32_t r, std::uint32_t i) {
    const std::uint32_t op = pairs_.flat(r, i);
    const auto parts = model_.ranks[r].parts(i);
    if (parts.empty()) return;
    const std::vector<std::uint8_t> in_place = parts_in_place(*model_.ranks[r].plan, model_.ranks[r].op(i));
    for (std::size_t p = 0; p < parts.size(); ++p)
      if (in_place[p] && !parts[p].send) received_[op].push_back(parts[p].view);
  }

  std::uint32_t host_round(std::uint32_t r) const { return host_rounds_.empty() ? 0 : host_rounds_[r]; }

  void move(std::uint32_t send, std::uint32_t receive) {
    if (!interpreter_) return;
    const std::uint32_t a = pairs_.op_of_part[send], b = pairs_.op_of_part[receive];
    const RankModel &from = pairs_.rank_model(a), &into = pairs_.rank_model(b);
    const Part &x = pairs_.part(send), &y = pairs_.part(receive);
    const Box &source = from.boxes[x.view], &target = into.boxes[y.view];
    const bool same = fits(from, source, into, target);
    const bool kinds = pairs_.operation(a).kind == pairs_.operation(b).kind &&
                       pairs_.operation(a).transport == pairs_.operation(b).transport &&
                       pairs_.operation(a).channels == pairs_.operation(b).channels;
    if (!same || !kinds) mismatch(a, b, source, target, kinds);
    const auto alike = [&](std::uint32_t one, std::uint32_t other) {
      return one == other || same_elements(*into.plan, into.plan->views[one], into.plan->views[other]);
    };
    if (a == b && is_collective(pairs_.operation(b)) && alike(x.view, y.view)) return;  // stays in place
    bool first = true;  // nothing was received into this view before
    if (pairs_.operation(b).kind == OpKind::reduce_scatter) {
      auto& views = received_[b];
      first = std::ranges::none_of(views, [&](std::uint32_t view) { return alike(view, y.view); });
      if (first) views.push_back(y.view);
    }
    interpreter_->transfer(pairs_.rank_of[a], pairs_.local(a), x, pairs_.rank_of[b], pairs_.local(b), y,
                           same && kinds, first);
  }

  static std::string role_name(Role role) {
    return role == Role::nominal ? "nominal" : role == Role::wide ? "wide" : "integer";
  }

  void mismatch(std::uint32_t a, std::uint32_t b, const Box& source, const Box& target, bool kinds) {
    const auto shape = [](const Box& box) {
      return std::to_string(box.slots()) + " x " + std::to_string(box.rows) + " x " +
             std::to_string(box.heads()) + " x " + std::to_string(box.width());
    };
    const Role sent = pairs_.rank_model(a).plan->buffers[source.buffer].role,
               got = pairs_.rank_model(b).plan->buffers[target.buffer].role;
    std::string text = pairs_.describe(b) + " receives ";
    if (!kinds) {
      text +=
          "what " + pairs_.describe(a) +
          " sends, which is another kind of operation, goes over another transport or with other channels";
    } else if (shape(source) == shape(target) && sent == got &&
               !nest_alike(pairs_.rank_model(a).plan->buffers[source.buffer],
                           pairs_.rank_model(b).plan->buffers[target.buffer], source.rows, source.heads())) {
      text += "into a buffer that nests rows and heads otherwise than the one that " + pairs_.id(a) +
              " sends from";
    } else if (shape(source) == shape(target) && sent == got) {
      text += "a box whose planes part at another column than in what " + pairs_.id(a) + " sends";
    } else {
      text += shape(target) + " " + role_name(got) + " (slots x rows x heads x width) but " + pairs_.id(a) +
              " sends " + shape(source) + " " + role_name(sent);
    }
    findings_.add(FindingKind::unmatched, pairs_.rank_model(b).plan, pairs_.local(b), target.buffer,
                  std::move(text));
  }

  void meet(std::uint32_t op) {
    Pairing::Meeting& meeting = pairs_.meetings[pairs_.meeting[op]];
    meeting.start_round = std::max(meeting.start_round, start_round_[op]);
    if (++meeting.posted < meeting.members.size()) return;
    if (pairs_.operation(op).kind == OpKind::all_reduce && interpreter_) {
      std::vector<std::pair<std::uint32_t, std::uint32_t>> members;
      for (std::uint32_t other : meeting.members)
        members.emplace_back(pairs_.rank_of[other], pairs_.local(other));
      interpreter_->all_reduce(members);
    }
    for (std::uint32_t other : meeting.members) {
      round_[other] = std::max(round_[other], meeting.start_round + 1);
      if (--pending_[other] == 0) finish(other);
    }
  }

  void finish(std::uint32_t op) {
    const std::uint32_t r = pairs_.rank_of[op], i = pairs_.local(op);
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
    if (i == launch_[r]) launch_[r] = next_launch(r, i + 1);
    if (!queued_[r]) {
      queued_[r] = 1;
      queue_.push_back(r);
    }
  }

  // ---- what never completes -----------------------------------------------------------------------

  // The communication that has started, is not complete, and keeps operation i of rank r from starting; or
  // none.
  std::uint32_t blocker(std::uint32_t r, std::uint32_t i) const {
    const RankModel& rank = model_.ranks[r];
    for (std::size_t hops = 0; hops <= rank.plan->operations.size(); ++hops) {
      const std::uint16_t l = rank.lane_of[i];
      const std::uint32_t head = rank.lanes[l][lanes_[r][l].done];
      if (lanes_[r][l].posted) return pairs_.flat(r, head);
      std::uint32_t cause = none;
      if (head > host_[r]) cause = host_[r];
      if (cause == none && waits_for_launch(r, head)) cause = launch_[r];
      rank.for_each_edge(head, [&](std::uint32_t e) {
        if (cause == none && !complete(r, e)) cause = e;
      });
      rank.for_each_start_edge(head, [&](std::uint32_t e) {
        if (cause == none && !complete(r, e)) cause = e;
      });
      if (cause == none) return none;
      i = cause;
    }
    return none;
  }

  // A peer's operation that `op`, which has started, waits for and that has not started itself. none: `op`
  // waits for a part or a member that has no partner.
  std::uint32_t awaited(std::uint32_t op) const {
    for (std::uint32_t p = pairs_.first_part[op]; p < pairs_.first_part[op + 1]; ++p)
      if (!pairs_.skip[p] && pairs_.partner[p] != none && !started_[pairs_.op_of_part[pairs_.partner[p]]])
        return pairs_.op_of_part[pairs_.partner[p]];
    if (pairs_.meeting[op] == none) return none;
    for (std::uint32_t other : pairs_.meetings[pairs_.meeting[op]].members)
      if (other != none && !started_[other]) return other;
    return none;
  }

  void blocked() {
    std::vector<std::uint32_t> mark(pairs_.rank_of.size(), none);  // by operation: the search that reached it
    bool cycle_found = false;
    for (std::uint32_t r = 0; r < model_.ranks.size(); ++r) {
      for (const LaneState& lane : lanes_[r]) {
        if (!lane.posted) continue;
        const auto l = static_cast<std::size_t>(&lane - lanes_[r].data());
        const std::uint32_t from = pairs_.flat(r, model_.ranks[r].lanes[l][lane.done]);
        std::vector<std::uint32_t> path;
        std::uint32_t op = from;
        while (op != none && mark[op] == none) {
          mark[op] = from;
          path.push_back(op);
          const std::uint32_t wanted = awaited(op);
          op = wanted == none ? none : blocker(pairs_.rank_of[wanted], pairs_.local(wanted));
        }
        if (op != none && mark[op] == from) {
          path.erase(path.begin(), std::find(path.begin(), path.end(), op));
          report_cycle(path);
          cycle_found = true;
        }
      }
    }
    if (cycle_found || pairs_.lost) return;
    for (std::uint32_t op = 0; op < pairs_.rank_of.size(); ++op) {
      if (complete(pairs_.rank_of[op], pairs_.local(op))) continue;
      return findings_.add(interpreter_ ? FindingKind::deadlock : FindingKind::order,
                           pairs_.rank_model(op).plan, pairs_.local(op), none,
                           pairs_.describe(op) + " can never run");
    }
  }

  void report_cycle(std::vector<std::uint32_t> path) {
    std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
    std::string ranks, waits;
    for (std::uint32_t op : path) {
      ranks += std::to_string(pairs_.rank_model(op).plan->rank) + " -> ";
      waits += (waits.empty() ? "" : ", ") + std::string("rank ") +
               std::to_string(pairs_.rank_model(op).plan->rank) + " waits in " + pairs_.describe(op);
    }
    ranks += std::to_string(pairs_.rank_model(path.front()).plan->rank);
    const char* what = interpreter_
                           ? "ranks wait for each other: "
                           : "no order of launches suits all ranks; one after the other, each in the "
                             "order of issue, they wait for each other: ";
    findings_.add(interpreter_ ? FindingKind::deadlock : FindingKind::order,
                  pairs_.rank_model(path.front()).plan, pairs_.local(path.front()), none,
                  what + ranks + " (" + waits + ")");
  }

  const Model& model_;
  Pairing& pairs_;
  Findings& findings_;
  Interpreter* interpreter_;
  CheckResult& result_;
  std::vector<std::uint8_t> started_;                         // by operation
  std::vector<std::uint32_t> start_round_, round_, pending_;  // by operation
  std::vector<std::vector<LaneState>> lanes_;                 // by rank
  std::vector<std::uint32_t> host_;         // by rank: the earliest host_sync that is not complete
  std::vector<std::uint32_t> launch_;       // by rank: the earliest communication that is not complete
  std::vector<std::uint32_t> host_rounds_;  // by rank, if there is any host_sync
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> received_;  // views, by collective
  std::deque<std::uint32_t> queue_;  // ranks that may have something to run
  std::vector<std::uint8_t> queued_;
  std::size_t done_ = 0;
};

}  // namespace

bool check_progress(Pairing& pairs, Findings& findings, Interpreter& interpreter, CheckResult& result) {
  return Progress(pairs, findings, &interpreter, result).run();
}

void check_launches(Pairing& pairs, Findings& findings) {
  CheckResult unused;
  Progress(pairs, findings, nullptr, unused).run();
}

}  // namespace cplab::checking

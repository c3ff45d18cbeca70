// Collectives as gathers and sums; see meetings.hpp.
#include "exec/meetings.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "exec/bind.hpp"

namespace cplab {

namespace {

using Messages = std::deque<PlanMessage>;
using Posted = std::vector<std::vector<PostedParts>>;

class MeetingWriter {
 public:
  MeetingWriter(const Plan& plan, const Messages& messages, const Posted& posted, Meeting& meeting)
      : plan_(plan), messages_(messages), posted_(posted), meeting_(meeting), size_(meeting.members.size()) {}

  // False if it can never complete.
  bool write() {
    require_one_kind();
    if (meeting_.kind == OpKind::barrier) return true;
    if (meeting_.kind == OpKind::all_reduce) return write_all_reduce();
    if (!sort_messages()) return false;
    if (meeting_.kind == OpKind::all_gather) {
      if (one_collective_) write_gathers();
      return true;
    }
    write_sums();
    return true;
  }

 private:
  const RankPlan& rank(std::size_t m) const { return plan_.ranks[meeting_.members[m].rank]; }
  const Operation& op(std::size_t m) const { return rank(m).operations[meeting_.members[m].operation]; }
  DType nominal() const { return plan_.scenario.problem.dtype; }

  [[noreturn]] void fail(std::size_t m, const std::string& what) const {
    const std::string id = operation_id(rank(m), op(m));
    throw BadPlan(FindingKind::unmatched, rank(m).rank, id, "", id + what);
  }

  void require_one_kind() const {
    for (std::size_t m = 0; m < size_; ++m) {
      const bool alike = op(m).kind == meeting_.kind && op(m).transport == meeting_.transport;
      if (!alike || (meeting_.kind == OpKind::all_reduce && op(m).reduction != meeting_.reduction))
        fail(m, " meets a different collective of its group");
    }
  }

  // Messages by sender and receiver, in the order of their parts. False if a part has no counterpart.
  bool sort_messages() {
    pairs_.resize(size_ * size_);
    const std::vector<int>& group = plan_.groups[meeting_.group].ranks;
    for (std::size_t m = 0; m < size_; ++m) {
      const OpRef own = meeting_.members[m];
      const PostedParts& parts = posted_[own.rank][own.operation];
      if (parts.sends.size() + parts.receives.size() != op(m).parts.count) return false;
      for (const std::uint32_t index : parts.receives) {
        const OpRef sender = messages_[index].match.sender;
        const auto place = static_cast<std::size_t>(
            std::find(group.begin(), group.end(), static_cast<int>(sender.rank)) - group.begin());
        if (!(meeting_.members[place] == sender)) one_collective_ = false;
        pairs_[place * size_ + m].push_back(index);
      }
      for (const std::uint32_t index : parts.sends) {
        const OpRef receiver = messages_[index].match.receiver;
        if (std::find(meeting_.members.begin(), meeting_.members.end(), receiver) == meeting_.members.end())
          one_collective_ = false;
      }
    }
    if (!one_collective_ && meeting_.kind == OpKind::reduce_scatter)
      fail(0, " has a part that meets another operation than the same collective");
    return true;
  }
  const std::vector<std::uint32_t>& pair(std::size_t from, std::size_t into) const {
    return pairs_[from * size_ + into];
  }
  Place source(const PlanMessage& message, std::size_t run) const {
    const RankPlan& from = plan_.ranks[message.match.sender.rank];
    return {from.views[from.parts[message.match.send_part].view].buffer, message.from[run].offset};
  }
  Place target(const PlanMessage& message, std::size_t run) const {
    const RankPlan& into = plan_.ranks[message.match.receiver.rank];
    return {into.views[into.parts[message.match.receive_part].view].buffer, message.into[run].offset};
  }

  // Every run of what a member sends must be the same for all receivers, of one size for all members, and lie
  // at a receiver behind that of the member before.
  void write_gathers() {
    std::vector<Gather> gathers;
    const std::size_t count = pair(0, 0).size();
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t runs = messages_[pair(0, 0)[k]].from.size();
      for (std::size_t j = 0; j < runs; ++j) {
        Gather& gather = gathers.emplace_back();
        gather.bytes = messages_[pair(0, 0)[k]].from[j].bytes;
        gather.from.resize(size_);
        gather.into.resize(size_);
      }
      for (std::size_t s = 0; s < size_; ++s) {
        for (std::size_t r = 0; r < size_; ++r) {
          if (pair(s, r).size() != count) return;
          const PlanMessage& message = messages_[pair(s, r)[k]];
          if (message.from.size() != runs) return;
          for (std::size_t j = 0; j < runs; ++j) {
            Gather& gather = gathers[gathers.size() - runs + j];
            const Place from = source(message, j);
            Place into = target(message, j);
            into.byte -= static_cast<std::int64_t>(s) * gather.bytes;
            if (r == 0) gather.from[s] = from;
            if (s == 0) gather.into[r] = into;
            if (message.from[j].bytes != gather.bytes || !(gather.from[s] == from) ||
                !(gather.into[r] == into))
              return;
          }
        }
      }
    }
    meeting_.gathers = std::move(gathers);
  }

  // Appends the sums of one root: what all members send to it, with its own view, cut alike.
  void sum_at(std::size_t root, std::size_t k, std::vector<Sum>& sums) const {
    std::vector<std::vector<Piece>> lists;
    Sum sum;
    sum.root = static_cast<int>(root);
    for (std::size_t s = 0; s < size_; ++s) {
      const PlanMessage& message = messages_[pair(s, root).at(k)];
      const RankPlan& from = rank(s);
      const View& view = from.views[from.parts[message.match.send_part].view];
      lists.push_back(contiguous_pieces(from, view, nominal()));
      sum.from.push_back({view.buffer, 0});
    }
    const RankPlan& into = rank(root);
    const View& view = into.views[into.parts[messages_[pair(0, root)[k]].match.receive_part].view];
    lists.push_back(contiguous_pieces(into, view, nominal()));
    sum.into.push_back({view.buffer, 0});
    sum.dtype = kernel_dtype(into.buffers[view.buffer].role, nominal());
    append_cut(lists, sum, sums);
  }

  // One sum for every piece of the lists, which are those of `whole`.from, then those of `whole`.into.
  static void append_cut(std::vector<std::vector<Piece>>& lists, const Sum& whole, std::vector<Sum>& sums) {
    cut_alike(lists);
    for (std::size_t j = 0; j < lists[0].size(); ++j) {
      Sum& sum = sums.emplace_back(whole);
      sum.bytes = lists[0][j].bytes;
      for (std::size_t l = 0; l < lists.size(); ++l) {
        Place& place = l < sum.from.size() ? sum.from[l] : sum.into[l - sum.from.size()];
        place.byte = lists[l][j].offset;
      }
    }
  }

  void write_sums() {
    std::vector<std::vector<Sum>> by_root(size_);
    for (std::size_t root = 0; root < size_; ++root) {
      for (std::size_t s = 0; s < size_; ++s) {
        if (pair(s, root).size() != pair(0, root).size())
          fail(root, " does not sum as many views of every member");
      }
      for (std::size_t k = 0; k < pair(0, root).size(); ++k) sum_at(root, k, by_root[root]);
    }
    meeting_.scattered = std::all_of(by_root.begin(), by_root.end(), [&](const std::vector<Sum>& sums) {
      return lie_behind(by_root[0], sums);
    });
    if (!meeting_.scattered) {
      for (const std::vector<Sum>& sums : by_root)
        meeting_.sums.insert(meeting_.sums.end(), sums.begin(), sums.end());
      return;
    }
    for (std::size_t j = 0; j < by_root[0].size(); ++j)
      for (const std::vector<Sum>& sums : by_root) meeting_.sums.push_back(sums[j]);
  }

  // What every member gives to these sums lies `root` times their bytes behind what it gives to the first's.
  bool lie_behind(const std::vector<Sum>& first, const std::vector<Sum>& sums) const {
    if (sums.size() != first.size()) return false;
    for (std::size_t j = 0; j < sums.size(); ++j) {
      if (sums[j].bytes != first[j].bytes || sums[j].dtype != first[j].dtype) return false;
      for (std::size_t s = 0; s < size_; ++s) {
        Place expected = first[j].from[s];
        expected.byte += sums[j].root * sums[j].bytes;
        if (!(sums[j].from[s] == expected)) return false;
      }
    }
    return true;
  }

  bool write_all_reduce() {
    std::vector<std::vector<Piece>> lists;
    Sum sum;
    for (const bool read : {true, false}) {
      for (std::size_t m = 0; m < size_; ++m) {
        const View& view = rank(m).view_of(op(m), read ? Operand::from : Operand::into);
        const View& home = rank(0).view_of(op(0), Operand::into);
        require_fitting({rank(0), op(0), home}, {rank(m), op(m), view});
        lists.push_back(contiguous_pieces(rank(m), view, nominal()));
        (read ? sum.from : sum.into).push_back({view.buffer, 0});
        sum.dtype = kernel_dtype(rank(m).buffers[view.buffer].role, nominal());
      }
    }
    append_cut(lists, sum, meeting_.sums);
    return true;
  }

  const Plan& plan_;
  const Messages& messages_;
  const Posted& posted_;
  Meeting& meeting_;
  std::size_t size_;
  bool one_collective_ = true;
  std::vector<std::vector<std::uint32_t>> pairs_;  // by sender, by receiver
};

}  // namespace

std::deque<Meeting> plan_meetings(const Plan& plan, const Messages& messages, const Posted& posted) {
  std::deque<Meeting> meetings;
  for (std::uint16_t g = 0; g < plan.groups.size(); ++g) {
    const std::vector<int>& group = plan.groups[g].ranks;
    std::vector<std::vector<OpRef>> by_member;
    std::size_t least = group.empty() ? 0 : ~std::size_t{0};
    for (const int r : group) {
      std::vector<OpRef>& own = by_member.emplace_back();
      const std::vector<Operation>& operations = plan.ranks[static_cast<std::size_t>(r)].operations;
      for (std::uint32_t i = 0; i < operations.size(); ++i) {
        const Operation& op = operations[i];
        if (is_communication(op.kind) && op.kind != OpKind::exchange && op.group == g)
          own.push_back({static_cast<std::uint32_t>(r), i});
      }
      least = std::min(least, own.size());
    }
    for (std::size_t k = 0; k < least; ++k) {
      Meeting meeting;
      meeting.group = g;
      for (const auto& own : by_member) meeting.members.push_back(own[k]);
      const OpRef first = meeting.members.front();
      const Operation& op = plan.ranks[first.rank].operations[first.operation];
      meeting.kind = op.kind;
      meeting.transport = op.transport;
      meeting.reduction = op.reduction;
      if (op.kind == OpKind::all_to_all) continue;
      if (MeetingWriter(plan, messages, posted, meeting).write()) meetings.push_back(std::move(meeting));
    }
  }
  return meetings;
}

Share share_of(std::int64_t bytes, std::size_t members, std::size_t member) {
  constexpr std::int64_t unit = 16;
  const auto count = static_cast<std::int64_t>(members), place = static_cast<std::int64_t>(member);
  const std::int64_t each = (bytes + count * unit - 1) / (count * unit) * unit;
  return {std::min(bytes, place * each), std::min(bytes, (place + 1) * each)};
}

std::string_view nccl_call(OpKind kind, const Meeting* meeting) {
  switch (kind) {
    case OpKind::all_gather:
      if (meeting != nullptr && !meeting->gathers.empty()) return "ncclAllGather";
      break;
    case OpKind::reduce_scatter:
      return meeting != nullptr && meeting->scattered ? "ncclReduceScatter" : "ncclReduce";
    case OpKind::all_reduce:
    case OpKind::barrier: return "ncclAllReduce";
    default: break;
  }
  return "ncclSend/ncclRecv";
}

std::string_view copy_call(OpKind kind) {
  switch (kind) {
    case OpKind::reduce_scatter:
    case OpKind::all_reduce: return "sums in peers' memory";
    case OpKind::barrier: return "events";
    default: return "peer copies";
  }
}

}  // namespace cplab

// What comes from other ranks in the symbolic run: received parts, sums and maxima over a group; see
// check/contents.hpp.
#include <algorithm>
#include <string>

#include "check/columns.hpp"
#include "check/matching.hpp"

namespace cplab::checking {

// Memory that nobody has written may be sent: the target then counts as unwritten too.
void Contents::transfer(std::uint32_t from_rank, std::uint32_t, const Part& send, std::uint32_t into_rank,
                        std::uint32_t receive_operation, const Part& receive, bool fits, bool first) {
  const Site s{into_rank, receive_operation};
  const Box &from = model_.ranks[from_rank].boxes[send.view],
            &into = model_.ranks[into_rank].boxes[receive.view];
  take_slab(into_rank, receive.view);
  if (!fits) return write_unknown(s, into);
  first ? move(s, from_rank, from, into, false, none) : add(s, from_rank, from, into, false, none);
}

// A sum or maximum over the group of results of the same rows.
void Contents::all_reduce(std::span<const std::pair<std::uint32_t, std::uint32_t>> members) {
  const Site root{members[0].first, members[0].second};
  for (const auto& [r, i] : members)
    for (const Access& a : model_.ranks[r].writes(i)) take_slab(r, a.view);
  const RankModel& home = model_.ranks[root.rank];
  const auto fits_root = [&](std::uint32_t r, std::uint32_t i) {
    const RankModel& rank = model_.ranks[r];
    return rank.forms[i] == Form::good && rank.op(i).kind == OpKind::all_reduce &&
           fits(rank, box_of({r, i}, Operand::from), home, box_of(root, Operand::into));
  };
  if (!std::ranges::all_of(members, [&](const auto& m) { return fits_root(m.first, m.second); })) {
    for (const auto& [r, i] : members)  // check/matching.cpp reports it
      for (const Access& a : model_.ranks[r].writes(i))
        if (a.view < model_.ranks[r].boxes.size() && model_.ranks[r].boxes[a.view].valid)
          write_unknown({r, i}, model_.ranks[r].boxes[a.view]);
    return;
  }
  // The first member's target collects the sum; what the others hold is read before anything is overwritten.
  const Box& target = box_of(root, Operand::into);
  const bool max = home.op(root.operation).reduction == Reduction::max;
  move(root, root.rank, box_of(root, Operand::from), target, true, none);
  for (const auto& [r, i] : members.subspan(1)) {
    const Box& from = box_of({r, i}, Operand::from);
    max ? maximum(root, r, from, target, none) : add(root, r, from, target, true, none);
  }
  for (const auto& [r, i] : members.subspan(1))
    move({r, i}, root.rank, target, box_of({r, i}, Operand::into), false, none);
}

}  // namespace cplab::checking

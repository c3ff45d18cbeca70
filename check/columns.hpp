// How values move from one box into another, column by column: for moves, sums and maxima alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "check/contents.hpp"

namespace cplab::checking {

// For every column of `from`, calls visit(the runs it holds, the matching column of `into`, its slot). The
// runs have the shifts already that their values will have in `into`.
template <class Visit>
void Contents::for_each_column(std::uint32_t from_rank, const Box& from, std::uint32_t into_rank,
                               const Box& into, Visit visit) {
  if (from.empty()) return;
  for (std::int32_t k = 0; k < from.slots(); ++k) {
    std::vector<Column> copied;  // only where source and target may be the same columns
    const bool same = from_rank == into_rank && from.buffer == into.buffer;
    region(into_rank, into.buffer, into.slot_begin + k);  // may grow the list that holds the source
    if (same) copied = region(from_rank, from.buffer, from.slot_begin + k).columns();
    const std::vector<Column>& columns =
        same ? copied : region(from_rank, from.buffer, from.slot_begin + k).columns();
    for (const Column& c : columns) {
      const std::int32_t h0 = std::max(c.head_begin, from.head_begin),
                         h1 = std::min(c.head_end, from.head_end);
      const std::int32_t w0 = std::max(c.width_begin, from.width_begin),
                         w1 = std::min(c.width_end, from.width_end);
      if (h0 >= h1 || w0 >= w1) continue;
      read_rows(c, from, a_);
      mark_read(from_rank, a_);
      const std::int32_t heads = into.head_begin - from.head_begin,
                         width = into.width_begin - from.width_begin;
      for (Run& run : a_) {
        if (!run.value.located()) continue;
        run.value.head_shift -= heads;
        run.value.width_shift -= width;
      }
      Region& slot = region(into_rank, into.buffer, into.slot_begin + k);
      slot.align(h0 + heads, h1 + heads, w0 + width, w1 + width, budget_);
      for (Column& t : slot.columns())
        if (t.head_begin >= h0 + heads && t.head_end <= h1 + heads && t.width_begin >= w0 + width &&
            t.width_end <= w1 + width)
          visit(a_, t);
    }
  }
}

}  // namespace cplab::checking

// Who rounds a dq that was summed in a wide dtype: the tiles that stored it, or a cast.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/builder.hpp"
#include "algorithms/builder_pools.hpp"
#include "plan/operands.hpp"

namespace cplab {

void Builder::round_dq(Lane lane, const Box& sum, const Box& into) {
  const std::uint32_t buffer = sum.view().buffer;
  const auto of_sum = [&](std::uint32_t view) { return plan_.views[view].buffer == buffer; };
  const auto size = [&](const View& view) { return view_bytes(plan_, view, problem().dtype); };
  std::vector<std::size_t> tiles;
  std::int64_t bytes = 0;
  bool rounded_by_tiles = sum.view().ranges == into.view().ranges;
  for (std::size_t n = 0; n < plan_.operations.size(); ++n) {
    const Operation& op = plan_.operations[n];
    for (const Access& read : plan_.reads(op)) rounded_by_tiles &= !of_sum(read.view);
    for (const Part& part : plan_.parts_of(op)) rounded_by_tiles &= !of_sum(part.view);
    for (const Access& write : plan_.writes(op)) {
      if (!of_sum(write.view)) continue;
      rounded_by_tiles &= op.kind == OpKind::attend_backward && op.lane == lane &&
                          !is_dynamic_mask(plan_, op) && write.operand == Operand::dq &&
                          write.mode == WriteMode::store;
      tiles.push_back(n);
      bytes += size(plan_.views[write.view]);
    }
  }
  if (!rounded_by_tiles || bytes != size(sum.view())) return cast(lane, sum, into);
  for (const std::size_t n : tiles) {
    Operation& op = plan_.operations[n];
    const View dq = plan_.view_of(op, Operand::dq);
    View rounded = into.view();
    rounded.ranges = dq.ranges;
    rounded.head_begin += dq.head_begin - sum.view().head_begin;
    rounded.head_end = rounded.head_begin + dq.head_end - dq.head_begin;
    const auto writes = plan_.writes(op);
    pools_->written_list.assign(writes.begin(), writes.end());
    pools_->written_list.push_back({intern_view(rounded), WriteMode::store, Operand::rounded_dq});
    op.writes = pools_->accesses(plan_.accesses, pools_->written_list);
    op.bytes += size(rounded);
  }
}

}  // namespace cplab

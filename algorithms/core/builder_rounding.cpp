// Gradients that are summed in a wide dtype and come out in the problem's: dq, which the tiles that stored it
// round, or a cast; and dk and dv of grouped heads, which a tile may sum before it rounds them.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "algorithms/core/builder.hpp"
#include "algorithms/core/builder_pools.hpp"
#include "algorithms/core/options.hpp"
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

// A kernel has two ways to the dk and dv of a key head that several query heads read: a thread block takes
// all of these, one after the other, and stores what it has summed in registers; or each has a thread block
// of its own, which adds to sums in memory. With few key heads the first leaves multiprocessors without work
// (8 heads on 1, 8192 tokens, causal: 215 TFLOP/s on an H100, where the second has 580). Which is faster the
// kernels decide, call by call; the plan makes room for the sums. Tiles of many keys are enough for any GPU,
// and need none: that bounds the room, at 256 MiB with head size 128.
Box Builder::dkv_sums(Lane lane, const Box& dk, std::int64_t query_heads, WriteMode mode) {
  constexpr std::int64_t enough_keys = 256 * 1024;  // 2048 tiles of 128, all heads together
  const Problem& p = problem();
  const HeadRange heads = dk.problem_heads();
  const std::int64_t rows = declared(dk).rows;
  // Who has sums travel in the problem's dtype wants the memory.
  const bool narrow = scenario_.schedule.is_word("gradient_wire_dtype", "nominal");
  const bool rounds = mode == WriteMode::store && declared(dk).role == Role::nominal && has_wide() &&
                      wide_accumulator(scenario_.schedule) && !narrow && p.attention == Attention::softmax;
  const bool empty = dk.row_list().empty();  // a tile that sees no keys
  if (!rounds || empty || query_heads <= heads.count() || rows * heads.count() >= enough_keys) return {};
  const Layout layout = declared(dk).layout;
  for (const Pools::DkvSums& made : pools_->dkv_sums)
    if (made.lane == lane && made.rows == rows && made.heads.begin == heads.begin &&
        made.heads.end == heads.end && made.layout == layout)
      return made.box.rows(dk.row_list());
  const Box box = buffer({"dkv_sum", Role::wide, Category::working, 1, rows, heads.count(),
                          p.head_size + p.value_size, p.head_size, layout, heads.begin});
  pools_->dkv_sums.push_back({lane, rows, heads, layout, box});
  return box.rows(dk.row_list());  // as dk lies: kernels want all that has rows of keys alike
}

}  // namespace cplab

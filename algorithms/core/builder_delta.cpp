// delta = rowsum(dout * out): by the tile that needs it first, or by an operation of its own.
#include <utility>

#include "algorithms/core/builder.hpp"

namespace cplab {

void Builder::row_dot(Lane lane, const Box& dout, const Box& out, const Box& delta) {
  emit_row_dot();
  row_dot_ = RowDot{lane, step_, dout, out, delta};
}

void Builder::emit_row_dot() {
  if (!row_dot_) return;
  const RowDot asked = *std::exchange(row_dot_, std::nullopt);
  const std::uint32_t step = std::exchange(step_, asked.step);
  emit(asked.lane, OpKind::row_dot, {asked.dout, asked.out}, {{asked.delta, WriteMode::store}});
  step_ = step;
}

Box Builder::out_for_delta(Lane lane, const AttendBackward& tile) {
  if (!row_dot_ || scenario_.schedule.is_word("row_dot", "apart")) return {};
  const bool alike = row_dot_->lane == lane && row_dot_->delta.view() == tile.delta.view() &&
                     row_dot_->dout.view() == tile.dout.view();
  const bool whole = groups_of_heads(tile.q).size() == 1, stores = tile.dq_mode == WriteMode::store;
  if (!alike || !whole || !stores || problem().attention != Attention::softmax || !starts_.empty()) return {};
  return std::exchange(row_dot_, std::nullopt)->out;
}

}  // namespace cplab

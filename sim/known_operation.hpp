// An operation of attention, known by where its accesses and segments lie in the pools of its rank: equal
// lists are there once, so that a rank's operations of one form are found without a look at what they are
// made of.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "calls/converter.hpp"
#include "plan/plan.hpp"
#include "sim/digest.hpp"

namespace cplab {

// Equal for operations of one converter that make equal calls and write them in the same modes; it may differ
// where they do all the same.
inline Digest known_by(const CallConverter& calls, const Operation& op) {
  Digest key;
  key.add({static_cast<std::int64_t>(calls.id()), static_cast<std::int64_t>(op.kind), op.reads.first,
           op.reads.count, op.writes.first, op.writes.count, op.segments.first, op.segments.count,
           op.columns.first, op.columns.count, static_cast<std::int64_t>(op.bias), op.head_begin, op.head_end,
           std::bit_cast<std::int64_t>(op.value), std::bit_cast<std::int64_t>(op.softcap)});
  return key;
}

// What the choice of a variant and its time depend on: shapes, strides, alignment, rows, segments and how
// results are written; of changed logits, how.
inline Digest key_of(const RankPlan& plan, const Operation& op, const std::vector<kernels::View*>& views,
                     std::span<const kernels::Segment> segments, std::int64_t reserved_sms) {
  Digest key;
  key.add({static_cast<std::int64_t>(op.kind), reserved_sms, static_cast<std::int64_t>(views.size())});
  constexpr std::uintptr_t alignment = 16;
  for (const kernels::View* view : views) {
    key.add({static_cast<std::int64_t>(view->dtype), view->rows, view->heads, view->width, view->row_stride,
             view->head_stride,
             static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(view->data) % alignment),
             static_cast<std::int64_t>(view->runs.size())});
    for (const kernels::RowRun& run : view->runs) key.add({run.begin, run.count, run.step});
  }
  key.add({std::bit_cast<std::int64_t>(op.softcap), static_cast<std::int64_t>(op.bias)});
  for (const RowRange& run : plan.columns_of(op)) key.add({run.begin, run.count, run.step});
  key.add(static_cast<std::int64_t>(segments.size()));
  for (const kernels::Segment& s : segments)
    key.add({s.q_begin, s.q_count, s.k_begin, s.k_count, s.offset, s.left, s.right});
  for (const auto accesses : {plan.reads(op), plan.writes(op)})
    for (const Access& access : accesses)
      key.add({static_cast<std::int64_t>(access.operand), static_cast<std::int64_t>(access.mode)});
  return key;
}

}  // namespace cplab

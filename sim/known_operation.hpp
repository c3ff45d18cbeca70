// An operation of attention, known by where its accesses and segments lie in the pools of its rank: equal
// lists are there once, so that a rank's operations of one form are found without a look at what they are
// made of.
#pragma once

#include <bit>
#include <cstdint>

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

}  // namespace cplab

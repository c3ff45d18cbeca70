// Changes of single operations that tests of the checker make.
#pragma once

#include "plan/plan.hpp"

namespace cplab::hand {

// Turns an operation into one that touches nothing, so that no index changes.
inline void silence(Operation& op) {
  op.kind = OpKind::host_sync;
  op.reads = op.writes = op.parts = op.segments = op.chunks = {};
}

}  // namespace cplab::hand

// The messages of a plan before there is memory: which send meets which receive, and as which runs of bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "derive/pieces.hpp"
#include "derive/walk.hpp"
#include "plan/plan.hpp"

namespace cplab {

struct PlanMessage {
  Match match;
  // Run i leaves the sender's buffer at from[i] and goes to the receiver's at into[i]; both have equal bytes.
  std::vector<Piece> from, into;
};

// All messages of a plan, in an order in which they can happen; a part without a counterpart is in none.
// Throws BadPlan where two ends do not fit each other.
std::deque<PlanMessage> plan_messages(const Plan&);

// The messages in which an operation takes part, as indices, in the order of its parts: the order in which
// they are posted.
struct PostedParts {
  std::vector<std::uint32_t> sends, receives;
};
// By rank and operation.
std::vector<std::vector<PostedParts>> posted_parts(const Plan&, const std::deque<PlanMessage>&);

}  // namespace cplab

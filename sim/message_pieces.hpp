// What a message between two operations is carried in. A library's messages to one peer within a group of
// calls go one after another, so that sixteen pieces take as long as sixteen messages.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "plan/plan.hpp"

namespace cplab {

// One part of a message: a view of the sender and one of the receiver, of equal shape.
struct MessagePart {
  const RankPlan* from = nullptr;
  const View* source = nullptr;
  const RankPlan* into = nullptr;
  const View* target = nullptr;
};

// Bytes of the calls that carry the parts over that transport, in their order: NCCL takes one for every piece
// that is contiguous at both ends, a copy engine one for pieces at equal distances.
std::vector<double> call_bytes(std::span<const MessagePart> parts, Transport, DType nominal);

// How much longer the calls take than one message of all their bytes. `alone_s`: what a message of so many
// bytes takes, of all peers together; `peers`: how many times these bytes the operation sends. Copies behind
// the first are queued before it ends and cost `least_s` each.
double longer_by_s(std::span<const double> calls, Transport, double peers, double least_s,
                   const std::function<double(double bytes)>& alone_s);

}  // namespace cplab

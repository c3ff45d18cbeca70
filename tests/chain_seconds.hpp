// What of a critical path is of one kind, for the tests of simulated and of measured paths.
#pragma once

#include "report/chain.hpp"

namespace cplab::testing {

inline double seconds_of(const ChainParts& parts, ChainResource resource, OpKind kind, int rank, int peer) {
  double sum = 0;
  for (const ChainPart& part : parts.all())
    if (part.resource == resource && part.kind == kind && part.rank == rank && part.peer == peer)
      sum += part.seconds;
  return sum;
}

}  // namespace cplab::testing

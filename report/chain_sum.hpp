// Sums a critical chain by what its operations use. Internal to critical_path.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "report/chain.hpp"

namespace cplab {

struct Cause;

class ChainSum {
 public:
  // `processor`: what kernels run on.
  explicit ChainSum(ChainResource processor) : processor_(processor) {}

  // `seconds` of a kernel, or of a communication: `moving` behind the moment at which its last transfer
  // began, else before it.
  void add(std::int32_t rank, OpKind kind, const Cause& cause, double seconds, bool moving);
  void add_host(std::int32_t rank, double seconds);

  ChainParts parts() const;

 private:
  void put(ChainResource, OpKind, std::int32_t rank, std::int32_t peer, double seconds);
  ChainResource processor_;
  std::map<std::tuple<ChainResource, OpKind, std::int32_t, std::int32_t>, double> sums_;
};

}  // namespace cplab

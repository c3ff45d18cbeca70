// The moves of a scan over affine maps: states and, where more is joined to the receiver's left later on, the
// transitions of what they cover.
#pragma once

#include <vector>

#include "algorithms/linear/affine.hpp"

namespace cplab {

class AffineScan {
 public:
  // `rounds`: of an inclusive scan of all P indices. Moves whose result no rank needs are left out, on all
  // ranks alike.
  AffineScan(const LinearScope&, const StateScan&, const std::vector<ScanRound>& rounds);

  // Some message or combination needs the T of this rank.
  bool asks_transition() const { return asks_transition_; }
  // Afterwards own.state holds what leaves the indices up to this one. own.transition stays as it is.
  void inclusive(StateScan&, const AffineMap& own) const;

 private:
  struct Move : ScanMove {
    bool transition = false;  // travels too
  };
  const LinearScope& s_;
  std::vector<std::vector<Move>> rounds_;
  bool asks_transition_ = false;
};

}  // namespace cplab

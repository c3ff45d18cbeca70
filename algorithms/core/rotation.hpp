// Keys and values that go from member to member: how far each hop is, and which rows make it.
//
// At visit v a member holds rows of the member `distance(v)` places to its left. Whole: every member is
// visited with all rows; forward by distances 0, 1, ..., P-1, backward by P-1, ..., 0, from where the forward
// stopped. Needed: only distances at which some member sees a key, 0 first in both directions, and only rows
// that this or a later holder sees.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/core/distribution.hpp"
#include "algorithms/core/rows.hpp"
#include "plan/plan.hpp"

namespace cplab {

enum class Travel : std::uint8_t { whole, needed };

class Rotation {
 public:
  // `tokens` of the members, which outlive the rotation; the one at `place` asks.
  Rotation(const Distribution& tokens, Window visible, int place, Travel, Phase);

  int visits() const { return static_cast<int>(distances_.size()); }
  int owner(int visit) const;     // whose rows this member holds then
  int next(int visit) const;      // who holds them at the visit after it
  int previous(int visit) const;  // who held them at the visit before it
  int holder(int visit) const;    // who holds this member's own rows then
  // Rows of owner(visit), as in its buffers:
  Rows arrived(int visit) const;  // that are here
  Rows leaving(int visit) const;  // that go on to next(visit)
  Rows ending(int visit) const;   // that do not: this member is the last to see them
  Rows seen(int visit) const;     // that an earlier holder has seen
  Rows summed(int visit) const;   // that leave with gradients: this holder or an earlier one has seen them
  // Those of this member's own rows that end at holder(visit).
  Rows returning(int visit) const { return ended(place_, visit); }

 private:
  const std::vector<Rows>& later(int owner) const;
  Rows ended(int owner, int visit) const;
  Rows seen_before(int owner, int visit) const;
  int at(int place) const;
  Rows all(int owner) const;

  const Distribution& tokens_;
  Window visible_;
  int place_;
  Travel travel_;
  std::vector<int> distances_;
  mutable std::vector<std::vector<Rows>> later_;  // by owner and visit: rows seen then or afterwards
};

// What all members together send in one phase: rows of K and V times kv_row, plus in the backward rows of
// their gradients times gradient_row.
double rotation_bytes(const Distribution& tokens, Window visible, Travel, Phase, double kv_row,
                      double gradient_row);

}  // namespace cplab

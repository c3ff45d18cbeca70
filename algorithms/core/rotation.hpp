// Keys and values that go from member to member: how far each hop is, and which rows make it.
//
// At visit v a member holds rows of the member `distance(v)` places to its left. Whole: every member is
// visited with all rows; forward by distances 0, 1, ..., P-1, backward by P-1, ..., 0, from where the forward
// stopped. Needed: only distances at which some member sees a key, 0 first in both directions, and only rows
// that this or a later holder sees.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "algorithms/core/distribution.hpp"
#include "algorithms/core/rows.hpp"
#include "plan/plan.hpp"

namespace cplab {

enum class Travel : std::uint8_t { whole, needed };

// Rows by visit, which change at few of them: rows[i] from visit since[i] to since[i + 1].
struct RowsByVisit {
  std::vector<int> since{};
  std::vector<Rows> rows{};
  const Rows& at(int visit) const;
};

// What all members know of a rotation, found when one asks: how far its hops go, and of each member's rows
// which are seen when.
class RotationOfTeam {
 public:
  // `tokens` of the members, which outlive it.
  RotationOfTeam(const Distribution& tokens, Window visible, Travel, Phase);

  int size() const { return tokens_.size(); }
  Travel travel() const { return travel_; }
  const std::vector<int>& distances() const { return distances_; }
  const Rows& all(int owner) const { return all_[static_cast<std::size_t>(owner)]; }
  // By visit: the owner's rows that are seen then or afterwards; at the first visit, which is its own, all.
  const Rows& later(int owner, int visit);
  // In a whole rotation: the owner's rows that its holders before `visit` see.
  const Rows& seen_before(int owner, int visit);

 private:
  // Rows that are seen before a visit, as far as visits were looked at.
  struct Seen {
    RowsByVisit before;
    std::vector<TokenRun> unseen;
    int visits = 0;
  };

  const Distribution& tokens_;
  Window visible_;
  Travel travel_;
  std::vector<int> distances_;
  // By owner:
  std::vector<Rows> all_;
  std::vector<RowsByVisit> later_;
  std::vector<Seen> seen_;
};

class Rotation {
 public:
  // `tokens` of the members, which outlive the rotation; the one at `place` asks.
  Rotation(const Distribution& tokens, Window visible, int place, Travel, Phase);
  Rotation(std::shared_ptr<RotationOfTeam>, int place);

  int visits() const { return static_cast<int>(team_->distances().size()); }
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
  Rows ended(int owner, int visit) const;
  int distance(int visit) const { return team_->distances()[static_cast<std::size_t>(visit)]; }
  int at(int place) const;

  std::shared_ptr<RotationOfTeam> team_;
  int place_;
};

// What all members together send in one phase: rows of K and V times kv_row, plus in the backward rows of
// their gradients times gradient_row.
double rotation_bytes(const Distribution& tokens, Window visible, Travel, Phase, double kv_row,
                      double gradient_row);

}  // namespace cplab

// What travels on a route: of each member's rows, which make which hop.
//
// Whole: every visit is made with all rows. Needed: only visits at which some member sees a key, and only
// rows that this or a later holder sees. A ring goes forward by 0, 1, ..., P-1 members to the left; backward,
// whole, by P-1, ..., 0, from where the forward stopped, and needed by the same way as forward.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "algorithms/core/distribution.hpp"
#include "algorithms/core/route.hpp"
#include "algorithms/core/rows.hpp"
#include "plan/plan.hpp"

namespace cplab {

enum class Travel : std::uint8_t { whole, needed };

// The route of a ring in that phase.
Route ring_route(int members, Travel, Phase);

// Rows by visit, which change at few of them: rows[i] from visit since[i] to since[i + 1].
struct RowsByVisit {
  std::vector<int> since{};
  std::vector<Rows> rows{};
  const Rows& at(int visit) const;
};

// What all members know of a rotation, found when one asks: the visits that are made, and of each member's
// rows which are seen when.
class RotationOfTeam {
 public:
  // Whose rows travel, `keys`, and who may see them, by member; both outlive it.
  RotationOfTeam(const Distribution& queries, const Distribution& keys, const Visible& visible, Travel,
                 const Route&);
  // Keys of the queries' tokens.
  RotationOfTeam(const Distribution& tokens, const Visible& visible, Travel travel, const Route& route)
      : RotationOfTeam(tokens, tokens, visible, travel, route) {}
  RotationOfTeam(const Distribution& tokens, const Visible& visible, Travel travel, Phase phase)
      : RotationOfTeam(tokens, visible, travel, ring_route(tokens.size(), travel, phase)) {}

  int size() const { return keys_.size(); }
  Travel travel() const { return travel_; }
  const Route& route() const { return route_; }  // without visits that nobody needs
  bool one_chain() const { return one_chain_; }
  const Rows& all(int owner) const { return all_[static_cast<std::size_t>(owner)]; }
  // By visit: the owner's rows that are seen then or where they go from there; at its own, all.
  const Rows& later(int owner, int visit);
  // The owner's rows that the holders have seen whose sum comes to this visit. Of one chain: of a whole
  // rotation only.
  const Rows& seen_before(int owner, int visit);
  // The same with this visit's holder.
  Rows seen_after(int owner, int visit);

 private:
  // Rows that are seen before a visit, as far as visits were looked at.
  struct Seen {
    RowsByVisit before;
    std::vector<TokenRun> unseen;
    int visits = 0;
  };
  // By visit, of a route that is no single chain.
  struct OfTree {
    std::vector<Rows> seen, later, before;
  };
  const OfTree& of_tree(int owner);

  const Distribution &queries_, &keys_;
  Visible visible_;
  Travel travel_;
  Route route_;
  bool one_chain_;
  // By owner:
  std::vector<Rows> all_;
  std::vector<RowsByVisit> later_;
  std::vector<Seen> seen_;
  std::vector<OfTree> of_tree_;
};

class Rotation {
 public:
  // `tokens` of the members, which outlive the rotation; the one at `place` asks.
  Rotation(const Distribution& tokens, const Visible& visible, int place, Travel, Phase);
  Rotation(std::shared_ptr<RotationOfTeam>, int place);

  const Route& route() const { return team_->route(); }
  const Visit& operator[](int visit) const { return route()[visit]; }
  bool one_chain() const { return team_->one_chain(); }
  int visits() const { return route().visits(); }
  int owner(int visit) const { return route().owner(place_, visit); }    // whose rows this member holds then
  int holder(int visit) const { return route().holder(place_, visit); }  // who holds this member's own then
  // The hop that leads to a visit: from whom its rows come, and to whom those go that this member has at the
  // visit's source; rows of the buffers of owner(visit) and owner(source).
  int giver(int visit) const { return route().giver(place_, visit); }
  int taker(int visit) const { return route().taker(place_, visit); }
  Rows coming(int visit) const { return arrived(visit); }
  Rows going(int visit) const { return arrived_of(owner((*this)[visit].source), visit); }

  // Sums of gradients, which go on from visit to visit. Rows of owner(visit), as in its buffers:
  int next(int visit) const { return route().holder(owner(visit), visit + 1); }      // who holds them next
  int previous(int visit) const { return route().holder(owner(visit), visit - 1); }  // and who did before
  Rows sum_coming(int visit) const;
  Rows sum_going(int visit) const;
  Rows arrived(int visit) const { return arrived_of(owner(visit), visit); }  // that are here
  Rows leaving(int visit) const;  // of one chain: that go on to next(visit)
  Rows ending(int visit) const;   // whose sum does not go on: this member is the last to see them
  Rows seen(int visit) const;     // that an earlier holder has seen
  Rows summed(int visit) const;   // that leave with gradients: this holder or an earlier one has seen them
  // Those of this member's own rows whose sum ends at holder(visit).
  Rows returning(int visit) const { return ended(place_, visit); }

 private:
  Rows arrived_of(int owner, int visit) const;
  Rows ended(int owner, int visit) const;

  std::shared_ptr<RotationOfTeam> team_;
  int place_;
};

// What all members of a ring together send in one phase: rows of K and V times kv_row, plus in the backward
// rows of their gradients times gradient_row.
double rotation_bytes(const Distribution& queries, const Distribution& keys, const Visible& visible, Travel,
                      Phase, double kv_row, double gradient_row);
inline double rotation_bytes(const Distribution& tokens, const Visible& visible, Travel travel, Phase phase,
                             double kv_row, double gradient_row) {
  return rotation_bytes(tokens, tokens, visible, travel, phase, kv_row, gradient_row);
}

}  // namespace cplab

// Routes: what travels from member to member, as a value. A route is the list of a member's visits: at each
// one it holds rows of some member, which came there from the member that had them at an earlier visit.
//
// Every member makes the same visits, each with its own neighbours: the members stand on a grid, and a visit
// names whose rows it is about by how far to the left their owner stands. A ring is a chain of such visits; a
// double ring is a tree of them. Which rows travel is algorithms/core/rotation.hpp's to say.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace cplab {

struct Visit {
  int shift = 0;      // whose rows: those of the member so far to the left, on each axis of the grid
  int source = -1;    // the visit at which the giver has them; -1: nothing has to come
  int beside = -1;    // the visit beside whose work they travel
  int lane = 0;       // of which communication lane
  bool home = false;  // backward: the sum of their gradients goes home from there, not on to the next visit
  bool operator==(const Visit&) const = default;
  auto operator<=>(const Visit&) const = default;
};

class Route {
 public:
  // Members stand in rows of `inner`: member n * inner + i in place i of row n. A shift of o * inner + s is
  // by o rows and by s places.
  Route(int members, int inner, std::vector<Visit> visits);
  // Each visit hands on to the next, rows and sums alike: a ring, whatever shifts it has.
  static Route chain(int members, const std::vector<int>& shifts);

  int members() const { return members_; }
  int inner() const { return inner_; }
  int visits() const { return static_cast<int>(visits_.size()); }
  const Visit& operator[](int visit) const { return visits_[static_cast<std::size_t>(visit)]; }

  int owner(int place, int visit) const;   // whose rows the member at `place` holds then
  int holder(int owner, int visit) const;  // who holds that member's rows then
  // Of the hop that leads to a visit: who gives the rows to the member at `place`, and to whom it gives those
  // that it has itself at the visit's source.
  int giver(int place, int visit) const { return holder(owner(place, visit), (*this)[visit].source); }
  int taker(int place, int visit) const { return holder(owner(place, (*this)[visit].source), visit); }

  // Backward, a sum comes with the rows: that of the visit before. Else one begins here.
  bool continues(int visit) const { return visit > 0 && !(*this)[visit - 1].home; }
  // One sum passes through all visits.
  bool one_chain() const;
  // The visits whose rows travel beside that one, sources first.
  std::span<const int> beside(int visit) const;

  // From the last visit to the first: a ring backward, from where it stopped. Of one chain only.
  Route mirrored() const;
  // Without the visits of which `keeps` says no. What they hand on comes from where they had it.
  Route kept(const std::vector<char>& keeps) const;

  bool operator==(const Route&) const = default;
  auto operator<=>(const Route&) const = default;

 private:
  int moved(int place, int shift, int sign) const;
  int depth(int visit) const;  // hops from the owner

  int members_ = 1, inner_ = 1;
  std::vector<Visit> visits_;
  std::vector<int> posted_;            // visits, by what they travel beside
  std::vector<std::size_t> first_of_;  // by visit: the first of those in posted_
};

// Forward once around: members 0, 1, ..., P - 1 to the left.
Route ring_route(int members);

}  // namespace cplab

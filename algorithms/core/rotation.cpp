// Which rows make which hop, from who sees whose keys.
#include "algorithms/core/rotation.hpp"

#include <algorithm>
#include <utility>

#include "algorithms/core/tile.hpp"

namespace cplab {
namespace {

// Does some member see a key of what it holds at that visit?
bool seen_at(const Distribution& queries, const Distribution& keys, const Visible& visible,
             const Route& route, int visit) {
  for (int place = 0; place < queries.size(); ++place)
    if (any_live(queries[place].runs, keys[route.owner(place, visit)].runs, visible)) return true;
  return false;
}

// Needed: without the visits at which nobody sees a key. Each member's own comes first, and stays.
Route visited(const Distribution& queries, const Distribution& keys, const Visible& visible, Travel travel,
              const Route& route) {
  if (travel == Travel::whole) return route;
  std::vector<char> keeps;
  for (int v = 0; v < route.visits(); ++v)
    keeps.push_back(static_cast<char>(v == 0 || seen_at(queries, keys, visible, route, v)));
  return route.kept(keeps);
}

// The member's runs that have tokens: only these may be seen by a query.
std::vector<TokenRun> token_runs(const Holding& holding) {
  std::vector<TokenRun> runs;
  for (const TokenRun& run : holding.runs)
    if (run.valid > 0) runs.push_back(run);
  return runs;
}

// By visit, the rows of `owner` that are seen at this visit or a later one: at the first, which is its own,
// all of them.
RowsByVisit seen_later(const Distribution& queries, const Distribution& keys, const Visible& visible,
                       const Route& route, int owner, const Rows& all) {
  std::vector<TokenRun> unseen = token_runs(keys[owner]);
  // From the last visit back: where rows are added, and all that are seen from there on.
  std::vector<std::pair<int, Rows>> added;
  for (int v = route.visits() - 1; v >= 1 && !unseen.empty(); --v) {
    const Rows rows = take_seen(queries[route.holder(owner, v)].runs, unseen, visible);
    if (!rows.empty()) added.emplace_back(v, added.empty() ? rows : added.back().second.united(rows));
  }
  RowsByVisit later{{0, 1}, {all}};
  for (; !added.empty(); added.pop_back()) {
    later.rows.push_back(std::move(added.back().second));
    later.since.push_back(added.back().first + 1);
  }
  later.rows.emplace_back();
  return later;
}

}  // namespace

const Rows& RowsByVisit::at(int visit) const {
  const auto behind = std::upper_bound(since.begin(), since.end(), visit);
  return rows[static_cast<std::size_t>(behind - since.begin()) - 1];
}

Route ring_route(int members, Travel travel, Phase phase) {
  const Route there = ring_route(members);
  return travel == Travel::whole && phase == Phase::backward ? there.mirrored() : there;
}

RotationOfTeam::RotationOfTeam(const Distribution& queries, const Distribution& keys, const Visible& visible,
                               Travel travel, const Route& route)
    : queries_(queries),
      keys_(keys),
      visible_(visible),
      travel_(travel),
      route_(visited(queries, keys, visible, travel, route)),
      one_chain_(route_.one_chain()),
      later_(keys.members.size()),
      seen_(keys.members.size()),
      of_tree_(keys.members.size()) {
  for (const Holding& member : keys.members) {
    std::int64_t first = member.rows();
    for (const TokenRun& run : member.runs) first = std::min(first, run.row);
    all_.push_back(Rows::range(first, member.rows() - first));
  }
}

const Rows& RotationOfTeam::later(int owner, int visit) {
  if (!one_chain_) return of_tree(owner).later[static_cast<std::size_t>(visit)];
  RowsByVisit& known = later_[static_cast<std::size_t>(owner)];
  if (known.rows.empty()) known = seen_later(queries_, keys_, visible_, route_, owner, all(owner));
  return known.at(visit);
}

const Rows& RotationOfTeam::seen_before(int owner, int visit) {
  if (!one_chain_) return of_tree(owner).before[static_cast<std::size_t>(visit)];
  Seen& seen = seen_[static_cast<std::size_t>(owner)];
  RowsByVisit& before = seen.before;
  if (before.rows.empty()) {
    before = {{0}, {Rows()}};
    seen.unseen = token_runs(keys_[owner]);
  }
  for (; seen.visits < visit && !seen.unseen.empty(); ++seen.visits) {
    const int holder = route_.holder(owner, seen.visits);
    const Rows more = take_seen(queries_[holder].runs, seen.unseen, visible_);
    if (more.empty()) continue;
    before.since.push_back(seen.visits + 1);
    before.rows.push_back(before.rows.back().united(more));
  }
  return before.at(visit);
}

Rows RotationOfTeam::seen_after(int owner, int visit) {
  if (one_chain_) return seen_before(owner, visit + 1);
  const OfTree& rows = of_tree(owner);
  const auto v = static_cast<std::size_t>(visit);
  return rows.before[v].united(rows.seen[v]);
}

const RotationOfTeam::OfTree& RotationOfTeam::of_tree(int owner) {
  OfTree& rows = of_tree_[static_cast<std::size_t>(owner)];
  const int visits = route_.visits();
  if (!rows.seen.empty()) return rows;
  for (int v = 0; v < visits; ++v)
    rows.seen.push_back(
        v == 0 ? all(owner)
               : live_key_rows(queries_[route_.holder(owner, v)].runs, token_runs(keys_[owner]), visible_));
  // Rows go from a visit to those whose source it is, which may stand before it in the list: as often as it
  // takes.
  rows.later = rows.seen;
  for (bool more = true; more;) {
    more = false;
    for (int v = visits - 1; v >= 1; --v) {
      Rows& source = rows.later[static_cast<std::size_t>(route_[v].source)];
      Rows both = source.united(rows.later[static_cast<std::size_t>(v)]);
      if (both == source) continue;
      source = std::move(both);
      more = true;
    }
  }
  rows.before.resize(rows.seen.size());
  for (int v = 1; v < visits; ++v)
    if (route_.continues(v))
      rows.before[static_cast<std::size_t>(v)] =
          rows.before[static_cast<std::size_t>(v) - 1].united(rows.seen[static_cast<std::size_t>(v) - 1]);
  return rows;
}

Rotation::Rotation(const Distribution& tokens, const Visible& visible, int place, Travel travel, Phase phase)
    : Rotation(std::make_shared<RotationOfTeam>(tokens, visible, travel, phase), place) {}

Rotation::Rotation(std::shared_ptr<RotationOfTeam> team, int place) : team_(std::move(team)), place_(place) {}

Rows Rotation::arrived_of(int owner, int visit) const {
  return team_->travel() == Travel::whole ? team_->all(owner) : team_->later(owner, visit);
}

Rows Rotation::leaving(int visit) const {
  const int o = owner(visit);
  if (team_->travel() == Travel::whole) return visit + 1 < visits() ? team_->all(o) : Rows();
  return team_->later(o, visit + 1);
}

Rows Rotation::sum_coming(int visit) const {
  return one_chain() ? arrived(visit) : seen(visit);
}

Rows Rotation::sum_going(int visit) const {
  if (one_chain()) return leaving(visit);
  return (*this)[visit].home ? Rows() : team_->seen_after(owner(visit), visit);
}

Rows Rotation::ended(int owner, int visit) const {
  if (!one_chain()) return (*this)[visit].home ? team_->seen_after(owner, visit) : Rows();
  if (team_->travel() == Travel::whole) return visit + 1 < visits() ? Rows() : team_->all(owner);
  return team_->later(owner, visit).minus(team_->later(owner, visit + 1));
}

Rows Rotation::ending(int visit) const {
  return ended(owner(visit), visit);
}

// Needed, in one chain: its owner comes first, and has seen all of it.
Rows Rotation::seen(int visit) const {
  if (one_chain() && team_->travel() == Travel::needed) return visit == 0 ? Rows() : arrived(visit);
  return team_->seen_before(owner(visit), visit);
}

Rows Rotation::summed(int visit) const {
  if (one_chain() && team_->travel() == Travel::needed) return leaving(visit);
  return team_->seen_after(owner(visit), visit);
}

double rotation_bytes(const Distribution& queries, const Distribution& keys, const Visible& visible,
                      Travel travel, Phase phase, double kv_row, double gradient_row) {
  double rows = 0, first_hop = 0;
  if (travel == Travel::whole) {
    for (const Holding& member : keys.members) rows += static_cast<double>(member.rows());
    rows *= keys.size() - 1;
  } else {
    // As seen_later(), counted: once all rows are seen no earlier holder adds any.
    const Route route = visited(queries, keys, visible, travel, ring_route(keys.size()));
    for (int owner = 0; owner < keys.size(); ++owner) {
      std::vector<TokenRun> unseen = token_runs(keys[owner]);
      Rows leaving;
      for (int v = route.visits() - 1; v >= 1; --v) {
        if (unseen.empty()) {
          rows += static_cast<double>(leaving.count()) * static_cast<double>(v);
          break;
        }
        leaving = leaving.united(take_seen(queries[route.holder(owner, v)].runs, unseen, visible));
        rows += static_cast<double>(leaving.count());
      }
      first_hop += static_cast<double>(leaving.count());
    }
  }
  // Needed: what has left its owner comes back to it in a hop of its own.
  return rows * kv_row + (phase == Phase::backward ? (rows + first_hop) * gradient_row : 0);
}

}  // namespace cplab

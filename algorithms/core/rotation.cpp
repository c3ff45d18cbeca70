// Which hops a rotation has, from who sees whose keys.
#include "algorithms/core/rotation.hpp"

#include <algorithm>
#include <utility>

#include "algorithms/core/tile.hpp"

namespace cplab {
namespace {

bool seen_at(const Distribution& tokens, Window visible, int distance) {
  const int P = tokens.size();
  for (int place = 0; place < P; ++place)
    if (any_live(tokens[place].runs, tokens[(place - distance + P) % P].runs, visible)) return true;
  return false;
}

std::vector<int> distances(const Distribution& tokens, Window visible, Travel travel, Phase phase) {
  const int P = tokens.size();
  std::vector<int> list;
  for (int i = 0; i < P; ++i) {
    if (travel == Travel::whole)
      list.push_back(phase == Phase::forward ? i : P - 1 - i);
    else if (i == 0 || seen_at(tokens, visible, i))
      list.push_back(i);
  }
  return list;
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
RowsByVisit seen_later(const Distribution& tokens, Window visible, const std::vector<int>& distances,
                       int owner) {
  std::vector<TokenRun> unseen = token_runs(tokens[owner]);
  // From the last visit back: where rows are added, and all that are seen from there on.
  std::vector<std::pair<int, Rows>> added;
  for (int v = static_cast<int>(distances.size()) - 1; v >= 1 && !unseen.empty(); --v) {
    const int holder = (owner + distances[static_cast<std::size_t>(v)]) % tokens.size();
    const Rows rows = take_seen(tokens[holder].runs, unseen, visible);
    if (!rows.empty()) added.emplace_back(v, added.empty() ? rows : added.back().second.united(rows));
  }
  RowsByVisit later{{0, 1}, {Rows::range(0, tokens[owner].rows())}};
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

RotationOfTeam::RotationOfTeam(const Distribution& tokens, Window visible, Travel travel, Phase phase)
    : tokens_(tokens),
      visible_(visible),
      travel_(travel),
      distances_(cplab::distances(tokens, visible, travel, phase)),
      later_(tokens.members.size()),
      seen_(tokens.members.size()) {
  for (const Holding& member : tokens.members) all_.push_back(Rows::range(0, member.rows()));
}

const Rows& RotationOfTeam::later(int owner, int visit) {
  RowsByVisit& known = later_[static_cast<std::size_t>(owner)];
  if (known.rows.empty()) known = seen_later(tokens_, visible_, distances_, owner);
  return known.at(visit);
}

const Rows& RotationOfTeam::seen_before(int owner, int visit) {
  Seen& seen = seen_[static_cast<std::size_t>(owner)];
  RowsByVisit& before = seen.before;
  if (before.rows.empty()) {
    before = {{0}, {Rows()}};
    seen.unseen = token_runs(tokens_[owner]);
  }
  for (; seen.visits < visit && !seen.unseen.empty(); ++seen.visits) {
    const int holder = (owner + distances_[static_cast<std::size_t>(seen.visits)]) % tokens_.size();
    const Rows more = take_seen(tokens_[holder].runs, seen.unseen, visible_);
    if (more.empty()) continue;
    before.since.push_back(seen.visits + 1);
    before.rows.push_back(before.rows.back().united(more));
  }
  return before.at(visit);
}

Rotation::Rotation(const Distribution& tokens, Window visible, int place, Travel travel, Phase phase)
    : Rotation(std::make_shared<RotationOfTeam>(tokens, visible, travel, phase), place) {}

Rotation::Rotation(std::shared_ptr<RotationOfTeam> team, int place) : team_(std::move(team)), place_(place) {}

int Rotation::at(int place) const {
  return (place % team_->size() + team_->size()) % team_->size();
}

int Rotation::owner(int visit) const {
  return at(place_ - distance(visit));
}

int Rotation::holder(int visit) const {
  return at(place_ + distance(visit));
}

int Rotation::next(int visit) const {
  return at(owner(visit) + distance(visit + 1));
}

int Rotation::previous(int visit) const {
  return at(owner(visit) + distance(visit - 1));
}

Rows Rotation::arrived(int visit) const {
  const int o = owner(visit);
  return team_->travel() == Travel::whole ? team_->all(o) : team_->later(o, visit);
}

Rows Rotation::leaving(int visit) const {
  const int o = owner(visit);
  if (team_->travel() == Travel::whole) return visit + 1 < visits() ? team_->all(o) : Rows();
  return team_->later(o, visit + 1);
}

Rows Rotation::ended(int owner, int visit) const {
  if (team_->travel() == Travel::whole) return visit + 1 < visits() ? Rows() : team_->all(owner);
  return team_->later(owner, visit).minus(team_->later(owner, visit + 1));
}

Rows Rotation::ending(int visit) const {
  return ended(owner(visit), visit);
}

// Needed: its owner comes first, and has seen all of it.
Rows Rotation::seen(int visit) const {
  if (team_->travel() == Travel::needed) return visit == 0 ? Rows() : arrived(visit);
  return team_->seen_before(owner(visit), visit);
}

Rows Rotation::summed(int visit) const {
  return team_->travel() == Travel::needed ? leaving(visit) : team_->seen_before(owner(visit), visit + 1);
}

double rotation_bytes(const Distribution& tokens, Window visible, Travel travel, Phase phase, double kv_row,
                      double gradient_row) {
  double rows = 0, first_hop = 0;
  if (travel == Travel::whole) {
    for (const Holding& member : tokens.members) rows += static_cast<double>(member.rows());
    rows *= tokens.size() - 1;
  } else {
    // As seen_later(), counted: once all rows are seen no earlier holder adds any.
    const std::vector<int> list = distances(tokens, visible, travel, phase);
    for (int owner = 0; owner < tokens.size(); ++owner) {
      std::vector<TokenRun> unseen = token_runs(tokens[owner]);
      Rows leaving;
      for (std::size_t v = list.size(); v-- > 1;) {
        if (unseen.empty()) {
          rows += static_cast<double>(leaving.count()) * static_cast<double>(v);
          break;
        }
        const int holder = (owner + list[v]) % tokens.size();
        leaving = leaving.united(take_seen(tokens[holder].runs, unseen, visible));
        rows += static_cast<double>(leaving.count());
      }
      first_hop += static_cast<double>(leaving.count());
    }
  }
  // Needed: what has left its owner comes back to it in a hop of its own.
  return rows * kv_row + (phase == Phase::backward ? (rows + first_hop) * gradient_row : 0);
}

}  // namespace cplab

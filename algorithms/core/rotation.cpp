// Which hops a rotation has, from who sees whose keys.
#include "algorithms/core/rotation.hpp"

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
std::vector<Rows> seen_later(const Distribution& tokens, Window visible, const std::vector<int>& distances,
                             int owner) {
  std::vector<Rows> later(distances.size() + 1);
  std::vector<TokenRun> unseen = token_runs(tokens[owner]);
  for (std::size_t v = distances.size(); v-- > 1;) {
    const int holder = (owner + distances[v]) % tokens.size();
    later[v] = later[v + 1].united(take_seen(tokens[holder].runs, unseen, visible));
  }
  later[0] = Rows::range(0, tokens[owner].rows());
  return later;
}

}  // namespace

Rotation::Rotation(const Distribution& tokens, Window visible, int place, Travel travel, Phase phase)
    : tokens_(tokens),
      visible_(visible),
      place_(place),
      travel_(travel),
      distances_(distances(tokens, visible, travel, phase)),
      later_(tokens.members.size()) {}

int Rotation::at(int place) const {
  return (place % tokens_.size() + tokens_.size()) % tokens_.size();
}

int Rotation::owner(int visit) const {
  return at(place_ - distances_[static_cast<std::size_t>(visit)]);
}

int Rotation::holder(int visit) const {
  return at(place_ + distances_[static_cast<std::size_t>(visit)]);
}

int Rotation::next(int visit) const {
  return at(owner(visit) + distances_[static_cast<std::size_t>(visit) + 1]);
}

int Rotation::previous(int visit) const {
  return at(owner(visit) + distances_[static_cast<std::size_t>(visit) - 1]);
}

Rows Rotation::all(int owner) const {
  return Rows::range(0, tokens_[owner].rows());
}

const std::vector<Rows>& Rotation::later(int owner) const {
  std::vector<Rows>& known = later_[static_cast<std::size_t>(owner)];
  if (known.empty()) known = seen_later(tokens_, visible_, distances_, owner);
  return known;
}

Rows Rotation::arrived(int visit) const {
  const int o = owner(visit);
  return travel_ == Travel::whole ? all(o) : later(o)[static_cast<std::size_t>(visit)];
}

Rows Rotation::leaving(int visit) const {
  const int o = owner(visit);
  if (travel_ == Travel::whole) return visit + 1 < visits() ? all(o) : Rows();
  return later(o)[static_cast<std::size_t>(visit) + 1];
}

Rows Rotation::ended(int owner, int visit) const {
  if (travel_ == Travel::whole) return visit + 1 < visits() ? Rows() : all(owner);
  const auto v = static_cast<std::size_t>(visit);
  return later(owner)[v].minus(later(owner)[v + 1]);
}

Rows Rotation::ending(int visit) const {
  return ended(owner(visit), visit);
}

// In a whole rotation: the rows of `owner` that its holders before `visit` see.
Rows Rotation::seen_before(int owner, int visit) const {
  Rows rows;
  std::vector<TokenRun> unseen = token_runs(tokens_[owner]);
  for (int v = 0; v < visit && !unseen.empty(); ++v) {
    const int holder = at(owner + distances_[static_cast<std::size_t>(v)]);
    rows = rows.united(take_seen(tokens_[holder].runs, unseen, visible_));
  }
  return rows;
}

// Needed: its owner comes first, and has seen all of it.
Rows Rotation::seen(int visit) const {
  if (travel_ == Travel::needed) return visit == 0 ? Rows() : arrived(visit);
  return seen_before(owner(visit), visit);
}

Rows Rotation::summed(int visit) const {
  return travel_ == Travel::needed ? leaving(visit) : seen_before(owner(visit), visit + 1);
}

double rotation_bytes(const Distribution& tokens, Window visible, Travel travel, Phase phase, double kv_row,
                      double gradient_row) {
  double rows = 0, first_hop = 0;
  if (travel == Travel::whole) {
    for (const Holding& member : tokens.members) rows += static_cast<double>(member.rows());
    rows *= tokens.size() - 1;
  } else {
    const std::vector<int> list = distances(tokens, visible, travel, phase);
    for (int owner = 0; owner < tokens.size(); ++owner) {
      const std::vector<Rows> later = seen_later(tokens, visible, list, owner);
      for (std::size_t v = 1; v < later.size(); ++v) rows += static_cast<double>(later[v].count());
      first_hop += static_cast<double>(later.size() > 2 ? later[1].count() : 0);
    }
  }
  // Needed: what has left its owner comes back to it in a hop of its own.
  return rows * kv_row + (phase == Phase::backward ? (rows + first_hop) * gradient_row : 0);
}

}  // namespace cplab

// Memory of what members of a team share; see shared.hpp.
#include "algorithms/core/shared.hpp"

#include <stdexcept>
#include <string>
#include <utility>

#include "plan/islands.hpp"

namespace cplab {

const Distribution& Shared::keep(Distribution distribution) {
  const Distribution* kept =
      all_.emplace_back(std::make_unique<const Distribution>(std::move(distribution))).get();
  known_[kept] = true;
  return *kept;
}

void Shared::require_kept(const Distribution& distribution) const {
  if (!known_.contains(&distribution))
    throw std::logic_error("a distribution that is made from one that is not kept");
}

// Lists are known by their place: what is kept holds them, so that no other list can be there.
const Distribution& Shared::kept(const Distribution& distribution) {
  if (known_.contains(&distribution)) return distribution;
  std::vector<std::int64_t> content{distribution.replicated};
  for (const Holding& member : distribution.members)
    content.insert(content.end(),
                   {static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(member.runs.id())),
                    member.heads.begin, member.heads.end});
  const Distribution*& kept = by_content_[content];
  if (kept == nullptr) kept = &keep(distribution);
  return *kept;
}

const Distribution& Shared::made(std::string_view what, const Distribution& of,
                                 const std::function<Distribution()>& make) {
  require_kept(of);
  const Distribution*& made = by_maker_[{what, &of}];
  if (made == nullptr) made = &keep(make());
  return *made;
}

const Visible& Shared::visible(const Problem& problem) {
  if (!visible_) visible_ = std::make_unique<const Visible>(problem);
  return *visible_;
}

const Distribution& Shared::placed(const Problem& problem, const Placement& placement, std::int64_t ranks) {
  if (placed_ == nullptr) placed_ = &keep(cplab::placed(problem, placement, ranks));
  return *placed_;
}

const Distribution& Shared::placed_keys(const Scenario& scenario, int replica) {
  if (placed_keys_ == nullptr) placed_keys_ = &keep(cplab::placed_keys(scenario, replica));
  return *placed_keys_;
}

const Distribution& Shared::key_heads(const Problem& problem, const Distribution& of_queries) {
  return made("key heads", of_queries, [&] { return cplab::key_heads(problem, of_queries); });
}

const Distribution& Shared::all_tokens(const Distribution& from) {
  return made("all tokens", from, [&] { return cplab::all_tokens(from); });
}

const Distribution& Shared::split_heads(const Distribution& tokens) {
  return made("split heads", tokens, [&] { return cplab::split_heads(tokens); });
}

const Distribution& Shared::seen(const Distribution& queries, const Distribution& keys,
                                 const Visible& visible) {
  return made("seen", keys, [&] { return cplab::seen(queries, keys, visible); });
}

const Redistribution& Shared::redistribution(const Distribution& from, const Distribution& to) {
  require_kept(from);
  require_kept(to);
  const Ends ends{&from, &to};
  const auto known = redistributions_.find(ends);
  if (known != redistributions_.end()) return known->second;
  return redistributions_.emplace(ends, Redistribution(from, to)).first->second;
}

const Redistribution& Shared::redistribution(const Distribution& from, const Distribution& to,
                                             HeadRange heads) {
  const std::tuple key{Ends{&from, &to}, heads.begin, heads.end};
  const auto known = of_heads_.find(key);
  if (known != of_heads_.end()) return known->second;
  return of_heads_.emplace(key, redistribution(from, to).of_heads(heads)).first->second;
}

const std::shared_ptr<RotationOfTeam>& Shared::rotation(const Distribution& queries, const Distribution& keys,
                                                        const Visible& visible, Travel travel,
                                                        const Route& route) {
  require_kept(queries);
  require_kept(keys);
  std::shared_ptr<RotationOfTeam>& known = rotations_[{Ends{&queries, &keys}, travel, route}];
  if (!known) known = std::make_shared<RotationOfTeam>(queries, keys, visible, travel, route);
  return known;
}

bool Shared::mixes_transports(const Parallel& parallel) {
  if (mixes_.empty()) mixes_.push_back(cplab::mixes_transports(parallel));
  return mixes_.front() != 0;
}

}  // namespace cplab

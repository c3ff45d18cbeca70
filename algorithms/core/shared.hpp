// What the ranks of one context-parallel group have in common while their plans are built: distributions made
// from one another and what moves between them. The first rank that asks for one makes it, the others get the
// same.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/core/distribution.hpp"
#include "algorithms/core/redistribution.hpp"
#include "algorithms/core/rotation.hpp"

namespace cplab {

// Of one scenario and one replica. What it returns lives as long as it does. A distribution that is made from
// others is known by these, which must therefore have come from here too (std::logic_error).
class Shared {
 public:
  // The distribution that has these lists of tokens and these heads, for every member.
  const Distribution& kept(const Distribution&);
  // What `make` makes of a kept distribution; `what` says which function that is, one for every name.
  const Distribution& made(std::string_view what, const Distribution& of,
                           const std::function<Distribution()>& make);

  // Of the group's problem.
  const Visible& visible(const Problem&);

  const Distribution& placed(const Problem&, const Placement& of_the_group, std::int64_t ranks);
  const Distribution& placed_keys(const Scenario&, int replica);
  const Distribution& key_heads(const Problem&, const Distribution& of_queries);
  const Distribution& all_tokens(const Distribution&);
  const Distribution& split_heads(const Distribution&);
  // Of one group's queries and mask.
  const Distribution& seen(const Distribution& queries, const Distribution& keys, const Visible& visible);

  // Between two kept distributions, of all heads or of some (Redistribution::of_heads).
  const Redistribution& redistribution(const Distribution& from, const Distribution& to);
  const Redistribution& redistribution(const Distribution& from, const Distribution& to, HeadRange);

  // What all members of a rotation of kept distributions know.
  const std::shared_ptr<RotationOfTeam>& rotation(const Distribution& queries, const Distribution& keys,
                                                  const Visible& visible, Travel, const Route&);

  // Anything else, made of numbers that say all it depends on beside the scenario; `what` names its type and
  // what it is.
  template <class T>
  const T& of_numbers(std::string_view what, std::vector<std::int64_t> numbers,
                      const std::function<T()>& make) {
    std::shared_ptr<const void>& known = of_numbers_[{what, std::move(numbers)}];
    if (!known) known = std::make_shared<const T>(make());
    return *static_cast<const T*>(known.get());
  }

  // Schedule::transport left open, and both transports are in use (plan/islands.hpp).
  bool mixes_transports(const Parallel&);

 private:
  const Distribution& keep(Distribution);
  void require_kept(const Distribution&) const;

  std::vector<std::unique_ptr<const Distribution>> all_;
  std::map<const Distribution*, bool> known_;
  std::map<std::vector<std::int64_t>, const Distribution*> by_content_;
  std::map<std::pair<std::string_view, const Distribution*>, const Distribution*> by_maker_;
  using Ends = std::pair<const Distribution*, const Distribution*>;
  std::map<Ends, Redistribution> redistributions_;
  std::map<std::tuple<Ends, std::int64_t, std::int64_t>, Redistribution> of_heads_;
  std::map<std::tuple<Ends, Travel, Route>, std::shared_ptr<RotationOfTeam>> rotations_;  // of queries, keys
  std::map<std::pair<std::string_view, std::vector<std::int64_t>>, std::shared_ptr<const void>> of_numbers_;
  const Distribution *placed_ = nullptr, *placed_keys_ = nullptr;
  std::unique_ptr<const Visible> visible_;
  std::vector<char> mixes_;  // once it is known
};

}  // namespace cplab

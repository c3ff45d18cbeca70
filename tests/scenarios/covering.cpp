// Greedy covering arrays; see covering.hpp.
#include "tests/scenarios/covering.hpp"

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>

namespace cplab::testing {
namespace {

// A choice of dimensions with one value each, in a single number.
using Key = std::vector<std::pair<std::size_t, std::size_t>>;

void each_choice(std::size_t dimensions, std::size_t strength,
                 const std::function<void(const std::vector<std::size_t>&)>& visit) {
  std::vector<std::size_t> chosen;
  const std::function<void(std::size_t)> go = [&](std::size_t from) {
    if (chosen.size() == strength) return visit(chosen);
    for (std::size_t d = from; d < dimensions; ++d) {
      chosen.push_back(d);
      go(d + 1);
      chosen.pop_back();
    }
  };
  go(0);
}

Key key_of(const std::vector<std::size_t>& chosen, const Case& values) {
  Key key;
  for (const std::size_t d : chosen) key.emplace_back(d, values[d]);
  return key;
}

std::set<Key> all_keys(const std::vector<std::size_t>& levels, std::size_t strength) {
  std::set<Key> keys;
  each_choice(levels.size(), strength, [&](const std::vector<std::size_t>& chosen) {
    Case values(levels.size(), 0);
    const std::function<void(std::size_t)> go = [&](std::size_t i) {
      if (i == chosen.size()) {
        keys.insert(key_of(chosen, values));
        return;
      }
      for (values[chosen[i]] = 0; values[chosen[i]] < levels[chosen[i]]; ++values[chosen[i]]) go(i + 1);
    };
    go(0);
  });
  return keys;
}

std::size_t gain(const std::set<Key>& open, std::size_t strength, const Case& values) {
  std::size_t count = 0;
  each_choice(values.size(), strength,
              [&](const std::vector<std::size_t>& chosen) { count += open.count(key_of(chosen, values)); });
  return count;
}

}  // namespace

std::vector<Case> covering_array(const std::vector<std::size_t>& levels, std::size_t strength,
                                 const std::function<bool(const Case&)>& legal, std::size_t* impossible) {
  std::set<Key> open = all_keys(levels, strength);
  std::vector<Case> cases;
  std::mt19937_64 random(20261121);
  if (impossible) *impossible = 0;
  while (!open.empty()) {
    const Key seed = *open.begin();
    Case best;
    std::size_t best_gain = 0;
    // A few random completions of the seed, each improved one dimension at a time, keep the list short.
    // Of single values all that are possible have to be found.
    const int attempts = 40, attempts_for_one = strength == 1 ? 2000 : attempts;
    for (int attempt = 0; attempt < (best_gain > 0 ? attempts : attempts_for_one); ++attempt) {
      Case values(levels.size());
      for (std::size_t d = 0; d < levels.size(); ++d) values[d] = random() % levels[d];
      for (const auto& [d, value] : seed) values[d] = value;
      if (!legal(values)) continue;
      const std::size_t g = gain(open, strength, values);
      if (g > best_gain) {
        best = values;
        best_gain = g;
      }
    }
    if (best_gain == 0) {
      if (impossible) ++*impossible;
      open.erase(open.begin());
      continue;
    }
    each_choice(levels.size(), strength,
                [&](const std::vector<std::size_t>& chosen) { open.erase(key_of(chosen, best)); });
    cases.push_back(best);
  }
  return cases;
}

std::size_t uncovered(const std::vector<std::size_t>& levels, std::size_t strength,
                      const std::vector<Case>& cases) {
  std::set<Key> open = all_keys(levels, strength);
  for (const Case& values : cases)
    each_choice(levels.size(), strength,
                [&](const std::vector<std::size_t>& chosen) { open.erase(key_of(chosen, values)); });
  return open.size();
}

}  // namespace cplab::testing

// See scenario_disturbance.hpp.
#include "cli/files/scenario_disturbance.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "cli/files/scenario_words.hpp"

namespace cplab {
namespace {

constexpr std::array<std::pair<const char*, double SlowRank::*>, 3> factors{
    {{"link", &SlowRank::link}, {"compute", &SlowRank::compute}, {"nic", &SlowRank::nic}}};

SlowRank read_slow_rank(const Table& entry, std::int64_t world) {
  SlowRank slow;
  if (!entry.has("rank"))
    entry.fail("rank", "missing; the rank that is slow, from 0 to " + std::to_string(world - 1));
  slow.rank = static_cast<int>(in_range(entry, "rank", entry.integer("rank"), 0, world - 1));
  bool any = false;
  for (const auto& [key, factor] : factors) {
    if (!entry.has(key)) continue;
    any = true;
    slow.*factor = entry.number(key);
    if (!(slow.*factor > 0 && slow.*factor <= 1))
      entry.fail(key, "is a factor on the speed of the rank's " +
                          std::string(key == std::string("compute") ? "kernels" : key) +
                          ": above 0, at most 1; a machine whose other ranks are slower is one with slower "
                          "numbers in its hardware file");
  }
  if (!any)
    entry.fail("rank", "is as fast as all others: one of link, compute and nic says by what it is slow");
  return slow;
}

}  // namespace

void know_slow_ranks(const Table& simulate) {
  if (simulate.kind("slow") != Table::Kind::list) return;  // said when it is read
  for (const Table& entry : simulate.tables("slow")) {
    (void)entry.has("rank");
    for (const auto& [key, factor] : factors) (void)entry.has(key);
  }
}

Disturbance read_disturbance(const Table& simulate, std::int64_t world, std::vector<std::string>& notes) {
  Disturbance disturbance;
  if (simulate.has("slow")) {
    for (const Table& entry : simulate.tables("slow")) {
      const SlowRank slow = read_slow_rank(entry, world);
      for (const SlowRank& other : disturbance.slow)
        if (other.rank == slow.rank)
          entry.fail("rank",
                     "rank " + std::to_string(slow.rank) + " is there twice; one entry has all factors");
      disturbance.slow.push_back(slow);
    }
    std::ranges::sort(disturbance.slow, {}, &SlowRank::rank);
  }
  disturbance.jitter = number(simulate, "jitter");
  if (!(disturbance.jitter >= 0 && disturbance.jitter < 1))
    simulate.fail(
        "jitter",
        "is how far the time of a kernel may lie from what is predicted, both ways: from 0 to below "
        "1, such as 0.05");
  if (!simulate.has("seed")) return disturbance;
  disturbance.seed = static_cast<std::uint64_t>(
      in_range(simulate, "seed", simulate.integer("seed"), 0, std::numeric_limits<std::int64_t>::max()));
  if (disturbance.jitter == 0) notes.emplace_back("simulate.seed: not used, there is no simulate.jitter");
  return disturbance;
}

void add_disturbance(const Disturbance& disturbance, ScenarioSection& simulate) {
  if (!disturbance.slow.empty()) {
    SettingTables tables;
    for (const SlowRank& slow : disturbance.slow) {
      auto& table = tables.emplace_back();
      table.emplace_back("rank", std::int64_t{slow.rank});
      for (const auto& [key, factor] : factors)
        if (slow.*factor != 1) table.emplace_back(key, slow.*factor);
      // A factor of 1 that was said alone.
      if (table.size() == 1) table.emplace_back("compute", 1.0);
    }
    simulate.settings.emplace_back("slow", std::move(tables));
  }
  if (disturbance.jitter == 0) return;
  simulate.settings.emplace_back("jitter", disturbance.jitter);
  simulate.settings.emplace_back("seed", static_cast<std::int64_t>(disturbance.seed));
}

}  // namespace cplab

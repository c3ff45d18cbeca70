// See homes.hpp.
#include "algorithms/core/homes.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <string>
#include <utility>

#include "algorithms/core/algorithm.hpp"
#include "plan/visible.hpp"

namespace cplab {
namespace {

// What attention and everything else cost of a sequence, or of all that a rank holds.
struct Work {
  double pairs = 0, rows = 0;
};

class Sharing {
 public:
  Sharing(const Problem& p, const Parallel& parallel, std::size_t replica) : P_(parallel.ranks) {
    for (std::size_t b = replica; b < p.lengths.size(); b += static_cast<std::size_t>(parallel.replicas)) {
      longest_first_.push_back({visible_pairs(p, b), static_cast<double>(p.padded_lengths[b]), b});
      share_.pairs += longest_first_.back().pairs / static_cast<double>(P_);
      share_.rows += longest_first_.back().rows / static_cast<double>(P_);
    }
    std::ranges::stable_sort(longest_first_, [](const Sequence& a, const Sequence& b) {
      return std::pair(a.pairs, a.rows) > std::pair(b.pairs, b.rows);
    });
  }

  // Where the sequences lie if the `cut` longest are cut; returns what the busiest rank has of its share.
  double lay(std::size_t cut, std::vector<int>& homes) const {
    Work cut_work;  // on every rank
    for (std::size_t i = 0; i < cut; ++i) {
      const double unit = 2 * static_cast<double>(P_);
      cut_work.pairs += longest_first_[i].pairs / static_cast<double>(P_);
      cut_work.rows += 2 * std::ceil(longest_first_[i].rows / unit);
      homes[longest_first_[i].number] = -1;
    }
    std::vector<Work> held(static_cast<std::size_t>(P_), cut_work);
    using Load = std::pair<double, int>;  // of its share, position
    std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
    double most = of_share(cut_work);
    for (int position = 0; position < static_cast<int>(P_); ++position) least.push({most, position});
    for (std::size_t i = cut; i < longest_first_.size(); ++i) {
      const int position = least.top().second;
      least.pop();
      Work& work = held[static_cast<std::size_t>(position)];
      work.pairs += longest_first_[i].pairs, work.rows += longest_first_[i].rows;
      least.push({of_share(work), position});
      most = std::max(most, of_share(work));
      homes[longest_first_[i].number] = position;
    }
    return most;
  }

  // How many are more than `bound` of a rank's share by themselves.
  std::size_t too_long(double bound) const {
    const auto fits = [&](const Sequence& s) { return of_share({s.pairs, s.rows}) <= bound; };
    return static_cast<std::size_t>(std::ranges::find_if(longest_first_, fits) - longest_first_.begin());
  }
  std::size_t sequences() const { return longest_first_.size(); }

 private:
  struct Sequence {
    double pairs = 0, rows = 0;
    std::size_t number = 0;
  };
  double of_share(const Work& work) const {
    const double pairs = share_.pairs > 0 ? work.pairs / share_.pairs : 0;
    return std::max(pairs, share_.rows > 0 ? work.rows / share_.rows : 0);
  }

  std::int64_t P_;
  std::vector<Sequence> longest_first_;
  Work share_;  // of each rank
};

}  // namespace

std::vector<int> balanced_homes(const Problem& problem, const Parallel& parallel) {
  std::vector<int> homes(problem.lengths.size(), -1);
  for (std::size_t replica = 0; replica < static_cast<std::size_t>(parallel.replicas); ++replica) {
    const Sharing sharing(problem, parallel, replica);
    // One more cut may leave a number that is harder to share out, so counts are tried one by one, above 64
    // in steps of a sixteenth.
    constexpr double fair = 1.05;
    constexpr std::size_t one_by_one = 64, of_the_rest = 16;
    const std::size_t all = sharing.sequences();
    std::size_t best = 0;
    double least = sharing.lay(0, homes);
    for (std::size_t cut = sharing.too_long(fair); least > fair;) {
      if (const double most = sharing.lay(cut, homes); most < least) least = most, best = cut;
      if (cut == all) break;
      cut = std::min(all, cut + (cut < one_by_one ? 1 : cut / of_the_rest));
    }
    sharing.lay(best, homes);
  }
  return homes;
}

void resolve_homes(Scenario& s) {
  std::vector<int>& homes = s.parallel.homes;
  if (s.placement != "hybrid") {
    if (!homes.empty()) throw ScenarioError("parallel.homes", "only placement = \"hybrid\" has them");
    return;
  }
  if (homes.empty()) homes = balanced_homes(s.problem, s.parallel);
  if (homes.size() != s.problem.lengths.size())
    throw ScenarioError("parallel.homes", "must be one for each of the " +
                                              std::to_string(s.problem.lengths.size()) +
                                              " sequences, but are " + std::to_string(homes.size()));
  for (const int home : homes)
    if (home < -1 || home >= s.parallel.ranks)
      throw ScenarioError(
          "parallel.homes",
          "names " + std::to_string(home) + "; legal: 0 to " + std::to_string(s.parallel.ranks - 1) +
              ", the position in its group of the rank that holds the sequence, or -1: it is cut");
}

}  // namespace cplab

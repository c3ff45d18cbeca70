// See accuracy.hpp.
#include "sim/accuracy.hpp"

#include <algorithm>

namespace cplab {

std::string accuracy_kind(const Scenario& scenario) {
  const Problem& problem = scenario.problem;
  if (scenario.parallel.ranks == 1) return "one_gpu";
  if (problem.attention == Attention::linear) {
    const std::string& algorithm = scenario.algorithm;
    const bool chain = algorithm == "lasp_naive" || algorithm == "lasp_cache" || algorithm == "lasp_fuse" ||
                       algorithm == "lasp_fuse_parallel";
    return chain ? "lasp" : "scan";
  }
  if (problem.packed) return "packed";
  if (!(problem.window == Window{})) return "window";
  if (problem.batch > 1) return "batch";
  return scenario.algorithm;
}

const KindAccuracy* accuracy_of(const std::vector<KindAccuracy>& all, const Scenario& scenario) {
  if (all.empty()) return nullptr;
  const std::string kind = accuracy_kind(scenario);
  const auto own =
      std::find_if(all.begin(), all.end(), [&](const KindAccuracy& k) { return k.kind == kind; });
  if (own != all.end()) return &*own;
  return &*std::max_element(all.begin(), all.end(), [](const KindAccuracy& a, const KindAccuracy& b) {
    return a.half_width < b.half_width;
  });
}

}  // namespace cplab

// What binds a step; see changes.hpp.
#include <algorithm>

#include "decide/changes.hpp"

namespace cplab {

std::string_view name(Resource resource) {
  switch (resource) {
    case Resource::attention: return "attention kernels";
    case Resource::products: return "matrix products";
    case Resource::memory: return "memory bandwidth";
    case Resource::launches: return "launches";
    case Resource::links: return "links inside a node";
    case Resource::nics: return "NICs";
    case Resource::host: return "host";
  }
  return "";
}

std::vector<Binding> bindings_of(const StepEstimate& step) {
  std::vector<Binding> found;
  for (std::size_t i = 0; i < resource_count; ++i) {
    const double seconds = step.critical.seconds[i];
    // Sums of differences leave a last bit.
    if (seconds > 1e-9 * step.time_s)
      found.push_back({std::string(name(static_cast<Resource>(i))), seconds, seconds / step.time_s});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Binding& a, const Binding& b) { return a.seconds > b.seconds; });
  return found;
}

}  // namespace cplab

// What binds a step, and what would change it: each by estimating the step again with that one thing
// otherwise.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "decide/step.hpp"

namespace cplab {

struct Change {
  std::string what;  // "NICs twice as fast"
  double time_s = 0, delta_s = 0;
  bool fits = true;
  std::string note;  // why it cannot be said, or what must be known beside the time; may be empty
};

// Everything that can change for that layout. `others`: machines to compare, by what a sentence calls them.
std::vector<Change> changes_of(const Model&, const Training&, const Hardware&, const ModelLayout&,
                               const StepEstimate& now,
                               const std::vector<std::pair<std::string, Hardware>>& others);

// What the critical path of a step uses (StepEstimate::critical): with the resource f times as fast, the step
// is shorter by share x (1 - 1/f), as long as the path stays where it is.
struct Binding {
  std::string resource;  // name(Resource)
  double seconds = 0, share = 0;
};
// Longest first; the shares sum to 1.
std::vector<Binding> bindings_of(const StepEstimate&);

// The machine with one thing otherwise.
Hardware with_link_speed(Hardware, double factor);
Hardware with_nic_speed(Hardware, double factor);
Hardware with_attention_speed(Hardware, double factor);
Hardware with_product_speed(Hardware, double factor);
Hardware with_memory_speed(Hardware, double factor);

}  // namespace cplab

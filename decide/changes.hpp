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

// A resource that a step uses, by the terms that it carries.
struct Binding {
  std::string resource;  // "attention kernels", "matrix products", "NICs", "links inside a node", ...
  double seconds = 0, share = 0;
};
// Longest first; the shares sum to 1. Of a transfer the NICs bind where its group spans nodes.
std::vector<Binding> bindings_of(const StepEstimate&, const ModelLayout&, const Hardware&);

// The machine with one thing otherwise.
Hardware with_link_speed(Hardware, double factor);
Hardware with_nic_speed(Hardware, double factor);
Hardware with_attention_speed(Hardware, double factor);
Hardware with_product_speed(Hardware, double factor);

}  // namespace cplab

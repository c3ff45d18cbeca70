// K and V of one sequence that are made of latents: what they are, how far off they may be, and what becomes
// of right gradients of them and their errors (tolerance.hpp has the model).
#pragma once

#include "cli/verify/expected.hpp"
#include "reference/latents.hpp"

namespace cplab {

class ProjectedKeys {
 public:
  ProjectedKeys(const Problem&, const reference::LatentInputs&);

  std::span<const double> k() const { return keys_.k; }
  std::span<const double> v() const { return keys_.v; }
  const ProjectedErrors& errors() const { return errors_; }
  // Adds the gradients of latents and weights to what is expected, from those of K and V.
  void go_back(const PlanRoundings&, Expected&) const;

 private:
  DType dtype_;
  reference::LatentShape shape_;
  reference::LatentInputs in_;
  reference::LatentKeys keys_;
  ProjectedErrors errors_;
};

}  // namespace cplab

// A plan of both phases as two plans: what a framework executes in two calls, other layers between them.
#pragma once

#include "plan/plan.hpp"

namespace cplab {

// The operations of one phase, with the edges between them; buffers, offsets and groups stay as they are.
// What the other phase leaves to this one lies in inputs, outputs and saved buffers. Throws
// std::invalid_argument for a plan of both phases that is not built for that (RankPlan::between_layers).
Plan phase_alone(const Plan&, Phase);

}  // namespace cplab

// Shapes of inputs and outputs; see problem_buffers.hpp.
#include "cli/verify/problem_buffers.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "cli/verify/states.hpp"
#include "cli/verify/tensors.hpp"
#include "exec/bind.hpp"
#include "exec/buffer_image.hpp"

namespace cplab {
namespace {

void require_shape(const Plan& plan, int rank, std::string_view name, std::int64_t rows, std::int64_t heads,
                   std::int64_t width) {
  const Buffer& b = require_buffer(plan, rank, name);
  if (b.slots == 1 && b.rows == rows && b.heads == heads && b.width == width) return;
  throw BadPlan(
      FindingKind::coverage, rank, "", b.name,
      fmt::format("buffer {} of rank {} has {} x {} x {} x {} elements (slots, rows, heads, width); "
                  "the scenario gives it 1 x {} x {} x {}",
                  name, rank, b.slots, b.rows, b.heads, b.width, rows, heads, width));
}

}  // namespace

void require_problem_buffers(const Plan& plan) {
  require_tensors(plan);
  const Problem& p = plan.scenario.problem;
  for (const RankPlan& rank : plan.ranks) {
    for (const StateBuffer& states : state_buffers(plan, rank)) {
      const std::int64_t count = std::ssize(states.states);
      if (count > 0)  // a rank without tokens may have room for a state, which nobody reads
        require_shape(plan, rank.rank, states.buffer, count * p.head_size, p.heads, p.value_size);
    }
  }
}

}  // namespace cplab

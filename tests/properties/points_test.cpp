// Points of the tables of shipped hardware files come out of the cost model exactly.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/attention_variant.hpp"
#include "tests/properties/drawn_scenarios.hpp"

using namespace cplab;
using namespace cplab::testing;

namespace {

// The call that a point was measured with, on one rank.
Scenario scenario_of(const KernelTable& table, const KernelPoint& point) {
  Scenario s;
  s.algorithm = "ring";
  s.parallel.ranks = 1;
  Problem& p = s.problem;
  p.heads = p.kv_heads = point.heads;
  p.head_size = table.head_size;
  p.value_size = table.value_size;
  p.dtype = table.dtype;
  p.causal = table.causal;
  p.scale = 0.1;
  if (table.kind == OpKind::attend) p.direction = Direction::forward;
  set_lengths(p, std::vector<std::int64_t>(static_cast<std::size_t>(point.batch), point.sequence));
  return changed(std::move(s));
}

}  // namespace

// Of our own backward plans call another form than `cplab calibrate` does, which has the gradients in fp32
// and delta before; tests/sim has that one. A point of a kernel that is not the one taken is not met either.
TEST_CASE("what was measured comes out exactly") {
  int points = 0;
  for (const Machine* machine : machines()) {
    for (const KernelTable& table : machine->hardware.kernels) {
      const bool own = has_square_points(table.kind) && family_of(table) != KernelFamily::foreign;
      if (!has_square_points(table.kind) || (own && table.kind == OpKind::attend_backward)) continue;
      for (const KernelPoint& point : table.points) {
        const Priced p = priced(scenario_of(table, point), *machine);
        const double seconds =
            table.sustained ? point.seconds : point.seconds * machine->hardware.burst.speed;
        for (const PricedKernel& kernel : p.ranks[0]) {
          if (kernel.op->kind != table.kind || (own && kernel.taken != table.variant)) continue;
          CAPTURE(machine->name);
          CAPTURE(table.variant);
          CAPTURE(point.sequence);
          CHECK(kernel.cost.seconds == doctest::Approx(seconds).epsilon(1e-9));
          const Origin origin = kernel.cost.origin;
          CHECK((table.provenance.origin == Origin::assumed || origin == Origin::measured));
          ++points;
        }
      }
    }
  }
  CHECK(points >= 200);
}

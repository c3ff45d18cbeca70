// The row lists that algorithms and placements produce are ones that the kernels for Hopper take: of every
// plan, whatever its options, lengths and mask.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "algorithms/core/build.hpp"
#include "calls/converter.hpp"
#include "kernels/choice/choose.hpp"
#include "kernels/families/family.hpp"
#include "tests/scenarios/scenarios_of.hpp"

namespace cplab {
namespace {

using kernels::cuda::AttendBackwardVariant;
using kernels::cuda::AttendVariant;
using kernels::cuda::choose_variant;
using kernels::cuda::variants_for;

constexpr kernels::cuda::VariantOptions on_hopper{.sm_major = 9, .sms = 132, .build = {}};

bool takes(const kernels::Attend& call) {
  // Few queries may go to kernels made for them; those for Hopper would take them too.
  const std::vector<const AttendVariant*> all = variants_for(call, on_hopper);
  return std::ranges::any_of(all, [](const AttendVariant* v) { return v->family->name() == "hopper"; });
}
bool takes(const kernels::AttendBackward& call) {
  return choose_variant(call, on_hopper).variant->sm_major == 9;
}
template <class Call>
bool takes(const Call&) {
  return true;
}

TEST_CASE("every tile of attention is taken by a kernel for Hopper") {
  // Arenas place buffers at multiples of 256 bytes; nothing is read.
  alignas(16) static std::array<std::byte, 16> memory;
  std::int64_t tiles = 0;
  for (const testing::NamedScenario& named : testing::all_scenarios()) {
    if (named.scenario.problem.attention != Attention::softmax) continue;
    CAPTURE(named.name);
    Scenario scenario = named.scenario;
    scenario.problem.head_size = scenario.problem.value_size = 64;
    const Plan plan = build_plan(scenario);
    std::int64_t refused = 0;
    for (const RankPlan& rank : plan.ranks) {
      const CallConverter converter(rank, DType::bf16);
      for (const Operation& op : rank.operations) {
        if (op.kind != OpKind::attend && op.kind != OpKind::attend_backward) continue;
        for (PlacedCall& placed : converter.calls(op)) {
          const std::vector<kernels::View*> views = views_of(placed.call);
          for (std::size_t n = 0; n < views.size(); ++n)
            views[n]->data = memory.data() + placed.places[n].byte % 16;
          if (views[0]->rows == 0) continue;  // nothing is launched
          ++tiles;
          if (!std::visit([](const auto& call) { return takes(call); }, placed.call)) ++refused;
        }
      }
    }
    CHECK(refused == 0);
  }
  CHECK(tiles > (testing::each_value_once() ? 500 : 5000));
}

}  // namespace
}  // namespace cplab

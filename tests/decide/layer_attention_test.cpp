// The scenario that stands for a layer's attention says its form, and routes over several nodes are tried.
#include "decide/layer_attention.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string_view>

#include "tests/decide/models_by_hand.hpp"

using namespace cplab;

namespace {

Hardware nodes_of(int gpus) {
  Hardware machine;
  machine.node.gpus = gpus;
  machine.network.nics = gpus;
  return machine;
}

bool tries(const Model& model, std::int64_t cp, std::string_view algorithm) {
  const auto choices = choices_of(model, {.cp = cp, .sequence = 65536}, nodes_of(8));
  return std::any_of(choices.begin(), choices.end(),
                     [&](const AttentionChoice& choice) { return choice.algorithm == algorithm; });
}

}  // namespace

TEST_CASE("a softcap and chunks of tokens are in the plan, not in a formula") {
  Model model = by_hand::twelve_layers();
  AttentionKind& kind = model.attention.front();
  kind.softcap = 50;
  kind.chunk = 8192;
  CHECK(foreign_form(kind).empty());
  const AttentionChoice ring{"ring", "zigzag", {}};
  const Scenario s = scenario_of(model, {.cp = 4, .sequence = 65536}, ring, nodes_of(8));
  CHECK(s.problem.softcap == 50);
  CHECK(s.problem.chunk == 8192);
  // Of a row that is one chunk there is nothing to cut.
  CHECK(scenario_of(model, {.cp = 4, .sequence = 4096}, ring, nodes_of(8)).problem.chunk == 0);
}

TEST_CASE("rings of nodes and grids are tried where a group spans nodes") {
  const Model model = by_hand::twelve_layers();
  for (const char* algorithm : {"double_ring", "mesh"}) {
    CAPTURE(algorithm);
    CHECK(tries(model, 32, algorithm));
    CHECK(!tries(model, 8, algorithm));
  }
}

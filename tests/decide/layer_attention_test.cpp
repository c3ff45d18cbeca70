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
  const AttentionChoice ring{"ring", "zigzag", {}};
  const Scenario s = scenario_of(model, {.cp = 4, .sequence = 65536}, ring, nodes_of(8));
  CHECK(s.problem.softcap == 50);
  CHECK(s.problem.chunk == 8192);
  // Of a row that is one chunk there is nothing to cut.
  CHECK(scenario_of(model, {.cp = 4, .sequence = 4096}, ring, nodes_of(8)).problem.chunk == 0);
}

TEST_CASE(
    "latent attention and states are in the plan, with their own heads, a share of them for each rank") {
  Model model = by_hand::twelve_layers();
  AttentionKind& kind = model.attention.front();
  kind = {.mixer = Mixer::latent, .heads = 32, .kv_heads = 32, .head_size = 192, .value_size = 128};
  kind.kv_latent = 512, kind.rope_size = 64;
  const AttentionCase of{.tp = 2, .cp = 4, .sequence = 8192};
  Problem p = scenario_of(model, of, {"ring", "zigzag", {}}, nodes_of(8)).problem;
  CHECK(p.attention == Attention::softmax);
  CHECK(p.heads == 16);
  CHECK(p.kv_heads == 16);
  CHECK(p.head_size == 192);
  CHECK(p.value_size == 128);
  // Value heads have states, whose q and k they share with others of their key head.
  kind = {.mixer = Mixer::gated_delta, .heads = 32, .kv_heads = 16, .head_size = 128, .value_size = 64};
  const auto states = [&](const char* algorithm) {
    return scenario_of(model, of, {algorithm, "contiguous", {}}, nodes_of(8)).problem;
  };
  p = states("affine_blelloch");
  CHECK(p.attention == Attention::linear);
  CHECK(p.transition == Transition::matrix);
  CHECK(p.gate == Gate::head);
  CHECK(p.heads == 16);
  CHECK(p.kv_heads == 16);
  CHECK(p.value_size == 64);
  kind.gate_rank = 128;
  CHECK(states("affine_all_gather").gate == Gate::column);
  kind = {.mixer = Mixer::decay, .heads = 32, .kv_heads = 8, .head_size = 128, .value_size = 64};
  kind.token_decay = true;
  CHECK(states("all_to_all").transition == Transition::head);
  kind.token_decay = false;
  CHECK(states("lasp_all_gather").transition == Transition::decay);
  // All that is tried is legal.
  for (const Mixer mixer : {Mixer::gated_delta, Mixer::decay})
    for (const bool of_token : {false, true}) {
      kind.mixer = mixer, kind.token_decay = of_token;
      for (const AttentionChoice& choice : choices_of(model, of, nodes_of(8))) {
        CAPTURE(choice.algorithm);
        CHECK_NOTHROW((void)scenario_of(model, of, choice, nodes_of(8)));
      }
    }
}

TEST_CASE("rings of nodes and grids are tried where a group spans nodes") {
  const Model model = by_hand::twelve_layers();
  for (const char* algorithm : {"double_ring", "mesh"}) {
    CAPTURE(algorithm);
    CHECK(tries(model, 32, algorithm));
    CHECK(!tries(model, 8, algorithm));
  }
}

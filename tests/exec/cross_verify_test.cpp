// Cross attention: keys of their own, cut as the queries are or whole on every rank. Executed and compared
// with the dense reference, proved by the checker.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "algorithms/core/list.hpp"
#include "tests/exec/verify_spec.hpp"

namespace cplab {
namespace {

std::vector<const Algorithm*> with_cross(bool everywhere) {
  std::vector<const Algorithm*> found;
  for (const Algorithm& algorithm : algorithms()) {
    const bool softmax = testing::attention_of(std::string(algorithm.name)) == Attention::softmax;
    if (softmax && (!everywhere || algorithm.keys_everywhere)) found.push_back(&algorithm);
  }
  return found;
}

// More keys than queries and fewer; a sequence without keys, one without queries; fewer tokens than ranks.
std::vector<ScenarioSpec> problems() {
  ScenarioSpec dense;
  dense.causal = false;
  dense.heads = 8, dense.kv_heads = 4;
  dense.batch = 2;
  dense.sequence = 3;
  dense.kv_lengths = {41, 41};
  ScenarioSpec few_keys = dense;
  few_keys.sequence = 37;
  few_keys.kv_lengths = {5, 5};
  ScenarioSpec packed = dense;
  packed.lengths = {9, 0, 17, 1, 6};
  packed.padded_lengths = {12, 2, 17, 1, 8};
  packed.kv_lengths = {30, 4, 3, 0, 11};
  packed.kv_padded_lengths = {30, 4, 8, 2, 11};
  return {dense, few_keys, packed};
}

TEST_CASE("keys of their own: full, causal from either corner, windows, every placement, 1 to 4 ranks") {
  struct Mask {
    bool causal;
    Window window;
    Diagonal align;
  };
  const std::vector<Mask> masks{{false, {}, Diagonal::top_left},
                                {true, {}, Diagonal::top_left},
                                {true, {}, Diagonal::bottom_right},
                                {true, {6, 0}, Diagonal::bottom_right},
                                {false, {3, 4}, Diagonal::top_left}};
  for (const bool everywhere : {false, true}) {
    for (const Algorithm* algorithm : with_cross(everywhere)) {
      for (ScenarioSpec spec : problems()) {
        for (const Mask& mask : masks) {
          for (const std::string_view placement : algorithm->placements) {
            const bool refused =
                placement == "balanced" || placement == "dynamic" || (everywhere && placement == "striped");
            if (refused) continue;
            for (const std::int64_t ranks : {1, 2, 4}) {
              CAPTURE(algorithm->name);
              CAPTURE(everywhere);
              CAPTURE(spec.lengths.size());
              CAPTURE(spec.sequence);
              CAPTURE(mask.causal);
              CAPTURE(mask.window.left);
              CAPTURE(placement);
              CAPTURE(ranks);
              spec.algorithm = algorithm->name;
              spec.placement = placement;
              spec.keys_everywhere = everywhere;
              spec.causal = mask.causal, spec.window = mask.window, spec.align = mask.align;
              spec.ranks = ranks;
              check_clean(spec);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("keys of their own: bf16, several replicas, the largest logit, in random orders") {
  for (const bool everywhere : {false, true}) {
    for (const Algorithm* algorithm : with_cross(everywhere)) {
      CAPTURE(algorithm->name);
      ScenarioSpec spec = problems()[2];
      spec.algorithm = algorithm->name;
      spec.keys_everywhere = everywhere;
      spec.replicas = 2;
      spec.max_logit = true;
      spec.causal = true;
      spec.align = Diagonal::bottom_right;
      check_clean(spec);
      spec.dtype = DType::bf16;
      check_clean(spec);
      const VerifyResult program = verify_spec(spec);
      for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        CpuOptions options;
        options.order = {true, seed};
        const VerifyResult random = verify_spec(spec, 1, options);
        REQUIRE(random.outputs.has_value());
        CHECK(random.outputs->same_bits(*program.outputs));
      }
    }
  }
}

TEST_CASE("keys that every rank holds are not sent") {
  ScenarioSpec spec = problems()[1];
  spec.algorithm = "all_gather";
  spec.backward = false;
  spec.keys_everywhere = true;
  CHECK(check(build_plan(scenario(spec))).messages == 0);
  spec.keys_everywhere = false;
  CHECK(check(build_plan(scenario(spec))).messages > 0);
}

TEST_CASE("a key of another sequence, or one that the mask hides from the right corner, is found") {
  ScenarioSpec spec = problems()[2];
  spec.algorithm = "all_gather";
  spec.causal = true;
  spec.align = Diagonal::bottom_right;
  Plan plan = build_plan(scenario(spec));
  REQUIRE(check(plan).findings.empty());
  plan.scenario.problem.align = Diagonal::top_left;
  CHECK_FALSE(check(plan).findings.empty());
}

// Which form goes with which align, placement and number of ranks is one number after the other, so that
// each meets each.
TEST_CASE(
    "keys of their own: sinks, softcaps and every bias, from either corner, rows without keys among them") {
  struct Form {
    BiasForm bias;
    double softcap;
    bool sink;
  };
  const std::vector<Form> forms{{BiasForm::none, 0, true},   {BiasForm::none, 2, false},
                                {BiasForm::alibi, 30, true}, {BiasForm::buckets, 0, true},
                                {BiasForm::keys, 0, true},   {BiasForm::full, 3, true},
                                {BiasForm::alibi, 0, false}, {BiasForm::buckets, 0, false}};
  for (const bool everywhere : {false, true})
    for (const Algorithm* algorithm : with_cross(everywhere)) {
      std::size_t turn = 0;
      for (ScenarioSpec spec : problems())
        for (const Form& form : forms)
          for (const Diagonal align : {Diagonal::top_left, Diagonal::bottom_right}) {
            constexpr std::int64_t ranks[] = {4, 2, 4, 1, 2};
            spec.algorithm = algorithm->name;
            spec.placement = algorithm->placements[turn % 3];
            if (everywhere && spec.placement == "striped") spec.placement = "contiguous";
            spec.keys_everywhere = everywhere;
            spec.causal = turn % 4 != 3;
            spec.window = turn % 5 == 2 ? Window{6, -1} : Window{};
            spec.ranks = ranks[turn++ % 5];
            spec.bias = form.bias, spec.softcap = form.softcap, spec.sink = form.sink;
            spec.align = align;
            CAPTURE(spec.algorithm);
            CAPTURE(spec.placement);
            CAPTURE(spec.ranks);
            CAPTURE(spec.causal);
            CAPTURE(everywhere);
            CAPTURE(static_cast<int>(form.bias));
            CAPTURE(form.sink);
            CAPTURE(align == Diagonal::bottom_right);
            CAPTURE(spec.lengths.size());
            CAPTURE(spec.sequence);
            check_clean(spec);
          }
    }
}

TEST_CASE("keys of their own: a query that sees no key has out 0 and its sink for lse") {
  for (const Algorithm* algorithm : with_cross(false)) {
    ScenarioSpec spec = problems()[1];  // 37 queries, the last of which stands on the last of 5 keys
    spec.algorithm = algorithm->name;
    spec.causal = spec.sink = true;
    spec.align = Diagonal::bottom_right;
    CAPTURE(spec.algorithm);
    const Plan plan = build_plan(scenario(spec));
    const Problem& p = plan.scenario.problem;
    const Inputs inputs = random_inputs(p, 3);
    const VerifyResult result = verify(plan, inputs, {});
    CHECK(result.ok());
    REQUIRE(result.outputs.has_value());
    const std::vector<double>&out = (*result.outputs)["out"].values, &lse = (*result.outputs)["lse"].values,
          &sink = inputs["sink"].values;
    for (std::int64_t h = 0; h < p.heads; ++h)
      for (std::int64_t i = 0; i < p.sequence - p.kv_sequence; ++i) {
        CHECK(lse[static_cast<std::size_t>(h * p.sequence + i)] == sink[static_cast<std::size_t>(h)]);
        CHECK(out[static_cast<std::size_t>((i * p.heads + h) * p.value_size)] == 0);
      }
  }
}

}  // namespace
}  // namespace cplab

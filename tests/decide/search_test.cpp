// Which layouts are legal, what is called equal, in which order candidates come.
#include "decide/search.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/decide/models_by_hand.hpp"

using namespace cplab;

namespace {

Hardware eight_gpus() {
  Hardware machine;
  machine.node.gpus = 8;
  return machine;
}

StepTerm term(std::string_view name, double seconds, double half_s) {
  StepTerm made;
  made.name = name;
  made.origins.add(Origin::assumed, seconds);
  made.half_s = half_s;
  return made;
}

Candidate candidate(std::vector<StepTerm> terms, std::int64_t bytes, bool fits = true) {
  Candidate made;
  made.step.terms = std::move(terms);
  for (const StepTerm& each : made.step.terms) made.step.time_s += each.seconds();
  made.step.tokens = 1;
  made.step.compared_s = made.step.time_s;
  made.step.memory.total_bytes = bytes;
  made.step.fits = fits;
  return made;
}

}  // namespace

TEST_CASE("every legal layout uses all GPUs, and whole micro-batches") {
  const Model model = by_hand::twelve_layers();
  Training training = by_hand::rows_of(32768, 16);
  training.tokens_per_step = 16 * 32768;
  std::vector<Refusal> refused;
  const auto layouts = legal_layouts(model, training, eight_gpus(), {}, refused);
  // tp of 1, 2, 4, 8 (16 is above a node); cp x pp x dp = 16 / tp: as many as ordered triples of powers of
  // two with that product, (k + 1)(k + 2) / 2 for 2^k: 15 + 10 + 6 + 3; pp = 16 is above the 12 layers, which
  // takes tp 1's one away. zero 1 and 3 where pp = 1: k + 1 more for each tp: 5 + 4 + 3 + 2.
  CHECK(layouts.size() == 15 + 10 + 6 + 3 - 1 + 5 + 4 + 3 + 2);
  for (const ModelLayout& layout : layouts) {
    CHECK(layout.gpus() == 16);
    CHECK(layout.dp * layout.micro_batch * layout.micro_batches == 16);
  }
}

TEST_CASE("degrees that do not divide are refused with what does") {
  CHECK(legal_tp(by_hand::twelve_layers(), 16) == std::vector<std::int64_t>{1, 2, 4, 8, 16});
  Model model = by_hand::twelve_layers();
  model.attention[0].heads = 28;
  model.attention[0].kv_heads = 4;
  CHECK(legal_tp(model, 32) == std::vector<std::int64_t>{1, 2, 4, 28});
  Training training = by_hand::rows_of(32768, 8);
  std::vector<Refusal> refused;
  legal_layouts(model, training, eight_gpus(), {}, refused);
  const auto found = std::find_if(refused.begin(), refused.end(),
                                  [](const Refusal& r) { return r.reason.starts_with("tp 8 "); });
  REQUIRE(found != refused.end());
  CHECK(found->nearest == "1 2 4");
}

TEST_CASE("a step's tokens are whole rows") {
  Training training = by_hand::rows_of(32768, 8);
  training.tokens_per_step = 40000;
  CHECK_THROWS_WITH_AS(rows_of_step(training), doctest::Contains("nearest: 32768 65536"), ScenarioError);
  training.tokens_per_step = 0;
  CHECK(rows_of_step(training) == 128);  // 4 Mi tokens
  training.gpus = 24;
  CHECK(rows_of_step(training) == 144);  // a multiple of 24
  training.gpus = 384;
  CHECK(rows_of_step(training) == 128);  // a divisor of 384
}

TEST_CASE("what two candidates have in common does not make them differ or agree") {
  // 10 s of products that may be off by 40 % are the same in both; the exchange of 0.5 s may be off by 20 %.
  // Beside that 2 % of 10.5 s are what no two runs agree in: 0.21 s.
  const Candidate best = candidate({term("products", 10, 4), term("exchange", 0.5, 0.1)}, 10);
  CHECK(is_equal(best.step, candidate({term("products", 10, 4), term("exchange", 0.7, 0.14)}, 10).step));
  CHECK_FALSE(
      is_equal(best.step, candidate({term("products", 10, 4), term("exchange", 0.8, 0.16)}, 10).step));
  // 0.3 s more products, off by 0.12 s at most: sqrt(0.12^2 + 0.21^2) = 0.24.
  CHECK_FALSE(
      is_equal(best.step, candidate({term("products", 10.3, 4.12), term("exchange", 0.5, 0.1)}, 10).step));
  CHECK(uncertain_difference_s(
            best.step, candidate({term("products", 10.3, 4.12), term("exchange", 0.5, 0.1)}, 10).step) ==
        doctest::Approx(std::hypot(0.12, 0.21)));
}

TEST_CASE("equal candidates are ranked by memory, others by time, what does not fit comes last") {
  std::vector<Candidate> all{
      candidate({term("exchange", 1.0, 0.3)}, 50), candidate({term("exchange", 1.0005, 0.3)}, 35),
      candidate({term("exchange", 1.0002, 0.3)}, 36), candidate({term("exchange", 1.5, 0.1)}, 10),
      candidate({term("exchange", 0.5, 0.1)}, 99, false)};
  rank(all);
  // 35 and 36 are within 5 %: the faster of them comes first.
  CHECK(all[0].step.memory.total_bytes == 36);
  CHECK(all[1].step.memory.total_bytes == 35);
  CHECK(all[2].step.memory.total_bytes == 50);
  for (std::size_t i = 0; i < 3; ++i) CHECK(all[i].equal_to_best);
  CHECK(all[3].step.memory.total_bytes == 10);
  CHECK_FALSE(all[3].equal_to_best);
  CHECK_FALSE(all[4].step.fits);
}

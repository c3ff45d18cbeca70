// What all algorithms promise together: the same results, and the same as dense attention, on the problems
// that the algorithms' sources got wrong.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "algorithms/core/list.hpp"
#include "tests/exec/verify_spec.hpp"

namespace cplab {
namespace {

// ||a - b|| / ||b||; elements that are the same, -inf among them, differ by 0.
double relative_difference(const Tensor& a, const Tensor& b) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < b.values.size(); ++i) {
    if (a.values[i] == b.values[i]) continue;
    error += (a.values[i] - b.values[i]) * (a.values[i] - b.values[i]);
  }
  for (const double x : b.values) norm += std::isfinite(x) ? x * x : 0;
  return norm > 0 ? std::sqrt(error / norm) : std::sqrt(error);
}

constexpr const char* attention_outputs[] = {"out", "lse", "dq", "dk", "dv"};

// Dense, packed, grouped heads, windows; heads that 2, 3, 4 and 8 ranks divide.
std::vector<ScenarioSpec> problems() {
  ScenarioSpec dense;
  dense.batch = 2;
  dense.sequence = 48;
  dense.heads = dense.kv_heads = 8;
  ScenarioSpec grouped = dense;
  grouped.kv_heads = 2;
  grouped.batch = 1;
  ScenarioSpec packed = grouped;
  packed.lengths = {17, 0, 1, 30, 8};
  packed.padded_lengths = {20, 4, 1, 40, 8};
  ScenarioSpec window = grouped;
  window.causal = false;
  window.window = {5, 2};
  ScenarioSpec packed_window = packed;
  packed_window.window = {6, 0};
  ScenarioSpec full = dense;
  full.causal = false;
  full.kv_heads = 1;
  return {dense, grouped, packed, window, packed_window, full};
}

ScenarioSpec on_ranks(ScenarioSpec spec, const Algorithm& algorithm, std::int64_t ranks) {
  spec.algorithm = algorithm.name;
  spec.ranks = ranks;
  return spec;
}

TEST_CASE("fp64: all algorithms give the same out, lse, dq, dk and dv to 1e-12") {
  for (ScenarioSpec spec : problems()) {
    for (const std::int64_t ranks : {1, 2, 4, 8}) {
      CAPTURE(ranks);
      CAPTURE(spec.kv_heads);
      CAPTURE(spec.lengths.size());
      std::optional<Outputs> first;
      for (const Algorithm& algorithm : testing::algorithms_for(Attention::softmax)) {
        CAPTURE(algorithm.name);
        const VerifyResult result = verify_spec(on_ranks(spec, algorithm, ranks));
        for (const Finding& finding : result.findings) FAIL_CHECK(finding.message);
        REQUIRE(result.outputs.has_value());
        if (!first) first = result.outputs;
        for (const char* name : attention_outputs) {
          CAPTURE(name);
          CHECK(relative_difference((*result.outputs)[name], (*first)[name]) <= 1e-12);
        }
      }
    }
  }
}

TEST_CASE("fp64: every algorithm gives the same bits in random orders of execution") {
  for (ScenarioSpec spec : problems()) {
    for (const Algorithm& algorithm : testing::algorithms_for(Attention::softmax)) {
      CAPTURE(algorithm.name);
      const ScenarioSpec four = on_ranks(spec, algorithm, 4);
      const VerifyResult program = verify_spec(four);
      REQUIRE(program.outputs.has_value());
      for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        CpuOptions options;
        options.order = {true, seed};
        const VerifyResult random = verify_spec(four, 1, options);
        REQUIRE(random.outputs.has_value());
        CHECK(random.outputs->same_bits(*program.outputs));
      }
    }
  }
}

// Lengths that are no multiple of 2P: visible keys end with the sequence, not with its chunk.
TEST_CASE("S3-4: every length from 1 to 4P, dense and packed, equals dense attention") {
  for (const Algorithm& algorithm : testing::algorithms_for(Attention::softmax)) {
    for (const std::int64_t ranks : {2, 3, 4}) {
      for (std::int64_t length = 1; length <= 4 * ranks; ++length) {
        CAPTURE(algorithm.name);
        CAPTURE(ranks);
        CAPTURE(length);
        ScenarioSpec spec = on_ranks({}, algorithm, ranks);
        spec.heads = 12;
        spec.kv_heads = 4;
        spec.head_size = 4;
        spec.sequence = length;
        check_clean(spec);
        spec.lengths = {length, 2, length};
        spec.padded_lengths = {length + 3, 2, 4 * ranks};
        check_clean(spec);
      }
    }
  }
}

TEST_CASE("S3-11: sequences of no token, first, last, between and all of them") {
  for (const Algorithm& algorithm : testing::algorithms_for(Attention::softmax)) {
    for (const auto& lengths : std::vector<std::vector<std::int64_t>>{
             {0}, {0, 0, 0}, {0, 9}, {9, 0}, {7, 0, 0, 12}, {0, 1, 0, 2, 0}}) {
      for (const std::int64_t padding : {0, 5}) {
        for (const std::string_view placement : algorithm.placements) {
          CAPTURE(algorithm.name);
          CAPTURE(placement);
          CAPTURE(lengths.size());
          ScenarioSpec spec = on_ranks({}, algorithm, 4);
          spec.placement = placement;
          spec.lengths = lengths;
          for (const std::int64_t length : lengths) spec.padded_lengths.push_back(length + padding);
          check_clean(spec);
        }
      }
    }
  }
}

// Sequences whose second chunks are padding on some ranks (TE#2186), and 698 tokens in 704 (TE#3331).
TEST_CASE("S4-4, S4-5: chunks of padding alone, and tails of padding") {
  for (const Algorithm& algorithm : testing::algorithms_for(Attention::softmax)) {
    CAPTURE(algorithm.name);
    ScenarioSpec spec = on_ranks({}, algorithm, 2);
    spec.lengths = {9, 8, 8, 12, 8, 12};
    spec.padded_lengths = {12, 8, 8, 12, 8, 12};
    check_clean(spec);
    spec.lengths = {7};
    spec.padded_lengths = {8};
    check_clean(spec);
    spec = on_ranks({}, algorithm, 4);
    spec.head_size = spec.value_size = 4;
    spec.heads = 4;
    spec.kv_heads = 1;
    spec.lengths = {698};
    spec.padded_lengths = {704};
    check_clean(spec);
  }
}

// Plans are made of lengths, not of a batch's size and its longest sequence.
TEST_CASE("S3-10: two calls of one shape and different lengths differ, and both are right") {
  for (const Algorithm& algorithm : testing::algorithms_for(Attention::softmax)) {
    CAPTURE(algorithm.name);
    ScenarioSpec one = on_ranks({}, algorithm, 4), other;
    one.lengths = {16, 9, 3};
    one.padded_lengths = {16, 16, 16};
    other = one;
    other.lengths = {16, 3, 9};
    check_clean(one);
    check_clean(other);
    CHECK_FALSE(verify_spec(one).outputs->same_bits(*verify_spec(other).outputs));
  }
}

// With a fixed dout, f = sum(out * dout) has the gradients dq, dk and dv; both passes see the same mask if
// differences of f agree with them. Central differences of step 1e-5 err by about 1e-10 of third derivatives
// and 1e-16 / 1e-5 of rounding, on gradients of about 1.
TEST_CASE("S3-9: gradients are those of the forward, by finite differences, with windows") {
  for (const Algorithm& algorithm : testing::algorithms_for(Attention::softmax)) {
    for (const auto& [causal, window] :
         std::vector<std::pair<bool, Window>>{{true, {3, 0}}, {false, {2, 4}}, {false, {-1, 1}}}) {
      CAPTURE(algorithm.name);
      CAPTURE(window.left);
      ScenarioSpec spec = on_ranks({}, algorithm, 4);
      spec.causal = causal;
      spec.window = window;
      spec.lengths = {13, 6};
      spec.head_size = 4;
      const Plan plan = build_plan(scenario(spec));
      const Inputs inputs = random_inputs(plan.scenario.problem, 5);
      const VerifyResult result = verify(plan, inputs, {});
      REQUIRE(result.outputs.has_value());
      const auto sum = [&](const Inputs& at) {
        CpuExecutor executor(plan, {});
        scatter(plan, at, executor);
        executor.run();
        const Outputs outputs = gather(plan, executor);
        double total = 0;
        for (std::size_t i = 0; i < outputs["out"].values.size(); ++i)
          if (outputs["out"].values[i] != 0) total += outputs["out"].values[i] * inputs["dout"].values[i];
        return total;
      };
      for (const auto& [input, gradient] :
           std::vector<std::pair<const char*, const char*>>{{"q", "dq"}, {"k", "dk"}, {"v", "dv"}}) {
        const std::size_t n = inputs[input].values.size();
        for (std::size_t i = 0; i < n; i += n / 7) {
          Inputs up = inputs, down = inputs;
          up[input].values[i] += 1e-5;
          down[input].values[i] -= 1e-5;
          const double slope = (sum(up) - sum(down)) / 2e-5;
          CHECK(std::abs(slope - (*result.outputs)[gradient].values[i]) < 1e-8);
        }
      }
    }
  }
}

// Section 2 of the executor: fresh memory is NaN, so what an operation does not write cannot reach a result
// unseen. A kernel that leaves rows of dK and dV as they are would show: every plan says which rows it
// writes.
TEST_CASE("S3-3, S0-5: buffers hold NaN before they are written, and results are finite") {
  for (const Algorithm& algorithm : testing::algorithms_for(Attention::softmax)) {
    CAPTURE(algorithm.name);
    ScenarioSpec spec = on_ranks({}, algorithm, 4);
    spec.dtype = DType::bf16;
    spec.window = {3, 0};
    spec.lengths = {9, 0, 40};
    spec.padded_lengths = {24, 8, 40};
    const VerifyResult result = verify_spec(spec);
    REQUIRE(result.outputs.has_value());
    for (const char* name : attention_outputs)
      for (const double x : (*result.outputs)[name].values) {
        CHECK_FALSE(std::isnan(x));
        if (std::string_view(name) != "lse") CHECK(std::isfinite(x));
      }
  }
}

TEST_CASE("S3-8: both dense formats give the same bits") {
  for (const Algorithm& algorithm : testing::algorithms_for(Attention::softmax)) {
    CAPTURE(algorithm.name);
    Scenario s = scenario(on_ranks({}, algorithm, 4));
    const Inputs inputs = random_inputs(s.problem, 2);
    const VerifyResult one = verify(build_plan(s), inputs, {});
    s.problem.format = Format::sbhd;
    const VerifyResult other = verify(build_plan(s), inputs, {});
    CHECK(one.ok());
    CHECK(other.ok());
    CHECK(one.outputs->same_bits(*other.outputs));
  }
}

// Queries are 0, so that a query weighs all keys that it sees alike; the value of token t is 1 in column t.
// Then out says exactly which keys each query saw: 1 / n in their columns, 0 in all others.
TEST_CASE("S3-12: masks are exact, token by token") {
  for (const Algorithm& algorithm : testing::algorithms_for(Attention::softmax)) {
    for (const std::string_view placement : algorithm.placements) {
      for (const auto& [causal, window] : std::vector<std::pair<bool, Window>>{
               {true, {}}, {false, {}}, {false, {3, 3}}, {false, {5, 6}}, {false, {2, 20}}, {true, {4, 0}}}) {
        CAPTURE(algorithm.name);
        CAPTURE(placement);
        CAPTURE(window.left);
        ScenarioSpec spec = on_ranks({}, algorithm, 2);
        spec.placement = placement;
        spec.causal = causal;
        spec.window = window;
        spec.lengths = {8, 2, 13};
        spec.padded_lengths = {8, 4, 16};
        spec.value_size = 28;
        const Plan plan = build_plan(scenario(spec));
        const Problem& p = plan.scenario.problem;
        Inputs inputs = random_inputs(p, 1);
        for (double& x : inputs["q"].values) x = 0;
        const auto width = static_cast<std::size_t>(p.value_size);
        const std::size_t heads = inputs["v"].values.size() / (28 * width);
        for (std::size_t i = 0; i < inputs["v"].values.size(); ++i)
          if (!std::isnan(inputs["v"].values[i])) inputs["v"].values[i] = i / width / heads == i % width;
        const VerifyResult result = verify(plan, inputs, {});
        CHECK(result.ok());
        const Tensor& out = (*result.outputs)["out"];
        const Window w = p.band();
        std::int64_t first = 0;
        for (std::size_t b = 0; b < p.lengths.size(); first += p.padded_lengths[b++]) {
          for (std::int64_t q = 0; q < p.lengths[b]; ++q) {
            std::int64_t n = 0;
            for (std::int64_t k = 0; k < p.lengths[b]; ++k)
              n += (w.left < 0 || k - q >= -w.left) && (w.right < 0 || k - q <= w.right);
            for (std::int64_t column = 0; column < p.value_size; ++column) {
              const std::int64_t k = column - first;
              const bool visible = k >= 0 && k < p.lengths[b] && (w.left < 0 || k - q >= -w.left) &&
                                   (w.right < 0 || k - q <= w.right);
              const double got =
                  out.values[static_cast<std::size_t>((first + q) * p.heads * p.value_size + column)];
              CHECK(std::abs(got - (visible ? 1.0 / static_cast<double>(n) : 0)) < 1e-14);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("hierarchical, usp: degenerate sizes give the bits of ring and all_to_all") {
  for (ScenarioSpec spec : problems()) {
    const auto outputs = [&](const char* algorithm, std::int64_t inner, const char* order = nullptr) {
      spec.algorithm = algorithm;
      spec.options.clear();
      if (inner > 0) spec.options.push_back({"inner_ranks", count(inner)});
      if (order != nullptr) spec.options.push_back({"inner_order", word(order)});
      VerifyResult result = verify_spec(spec);
      CHECK(result.ok());
      return std::move(*result.outputs);
    };
    const Outputs ring = outputs("ring", 0), traded = outputs("all_to_all", 0);
    for (const char* order : {"consecutive", "strided"}) {
      CHECK(outputs("usp", 1, order).same_bits(ring));
      CHECK(outputs("usp", 4, order).same_bits(traded));
    }
    CHECK(outputs("hierarchical", 1).same_bits(ring));
    CHECK(outputs("hierarchical", 4).same_bits(traded));
    // In between, neighbours that trade give what hierarchical gives.
    CHECK(outputs("usp", 2, "consecutive").same_bits(outputs("hierarchical", 2)));
  }
}

TEST_CASE("S3-5: no host waits, however many sequences there are") {
  for (const Algorithm& algorithm : testing::algorithms_for(Attention::softmax)) {
    for (const std::size_t sequences : {1u, 40u}) {
      CAPTURE(algorithm.name);
      ScenarioSpec spec = on_ranks({}, algorithm, 4);
      spec.lengths.assign(sequences, 11);
      for (const RankPlan& rank : build_plan(scenario(spec)).ranks)
        for (const Operation& op : rank.operations) CHECK(op.kind != OpKind::host_sync);
    }
  }
}

}  // namespace
}  // namespace cplab

// Promises of head_strided (spec of aqlaboratory/ring-flash-attention's llama attention), executed.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/exec/verify_spec.hpp"

namespace cplab {
namespace {

ScenarioSpec head_strided(const Options& options = {}) {
  ScenarioSpec spec;
  spec.algorithm = "head_strided";
  spec.heads = 8;
  spec.kv_heads = 4;
  spec.options = options;
  return spec;
}

Outputs outputs_of(const ScenarioSpec& spec, const Inputs& inputs) {
  const Plan plan = build_plan(scenario(spec));
  VerifyResult result = verify(plan, inputs, {});
  for (const Finding& finding : result.findings) FAIL_CHECK(finding.message);
  REQUIRE(result.outputs.has_value());
  return std::move(*result.outputs);
}

Outputs outputs_of(const ScenarioSpec& spec) {
  return outputs_of(spec, random_inputs(scenario(spec).problem, 1));
}

// Sample `sample` of dense tensors [B, S, ...], lse [B, H, S].
Tensor sample_of(const Tensor& all, std::size_t sample) {
  Tensor one = all;
  one.shape[0] = 1;
  const std::size_t n = all.values.size() / static_cast<std::size_t>(all.shape[0]);
  one.values.assign(all.values.begin() + static_cast<std::ptrdiff_t>(sample * n),
                    all.values.begin() + static_cast<std::ptrdiff_t>((sample + 1) * n));
  return one;
}

double dkv_error(const ScenarioSpec& spec) {
  const VerifyResult result = verify_spec(spec);
  double worst = 0;
  for (const TensorFigures& t : result.tensors)
    if (t.tensor == "dk" || t.tensor == "dv") worst = std::max(worst, t.rel_l2);
  return worst;
}

}  // namespace

TEST_CASE("S0-2: a batch of 2 and 3 equals its samples alone") {
  for (const std::int64_t batch : {2, 3}) {
    for (const std::int64_t stride : {1, 2, 4}) {
      ScenarioSpec spec = head_strided({{"head_stride", count(stride)}});
      spec.batch = batch;
      const Inputs inputs = random_inputs(scenario(spec).problem, 4);
      const Outputs all = outputs_of(spec, inputs);
      spec.batch = 1;
      for (std::int64_t b = 0; b < batch; ++b) {
        Inputs alone;
        for (const char* name : {"q", "k", "v", "dout"})
          alone.add(name, sample_of(inputs[name], static_cast<std::size_t>(b)));
        const Outputs one = outputs_of(spec, alone);
        for (const char* name : {"out", "lse", "dq", "dk", "dv"}) {
          const Tensor part = sample_of(all[name], static_cast<std::size_t>(b));
          REQUIRE(part.values.size() == one[name].values.size());
          double worst = 0;
          for (std::size_t i = 0; i < part.values.size(); ++i)
            worst = std::max(worst, std::abs(part.values[i] - one[name].values[i]));
          CHECK(worst < 1e-12);
        }
      }
    }
  }
}

TEST_CASE("S0-3: more heads than rows, and more rows than heads") {
  for (const auto& [heads, sequence] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{24, 8}, {4, 96}, {8, 20}}) {
    ScenarioSpec spec = head_strided({{"head_stride", count(2)}});
    spec.heads = heads;
    spec.sequence = sequence;
    check_clean(spec);
  }
}

// dK and dV summed in bf16 are rounded at every one of P addends, in fp32 once at the end: the error of the
// one grows with P, of the other it does not (a factor of 1.5 leaves room for other random sums).
TEST_CASE("S0-4: gradients summed in fp32 err no more than in bf16, whose error grows with P") {
  const auto error = [](std::int64_t ranks, const char* wire) {
    ScenarioSpec spec = head_strided({{"gradient_wire_dtype", word(wire)}});
    spec.dtype = DType::bf16;
    spec.ranks = ranks;
    spec.sequence = 128;
    spec.causal = false;
    return dkv_error(spec);
  };
  for (const std::int64_t ranks : {2, 4, 8, 16}) CHECK(error(ranks, "fp32") <= error(ranks, "nominal"));
  CHECK(error(32, "nominal") > error(2, "nominal"));
  CHECK(error(32, "fp32") < 1.5 * error(2, "fp32"));
}

// The upstream test's numbers of heads, with strides that cut one, the other or both ends.
TEST_CASE("S0-7, S0-11: strides, staging and buffers do not change a bit of the result") {
  for (const std::int64_t ranks : {1, 3, 4}) {
    for (const bool causal : {true, false}) {
      for (const bool packed : {false, true}) {
        ScenarioSpec spec = head_strided();
        spec.ranks = ranks;
        spec.causal = causal;
        spec.batch = 2;
        if (packed) spec.lengths = {13, 0, 30};
        const Outputs first = outputs_of(spec);
        std::vector<Options> all;
        for (const std::int64_t h : {1, 2, 4}) all.push_back({{"head_stride", count(h)}});
        for (const char* key : {"forward_first_stride", "backward_first_stride", "backward_last_stride"})
          for (const std::int64_t h : {2, 4}) all.push_back({{"head_stride", count(h)}, {key, count(1)}});
        all.push_back({{"head_stride", count(2)},
                       {"forward_first_stride", count(1)},
                       {"backward_first_stride", count(1)},
                       {"backward_last_stride", count(1)}});
        const std::size_t n = all.size();
        for (std::size_t i = 0; i < n; ++i) {
          all.push_back(all[i]);
          all.back().push_back({"staging", word("stage_first")});
          all.push_back(all[i]);
          all.back().push_back({"buffers", word("slab")});
        }
        for (const Options& options : all) {
          std::string text;
          for (const auto& [key, value] : options) text += key + "=" + to_string(value) + " ";
          CAPTURE(text);
          CAPTURE(ranks);
          spec.options = options;
          CHECK(outputs_of(spec).same_bits(first));
        }
      }
    }
  }
}

// The upstream test's H = 6, stride 3, first stride 1, shortened.
TEST_CASE("S0-8: the first gather packed or in two gives the same bits") {
  ScenarioSpec spec = head_strided();
  spec.heads = spec.kv_heads = 6;
  spec.batch = 3;
  spec.sequence = 53;
  spec.causal = false;
  const auto run = [&](bool packs) {
    spec.options = {
        {"head_stride", count(3)}, {"forward_first_stride", count(1)}, {"pack_first_gather", packs}};
    return outputs_of(spec);
  };
  CHECK(run(true).same_bits(run(false)));
}

TEST_CASE("S0-10: permuted key heads, with their query heads, give permuted results, bit by bit") {
  // Heads in the other order; 2 query heads to each of 4 key heads. Tensors are [B, S, heads, width], lse
  // [B, heads, S].
  const auto permuted = [](const Tensor& t, bool heads_second) {
    Tensor result = t;
    const auto heads = static_cast<std::size_t>(t.shape[heads_second ? 1 : 2]);
    const std::size_t inner = heads_second         ? static_cast<std::size_t>(t.shape[2])
                              : t.shape.size() > 3 ? static_cast<std::size_t>(t.shape[3])
                                                   : 1;
    const std::size_t group = heads / 4, outer = t.values.size() / heads / inner;
    for (std::size_t o = 0; o < outer; ++o)
      for (std::size_t h = 0; h < heads; ++h) {
        const std::size_t to = (3 - h / group) * group + h % group;
        for (std::size_t i = 0; i < inner; ++i)
          result.values[(o * heads + to) * inner + i] = t.values[(o * heads + h) * inner + i];
      }
    return result;
  };
  for (const std::int64_t stride : {1, 2, 4}) {
    const ScenarioSpec spec = head_strided({{"head_stride", count(stride)}});
    const Inputs inputs = random_inputs(scenario(spec).problem, 6);
    Inputs turned;
    for (const char* name : {"q", "k", "v", "dout"}) turned.add(name, permuted(inputs[name], false));
    const Outputs straight = outputs_of(spec, inputs), other = outputs_of(spec, turned);
    for (const char* name : {"out", "lse", "dq", "dk", "dv"})
      CHECK(permuted(straight[name], std::string_view(name) == "lse").values == other[name].values);
  }
}

}  // namespace cplab

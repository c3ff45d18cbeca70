// Verification of linear attention: outputs, gradients and states of every rank against the recurrence.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "cli/verify/state_casts.hpp"
#include "cli/verify/states.hpp"
#include "exec/cpu/executor.hpp"
#include "tests/exec/linear_spec.hpp"

namespace cplab {
namespace {

std::set<std::string> names_of(const VerifyResult& result, int rank) {
  std::set<std::string> names;
  for (const TensorFigures& t : result.tensors)
    if (t.rank == rank) names.insert(std::string(t.tensor));
  return names;
}

TEST_CASE("linear attention: every algorithm, dtype and kind of lengths is within tolerance") {
  for (const std::string& algorithm : linear_algorithms(Transition::decay)) {
    for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
      LinearScenarioSpec spec;
      spec.algorithm = algorithm;
      spec.dtype = dtype;
      CAPTURE(algorithm);
      CAPTURE(name(dtype));
      (void)verify_linear(spec);
      spec.replicas = 2;
      spec.lengths = {23, 0, 1, 41};
      spec.padded_lengths = {25, 3, 1, 41};
      spec.slopes = {0, 8, 0.1};
      if (algorithm == "lasp_blelloch" || algorithm == "lasp_fuse") (void)verify_linear(spec);
    }
  }
}

TEST_CASE("linear attention: gates of heads and columns, delta rules, with their gradients") {
  for (const auto& [transition, gate] : gated_transitions) {
    const std::vector<std::string> algorithms = linear_algorithms(transition);
    CHECK_FALSE(algorithms.empty());
    for (const std::string& algorithm : algorithms) {
      for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16, DType::fp16}) {
        LinearScenarioSpec spec;
        spec.algorithm = algorithm;
        spec.transition = transition;
        spec.gate = gate;
        spec.dtype = dtype;
        CAPTURE(algorithm);
        CAPTURE(name(dtype));
        std::set<std::string> names{"out", "dq", "dk", "dv", "dg"};
        // Where heads are traded no state crosses ranks.
        if (algorithm != "all_to_all") names.insert({"state", "dstate"});
        if (transition == Transition::matrix) names.insert("dbeta");
        CHECK(names_of(verify_linear(spec), 1) == names);
        spec.lengths = {23, 0, 1, 41};
        spec.padded_lengths = {25, 3, 1, 41};
        (void)verify_linear(spec);
      }
    }
  }
}

TEST_CASE("linear attention: states are compared where they are, forward alone without those of queries") {
  LinearScenarioSpec spec;
  spec.algorithm = "lasp_ring_decoupled";
  const VerifyResult result = verify_linear(spec);
  CHECK(names_of(result, 0) == std::set<std::string>{"out", "dq", "dk", "dv", "dstate"});
  CHECK(names_of(result, 1) == std::set<std::string>{"out", "dq", "dk", "dv", "state", "dstate"});
  CHECK(names_of(result, 3) == std::set<std::string>{"out", "dq", "dk", "dv", "state"});
  spec.backward = false;
  CHECK(names_of(verify_linear(spec), 1) == std::set<std::string>{"out", "state"});
}

TEST_CASE("linear attention: a stream has one state at an edge, of the sequence that crosses it") {
  LinearScenarioSpec spec;
  spec.algorithm = "lasp_ring_decoupled";
  spec.placement = "stream";
  spec.lengths = {20, 12, 9, 3};
  spec.padded_lengths = {20, 12, 10, 3};
  // 45 rows on 4 ranks, 12 each: sequence 0 crosses the edge at 12; 1 that at 24, before its token 4; 2 that
  // at 36, before its token 4.
  const Plan plan = build_plan(linear_scenario(spec));
  const auto edge = [&](std::size_t rank, std::string_view tensor) {
    for (const StateBuffer& buffer : state_buffers(plan, plan.ranks[rank]))
      if (buffer.tensor == tensor && buffer.states.size() == 1)
        return std::pair{buffer.states[0].sequence, buffer.states[0].edge};
    return std::pair<std::int64_t, std::int64_t>{-1, -1};
  };
  using Edge = std::pair<std::int64_t, std::int64_t>;
  CHECK(edge(0, "state") == Edge{-1, -1});
  CHECK(edge(1, "state") == Edge{0, 12});
  CHECK(edge(2, "state") == Edge{1, 4});
  CHECK(edge(3, "state") == Edge{2, 4});
  CHECK(edge(0, "dstate") == Edge{0, 12});
  CHECK(edge(2, "dstate") == Edge{2, 4});
  CHECK(edge(3, "dstate") == Edge{-1, -1});
  for (const std::int64_t replicas : {1, 2})
    for (const std::int64_t ranks : {1, 2, 5, 7}) {
      spec.replicas = replicas;
      spec.ranks = ranks;
      (void)verify_linear(spec);
    }
}

TEST_CASE("linear attention: of whole sequences every one has a state, where its tokens end too") {
  LinearScenarioSpec spec;
  spec.algorithm = "lasp_ring_decoupled";
  spec.lengths = {20, 0, 5};
  spec.padded_lengths = {20, 4, 16};
  const Plan plan = build_plan(linear_scenario(spec));
  const std::vector<StateBuffer> buffers = state_buffers(plan, plan.ranks[2]);
  REQUIRE(buffers.size() == 2);
  REQUIRE(buffers[0].states.size() == 3);
  CHECK(buffers[0].states[0].edge == 10);  // 5 rows on each rank
  CHECK(buffers[0].states[1].edge == 0);
  CHECK(buffers[0].states[2].edge == 5);  // behind its last token
  CHECK(buffers[1].states[0].edge == 15);
  CHECK(state_edges(plan)[0] == std::vector<std::int64_t>{5, 10, 15});
  CHECK(state_edges(plan)[2] == std::vector<std::int64_t>{4, 5});
  (void)verify_linear(spec);
}

// What a rank received is changed by one part in 2^-6 of one number before it is compared.
TEST_CASE("linear attention: a wrong state is found, named, and said where it lies") {
  LinearScenarioSpec spec;
  spec.algorithm = "lasp_ring_decoupled";
  spec.dtype = DType::bf16;
  for (const double slope : {0.1, 8.0}) {
    spec.slopes = {slope};
    const Plan plan = build_plan(linear_scenario(spec));
    const Inputs inputs = random_inputs(plan.scenario.problem, 1);
    CpuExecutor executor(plan, {});
    scatter(plan, inputs, executor);
    executor.run();
    std::vector<double> carry = executor.read(2, "carry");  // [2 x 8 rows, 3 heads, 5 columns]
    const std::size_t element = (11 * 3 + 1) * 5 + 2;       // sequence 1, row 3, head 1
    carry[element] += (std::abs(carry[element]) + 0x1p-8 * std::exp(-slope)) * 0.5;
    executor.write(2, "carry", carry);
    VerifyResult result;
    compare_with_reference(plan, inputs, executor, result);
    REQUIRE(result.findings.size() == 1);
    const Finding& finding = result.findings[0];
    CAPTURE(finding.message);
    CHECK(finding.kind == FindingKind::numerics);
    CHECK(finding.rank == 2);
    CHECK(finding.buffer == "carry");
    CHECK(finding.message.starts_with("state: "));
    CHECK(finding.message.find("sequence 1, edge before token 26, row 3, head 1 is") != std::string::npos);
  }
}

// Behind the last token nothing reads: R is exactly 0 there, and no number next to it will do.
TEST_CASE("linear attention: a state without tokens is exactly zero") {
  LinearScenarioSpec spec;
  spec.algorithm = "lasp_ring_decoupled";
  spec.dtype = DType::fp32;
  spec.lengths = {20, 5};
  spec.padded_lengths = {20, 16};
  const Plan plan = build_plan(linear_scenario(spec));
  const Inputs inputs = random_inputs(plan.scenario.problem, 1);
  CpuExecutor executor(plan, {});
  scatter(plan, inputs, executor);
  executor.run();
  std::vector<double> dcarry = executor.read(2, "dcarry");
  for (std::size_t i = 8 * 15; i < 16 * 15; ++i) REQUIRE(dcarry[i] == 0);
  VerifyResult right, wrong;
  compare_with_reference(plan, inputs, executor, right);
  CHECK(right.findings.empty());
  dcarry[9 * 15] = 0x1p-100;
  executor.write(2, "dcarry", dcarry);
  compare_with_reference(plan, inputs, executor, wrong);
  CHECK(wrong.findings.size() == 1);
}

TEST_CASE("conversions of states on their way: one for every hop of a chain, twice the depth of a tree") {
  LinearScenarioSpec spec;
  spec.dtype = DType::bf16;
  spec.ranks = 8;
  const auto casts = [&](const char* algorithm, const char* wire) {
    spec.algorithm = algorithm;
    spec.options = {{"state_wire_dtype", std::string(wire)}};
    return count_state_casts(build_plan(linear_scenario(spec)));
  };
  CHECK(casts("lasp_ring_decoupled", "fp32") == 0);
  CHECK(casts("lasp_ring_decoupled", "nominal") == 7);
  // Up 0 > 1 > 3, down 3 > 5 > 6, then the shift to 7: five messages one after the other.
  CHECK(casts("lasp_blelloch", "nominal") == 5);
  CHECK(casts("lasp_blelloch", "fp32") == 0);
  CHECK(casts("lasp_all_gather", "nominal") == 1);
  for (const char* algorithm : {"lasp_ring_decoupled", "lasp_blelloch", "lasp_kogge_stone"}) {
    (void)casts(algorithm, "nominal");
    (void)verify_linear(spec);
  }
}

TEST_CASE("linear attention: a plan whose buffers are not those of its scenario is found, and not executed") {
  LinearScenarioSpec spec;
  Plan plan = build_plan(linear_scenario(spec));
  plan.scenario.problem.value_size += 2;  // as in a file that was edited
  const VerifyResult result = verify(plan, random_inputs(plan.scenario.problem, 1), {});
  CHECK_FALSE(result.outputs.has_value());
  CHECK(std::ranges::count(result.findings, "kv", &Finding::buffer) > 0);
  CHECK(std::ranges::count(result.findings, "out", &Finding::buffer) > 0);
}

TEST_CASE("long: linear attention with long chunks, one block after the other, and no decay at all") {
  for (const DType dtype : {DType::fp32, DType::bf16}) {
    for (const double slope : {0.0, 0.004, 0.7}) {
      LinearScenarioSpec spec;
      spec.dtype = dtype;
      spec.sequence = 3000;
      spec.ranks = 3;
      spec.heads = 1;
      spec.head_size = 16;
      spec.value_size = 24;
      spec.slopes = {slope};
      (void)verify_linear(spec);
    }
  }
}

}  // namespace
}  // namespace cplab

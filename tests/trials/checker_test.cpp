// Plans that the checker let pass, or refused though they are right. Wherever it answers, execution agrees:
// what it accepts is compared with the reference in several orders.
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "check/check.hpp"
#include "cli/verify/verify.hpp"
#include "report/plan_json.hpp"
#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"
#include "tests/hand_plans/hand_plans.hpp"
#include "tests/trials/inputs.hpp"

using namespace cplab;
using cplab::testing::contains;
using nlohmann::json;

namespace {

Plan plan_of(const std::string& name) {
  const std::string path = trial("plans/" + name + ".json");
  return read_plan_json(read_file(path), path);
}

// The checker accepts it, and it is right in so many orders.
void require_right(const Plan& plan) {
  const CheckResult checked = check(plan);
  for (const Finding& f : checked.findings) FAIL_CHECK(f.operation << " " << f.buffer << ": " << f.message);
  const Inputs inputs = random_inputs(plan.scenario.problem, 1);
  for (std::uint64_t order = 0; order < 12; ++order) {
    VerifyOptions options;
    options.execution.order = {order > 0, order};
    const VerifyResult result = verify(plan, inputs, options);
    for (const Finding& f : result.findings) FAIL_CHECK(f.operation << " " << f.buffer << ": " << f.message);
  }
}

// The checker refuses it, first with this; and the program says so with exit code 1.
void require_finding(const std::string& name, const char* kind, int rank, const char* operation,
                     const char* buffer) {
  CAPTURE(name);
  for (const char* command : {"check", "verify"}) {
    const json result = json_of({command, "--plan", trial("plans/" + name + ".json")}, 1);
    REQUIRE(!result["findings"].empty());
    const json& first = result["findings"][0];
    CHECK(first["kind"] == kind);
    CHECK(first["rank"] == rank);
    const auto said = [&](const char* key) {
      return first[key].is_null() ? "" : first[key].get<std::string>();
    };
    CHECK(said("operation") == operation);
    CHECK(said("buffer") == buffer);
  }
}

// Two exchanges of two groups, on lanes of their own; rank 1 issues them in the other order.
Plan crossed_launches(Transport transport) {
  Plan plan = hand::ranks_in_one_group(2);
  Problem& p = plan.scenario.problem;
  p.heads = p.kv_heads = p.head_size = p.value_size = 1;
  plan.scenario.placement = "contiguous";
  plan.groups.push_back({"again", plan.groups[0].ranks});
  for (int r = 0; r < 2; ++r) {
    hand::Rank rank(plan, r);
    for (int turn = 0; turn < 2; ++turn) {
      const auto group = static_cast<std::uint16_t>(r == 0 ? turn : 1 - turn);
      const auto b = rank.buffer(hand::column("x" + std::to_string(group), 2));
      const Part part = r == 0 ? hand::send(rank.view(b), 1) : hand::receive(rank.view(b), 0);
      rank.communicate({LaneKind::comm, static_cast<std::uint8_t>(group)}, OpKind::exchange, {part}, {},
                       group);
    }
    for (Operation& op : rank.plan().operations) op.transport = transport;
  }
  return plan;
}

}  // namespace

TEST_CASE("trial: states that ranks of padding alone give out are those that the comparison asks for") {
  require_finding("min_carry_forward", "coverage", 1, "", "carry");
}

TEST_CASE("trial: an empty view uses nothing") {
  require_right(plan_of("min_empty_view_poisons"));
}

TEST_CASE("trial: gates, their gradients and states under transitions are kept wide") {
  require_finding("cast_column_dlog_decay_forward_back", "coverage", 0, "0/backward/2", "dlog_decay_n");
  require_finding("cast_matrix_dbeta_forward_back", "coverage", 0, "0/backward/2", "dbeta_n");
}

TEST_CASE("trial: dbias of keys is rounded with dk and dv, not alone") {
  const TemporaryFolder folder;
  const std::string file = folder.path("plan.json");
  REQUIRE(run_cplab({"show", "dynamic-mask", "--set", "problem.bias=keys", "--set", "problem.sequence=64",
                     "--set", "parallel.ranks=2", "--json", file, "--quiet"})
              .code == 0);
  const json right = json::parse(read_file(file));
  REQUIRE(right["scenario"]["problem"]["dtype"] == "bf16");
  // The tile's dk, dv and dbias that rank 0 adds to a sum: `columns` of them go through a nominal buffer.
  const auto with_detour = [&](std::int64_t begin, std::int64_t end) {
    json plan = right;
    json& rank = plan["ranks"][0];
    json detour;
    for (const json& buffer : rank["buffers"])
      if (buffer["name"] == "dkv_tile") detour = buffer;
    detour["name"] = "detour";
    detour["role"] = "nominal";
    detour["bytes"] = detour["bytes"].get<std::int64_t>() / 2;
    detour["offset"] = rank["arena_bytes"];
    rank["arena_bytes"] =
        (rank["arena_bytes"].get<std::int64_t>() + detour["bytes"].get<std::int64_t>() + 511) / 512 * 512;
    rank["buffers"].push_back(detour);
    json& operations = rank["operations"];
    std::size_t add = 0;
    while (operations[add]["kind"] != "add") ++add;
    json there = operations[add];
    there["kind"] = "cast";
    there["after"] = json::array();
    there["reads"][0]["box"]["width"] = {begin, end};
    there["writes"][0] = there["reads"][0];
    there["writes"][0]["operand"] = "into";
    there["writes"][0]["mode"] = "store";
    json back = there;
    there["writes"][0]["buffer"] = "detour";
    back["reads"][0]["buffer"] = "detour";
    operations.insert(operations.begin() + static_cast<std::ptrdiff_t>(add), {there, back});
    std::map<std::string, std::string> renamed;
    int forward = 0, backward = 0;
    for (json& operation : operations) {
      const std::string phase = operation["phase"];
      const std::string id = "0/" + phase + "/" + std::to_string(phase == "forward" ? forward++ : backward++);
      renamed[operation["id"]] = id;
      operation["id"] = id;
      for (json& earlier : operation["after"]) earlier = renamed.at(earlier);
    }
    return folder.write("detour.json", plan.dump());
  };
  const std::string all = with_detour(0, 65);
  CHECK(run_cplab({"verify", "--plan", all}).code == 0);
  const json alone = json_of({"check", "--plan", with_detour(64, 65)}, 1);
  CHECK(alone["findings"][0]["kind"] == "coverage");
  CHECK(alone["findings"][0]["buffer"] == "detour");
  CHECK(contains(alone["findings"][0]["message"], "rounds dbias of keys alone"));
}

TEST_CASE("trial: what the executor refuses the checker does") {
  require_finding("min_exec_refuses_exponent_column", "coverage", 0, "0/forward/1", "");
  require_finding("min_exec_refuses_replica_without_rows_has_no_buffers", "uninitialised", 1, "", "q");
}

TEST_CASE("trial: a forward of linear attention with an output of states of queries does not end verify") {
  require_finding("min_segv_dcarry_forward", "leak", 0, "0/forward/1", "dcarry");
}

TEST_CASE("trial: any number of lanes") {
  require_right(plan_of("min_lanes_9_offset"));
  CHECK(run_cplab({"check", "--plan", trial("plans/min_lanes_9_offset.json")}).code == 0);
}

TEST_CASE("trial: rows cut otherwise stay in place") {
  require_right(plan_of("right_false_refusal_in_place_rows_cut"));
}

TEST_CASE("trial: dynamic masks with a bias and no scale, or next to none") {
  for (const char* bias : {"full", "keys"})
    for (const char* scale : {"0.0", "1e-30", "1e-160", "1e-200"})
      for (const char* dtype : {"fp64", "bf16"}) {
        CAPTURE(bias);
        CAPTURE(scale);
        CAPTURE(dtype);
        const ProgramResult result =
            run_cplab({"verify", trial("min_verify_scale0.toml"), "--set",
                       std::string("problem.scale=") + scale, "--set", std::string("problem.bias=") + bias,
                       "--set", std::string("problem.dtype=") + dtype, "--quiet"});
        CHECK(result.code == 0);
      }
}

TEST_CASE("trial: over copy no communicator asks for an order of launches") {
  CHECK(!check(crossed_launches(Transport::nccl)).ok());
  CHECK(check(crossed_launches(Transport::copy)).ok());
}

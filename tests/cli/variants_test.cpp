// simulate says which kernel takes every operation, and why not the preferred one.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/program.hpp"

using nlohmann::json;

namespace {

// One rank of a causal problem of 16 heads on H200s, with further settings.
ProgramResult simulate_ring(const std::string& accumulator, const std::string& json_file) {
  return run_cplab({"simulate", "ring-h200", "--set", "hardware.file=hardware/h200x4.toml", "--set",
                    "parallel.ranks=1", "--set", "problem.sequence=8K", "--set",
                    "schedule.accumulator=" + accumulator, "--operations", "--json", json_file});
}

}  // namespace

TEST_CASE("simulate names the kernels that run would take, with their shares") {
  const TemporaryFolder folder;
  const std::string file = folder.path("fp32.json");
  const ProgramResult result = simulate_ring("fp32", file);
  REQUIRE(result.code == 0);
  CHECK(result.err.find("slower kernels") == std::string::npos);
  CHECK(result.out.find("attend_backward hopper fused bf16 128  1 operations, ") != std::string::npos);
  const json written = json::parse(read_file(file));
  REQUIRE(written.at("variants").size() == 2);
  const json& backward = written.at("variants").at(0);
  CHECK(backward.at("variant") == "attend_backward hopper fused bf16 128");
  CHECK(backward.at("kind") == "attend_backward");
  CHECK(backward.at("operations") == 1);
  // 2(3D+2E) of 2(D+E) + 2(3D+2E) FLOPs a pair, D = E.
  CHECK(backward.at("flops_share").get<double>() == doctest::Approx(10.0 / 14));
  CHECK(backward.at("time_share").get<double>() > 0.5);
  for (const json& op : written.at("operations")) {
    CHECK_FALSE(op.contains("fall_back"));
    CHECK(op.contains("variant") == (op.at("kind") == "attend" || op.at("kind") == "attend_backward"));
  }
}

TEST_CASE("simulate warns, once for a kind, of kernels that are slower than the device's preferred ones") {
  const TemporaryFolder folder;
  const std::string fast = folder.path("fp32.json"), slow = folder.path("nominal.json");
  REQUIRE(simulate_ring("fp32", fast).code == 0);
  const ProgramResult result = simulate_ring("nominal", slow);
  REQUIRE(result.code == 0);
  const std::string note =
      "slower kernels: 1 of 1 attend_backward (100.0 % of their FLOPs) take attend_backward hopper bf16 128, "
      "not "
      "attend_backward hopper fused bf16 128: dq is not fp32";
  CHECK(result.err.find(note) != std::string::npos);
  CHECK(result.err.find("slower kernels") == result.err.rfind("slower kernels"));
  const json a = json::parse(read_file(fast)), b = json::parse(read_file(slow));
  CHECK(b.at("notes").dump().find("dq is not fp32") != std::string::npos);
  const auto backward = [](const json& of) {
    for (const json& op : of.at("operations"))
      if (op.at("kind") == "attend_backward") return op;
    return json();
  };
  CHECK(backward(b).at("fall_back") == "not attend_backward hopper fused bf16 128: dq is not fp32");
  CHECK(backward(b).at("variant") == "attend_backward hopper bf16 128");
  CHECK(backward(b).at("origin") ==
        "extrapolated");  // from another kernel's table, by what tiles of both cost
  const auto seconds = [&](const json& of) {
    return backward(of).at("end_s").get<double>() - backward(of).at("start_s").get<double>();
  };
  // 7 products for 5, and other tiles.
  CHECK(seconds(b) > seconds(a) * 1.3);
  CHECK(seconds(b) < seconds(a) * 1.5);
}

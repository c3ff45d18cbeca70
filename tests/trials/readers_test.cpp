// What every reader says beside its answer: slow kernels, the machine of a prediction, missing tables.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "algorithms/core/build.hpp"
#include "algorithms/faults/faults.hpp"
#include "cli/injection.hpp"
#include "kernels/compiled.hpp"
#include "sim/plausible.hpp"
#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

using cplab::testing::contains;
using nlohmann::json;

TEST_CASE("check and kernels say which head sizes are slow") {
  const auto notes = [](const std::string& size) {
    return json_of({"check", "ring-small", "--set", "problem.head_size=" + size, "--set",
                    "problem.value_size=" + size, "--set", "problem.dtype=bf16"})["notes"]
        .dump();
  };
  CHECK(contains(notes("68"), "no kernel on tensor cores has head size 68"));
  for (const char* size : {"72", "128"}) CHECK_FALSE(contains(notes(size), "no kernel on tensor cores"));
  const json kernels = json_of({"kernels"});
  CHECK(contains(kernels["notes"].dump(), "head sizes 64, "));
}

TEST_CASE("a prediction for kernels that this build has not got says so") {
  const cplab::kernels::cuda::CompiledKernels* compiled = cplab::kernels::cuda::compiled_kernels();
  if (compiled && compiled->build.full) return;
  for (const char* scenario : {"ring", "dynamic-mask", "linear-scan"}) {
    CAPTURE(scenario);
    const std::string notes = json_of({"simulate", scenario, "--hardware", "h100x8", "--set",
                                       "problem.dtype=fp64", "--set", "problem.sequence=2048"})["notes"]
                                  .dump();
    CHECK(contains(notes, "-D CPLAB_KERNELS=full), so that `run` refuses"));
    CHECK_FALSE(contains(notes, "this build has head sizes"));
  }
}

TEST_CASE("compare says for which GPU was predicted and on which measured") {
  const TemporaryFolder folder;
  const std::string predicted = folder.path("p.json"), measured = folder.path("m.json");
  const std::vector<std::string> of{"ring-small", "--operations", "--json"};
  const auto run = [&](std::vector<std::string> words, const std::string& file) {
    words.insert(words.end(), of.begin(), of.end());
    words.push_back(file);
    REQUIRE(run_cplab(words).code == 0);
  };
  run({"simulate", "--hardware", "h100x8"}, predicted);
  const json prediction = json::parse(read_file(predicted));
  CHECK(prediction["machine"] == "h100x8");
  CHECK(prediction["gpu"] == "H100 SXM 80GB");
  run({"run", "--device", "cpu", "--iterations", "1", "--warmup", "0"}, measured);
  CHECK(contains(json_of({"compare", predicted, measured})["notes"].dump(), "H100 SXM 80GB"));
  const auto measured_on = [&](const char* gpu) {
    json result = json::parse(read_file(measured));
    result["device"] = "gpu";
    result["environment"] = {{"gpu", gpu}};
    return json_of({"compare", predicted, folder.write("g.json", result.dump())})["notes"].dump();
  };
  CHECK(contains(measured_on("NVIDIA H200"), "predicted for H100 SXM 80GB, measured on NVIDIA H200"));
  CHECK_FALSE(contains(measured_on("NVIDIA H100 80GB HBM3"), "predicted for"));
}

TEST_CASE("a table that a hardware file lacks is shown, and is legal as shown") {
  const TemporaryFolder folder;
  std::string file = read_file(std::string(cplab::scenarios_folder()) + "/hardware/h100x8.toml");
  for (const std::string lacking :
       {"[[kernel]]\nclass = \"attend_backward\"", "[[message]]\nkind = \"exchange\""}) {
    CAPTURE(lacking);
    std::string without = file;
    for (std::size_t at = without.find(lacking); at != std::string::npos; at = without.find(lacking))
      without.erase(at, std::min(without.find("\n[", at + 1), without.size()) - at);
    const ProgramResult refused =
        run_cplab({"simulate", "ring", "--hardware", folder.write("without.toml", without)});
    CHECK(refused.code == 2);
    const std::size_t example = refused.err.find("\n[[");
    REQUIRE(example != std::string::npos);
    const std::string whole = folder.write("whole.toml", without + refused.err.substr(example));
    const ProgramResult taken = run_cplab({"simulate", "ring", "--hardware", whole});
    CAPTURE(taken.err);
    CHECK((taken.code == 0 || !contains(taken.err, lacking.substr(lacking.find('\n') + 1))));
  }
}

TEST_CASE("--unset takes a key of the hardware file away") {
  const auto simulated = [](const char* key) {
    return run_cplab({"simulate", "ring", "--hardware", "h100x8", "--unset", key});
  };
  CHECK(simulated("hardware.kernels_of").code == 0);
  CHECK_FALSE(contains(simulated("hardware.kernels_of").err, "cuDNN"));
  const ProgramResult needed = simulated("hardware.gpu.sms");
  CHECK(needed.code == 2);
  CHECK(contains(needed.err, "gpu.sms: missing"));
  const ProgramResult unknown = simulated("hardware.gpu.smss");
  CHECK(unknown.code == 2);
  CHECK(contains(unknown.err, "--unset hardware.gpu.smss: "));
}

TEST_CASE("a NIC's rate that was meant in bits is noted, with how bits are written") {
  CHECK(contains(cplab::bits_meant("400G", 400e9), "\"400Gb/s\""));
  CHECK(cplab::bits_meant("50G", 50e9).empty());
  CHECK(cplab::bits_meant("400GB/s", 400e9).empty());
  CHECK(contains(
      run_cplab({"simulate", "ring", "--hardware", "h100x64", "--set", "hardware.network.nic_bytes_s=400G"})
          .err,
      "note: network.nic_bytes_s = 400G"));
}

TEST_CASE("CSV says true or false, and a table of algorithms whose kernels were timed") {
  const ProgramResult all =
      run_cplab({"simulate", "ring", "--hardware", "h100x8", "--algorithms", "ring", "--csv", "-"});
  CHECK(contains(all.err, "attention is timed by the kernels of cuDNN"));
  CHECK(contains(all.out, ",true,"));
  CHECK_FALSE(contains(all.out, ",yes"));
  CHECK_FALSE(contains(run_cplab({"verify", "ring-small", "--csv", "-"}).out, ",yes"));
}

TEST_CASE("show says what lse, delta and slots are") {
  const std::string shown = run_cplab({"show", "ring"}).out;
  for (const char* word : {"lse: ", "delta: ", "slots: "}) CHECK(contains(shown, word));
}

TEST_CASE("a bug over NCCL and ranks that share a GPU: what to do") {
  cplab::Plan plan;
  cplab::RankPlan& rank = plan.ranks.emplace_back();
  cplab::Operation op;
  op.kind = cplab::OpKind::exchange;
  op.transport = cplab::Transport::nccl;
  rank.operations.push_back(op);
  const cplab::Fault& fault = *cplab::find_fault("communicator-order");
  CHECK_NOTHROW(cplab::require_links(fault, plan, 1));
  CHECK_THROWS_WITH_AS(cplab::require_links(fault, plan, 4), doctest::Contains("--device cpu"),
                       cplab::InputError);
}

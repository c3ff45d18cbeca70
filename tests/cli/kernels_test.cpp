// cplab kernels: with and without nvcc the same table; what is left out is said.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/compiled.hpp"
#include "tests/cli/program.hpp"

using nlohmann::json;

namespace {

json kernels_of(std::vector<std::string> arguments) {
  const TemporaryFolder folder;
  arguments.insert(arguments.begin(), "kernels");
  arguments.insert(arguments.end(), {"--json", folder.path("kernels.json")});
  const ProgramResult result = run_cplab(arguments);
  REQUIRE(result.code == 0);
  return json::parse(read_file(folder.path("kernels.json")));
}

bool compiled() {
  return cplab::kernels::cuda::compiled_kernels() != nullptr;
}

}  // namespace

TEST_CASE(
    "kernels lists every variant, part and architecture, and says what a build without nvcc leaves out") {
  const json written = kernels_of({});
  CHECK(written.at("schema") == "cplab.kernels.1");
  CHECK(written.at("command") == "kernels");
  CHECK(written.at("compiled") == compiled());
  CHECK(written.contains("left_out") != compiled());
  CHECK(written.at("architectures").size() == 4);
  for (const json& gpu : written.at("architectures"))
    CHECK(gpu.at("compile_and_occupancy_only") == (gpu.at("architecture") != "9.0"));
  bool found = false;
  for (const json& kernel : written.at("kernels")) {
    REQUIRE(kernel.at("architectures").size() == 4);
    if (kernel.at("variant") != "attend_backward mma bf16 128" || kernel.at("part") != "dk, dv") continue;
    found = true;
    CHECK(kernel.at("tile_rows") == 64);
    CHECK(kernel.at("tile_columns") == 128);
    CHECK(kernel.at("threads") == 256);
    CHECK(kernel.at("warps") == 8);
    const json& small = kernel.at("architectures").at(1);  // 130 KiB do not fit in 99
    CHECK(small.at("architecture") == "8.6");
    CHECK(small.at("claimed") == false);
    const json& first = kernel.at("architectures").at(0);
    CHECK(first.at("claimed") == true);
    CHECK(first.contains("registers") == compiled());
    CHECK(first.at("spill_bytes").is_null() == !first.contains("spill_store_bytes"));  // never 0 unseen
    if (!compiled()) CHECK(first.at("code") == "not compiled");
    if (!compiled() || !first.contains("occupancy")) continue;
    // 8 warps, one block: 12.5 % of 64.
    CHECK(first.at("occupancy") == 0.125);
    CHECK(first.at("spill_store_bytes") == 0);
  }
  CHECK(found);
  const ProgramResult text = run_cplab({"kernels"});
  CHECK((text.err.find("made without nvcc") == std::string::npos) == compiled());
  CHECK((text.out.find("not compiled") == std::string::npos) == compiled());
  CHECK((text.out.find("occupancy") != std::string::npos) == compiled());
  CHECK(text.out.find("attend_backward mma bf16 128 (dk, dv)") != std::string::npos);
  CHECK(text.out.find("attend_backward mma bf16 128, small tiles (dk, dv)") != std::string::npos);
  CHECK((text.out.find("8.0, 8.6, 8.9: compile- and occupancy-only") != std::string::npos) == compiled());
}

TEST_CASE("kernels takes words of a name and an architecture, and names the nearest") {
  const json written = kernels_of({"mma backward 64", "--architecture", "9.0"});
  REQUIRE(written.at("kernels").size() >= 4);  // two dtypes, two parts
  for (const json& kernel : written.at("kernels")) {
    CHECK(kernel.at("variant").get<std::string>().find("mma") != std::string::npos);
    CHECK(kernel.at("architectures").size() == 1);
  }
  const ProgramResult unknown = run_cplab({"kernels", "attend hoper bf16 128"});
  CHECK(unknown.code == 2);
  CHECK(unknown.err.find("did you mean \"attend ") != std::string::npos);
  const ProgramResult architecture = run_cplab({"kernels", "--architecture", "7.0"});
  CHECK(architecture.code == 2);
  CHECK(architecture.err.find("8.0 8.6 8.9 9.0") != std::string::npos);
}

TEST_CASE(
    "kernels with a hardware file: FLOPs of live pairs over the measured time, bytes over it for others") {
  const TemporaryFolder folder;
  const std::string base = read_file(std::string(CPLAB_TEST_SCENARIOS) + "/hardware/h200x4-cudnn.toml");
  // 2 sequences of 1000 causal tokens, 3 heads of 64: 6 x 1000 x 1001 / 2 pairs of 2(64 + 64) FLOPs, 1 ms.
  const std::string file = folder.write("own.toml", base + R"(
[[kernel]]
class = "attend"
variant = "attend mma bf16 64"
dtype = "bf16"
head_size = 64
mask = "causal"
batch = [2]
sequence = [1000]
heads = [3]
seconds = [1e-3]
origin = "measured"
tool = "t"
machine = "m"
date = "2026-11"

[[kernel]]
class = "copy"
variant = "copy"
dtype = "bf16"
bytes = [1e6, 1e9]
seconds = [1e-5, 5e-4]
origin = "measured"
tool = "t"
machine = "m"
date = "2026-11"
)");
  const json written = kernels_of({"--hardware", file});
  const json& measured = written.at("measured");
  REQUIRE(measured.size() == 3);
  CHECK(measured.at(0).at("variant") == "attend mma bf16 64");
  CHECK(measured.at(0).at("mask") == "causal");
  CHECK(measured.at(0).at("flops_s").get<double>() == doctest::Approx(3003000.0 * 256 / 1e-3));
  CHECK(measured.at(2).at("bytes_s").get<double>() == doctest::Approx(1e9 / 5e-4));
  CHECK(measured.at(2).at("origin") == "measured");
  const ProgramResult text = run_cplab({"kernels", "copy", "--hardware", file});
  CHECK(text.out.find("2000.0") != std::string::npos);  // GB/s, the faster of the two
  const ProgramResult none = run_cplab({"kernels", "maximum", "--hardware", file});
  CHECK(none.out.find("has no table of these kernels") != std::string::npos);
  const ProgramResult missing = run_cplab({"kernels", "--hardware", "h200x5"});
  CHECK(missing.code == 2);
  CHECK(missing.err.find("--hardware: \"h200x5\" is not there") != std::string::npos);
}

TEST_CASE("a build without GPU code says so, and which command adds it") {
  if (compiled()) return;
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"run", "ring", "--device", "gpu"}, {"verify", "ring", "--device", "gpu"}}) {
    const ProgramResult result = run_cplab(command);
    CHECK(result.code == 3);
    CHECK(result.err.find("this build has no GPU code") != std::string::npos);
    CHECK(result.err.find("`make build` adds it") != std::string::npos);
  }
}

// Predictions that misled: kernels without a fast variant, launch floors, what-ifs of a GPU.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"
#include "tests/trials/inputs.hpp"

namespace {

using Json = nlohmann::json;

Json simulated(const std::string& scenario, const std::vector<std::string>& sets) {
  std::vector<std::string> arguments{"simulate", scenario};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  return json_of(arguments);
}

bool says(const Json& result, const std::vector<std::string>& words) {
  const Json& notes = result.at("notes");
  return std::any_of(notes.begin(), notes.end(), [&](const Json& note) {
    const auto text = note.get<std::string>();
    return std::all_of(words.begin(), words.end(),
                       [&](const std::string& word) { return text.find(word) != std::string::npos; });
  });
}

bool holds(const Json& result, double seconds) {
  return result.at("low_s").get<double>() <= seconds && seconds <= result.at("high_s").get<double>();
}

}  // namespace

// Rings on 2 x H200, forward and backward, that general kernels took; README.md of this folder says which.
struct HeadSize {
  const char *sequence, *kv_heads, *head_size, *value_size;
  double seconds;
};
const HeadSize head_sizes[] = {{"16384", "2", "256", "256", 1.573},
                               {"8192", "16", "192", "128", 0.216},
                               {"8192", "16", "96", "96", 0.099},
                               {"8192", "16", "80", "80", 0.098}};

Json ring_of(const HeadSize& of, const std::string& machine, const std::string& capability) {
  return simulated(
      trial("26-qwen35.toml"),
      {std::string("problem.sequence=") + of.sequence, std::string("problem.kv_heads=") + of.kv_heads,
       std::string("problem.head_size=") + of.head_size, std::string("problem.value_size=") + of.value_size,
       "hardware.file=" + machine, "hardware.gpu.compute_capability=\"" + capability + "\""});
}

// Where there are no kernels for Hopper, which take all of these.
TEST_CASE("a head size without a kernel on tensor cores: the time of the kernel that run takes, and a note") {
  for (const HeadSize& m : head_sizes) {
    for (const char* machine : {"h200x4-hopper", "h100x8"}) {
      CAPTURE(m.head_size);
      CAPTURE(machine);
      const Json result = ring_of(m, machine, "8.0");
      CHECK(holds(result, m.seconds));
      CHECK(std::abs(result.at("time_s").get<double>() / m.seconds - 1) < 0.1);
      CHECK(says(result, {"attend general", "attend mma bf16 128", "64, 128", "times slower"}));
      CHECK(says(result, {"attend_backward general", m.head_size, "times slower"}));
    }
  }
}

// 96 and 80 are padded to 128, and take its time.
TEST_CASE("on Hopper these head sizes have kernels on tensor cores") {
  const double of_128 = ring_of({"8192", "16", "128", "128", 0}, "h200x4-hopper", "9.0").at("time_s");
  for (const HeadSize& m : head_sizes) {
    CAPTURE(m.head_size);
    const Json result = ring_of(m, "h200x4-hopper", "9.0");
    CHECK(result.at("time_s").get<double>() < m.seconds / 10);
    CHECK_FALSE(says(result, {"times slower"}));
    if (std::string(m.head_size) == "96" || std::string(m.head_size) == "80") {
      CHECK(result.at("time_s").get<double>() <= of_128);
      CHECK(result.at("time_s").get<double>() > 0.85 * of_128);
    }
  }
}

// With the kernels of every architecture 15.3 ms were measured; Hopper's own take it now, and nobody has
// measured them.
TEST_CASE("a softcap costs what Hopper's own kernels take") {
  const Json result = simulated(trial("03-by-dynamic-mask.toml"),
                                {"problem.sequence=16384", "problem.heads=16", "problem.kv_heads=8",
                                 "problem.head_size=128", "parallel.ranks=2", "hardware.file=h200x4-hopper"});
  CHECK(result.at("time_s").get<double>() < 15.3e-3 / 2);
  CHECK(!says(result, {"times slower"}));
}

TEST_CASE("settings of the GPU that change kernels, or no time, say so") {
  const Json other = simulated("ring", {"hardware.gpu.compute_capability=\"10.0\""});
  CHECK(says(other, {"attend hopper bf16 128 -> attend cuDNN", "10.0", "a library's share of the peak"}));
  // A GPU is no slower for an architecture that this program has no kernels for.
  CHECK(other.at("time_s").get<double>() < 1.1 * simulated("ring", {}).at("time_s").get<double>());
  const Json peak = simulated("ring", {"hardware.gpu.peak_flops.bf16=2250e12"});
  CHECK(peak.at("time_s").get<double>() < 0.6 * simulated("ring", {}).at("time_s").get<double>());
  const Json idle = simulated("ring", {"hardware.gpu.peak_flops.fp64=34e12"});
  CHECK(says(idle, {"peak_flops", "changes no time", "bound by the peak of that dtype"}));
}

TEST_CASE("a straggler slows the ring that it is in") {
  // Inside a node, where kernels bind; over two nodes the network does, and the straggler waits with the
  // others.
  const auto time_s = [&](const std::vector<std::string>& sets) {
    return simulated(trial("21-straggler.toml"), sets).at("time_s").get<double>();
  };
  CHECK(time_s({"parallel.ranks=8"}) > 1.1 * time_s({"parallel.ranks=8", "simulate.slow=[]"}));
  const Json slow = simulated(trial("21-straggler.toml"), {});
  CHECK(slow.at("scenario").at("simulate").at("slow")[0].at("compute") == 0.8);
}

TEST_CASE("a few tokens: no kernel without a launch, and files of one kind of machine do not contradict") {
  for (const char* input : {"06-launch-floor.toml", "26-tiny.toml"}) {
    const Json assumed = simulated(trial(input), {"hardware.file=h100x8"});
    const Json measured = simulated(trial(input), {"hardware.file=h200x4-hopper"});
    CHECK(assumed.at("low_s") <= measured.at("high_s"));
    CHECK(measured.at("low_s") <= assumed.at("high_s"));
  }
}

TEST_CASE("twice the batch, twice the sequence: never faster") {
  for (const char* algorithm :
       {"lasp_naive", "lasp_cache", "lasp_fuse", "lasp_fuse_parallel", "lasp_blelloch"}) {
    double last = 0;
    for (const char* batch : {"1", "2", "4"}) {
      CAPTURE(algorithm);
      CAPTURE(batch);
      const double time = simulated("lasp", {std::string("parallel.algorithm=") + algorithm,
                                             std::string("problem.batch=") + batch})
                              .at("time_s");
      CHECK(time >= last);
      last = time;
    }
  }
  for (const char* algorithm : {"ring", "all_gather", "all_to_all", "head_strided", "usp"}) {
    double last = 0;
    for (const char* sequence : {"8192", "16384", "32768"}) {
      CAPTURE(algorithm);
      const double time = simulated("families-8", {std::string("parallel.algorithm=") + algorithm,
                                                   std::string("problem.sequence=") + sequence})
                              .at("time_s");
      CHECK(time >= last);
      last = time;
    }
  }
}

TEST_CASE("direction backward: ranks report the phase that time_s is of") {
  const Json result = simulated("ring", {"problem.sequence=16384", "problem.direction=backward"});
  double longest = 0;
  for (const Json& rank : result.at("ranks")) longest = std::max(longest, rank.at("time_s").get<double>());
  CHECK(longest == doctest::Approx(result.at("time_s").get<double>()));
}

TEST_CASE("a prediction for GPUs beside a run on the CPU: compare says that they are of two machines") {
  const TemporaryFolder folder;
  const std::string predicted = folder.path("p.json"), measured = folder.path("m.json");
  REQUIRE(run_cplab({"simulate", "ring-small", "--quiet", "--operations", "--set", "hardware.file=h100x8",
                     "--json", predicted})
              .code == 0);
  REQUIRE(run_cplab({"run", "ring-small", "--quiet", "--device", "cpu", "--operations", "--iterations", "1",
                     "--warmup", "0", "--set", "hardware.file=h100x8", "--json", measured})
              .code == 0);
  const Json report = json_of({"compare", predicted, measured});
  CHECK(says(report, {"the CPU", "h100x8"}));
}

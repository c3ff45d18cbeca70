// Writes the plans of builder_plans.hpp as files, over NCCL and (NAME-copy.json) over copy: write_plans DIR
// RANKS. For cplab verify --plan on GPUs (scripts/gpu/pack.sh).
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "algorithms/core/build.hpp"
#include "report/plan_json.hpp"
#include "tests/exec/builder_plans.hpp"
#include "tests/exec/scenarios.hpp"
#include "tests/hand_plans/communication_plans.hpp"

int main(int count, char** arguments) {
  using namespace cplab;
  if (count != 3) {
    std::cerr << "write_plans DIR RANKS\n";
    return 2;
  }
  const std::filesystem::path folder = arguments[1];
  const std::int64_t ranks = std::atoll(arguments[2]);
  std::filesystem::create_directories(folder);
  const auto write = [&](const ScenarioSpec& spec, const Algorithm& algorithm, const std::string& name) {
    Plan plan = build_plan(scenario(spec), algorithm);
    for (const Transport transport : {Transport::nccl, Transport::copy}) {
      hand::set_transport(plan, transport);
      const std::string link = transport == Transport::copy ? "-copy" : "";
      std::ofstream out(folder / (std::string(algorithm.name) + "-" + name + link + ".json"));
      write_plan_json(out, plan, {});
    }
  };
  for (const char* placement : {"zigzag", "striped"}) {
    ScenarioSpec spec;
    spec.ranks = ranks;
    spec.placement = placement;
    spec.dtype = DType::bf16;
    spec.lengths = {301, 0, 257, 1};
    spec.padded_lengths = {304, 2, 257, 1};
    spec.heads = 8;
    spec.kv_heads = 4;
    spec.head_size = spec.value_size = 64;
    write(spec, gathered_algorithm(), placement);
    if (ranks != 3) write(spec, traded_algorithm(), placement);
    if (ranks % 2 == 0) write(spec, two_level_algorithm(), placement);
    spec.options = {{"between", std::string("layers")}};
    write(spec, gathered_algorithm(), std::string(placement) + "-layers");
  }
  return 0;
}

// What the choice of backward kernels costs: the kernel that is chosen beside the fastest one, in records
// that have each kernel alone (scripts/compare_builds.py TILES:KERNEL).
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/chosen_variant.hpp"
#include "tests/kernels/square_call.hpp"

namespace cplab::testing {
namespace {

using namespace kernels::cuda;

struct Shape {
  std::int64_t B, S, H, D;
  bool causal;
  auto operator<=>(const Shape&) const = default;
};

// Median seconds by kernel. What a later record has of a shape takes the place of what an earlier one has.
using Times = std::map<Shape, std::map<std::string, double>>;
void read(Times& times, const std::string& path) {
  std::ifstream file(std::string(CPLAB_SOURCE_DIR) + "/scenarios/measured/" + path);
  REQUIRE_MESSAGE(file.good(), path);
  Times read;
  for (const nlohmann::json& row : nlohmann::json::parse(file)) {
    const nlohmann::json& shape = row.at("shape");
    std::vector<double> seconds = row.at("seconds");
    std::sort(seconds.begin(), seconds.end());
    read[{shape[0], shape[1], shape[2], shape[3], row.at("mask") == "causal"}][row.at("kernel")] =
        seconds[seconds.size() / 2];
  }
  for (auto& [shape, by_kernel] : read) times[shape] = std::move(by_kernel);
}

// The time of what is chosen over that of the fastest, at most.
double most_lost(const std::vector<std::string>& paths, KernelChoice choice) {
  Times times;
  for (const std::string& path : paths) read(times, path);
  VariantOptions options = on_hopper;
  options.choice = choice;
  double most = 0;
  for (const auto& [shape, by_kernel] : times) {
    const Call call{
        .S = shape.S, .B = shape.B, .H = shape.H, .G = shape.H, .D = shape.D, .causal = shape.causal};
    const std::vector<Segment> segments = call.segments();
    const AttendBackward rounds = rounding(call, segments);
    double least = 0;
    for (const AttendBackwardVariant* variant : variants_for(rounds, options))
      if (const auto found = by_kernel.find(variant->name); found != by_kernel.end())
        least = least == 0 ? found->second : std::min(least, found->second);
    most = std::max(most, by_kernel.at(choose_variant(rounds, options).variant->name) / least);
  }
  return most;
}

}  // namespace

// The costs of kernels were set to the records of the H100, so that a bound says how well a model of this
// form can do; the H200 had no part in it. Those of the second folder have the full masks of head size 128
// that walk in rings.
TEST_CASE("no choice of a backward kernel takes much longer than the fastest kernel") {
  for (const KernelChoice choice : {KernelChoice::best, KernelChoice::deterministic})
    for (const char* const size : {"64", "128"}) {
      CAPTURE(size);
      const auto records = [&](const std::string& card) {
        const std::string name = std::string("/kernels-") + size + ".json";
        std::vector<std::string> paths = {card + "-2026-11-26/sequences" + name};
        if (std::string(size) == "128") paths.push_back(card + "-2026-11-26/rings" + name);
        return paths;
      };
      CHECK(most_lost(records("h100"), choice) < 1.05);
      CHECK(most_lost(records("h200"), choice) < 1.02);
    }
}

}  // namespace cplab::testing

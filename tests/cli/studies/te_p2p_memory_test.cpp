// `reproduce te-p2p-memory`: the published table to the MiB, its rows from the plan that `simulate` would
// use.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "algorithms/core/build.hpp"
#include "cli/files/scenario_file.hpp"
#include "derive/memory.hpp"
#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"

using nlohmann::json;

TEST_CASE("te-p2p-memory gives the published figures to the MiB") {
  const json report = reproduced("te-p2p-memory", {});
  CHECK(report.at("name") == "te-p2p-memory");
  CHECK(report.at("command") == "reproduce");
  CHECK(report.at("notes").size() >= 5);
  auto rows = by_label(report);
  // From the publication, typed in here once more.
  const std::map<int, std::vector<int>> table{{4, {8192, 2048, 8192, 5680, 24112}},
                                              {8, {8192, 1024, 7168, 2856, 19240}},
                                              {16, {8192, 512, 6656, 1444, 16804}},
                                              {32, {8192, 256, 6400, 738, 15586}},
                                              {64, {8192, 128, 6272, 385, 14977}}};
  for (const auto& [ranks, figures] : table) {
    const std::string prefix = "C=" + std::to_string(ranks) + " ";
    const std::vector<std::string> columns{"globals", "locals", "algorithm", "workspace", "total"};
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const json& row = rows.at(prefix + columns[i]);
      CAPTURE(row.dump());
      CHECK(row.at("published") == figures[i]);
      CHECK(std::llround(row.at("ours").get<double>()) == figures[i]);
      CHECK(std::abs(row.at("error").get<double>()) < 0.5 / figures[i]);
      CHECK(rows.at(prefix + "o1/" + columns[i]).at("published").is_null());
      CHECK(rows.at(prefix + "o1/" + columns[i]).at("error").is_null());
    }
    // Columns are the sums of their parts, totals the sums of the columns, for both variants.
    for (const std::string variant : {"", "o1/"}) {
      double total = 0;
      for (std::size_t i = 0; i < 4; ++i) {
        const std::string label = prefix + variant + columns[i];
        double sum = 0;
        bool has_parts = false;
        for (const auto& [name, row] : rows) {
          if (name.rfind(label + "/", 0) != 0) continue;
          has_parts = true;
          sum += row.at("ours").get<double>();
        }
        if (has_parts) CHECK(sum == doctest::Approx(rows.at(label).at("ours").get<double>()).epsilon(1e-12));
        total += rows.at(label).at("ours").get<double>();
      }
      CHECK(total == doctest::Approx(rows.at(prefix + variant + "total").at("ours").get<double>()));
    }
  }
}

TEST_CASE("te-p2p-memory: derived rows are the buffers of the plan at its peak") {
  setenv("CPLAB_SCENARIOS", CPLAB_TEST_SCENARIOS, 1);
  for (const std::vector<std::string>& sets :
       {std::vector<std::string>{}, {"problem.kv_heads=4"}, {"problem.dtype=fp32"}, {"problem.mask=full"}}) {
    CAPTURE(sets);
    const auto rows = by_label(reproduced("te-p2p-memory", sets));
    std::vector<std::string> with = sets;
    with.emplace_back("parallel.ranks=8");
    const auto file = cplab::read_scenario("published/te-p2p-memory.toml", with);
    const cplab::Plan plan = cplab::build_plan(file.scenario);
    std::int64_t peak = -1;
    std::map<std::string, double> expected;  // MiB by buffer
    for (const cplab::RankPlan& rank : plan.ranks) {
      const cplab::MemoryPlan memory = cplab::plan_memory(rank);
      if (memory.live_peak_bytes <= peak) continue;
      peak = memory.live_peak_bytes;
      expected.clear();
      for (const std::uint32_t index : memory.peak_buffers) {
        expected[rank.buffers[index].name] = static_cast<double>(rank.buffers[index].bytes) / 1048576.0;
      }
    }
    std::map<std::string, double> derived;
    for (const auto& [label, row] : rows) {
      const std::size_t slash = label.find('/');
      if (label.rfind("C=8 ", 0) != 0 || label.find("o1/") != std::string::npos) continue;
      if (slash == std::string::npos || !row.at("derived").get<bool>()) continue;
      derived[label.substr(slash + 1)] = row.at("ours").get<double>();
    }
    CHECK(derived == expected);
    for (const auto& [label, row] : rows) {
      if (!sets.empty()) CHECK(row.at("published").is_null());  // they belong to another problem
    }
  }
}

TEST_CASE("long: te-p2p-memory: derived rows are what simulate reports at every published rank count") {
  const json report = reproduced("te-p2p-memory", {});
  CHECK(report.at("ranks") == json({4, 8, 16, 32, 64}));
  CHECK(report.at("scenario").at("parallel").at("ranks") == 8);  // as the file has it
  const auto rows = by_label(report);
  for (const int ranks : report.at("ranks")) {
    CAPTURE(ranks);
    const ProgramResult simulated =
        run_cplab({"simulate", "published/te-p2p-memory.toml", "--set", "hardware.file=hardware/h100x64.toml",
                   "--set", "parallel.ranks=" + std::to_string(ranks), "--json", "-"});
    CAPTURE(simulated.err);
    REQUIRE(simulated.code == 0);
    std::map<std::string, double> expected;  // MiB by buffer
    const json simulation = json::parse(simulated.out);
    for (const json& buffer : simulation.at("peak_buffers")) {
      expected[buffer.at("name")] = buffer.at("bytes").get<double>() / 1048576.0;
    }
    CHECK(expected.size() >= 4);
    std::map<std::string, double> derived;
    for (const auto& [label, row] : rows) {
      const std::size_t slash = label.find('/');
      if (label.rfind("C=" + std::to_string(ranks) + " ", 0) != 0) continue;
      if (label.find("o1/") != std::string::npos || slash == std::string::npos) continue;
      if (row.at("derived").get<bool>()) derived[label.substr(slash + 1)] = row.at("ours").get<double>();
    }
    CHECK(derived == expected);
  }
  const ProgramResult text = run_cplab({"reproduce", "te-p2p-memory"});
  CHECK(text.out.find("te-p2p-memory: ring, zigzag, 4, 8, 16, 32, 64 ranks, ") == 0);
}

TEST_CASE("te-p2p-memory: the two-slot variant does not grow with the number of ranks") {
  const auto rows = by_label(reproduced("te-p2p-memory", {}));
  // In units of one rank's Q (2048 / C MiB), everything derived but the inputs is constant from C = 4 on.
  double first = -1;
  for (const int ranks : {4, 8, 16, 32, 64}) {
    double units = 0;
    const std::string prefix = "C=" + std::to_string(ranks) + " o1/algorithm/";
    for (const auto& [label, row] : rows) {
      if (label.rfind(prefix, 0) == 0 && row.at("derived").get<bool>()) {
        units += row.at("ours").get<double>() * ranks / 2048.0;
      }
    }
    if (first < 0) first = units;
    CHECK(units == doctest::Approx(first).epsilon(1e-12));
  }
  CHECK(first == doctest::Approx(8.0));  // 4 of K and V, 2 partial outs, the running out, half K and half V
}

TEST_CASE("te-p2p-memory refuses to change what it iterates over") {
  for (const char* set : {"parallel.ranks=8", "published.total=[1]"}) {
    const ProgramResult result = run_cplab({"reproduce", "te-p2p-memory", "--set", set});
    CHECK(result.code == 2);
    CHECK(result.err.find(set) != std::string::npos);
  }
}

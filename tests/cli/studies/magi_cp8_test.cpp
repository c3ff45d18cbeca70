// `reproduce magi-cp8`: every published figure once, beside what the simulation says and the null model; no
// number of ours is written down here.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"

using nlohmann::json;

namespace {

// From the publication, typed in here once more: full forward, full backward, causal forward, causal
// backward.
const std::map<std::string, std::vector<double>> published_magi{
    {"ulysses", {29.07, 76.38, 14.62, 37.77}},
    {"ring_p2p", {34.45, 88.60, 20.88, 50.87}},
    {"ring_allgather", {29.03, 82.56, 14.63, 42.62}},
    {"usp", {30.38, 77.17, 14.84, 38.47}}};
const std::vector<std::string> figures{"full forward", "full backward", "causal forward", "causal backward"};

}  // namespace

TEST_CASE("magi-cp8 gives every published figure with a finite time of ours, its parts and the null model") {
  const json report = reproduced("magi-cp8");
  CHECK(report.at("name") == "magi-cp8");
  CHECK(report.at("command") == "reproduce");
  CHECK(report.at("ranks") == json({8}));
  const auto rows = by_label(report);
  // A rank's share of the FLOPs, 4 S^2 H D / 8 forward and 2.5 times that backward (causal: S (S + 1) / 2
  // pairs), at the published rate of 32768 tokens.
  const double full = 4.0 * 65536 * 65536 * 64 * 128 / 8, causal = full / 2 * 65537 / 65536;
  const std::vector<double> null_ms{full / 701e12 * 1e3, 2.5 * full / 601e12 * 1e3, causal / 679e12 * 1e3,
                                    2.5 * causal / 585e12 * 1e3};
  for (const auto& [method, times] : published_magi) {
    for (std::size_t i = 0; i < figures.size(); ++i) {
      const std::string label = method + " " + figures[i];
      CAPTURE(label);
      const json& row = rows.at(label);
      const double ours = row.at("ours");
      CHECK(row.at("published").get<double>() == doctest::Approx(times[i]).epsilon(1e-12));
      CHECK(std::isfinite(ours));
      CHECK(row.at("error").get<double>() == doctest::Approx(ours / times[i] - 1).epsilon(1e-9));
      CHECK(row.at("derived") == true);
      CHECK(row.at("unit") == "ms");
      const json& null_row = rows.at(label + "/null");
      CHECK(null_row.at("ours").get<double>() == doctest::Approx(null_ms[i]).epsilon(1e-12));
      CHECK(null_row.at("derived") == false);
      // The null model and the parts sum to the time: they are cut from one timeline.
      double sum = 0;
      for (const auto& [name, part] : rows)
        if (name.starts_with(label + "/")) sum += part.at("ours").get<double>();
      CHECK(sum == doctest::Approx(ours).epsilon(1e-9));
      CHECK(ours > null_ms[i] * 0.9);
    }
  }
  CHECK(report.at("rows").size() % (published_magi.size() * figures.size()) == 0);
  for (const auto& [method, times] : published_magi) {
    std::size_t about = 0;
    for (const json& note : report.at("notes")) about += note.get<std::string>().starts_with(method + ": ");
    CHECK(about == 2);  // what the operations say, and whether the null model is beaten
  }
}

TEST_CASE("magi-cp8: the deferred correction and the copied halves are operations of the ring alone") {
  const auto rows = by_label(reproduced("magi-cp8"));
  for (const std::string chart : {"full", "causal"}) {
    CHECK(rows.at("ring_p2p " + chart + " forward/merges").at("ours") > 0.1);
    CHECK(rows.at("ulysses " + chart + " forward/merges").at("ours") == 0);
    CHECK(rows.at("ring_allgather " + chart + " forward/merges").at("ours") == 0);
    // Reordered keys: all of K and V read and written once, 2 x 256 MiB, 64 MiB to pack, at most at the
    // bandwidth of a copy (3.01e12).
    CHECK(rows.at("ring_allgather " + chart + " forward/copies and sums").at("ours") >=
          576 * 1048576 / 3.01e12 * 1e3 * 0.999);
  }
  // Halves are copied under a causal mask only.
  CHECK(rows.at("ring_p2p causal forward/copies and sums").at("ours") >
        rows.at("ring_p2p full forward/copies and sums").at("ours"));
}

TEST_CASE("magi-cp8 runs on another machine, but not with another problem or schedule") {
  const auto rows = by_label(reproduced("magi-cp8")),
             slow = by_label(reproduced("magi-cp8", {"hardware.gpu.copy_bytes_s=1e12"}));
  CHECK(slow.at("ring_p2p full forward/merges").at("ours") >
        rows.at("ring_p2p full forward/merges").at("ours"));
  CHECK(slow.at("ring_p2p full forward").at("published") == rows.at("ring_p2p full forward").at("published"));
  for (const char* set :
       {"parallel.ranks=4", "problem.heads=32", "schedule.merge=fused", "published.kernel=1"}) {
    const ProgramResult result = run_cplab({"reproduce", "magi-cp8", "--set", set});
    CHECK(result.code == 2);
    CHECK(result.err.find(set) != std::string::npos);
    CHECK(result.err.find("hardware.*") != std::string::npos);
  }
  const ProgramResult missing =
      run_cplab({"reproduce", "magi-cp8", "--set", "hardware.file=hardware/nowhere.toml"});
  CHECK(missing.code == 2);
}

TEST_CASE("reproduce lists what there is, and writes a table") {
  const ProgramResult names = run_cplab({"reproduce"});
  CHECK(names.out.find("magi-cp8\n") != std::string::npos);
  const ProgramResult text = run_cplab({"reproduce", "magi-cp8"});
  CHECK(text.code == 0);
  CHECK(text.out.starts_with("magi-cp8: 8 ranks on hardware/h100x8.toml, "));
  CHECK(text.out.find("published (ms)") != std::string::npos);
  const ProgramResult csv = run_cplab({"reproduce", "magi-cp8", "--csv", "-"});
  CHECK(csv.out.starts_with("figure,published_s,ours_s,error_percent,origin"));
}

// `reproduce lasp-throughput`: every published figure once, the same parameters for all rows, and notes that
// follow from the rows. No number of ours is written down here.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"

using nlohmann::json;

namespace {

// From the publication, typed in here once more: million tokens/s forward, forward and backward.
const std::map<std::string, std::pair<double, double>> published_lasp{
    {"8 x H100, DP 2 SP 4, naive", {13.80, 4.41}},
    {"8 x H100, DP 2 SP 4, cache", {26.78, 6.68}},
    {"8 x H100, DP 2 SP 4, fuse", {49.56, 16.69}},
    {"8 x H100, DP 2 SP 4, fuse_parallel", {35.14, 11.87}},
    {"8 x H100, DP 2 SP 4, blelloch", {39.76, 16.81}},
    {"16 x RTX 5090, DP 1 SP 16, fuse", {18.53, 7.49}},
    {"16 x RTX 5090, DP 1 SP 16, blelloch", {47.34, 21.28}},
    {"16 x RTX 5090, DP 2 SP 8, fuse", {51.17, 18.12}},
    {"16 x RTX 5090, DP 2 SP 8, blelloch", {83.01, 33.90}},
    {"16 x RTX 5090, DP 4 SP 4, fuse", {100.22, 31.21}},
    {"16 x RTX 5090, DP 4 SP 4, blelloch", {125.50, 44.64}}};

bool has_note(const json& report, const std::string& begin, const std::string& part) {
  return std::any_of(report.at("notes").begin(), report.at("notes").end(), [&](const json& note) {
    const auto text = note.get<std::string>();
    return text.starts_with(begin) && text.find(part) != std::string::npos;
  });
}

}  // namespace

TEST_CASE("lasp-throughput gives every published figure with one of ours, and explains each") {
  const json report = reproduced("lasp-throughput");
  CHECK(report.at("name") == "lasp-throughput");
  CHECK(report.at("rows").size() == 2 * published_lasp.size());
  std::map<std::string, json> rows;
  for (const json& row : report.at("rows")) rows[row.at("label")] = row;
  CHECK(rows.size() == 2 * published_lasp.size());
  for (const auto& [label, figures] : published_lasp) {
    for (const auto& [what, figure] :
         {std::pair<std::string, double>{"forward", figures.first}, {"forward+backward", figures.second}}) {
      const json& row = rows.at(label + ", " + what);
      const double ours = row.at("ours");
      CAPTURE(label);
      CHECK(row.at("published").get<double>() == figure);
      CHECK(row.at("unit") == "Mtok/s");
      CHECK(row.at("derived") == true);
      CHECK(std::isfinite(ours));
      CHECK(ours > 0);
      CHECK(row.at("error").get<double>() == doctest::Approx(ours / figure - 1));
      CHECK(has_note(report, label + ", " + what + ": ", "The chain that ends last: kernels"));
    }
    // Both phases take longer than the first.
    CHECK(rows.at(label + ", forward").at("ours") > rows.at(label + ", forward+backward").at("ours"));
  }
}

TEST_CASE(
    "lasp-throughput: at most four parameters are fitted, and the columns' figures follow from the rows") {
  const json report = reproduced("lasp-throughput");
  std::size_t fitted = 0, parameters = 0;
  for (const json& note : report.at("notes")) {
    const auto text = note.get<std::string>();
    if (!text.starts_with("Parameter ")) continue;
    ++parameters;
    fitted += text.find(", fitted: ") != std::string::npos;
  }
  CHECK(parameters >= fitted);
  CHECK(fitted <= 4);
  for (const auto& [machine, verb] :
       {std::pair<std::string, std::string>{"8 x H100", "fitted"}, {"16 x RTX 5090", "predicted"}}) {
    for (const std::string column : {", forward", ", forward+backward"}) {
      std::vector<double> theirs, ours, errors;
      for (const json& row : report.at("rows")) {
        const auto label = row.at("label").get<std::string>();
        if (!label.starts_with(machine) || !label.ends_with(column)) continue;
        if (column == ", forward" && label.ends_with("backward")) continue;
        theirs.push_back(row.at("published"));
        ours.push_back(row.at("ours"));
        errors.push_back(std::abs(row.at("error").get<double>()));
      }
      // Spearman: the correlation of the two orders.
      const auto order = [](const std::vector<double>& v, double x) {
        return static_cast<double>(std::count_if(v.begin(), v.end(), [&](double y) { return y < x; }));
      };
      const auto n = static_cast<double>(ours.size());
      double sum = 0, squares = 0;
      for (std::size_t i = 0; i < ours.size(); ++i) {
        sum += (order(theirs, theirs[i]) - (n - 1) / 2) * (order(ours, ours[i]) - (n - 1) / 2);
        squares += std::pow(order(theirs, theirs[i]) - (n - 1) / 2, 2);
      }
      std::sort(errors.begin(), errors.end());
      char correlation[32];
      std::snprintf(correlation, sizeof correlation, "rank correlation %.2f", sum / squares);
      CAPTURE(correlation);
      CHECK(has_note(report, machine + column + ": ", correlation));
      CHECK(has_note(report, machine + column + ": ", verb));
    }
  }
}

TEST_CASE("lasp-throughput says what the tables do not support") {
  const json report = reproduced("lasp-throughput");
  CHECK(has_note(report, "The source says \"2x over other methods\"", "0.80 forward and 1.01 with backward"));
  CHECK(has_note(report, "The source counts 14 steps", "13 rounds"));
  // Brent and Kung's scan and a shift: 26 + 15 messages for 16 ranks, 2 x (11 + 7) for two groups of 8; 7 + 1
  // and 5 + 1 rounds. A chain has all of its messages in a row.
  CHECK(has_note(report, "16 x RTX 5090, DP 1 SP 16, blelloch: simulated",
                 "The right one sends 41, 8 in a chain."));
  CHECK(has_note(report, "16 x RTX 5090, DP 2 SP 8, blelloch: simulated",
                 "The right one sends 36, 6 in a chain."));
  CHECK(!has_note(report, "16 x RTX 5090, DP 4 SP 4, blelloch: simulated", ""));
  CHECK(has_note(report, "16 x RTX 5090, DP 1 SP 16, fuse: of its messages",
                 "of 12.6 MB 15 wait for each other"));
}

TEST_CASE("lasp-throughput: a machine's links may be set, the published problem not") {
  for (const char* set :
       {"problem.sequence=4096", "parallel.ranks=8", "hardware.file=hardware/h100x64.toml"}) {
    const ProgramResult result = run_cplab({"reproduce", "lasp-throughput", "--set", set});
    CHECK(result.code == 2);
    CHECK(result.err.find(set) != std::string::npos);
  }
  const json slow = reproduced("lasp-throughput", {"hardware.node.link_bytes_s=28e9"}),
             fast = reproduced("lasp-throughput");
  for (std::size_t i = 0; i < slow.at("rows").size(); ++i)
    CHECK(slow.at("rows")[i].at("ours").get<double>() <=
          fast.at("rows")[i].at("ours").get<double>() * (1 + 1e-9));
}

// `reproduce llama-strides`: the source's multiples of h x exactly, and what is exposed where.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"

using nlohmann::json;

namespace {

const json& report() {
  static const json once = reproduced("llama-strides");
  return once;
}

const std::map<std::string, json>& rows() {
  static const std::map<std::string, json> all = by_label(report());
  return all;
}

double ours(const std::string& label) {
  CAPTURE(label);
  REQUIRE(rows().contains(label));
  return rows().at(label).at("ours");
}

}  // namespace

TEST_CASE("long: llama-strides: buffers of the backward are the source's multiples of h x") {
  CHECK(report().at("name") == "llama-strides");
  CHECK(report().at("ranks") == json({8, 64}));
  CHECK(report().at("notes").size() >= 8);
  // From the source's table: 4 h x + 2 h x per option + 10 W x, W the sum of distinct widths (h = 8). The
  // second number is ours with one staging slot: 4 W x less. The last is one slab for gradients and one for
  // staging, of the largest width w: 6 w x.
  const std::map<std::string, std::vector<double>> table{{"G=24 h=8", {14, 14 - 4 * 1.0, 6}},
                                                         {"G=24 h=8 f'=4 l=4", {23, 23 - 4 * 1.5, 6}},
                                                         {"G=24 h=8 f'=2 l=2", {28, 28 - 4 * 2.0, 6}},
                                                         {"G=24 h=8 f'=2 l=6", {28, 28 - 4 * 2.0, 6}},
                                                         {"G=24 h=8 f'=4 l=2", {33, 33 - 4 * 2.5, 6}},
                                                         {"G=24 h=8 f'=2 l=3", {38, 38 - 4 * 3.0, 6}},
                                                         {"G=24 h=8 f'=4", {21, 21 - 4 * 1.5, 6}},
                                                         {"G=24 h=8 f'=2", {26, 26 - 4 * 2.0, 6}},
                                                         {"G=16 h=8 f'=4 l=4", {9, 9 - 4 * 0.5, 3}},
                                                         {"G=16 h=8 f'=2 l=2", {14, 14 - 4 * 1.0, 4.5}},
                                                         {"G=16 h=8 f'=4 l=2", {19, 19 - 4 * 1.5, 4.5}},
                                                         {"G=16 h=8 f'=2 l=3", {24, 24 - 4 * 2.0, 4.5}},
                                                         {"G=8 h=8 f'=4", {7, 7 - 4 * 0.5, 3}},
                                                         {"G=8 h=8 f'=2", {12, 12 - 4 * 1.0, 4.5}}};
  std::size_t totals = 0;
  for (const auto& [label, row] : rows())
    totals += label.starts_with("G=") && label.ends_with("/slab drain_first");
  CHECK(totals == table.size());
  for (const auto& [label, multiples] : table) {
    CAPTURE(label);
    const json& both = rows().at(label + "/per_width stage_first");
    CHECK(both.at("published") == multiples[0]);
    CHECK(both.at("ours") == multiples[0]);
    CHECK(both.at("error") == 0);
    CHECK(both.at("derived") == true);
    CHECK(both.at("unit") == "h x");
    double sum = 0;
    for (const char* part : {"/K and V", "/dK and dV", "/staging"}) {
      const json& row = rows().at(label + "/per_width stage_first" + part);
      CHECK(row.at("published") == row.at("ours"));
      sum += row.at("ours").get<double>();
    }
    CHECK(sum == multiples[0]);
    CHECK(rows().at(label + "/per_width drain_first").at("published") == multiples[0]);
    CHECK(ours(label + "/per_width drain_first") == multiples[1]);
    CHECK(ours(label + "/slab drain_first/gradients and staging") == multiples[2]);
    CHECK(rows().at(label + "/slab drain_first/gradients and staging").at("published") == multiples[2]);
    // A slab never takes more than buffers for every width.
    CHECK(ours(label + "/slab drain_first") <= ours(label + "/per_width drain_first"));
    CHECK(ours(label + "/slab stage_first") <= ours(label + "/per_width stage_first"));
  }
}

TEST_CASE("long: llama-strides: what is exposed, and that strides shrink it") {
  for (const auto& [label, row] : rows()) {
    if (!label.starts_with("P=")) continue;
    CAPTURE(label);
    CHECK(std::isfinite(row.at("ours").get<double>()));
    CHECK(row.at("published").is_null());
    CHECK(row.at("unit") == "ms");
    if (!label.ends_with("/exposed")) continue;
    double sum = 0;
    for (const auto& [name, part] : rows())
      if (name.starts_with(label + "/")) sum += part.at("ours").get<double>();
    CHECK(sum == doctest::Approx(row.at("ours").get<double>()).epsilon(1e-9));
    CHECK(row.at("ours") < ours(label.substr(0, label.rfind('/'))));
  }
  for (const std::string P : {"P=8 ", "P=64 "}) {
    // All heads at once: nothing is beside the one gather, and nothing else is exposed.
    const std::string whole = P + "h=8 forward/exposed";
    CHECK(ours(whole) > 0);
    CHECK(ours(whole + "/other gathers") == 0);
    CHECK(ours(P + "h=8 backward/exposed/last reduce-scatter") > 0);
    CHECK(ours(P + "h=8 backward/exposed/other reduce-scatters") == 0);
    // Fewer heads first, or last: less of that collective.
    const auto less = [&](const std::string& a, const std::string& b) { CHECK(ours(P + a) < ours(P + b)); };
    less("h=8 f=4 forward/exposed/first gather", "h=8 forward/exposed/first gather");
    less("h=8 f=1 forward/exposed/first gather", "h=8 f=4 forward/exposed/first gather");
    less("h=4 f=2 forward/exposed/first gather", "h=4 forward/exposed/first gather");
    less("h=4 f'=2 l=2 backward/exposed/first gather", "h=4 backward/exposed/first gather");
    less("h=4 f'=1 l=1 backward/exposed/last reduce-scatter",
         "h=4 f'=2 l=2 backward/exposed/last reduce-scatter");
    less("h=4 f'=2 l=2 backward/exposed/last reduce-scatter", "h=4 backward/exposed/last reduce-scatter");
  }
  // Eight ranks of one node: a stride's attention hides the next gather.
  for (const char* label :
       {"P=8 h=4 forward/exposed", "P=8 h=4 f=2 forward/exposed", "P=8 h=1 forward/exposed"})
    CHECK(ours(std::string(label) + "/first gather") >= 0.95 * ours(label));
}

TEST_CASE("llama-strides refuses to change what it iterates over") {
  for (const char* set : {"parallel.ranks=4", "schedule.head_stride=2", "problem.kv_heads=4",
                          "problem.direction=forward", "published.ranks=[4]"}) {
    const ProgramResult result = run_cplab({"reproduce", "llama-strides", "--set", set});
    CHECK(result.code == 2);
    CHECK(result.err.find(set) != std::string::npos);
  }
}

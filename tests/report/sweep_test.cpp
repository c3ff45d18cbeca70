// Points of sweeps: lines and back, reasons put together, what is best.
#include "report/sweep.hpp"

#include <doctest/doctest.h>

using namespace cplab;

namespace {

SweepPoint point(std::int64_t number, double time_s, std::int64_t peak_bytes, bool fits = true,
                 std::int64_t sequence = 1024) {
  SweepPoint made;
  made.number = number;
  made.set = {{"problem.sequence", sequence}, {"parallel.algorithm", std::string("ring")}};
  made.time_s = time_s;
  made.peak_bytes = peak_bytes;
  made.fit.fits = fits;
  return made;
}

}  // namespace

TEST_CASE("lines are read back to the same lines") {
  SweepPoint full = point(7, 0.1 + 0.2, 123456789012);
  full.set.emplace_back("problem.scale", 0.125);
  full.set.emplace_back("schedule.overlap", true);
  full.algorithm = "ring";
  full.placement = "zigzag";
  full.machine = "a \"machine\"";
  full.gpu = "gpu";
  full.low_s = 1e-300;
  full.high_s = 1.0 / 3;
  full.chain = {0.5, 0.25, 0.25, 0};
  full.phases = {{Phase::forward, 0.1}, {Phase::backward, 0.2}};
  full.fit = {80, 1, false, -5};
  full.messages = 12;
  full.notes = {"a note", "another\nline"};
  const std::string line = line_of(full);
  CHECK(line.find('\n') == std::string::npos);
  const JsonDocument document(line, "line");
  CHECK_FALSE(is_refusal(document.root()));
  CHECK(line_of(read_sweep_point(document.root())) == line);

  for (const std::optional<std::string>& nearest :
       {std::optional<std::string>(), std::optional<std::string>("4")}) {
    const SweepRefusal refusal{
        3, {{"problem.heads", std::int64_t{5}}}, RefusalKind::memory, "why: 3", nearest};
    const JsonDocument refused(line_of(refusal), "line");
    CHECK(is_refusal(refused.root()));
    CHECK(line_of(read_sweep_refusal(refused.root())) == line_of(refusal));
  }

  SweepHeader header{{{"cplab", "1"}}, {}, "1/4"};
  header.study = {"study",
                  "ring",
                  "abc",
                  {{"hardware", "h100", "def"}},
                  {"a.b=1"},
                  {"c.d"},
                  {{"choose", "x"}},
                  {{"a.b, c.d", {"1, 2", "3, 4"}}},
                  {"1 == 1"},
                  12,
                  10,
                  {{"1 == 1", 2}}};
  const JsonDocument first(line_of(header), "line");
  CHECK(line_of(read_sweep_header(first.root())) == line_of(header));
  CHECK(differences(header, read_sweep_header(first.root())).empty());
}

TEST_CASE("each part of a study that differs is named") {
  const SweepHeader was{{{"cplab", "1"}}, {}, ""};
  const auto differs = [&](auto change) {
    SweepHeader now = was;
    change(now);
    return differences(was, now).size();
  };
  CHECK(differs([](SweepHeader&) {}) == 0);
  CHECK(differs([](SweepHeader& h) { h.shard = "1/2"; }) == 0);  // shards of one study go together
  CHECK(differs([](SweepHeader& h) { h.study.name = "elsewhere"; }) == 0);
  CHECK(differs([](SweepHeader& h) { h.versions[0].second = "2"; }) == 1);
  CHECK(differs([](SweepHeader& h) { h.study.scenario_sha256 = "x"; }) == 1);
  CHECK(differs([](SweepHeader& h) { h.study.files.push_back({"hardware", "h", "x"}); }) == 1);
  CHECK(differs([](SweepHeader& h) { h.study.set = {"a.b=1"}; }) == 1);
  CHECK(differs([](SweepHeader& h) { h.study.unset = {"a.b"}; }) == 1);
  CHECK(differs([](SweepHeader& h) { h.study.options = {{"choose", "x"}}; }) == 1);
  CHECK(differs([](SweepHeader& h) { h.study.vary = {{"a.b", {"1"}}}; }) == 1);
  CHECK(differs([](SweepHeader& h) { h.study.where = {"1 == 1"}; }) == 1);
  CHECK(differs([](SweepHeader& h) { h.study.points = 3; }) == 1);
}

TEST_CASE("reasons that differ in numbers alone are one, with the first as example") {
  const auto refusal = [](std::int64_t number, const std::string& reason,
                          RefusalKind kind = RefusalKind::input) {
    return SweepRefusal{number, {}, kind, reason, {}};
  };
  const auto groups =
      grouped({refusal(1, "heads: 5 is not 10"), refusal(2, "ranks: 5"), refusal(4, "heads: 77 is not 3"),
               refusal(6, "ranks: 5", RefusalKind::memory)});
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].count == 2);
  CHECK(groups[0].reason == "heads: 5 is not 10");
  CHECK(groups[0].example.number == 1);
  CHECK(groups[1].count == 1);
  CHECK(groups[2].kind == RefusalKind::memory);
}

TEST_CASE("the front of time against memory, of each problem, of what fits") {
  SweepReport report;
  report.points = {point(0, 3, 10),         point(1, 2, 20),
                   point(2, 1, 40),         point(3, 2.5, 30),  // 3: slower than 1, larger
                   point(4, 2, 25),                             // as fast as 1, larger
                   point(5, 0.5, 90, false)};                   // fastest, does not fit
  find_best(report);
  CHECK(report.fastest == std::vector<std::int64_t>{2});
  CHECK(report.pareto == std::vector<std::int64_t>{2, 1, 0});

  // Of another problem nothing fits: all of it counts.
  report.points.push_back(point(6, 8, 10, false, 2048));
  report.points.push_back(point(7, 7, 20, false, 2048));
  find_best(report);
  CHECK(report.fastest == std::vector<std::int64_t>{2, 7});
  CHECK(report.pareto == std::vector<std::int64_t>{2, 1, 0, 7, 6});
}

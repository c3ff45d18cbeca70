// Pages without a browser: well-formed, whole in themselves, their numbers those of the JSON result; what the
// timeline holds decoded by other code than encodes it; what is left out when there is too much; break-even.
#include <doctest/doctest.h>

#include <cmath>
#include <sstream>
#include <tuple>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/core/resolve.hpp"
#include "report/html/charts.hpp"
#include "report/html/pages.hpp"
#include "report/html/sweep_curves.hpp"
#include "report/html/timeline_data.hpp"
#include "report/html/writer.hpp"
#include "report/json.hpp"
#include "tests/contains.hpp"
#include "tests/report/hand_plan.hpp"
#include "tests/report/html_page.hpp"
#include "tests/scenarios/any_scenario.hpp"

using namespace cplab;
using cplab::testing::contains;
using cplab::testing::ReadPage;
using Json = nlohmann::json;

namespace {

std::int64_t ns(double seconds) {
  return std::llround(seconds * 1e9);
}

// A report of a plan under a clock, with figures that are not alike.
struct Simulated {
  Plan plan;
  Timeline timeline;
  std::vector<MemoryPlan> memory;
  SimulateReport report;
  std::vector<ChainStep> chain;

  Simulated(Plan plan_, Timeline timeline_)
      : plan(std::move(plan_)), timeline(std::move(timeline_)), memory(memory_of(plan)) {
    report.header.versions = {{"cplab", "1"}};
    report.header.scenario = plan.scenario;
    report.header.notes = {"a <note> & \"more\""};
    report.figures = derive_figures(plan, timeline, memory);
    report.fit = Fit{80, 1, false, -5};
    report.low_s = 0.25;
    report.high_s = 1.0 / 3;
    report.chain = {0.5, 0.25, 0.125, 0.125};
    report.chain_parts.count = 2;
    report.chain_parts.largest[0] = {ChainResource::gpu, OpKind::attend, 0, -1, 3};
    report.chain_parts.largest[1] = {ChainResource::link, OpKind::exchange, 0, 1, 1};
    report.chain_s = 11;
    report.variants = {{"kernel <a>", OpKind::attend, 4, 0.5, 0.75}};
    report.operations = OperationTimes{&plan, &timeline};
    chain = {{0, 1, 0, 0, true}, {1, 5, 0, 0, false}, {5, 11, 1, 2, false}};
  }
  TimelineResult result() const { return {plan, timeline, memory, report.figures}; }
  std::string page() const {
    std::ostringstream out;
    write_page(out, {"<title>", "lead & more"}, report, result(), chain);
    return out.str();
  }
};

void check_row(const Json& timeline, std::size_t row, const Simulated& from, std::size_t rank) {
  const std::vector<testing::DecodedBox> boxes = testing::decode_boxes(timeline, row);
  const RankPlan& plan = from.plan.ranks[rank];
  REQUIRE(boxes.size() == plan.operations.size());
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    const Operation& op = plan.operations[i];
    const OperationTime& time = from.timeline.ranks[rank][i];
    CAPTURE(i);
    CHECK(std::to_string(plan.rank) + "/" + boxes[i].phase + "/" + std::to_string(boxes[i].ordinal) ==
          operation_id(plan, op));
    CHECK(boxes[i].kind == name(op.kind));
    CHECK(boxes[i].step == op.step);
    CHECK(boxes[i].bytes == static_cast<double>(op.bytes));
    CHECK(boxes[i].flops == op.flops);
    CHECK(boxes[i].start_ns == ns(time.start_s));
    CHECK(boxes[i].end_ns == ns(time.end_s));
    CHECK(boxes[i].wait_ns == ns(time.wait_s));
    CHECK(boxes[i].origin == name(time.origin));
  }
  // The most that is alive is what the figures say.
  std::int64_t live = 0, most = 0, now = -1;
  for (const testing::DecodedMemory& change : testing::decode_memory(timeline, row)) {
    CHECK(change.at_ns >= now);
    now = change.at_ns;
    live += static_cast<std::int64_t>(change.bytes);
    most = std::max(most, live);
  }
  CHECK(most >= from.report.figures.ranks[rank].peak_bytes);
}

}  // namespace

TEST_CASE("text is escaped, and an element that is not open cannot be closed") {
  CHECK(html_escaped("a<b>&\"c\"\n\x1b") == "a&lt;b&gt;&amp;&quot;c&quot;\\n\\x1b");
  std::ostringstream out;
  HtmlWriter html(out);
  html.open("p", {{"class", "a\"b"}});
  html.value(shown("1.5 ms", 0.0015, "/time_s"));
  html.close();
  CHECK(out.str() == "<p class=\"a&quot;b\"><data value=\"0.0015\" data-key=\"/time_s\">1.5 ms</data></p>\n");
  CHECK_THROWS_AS(html.close(), std::logic_error);
  CHECK(safe_in_script("\"</script>\"") == "\"\\u003c/script>\"");
}

TEST_CASE("the reader of pages finds what is wrong with one") {
  const std::string head = "<!doctype html>\n<html>";
  CHECK_NOTHROW(testing::read_page(head + "<p class=\"a\">b</p></html>"));
  for (const char* wrong :
       {"<p></html>", "<p></b></html>", "<p class=a></p></html>", "<p id=\"a\"></p><p id=\"a\"></p></html>",
        "<img src=\"x.png\"></img></html>", "<style>@import \"x\";</style></html>",
        "<script>fetch(\"x\")</script></html>", "<link href=\"https://a\"></html>"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(testing::read_page(head + wrong), std::runtime_error);
  }
}

TEST_CASE(
    "the page of a simulation: whole in itself, its numbers those of the JSON, its timeline the timeline") {
  const Simulated simulated(hand_plan(), hand_timeline());
  const ReadPage page = testing::read_page(simulated.page());
  SimulateReport without = simulated.report;
  without.operations.reset();
  std::ostringstream json;
  write_json(json, without);
  CHECK(page.result == Json::parse(json.str()));
  CHECK(page.numbers.size() > 30);
  testing::check_numbers(page, page.result);
  CHECK(contains(page.visible, "a <note> & \"more\""));
  CHECK(contains(page.visible, "<title>"));
  CHECK(contains(page.visible, "does not fit: 5 bytes too much"));

  REQUIRE(page.timeline["rows"].size() == 2);
  CHECK(page.timeline["groups"].empty());
  CHECK(page.timeline["end_ns"] == ns(11));
  for (const std::size_t rank : {0, 1}) check_row(page.timeline, rank, simulated, rank);
  const auto chain = testing::decode_chain(page.timeline);
  REQUIRE(chain.size() == 3);
  CHECK(chain[0].host);
  CHECK(chain[1].end_ns == ns(5));
  CHECK(chain[2].rank == 1);
  CHECK(chain[2].operation == 2);
  CHECK_FALSE(chain[2].host);
}

TEST_CASE("timelines of built plans of every algorithm are decoded to what they were") {
  for (const Algorithm& algorithm : algorithms()) {
    CAPTURE(algorithm.name);
    Plan plan = build_plan(resolve(testing::any_scenario(3, std::string(algorithm.name))));
    Timeline timeline = millisecond_timeline(plan);
    const Simulated simulated(std::move(plan), std::move(timeline));
    const ReadPage page = testing::read_page(simulated.page());
    testing::check_numbers(page, page.result);
    for (std::size_t rank = 0; rank < 3; ++rank) check_row(page.timeline, rank, simulated, rank);
  }
}

TEST_CASE("more ranks than there is room for: three of them, all in groups, and it is said") {
  Plan plan = build_plan(resolve(testing::any_scenario(70, "ring")));
  Timeline timeline = millisecond_timeline(plan);
  const Simulated simulated(std::move(plan), std::move(timeline));
  TimelineDrawing drawing;
  drawing.row_count = 70;
  drawing.is_open = [](std::size_t rank) { return rank == 3 || rank == 40 || rank == 69; };
  drawing.make_row = [&](std::size_t rank) {
    return timeline_row(simulated.plan, simulated.timeline, simulated.memory[rank], rank);
  };
  CHECK(encode(drawing).left_out.empty());
  CHECK(encode(drawing).rows == 70);

  drawing.most_bytes = 100'000;
  const EncodedTimeline encoded = encode(drawing);
  const Json json = Json::parse(encoded.json);
  REQUIRE(encoded.left_out.size() == 1);
  CHECK(contains(encoded.left_out[0], "3 of 70 ranks are drawn operation by operation"));
  REQUIRE(json["rows"].size() == 3);
  check_row(json, 0, simulated, 3);
  check_row(json, 2, simulated, 69);
  REQUIRE(json["groups"].size() == 35);
  CHECK(json["groups"][34]["label"] == "ranks 68 to 69");
  // Shares of the group: what the figures say of its ranks, to what sampling may be off.
  double share = 0, busy_s = 0;
  const auto bytes = testing::decode_base64(json["groups"][0]["shares"]);
  for (std::size_t i = 0; i < bytes.size(); i += 3)
    share += bytes[i] / 255.0 / (static_cast<double>(bytes.size()) / 3);
  for (const int rank : {0, 1}) {
    for (std::size_t i = 0; i < simulated.plan.ranks[rank].operations.size(); ++i) {
      const Operation& op = simulated.plan.ranks[rank].operations[i];
      const OperationTime& time = simulated.timeline.ranks[rank][i];
      if (!is_communication(op.kind) && op.kind != OpKind::host_sync)
        busy_s += (time.end_s - time.start_s) / 2;
    }
  }
  CHECK(share * simulated.report.figures.time_s <= busy_s * 1.02);
  CHECK(share * simulated.report.figures.time_s >= simulated.report.figures.ranks[0].compute_s * 0.98);

  drawing.most_bytes = 3000;  // a rank's operations do not fit either
  const EncodedTimeline cut = encode(drawing);
  REQUIRE(cut.left_out.size() == 4);
  CHECK(contains(cut.left_out[0], "rank 3: the first 50 of "));
  CHECK(Json::parse(cut.json)["rows"][0]["count"] == 50);
}

TEST_CASE("a page of 64 ranks has at most a MiB") {
  Plan plan = build_plan(resolve(testing::any_scenario(64, "ring")));
  Timeline timeline = millisecond_timeline(plan);
  const Simulated simulated(std::move(plan), std::move(timeline));
  const std::string page = simulated.page();
  CHECK(page.size() <= std::size_t{1} << 20);
  CHECK(testing::read_page(page).timeline["rows"].size() == 64);
}

TEST_CASE("the page of check: proved with figures, or what is wrong") {
  CheckReport report;
  report.header.versions = {{"cplab", "1"}};
  report.header.scenario = hand_plan().scenario;
  report.result.rounds = 7;
  report.result.messages = 56;
  report.result.flops = {1e12, 2e12};
  report.result.sent_bytes = {1 << 20, 1 << 21};
  std::ostringstream out;
  write_page(out, {"ring", "lead"}, report);
  const ReadPage right = testing::read_page(out.str());
  testing::check_numbers(right, right.result);
  CHECK(right.numbers.size() == 6);
  CHECK(contains(right.visible, "The plan is right"));
  CHECK(contains(right.visible, "Every send meets its receive"));
  CHECK(right.timeline.is_null());

  report.result.findings = {{FindingKind::race, 1, "1/forward/2", "kv<0>", "read while it is written"}};
  out.str("");
  write_page(out, {"ring", "lead"}, report);
  const ReadPage wrong = testing::read_page(out.str());
  CHECK(contains(wrong.visible, "The plan is wrong: 1 finding."));
  CHECK(contains(wrong.visible, "kv<0>"));
  CHECK_FALSE(contains(wrong.visible, "Every send meets its receive"));
}

TEST_CASE("the page of a comparison has both timelines, one above the other") {
  const auto file = [](const Timeline& timeline, const char* name) {
    const Plan plan = hand_plan();
    SimulateReport report;
    report.header.scenario = plan.scenario;
    report.figures = derive_figures(plan, timeline, memory_of(plan));
    report.operations = OperationTimes{&plan, &timeline};
    std::ostringstream out;
    write_json(out, report);
    return read_result_json(out.str(), name);
  };
  Timeline later = hand_timeline();
  for (auto& rank : later.ranks)
    for (OperationTime& time : rank) {
      time.start_s *= 2;
      time.end_s *= 2;
    }
  const ResultFile first = file(hand_timeline(), "a.json"), second = file(later, "b.json");
  std::ostringstream out;
  write_page(out, {"ring", "lead"}, compare_results(first, second), first, second);
  const ReadPage page = testing::read_page(out.str());
  testing::check_numbers(page, page.result);
  REQUIRE(page.timeline["rows"].size() == 4);
  CHECK(page.timeline["sides"] == Json::array({"first", "second"}));
  for (const std::size_t row : {0, 1, 2, 3}) {
    CHECK(page.timeline["rows"][row]["rank"] == row / 2);
    CHECK(page.timeline["rows"][row]["side"] == row % 2);
  }
  const auto above = testing::decode_boxes(page.timeline, 2),
             beneath = testing::decode_boxes(page.timeline, 3);
  REQUIRE(above.size() == beneath.size());
  for (std::size_t i = 0; i < above.size(); ++i) {
    CHECK(beneath[i].end_ns == 2 * above[i].end_ns);
    CHECK(beneath[i].kind == above[i].kind);
    CHECK(beneath[i].lane == above[i].lane);
  }
}

// ---- sweeps ------------------------------------------------------------------------------------------

namespace {

// Times of two algorithms that are powers of the length: they cross where closed form says.
SweepReport crossing_sweep() {
  SweepReport report;
  for (const auto& [algorithm, factor, power] :
       {std::tuple{"ring", 3.0, 1.0}, std::tuple{"all_gather", 1.0, 2.0}})
    for (const double length : {1.0, 2.0, 4.0, 8.0})
      for (const std::int64_t slots : {2, 3}) {
        SweepPoint point;
        point.number = std::ssize(report.points);
        point.algorithm = algorithm;
        point.set = {{"problem.sequence", static_cast<std::int64_t>(length)},
                     {"parallel.algorithm", std::string(algorithm)},
                     {"schedule.kv_slots", slots}};
        point.time_s = factor * std::pow(length, power) + (slots == 2 ? 0 : 0.5);
        point.low_s = 0.9 * point.time_s;
        point.high_s = 1.1 * point.time_s;
        point.peak_bytes = 1000 * slots;
        point.fit.fits = true;
        report.points.push_back(point);
      }
  find_best(report);
  return report;
}

}  // namespace

TEST_CASE("break-even: of two powers where they cross, the best choice of the rest on each curve") {
  const SweepReport report = crossing_sweep();
  const std::vector<SweepCurve> curves = curves_over(report, "problem.sequence");
  REQUIRE(curves.size() == 2);
  CHECK(curves[1].algorithm == "ring");
  CHECK(curves[1].question.empty());
  for (const auto& [x, point] : curves[1].points) CHECK(point->time_s == 3 * x);  // kv_slots = 2
  const std::vector<BreakEvenPlace> places = break_even(curves);
  REQUIRE(places.size() == 1);
  CHECK(places[0].at == doctest::Approx(3));  // 3 x = x^2
  CHECK(places[0].before == "all_gather");
  CHECK(places[0].after == "ring");
  // Over what is chosen itself, problems stay apart.
  CHECK(curves_over(report, "schedule.kv_slots").size() == 8);
}

TEST_CASE("the page of a sweep") {
  const SweepReport report = crossing_sweep();
  std::ostringstream out;
  write_page(out, {"study", "lead"}, report);
  const ReadPage page = testing::read_page(out.str());
  testing::check_numbers(page, page.result);
  CHECK(page.numbers.size() == 1 + 16 * 5);
  CHECK(contains(page.visible, "From about sequence 3 on ring is faster than all_gather."));
  for (const char* id : {"front-chart", "curve-sequence", "point-table"})
    CHECK(std::ranges::find(page.ids, id) != page.ids.end());
}

TEST_CASE("charts leave out what an axis cannot show, and are nothing without a point") {
  std::ostringstream out;
  HtmlWriter html(out);
  const auto text = [](double value) { return std::to_string(value); };
  write_chart(html, "a", "b", {"x", true, text}, {"y", false, text},
              {{"one", "c0", true, false, {{0, 1}, {-1, 2}}}});
  CHECK(out.str().empty());
  write_chart(html, "a", "b", {"x", true, text}, {"y", false, text},
              {{"one", "c0", true, false, {{0, 1}, {10, 2}, {100, 4}}}});
  CHECK(contains(out.str(), "<circle"));
  CHECK(out.str().find("nan") == std::string::npos);
  std::size_t circles = 0;
  for (std::size_t at = 0; (at = out.str().find("<circle", at)) != std::string::npos; ++at) ++circles;
  CHECK(circles == 2);
}

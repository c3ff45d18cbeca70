// Budget, order, continuing and warnings, by a measurer whose clock the test has.
#include "calibrate/calibration.hpp"

#include <doctest/doctest.h>

#include "calibrate/hardware_writer.hpp"
#include "cli/files/calibration_file.hpp"
#include "tests/calibrate/made_up.hpp"
#include "tests/contains.hpp"

using namespace cplab;
using cplab::testing::contains;
using measure::State;

namespace {

State beginning() {
  State state;
  state.hardware = base_machine("h200x4", made_up_machine());
  state.record.gpu = "NVIDIA H200";
  state.record.gpus = 2;
  return state;
}

struct Stopped {};

// Writes files into `files`; stops the calibration at the write of that number, as a kill would.
measure::Talk talk_into(std::vector<std::string>& files, std::size_t stop = 1000) {
  return {[](const std::string&) {},
          [&files, stop](const State& state) {
            files.push_back(measure::hardware_text(state.hardware, state.record));
            if (files.size() == stop) throw Stopped();
          }};
}

std::vector<std::string> names(const std::vector<const measure::Part*>& parts) {
  std::vector<std::string> all;
  for (const measure::Part* part : parts) all.emplace_back(part->name);
  return all;
}

}  // namespace

TEST_CASE("the most valuable parts come first, and a short one fits where a long one does not") {
  const measure::Machine two = made_up_machine();
  measure::Machine one = two, cluster = two;
  one.gpus = 1;
  cluster.nodes = 2;
  // 2 + 2 + 17 of 22 s; without the host's 2 the exchanges' 3 fit too.
  using Names = std::vector<std::string>;
  CHECK(names(measure::parts_within(22, two, {})) == Names{"host", "copies", "attention 128"});
  CHECK(names(measure::parts_within(22, two, {"host"})) == Names{"copies", "attention 128", "exchanges"});
  // Into 16 s the 17 do not fit, but 3 + 5 + 8 do.
  CHECK(names(measure::parts_within(16, two, {"host", "copies"})) ==
        Names{"exchanges", "collectives", "linear 128"});
  for (const std::string& name : names(measure::parts_within(1e6, one, {})))
    CHECK(measure::find_part(name)->least_gpus == 1);
  const auto everything = names(measure::parts_within(1e6, cluster, {}));
  CHECK(std::find(everything.begin(), everything.end(), "nodes") != everything.end());
  CHECK(measure::held_out_s(59) == 0);
  CHECK(measure::held_out_s(300) == 60);
  CHECK(measure::held_out_s(1e5) == 90);
}

TEST_CASE("after every part the file is whole, and what is not measured is listed") {
  State state = beginning();
  MadeUp measurer;
  std::vector<std::string> files;
  measure::calibrate(state, measurer, 35, talk_into(files), {});
  // 10 s each: host, copies; then 15 s are left, into which attention's 17 do not fit but the exchanges' 3
  // do, then 5, as many as collectives are thought to take.
  CHECK(measurer.asked == std::vector<std::string>{"host", "copies", "exchanges", "collectives"});
  REQUIRE(files.size() == 6);  // at the beginning, after each, at the end
  for (const std::string& file : files) (void)parse_calibration(file, "x.toml");
  const State before = parse_calibration(files[0], "x.toml"), after = parse_calibration(files[5], "x.toml");
  CHECK(before.record.done.empty());
  CHECK(before.hardware.host.provenance.origin == Origin::assumed);
  CHECK(after.hardware.host.provenance.origin == Origin::measured);
  CHECK(after.record.done == measurer.asked);
  CHECK(after.record.seconds == 40);
  CHECK(contains(after.record.left_out.front(), "attention 128: attention of head size 128"));
  CHECK(contains(after.record.left_out.back(), "pairs: messages between two GPUs, which need 3 GPUs"));
  CHECK(after.record.warnings.empty());
}

TEST_CASE("a kill at any write leaves a file from which the rest goes on, to the same end") {
  std::vector<std::string> whole;
  State state = beginning();
  MadeUp measurer;
  measure::calibrate(state, measurer, 200, talk_into(whole), {});
  REQUIRE(whole.size() > 8);
  int same = 0;
  for (std::size_t stop = 1; stop < whole.size(); ++stop) {
    CAPTURE(stop);
    std::vector<std::string> files;
    State first = beginning();
    MadeUp one, other;
    CHECK_THROWS_AS(measure::calibrate(first, one, 200, talk_into(files, stop), {}), Stopped);
    State second = parse_calibration(files.back(), "x.toml");
    const std::vector<std::string> done = second.record.done;
    measure::calibrate(second, other, 200, talk_into(files), {});
    for (const std::string& part : done)
      CHECK(std::find(other.asked.begin(), other.asked.end(), part) == other.asked.end());
    CHECK(second.record.done.size() >= state.record.done.size());
    if (second.record.done == state.record.done) {
      ++same;
      CHECK(measure::hardware_text(second.hardware, {}) == measure::hardware_text(state.hardware, {}));
    }
  }
  CHECK(same > 0);
}

TEST_CASE("interference is measured with the channels of the exchange, also of an earlier call") {
  State state = beginning();
  MadeUp measurer;
  std::vector<std::string> files;
  measure::calibrate(state, measurer, 48, talk_into(files), {});
  State second = parse_calibration(files.back(), "x.toml");
  MadeUp again;
  measure::calibrate(second, again, 1000, talk_into(files), {});
  CHECK(again.channels_asked == 16);
}

TEST_CASE("what makes a measurement doubtful is a warning, once") {
  State state = beginning();
  MadeUp measurer;
  std::vector<std::string> files;
  measurer.others_there = {"GPU 0 has 1 of other programs"};
  measurer.wrong = "attend is off by 1";
  measurer.reference_later = 1.04e-3;  // 4 % longer; 3 are allowed
  measurer.fails = "copies";
  measure::calibrate(state, measurer, 40, talk_into(files), {});
  const auto& warnings = state.record.warnings;
  REQUIRE(warnings.size() == 4);
  CHECK(contains(warnings[0], "another process"));
  CHECK(contains(warnings[1], "attend is off by 1"));
  CHECK(contains(warnings[2], "copies: the card fell off the bus"));
  CHECK(contains(warnings[3], "unstable clocks: an attention took 4.0 % longer"));
  CHECK(std::find(state.record.done.begin(), state.record.done.end(), "copies") == state.record.done.end());
  State steady = beginning();
  MadeUp nearly;
  nearly.reference_later = 1.02e-3;
  measure::calibrate(steady, nearly, 40, talk_into(files), {});
  CHECK(steady.record.warnings.empty());
}

TEST_CASE("what keeps a file from being continued is named") {
  measure::Record a, b;
  a.commit = b.commit = "abc";
  CHECK(difference(a, b).empty());
  b.commit = "def";
  b.gpus = 4;
  CHECK(difference(a, b) == "commit abc, now def, number of GPUs 0, now 4");
}

TEST_CASE("held-out errors by kind") {
  // ring: e = +0.1, -0.2, 0: median of |e| 0.1, mean -1/30, nine tenths of three are three: 0.2.
  const auto kinds =
      measure::accuracy_of({{"ring", 1.1, 1}, {"packed", 1.5, 2}, {"ring", 0.8, 1}, {"ring", 3, 3}});
  REQUIRE(kinds.size() == 2);
  CHECK(kinds[0].kind == "ring");
  CHECK(kinds[0].points == 3);
  CHECK(kinds[0].median == doctest::Approx(0.1));
  CHECK(kinds[0].signed_mean == doctest::Approx(-0.0333));
  CHECK(kinds[0].half_width == doctest::Approx(0.2));
  CHECK(kinds[1].half_width == doctest::Approx(0.25));
  // Of twenty |e| = 0.01 ... 0.20 eighteen lie within 0.18.
  std::vector<measure::Trial> twenty;
  for (int i = 1; i <= 20; ++i) twenty.push_back({"ring", 1 + 0.01 * i, 1});
  CHECK(measure::accuracy_of(twenty)[0].half_width == doctest::Approx(0.18));
  CHECK(measure::accuracy_of(twenty)[0].median == doctest::Approx(0.105));
}

TEST_CASE("held-out runs have what is kept for them") {
  State state = beginning();
  MadeUp measurer;
  std::vector<std::string> files;
  double most_s = 0;
  measure::calibrate(state, measurer, 100, talk_into(files), [&](const State& now, double most) {
    most_s = most;
    CHECK_FALSE(now.record.done.empty());
    return std::vector<measure::Trial>{{"ring", 1.1, 1}};
  });
  CHECK(most_s == 20);
  CHECK(state.record.accuracy.size() == 1);
  CHECK(contains(files.back(), "[accuracy]"));
}

// The ring's exchanges over nccl beside persistent kernels, against what was measured on 2 x H200 (causal
// zigzag ring, 16 heads of 128, forward + backward; NCCL_MIN/MAX_NCHANNELS and reserved_sms set together,
// clusters of four thread blocks as NCCL chooses on Hopper; the plan of that time). Which exchanges
// are held up by a persistent kernel, and for how long, is the model's to say. What it misses:
// - Reserved multiprocessors cost too much: the GPU is limited by power, and fewer of them run faster. Totals
//   with 12 and more reserved are 7 to 14 % too long.
// - An exchange's time is measured from its launch, ours from when it has its multiprocessors: the second
//   exchange of the first row waits for the end of a kernel, and ours waits as long before it begins.
// - 16 channels beside a kernel move no more than 8: 2.1 ms where the table of messages alone says 0.9.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "algorithms/core/build.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/files/scenario_file.hpp"
#include "sim/simulate.hpp"

namespace cplab {
namespace {

struct Row {
  const char* tokens;
  int channels, reserved;  // 0 channels: NCCL's choice
  double total_ms, last_ms;
  bool held;  // the last exchange waits for a persistent kernel
};

const std::vector<Row> measured_rows{
    {"64K", 0, 0, 56.3, 21.7, true},    // 55.3 to 57.3
    {"64K", 2, 0, 66.1, 31.1, true},    //
    {"64K", 2, 2, 54.4, 17.5, false},   //
    {"64K", 4, 4, 58.8, 27.4, true},    // four thread blocks, four multiprocessors, but not of one GPC
    {"64K", 4, 12, 57.9, 29.6, true},   //
    {"64K", 8, 8, 57.8, 24.9, true},    //
    {"64K", 8, 24, 60.1, 4.21, false},  //
    {"64K", 16, 16, 58.4, 22.8, true},  //
    {"64K", 16, 32, 62.8, 2.30, false}, {"16K", 2, 2, 7.1, 3.34, false},
    {"128K", 2, 2, 211.8, 36.2, false}, {"128K", 4, 8, 231.0, 96.1, true},
};

struct Predicted {
  double total_ms = 0, last_ms = 0;
};

// With the times of the kernels and the machine of then: one GPU took 104.2 ms for the 64K of this ring
// (one H200, 2026-11-22), and takes 102.5 by the tables; the backward is 74 % of it.
Hardware hardware_of_then() {
  Hardware hardware = read_hardware(std::string(CPLAB_TEST_SCENARIOS) + "/hardware/h200x4.toml", {});
  // Reserved multiprocessors cost less power, too, which the clock that rises beside other work does not see.
  hardware.burst.share = 0;
  constexpr double longer = 1 + (104.2 / 102.5 - 1) / 0.74;
  for (KernelTable& table : hardware.kernels)
    if (table.kind == OpKind::attend_backward)
      for (KernelPoint& point : table.points) point.seconds *= longer;
  return hardware;
}

Predicted predict(const Row& row, const std::string& schedule, int cluster) {
  static const Hardware hardware = hardware_of_then();
  const std::string text =
      "[problem]\nsequence = \"" + std::string(row.tokens) +
      "\"\nheads = 16\nhead_size = 128\ndtype = \"bf16\"\nmask = \"causal\"\n[parallel]\n"
      "ranks = 2\nalgorithm = \"ring\"\nplacement = \"zigzag\"\n[schedule]\n" +
      schedule;
  const Plan plan = build_plan(parse_scenario(text, "test.toml", {}).scenario);
  SimulateOptions options;
  options.nccl_cluster = cluster;
  const Simulation s = simulate(plan, hardware, options);
  Predicted p{s.time_s * 1e3, 0};
  for (std::size_t i = 0; i < plan.ranks[0].operations.size(); ++i) {
    const OperationTime& time = s.timeline.ranks[0][i];
    if (is_communication(plan.ranks[0].operations[i].kind)) p.last_ms = (time.end_s - time.start_s) * 1e3;
  }
  return p;
}

Predicted predict_measured(const Row& row, int cluster) {
  const std::string channels = row.channels > 0 ? std::to_string(row.channels) : "\"nccl\"";
  return predict(row,
                 "transport = \"nccl\"\nmerge = \"incremental\"\ngradient_sum = \"apart\"\nown_kv = "
                 "\"receive\"\ndkv_tile_heads = 0\nhead_start_us = 0\nchannels = " +
                     channels + "\nreserved_sms = " + std::to_string(row.reserved) + "\n",
                 cluster);
}

// Of the 64K rows, the place of each in the order of the values.
std::vector<double> places(const std::vector<double>& values) {
  std::vector<double> result;
  for (const double v : values)
    result.push_back(static_cast<double>(std::ranges::count_if(values, [&](double w) { return w < v; })));
  return result;
}

}  // namespace

TEST_CASE("2 x H200: which exchanges a persistent kernel holds up, and for how long") {
  for (const Row& row : measured_rows) {
    CAPTURE(row.tokens);
    CAPTURE(row.channels);
    CAPTURE(row.reserved);
    const Predicted p = predict_measured(row, 4);
    // 2 to 3 % where it waits; what it takes itself is off by up to 20 % (attention slows NCCL).
    CHECK(p.last_ms == doctest::Approx(row.last_ms).epsilon(row.held ? 0.08 : 0.21));
    CHECK(p.total_ms == doctest::Approx(row.total_ms).epsilon(row.reserved < 12 ? 0.09 : 0.145));
  }
}

TEST_CASE("2 x H200: the totals come in the measured order, nearly") {
  std::vector<double> ours, theirs;
  for (const Row& row : measured_rows) {
    if (row.tokens != std::string("64K")) continue;
    ours.push_back(predict_measured(row, 4).total_ms);
    theirs.push_back(row.total_ms);
  }
  const std::vector<double> a = places(ours), b = places(theirs);
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  const auto n = static_cast<double>(a.size());
  CHECK(1 - 6 * squares / (n * (n * n - 1)) > 0.9);  // Spearman's
}

TEST_CASE(
    "2 x H200: without clusters an exchange finds as many multiprocessors as it needs wherever they are") {
  for (const Row& row : measured_rows) {
    CAPTURE(row.channels);
    CAPTURE(row.reserved);
    const double alone = predict_measured({row.tokens, row.channels, 64, 0, 0, false}, 1).last_ms;
    const bool enough = row.channels > 0 && row.reserved >= row.channels;
    CHECK((predict_measured(row, 1).last_ms < 1.3 * alone) == enough);
  }
}

TEST_CASE("2 x H200: with a head start nothing is exposed and little is lost, at every length") {
  // As it is by default over nccl, beside copies: the loss is multiprocessors that exchanges hold, and
  // kernels slowed down beside traffic.
  const struct {
    const char* tokens;
    double most_loss;
  } lengths[] = {{"16K", 0.05}, {"32K", 0.03}, {"64K", 0.02}, {"128K", 0.02}};
  for (const auto& [tokens, most_loss] : lengths) {
    CAPTURE(tokens);
    const Row row{tokens, 0, 0, 0, 0, false};
    const double copy = predict(row, "transport = \"copy\"\n", 1).total_ms;
    const double held =
        predict(row, "transport = \"nccl\"\nhead_start_us = 0\nchannels = \"nccl\"\n", 1).total_ms;
    const double ahead = predict(row, "transport = \"nccl\"\n", 1).total_ms;
    CHECK(ahead < copy * (1 + most_loss));
    // Where no exchange would have waited for long, the head starts are lost: six of 10 us at most.
    CHECK(ahead < held + 6 * 10e-3);
  }
}

}  // namespace cplab

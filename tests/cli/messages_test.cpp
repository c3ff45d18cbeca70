// What results and messages say beyond the contract's keys: who is to blame on the command line, inputs that
// are no numbers, findings in one line, padding, when options apply.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/verify/npy.hpp"
#include "report/plan_json.hpp"
#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"
#include "tests/hand_plans/collective_plans.hpp"

using nlohmann::json;

using cplab::testing::contains;

namespace {

// The message of `simulate ring` with these --set, which must be a usage error.
std::string simulate_error(const std::vector<std::string>& sets) {
  std::vector<std::string> arguments{"simulate", some_scenario};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  const ProgramResult result = run_cplab(arguments);
  CAPTURE(sets);
  CHECK(result.code == 2);
  CHECK(result.out.empty());
  return result.err;
}

}  // namespace

TEST_CASE("more reserved multiprocessors than there are") {
  const std::string error = simulate_error({"schedule.reserved_sms=100000"});
  CHECK(error.find("cplab: --set schedule.reserved_sms: must be from 0 to 131, all but one of a GPU's "
                   "multiprocessors, but is 100000") == 0);
  CHECK(contains(error, "hardware/h100x8.toml"));
  CHECK(contains(simulate_error({"schedule.reserved_sms=132"}), "from 0 to 131"));
  CHECK(run_cplab({"simulate", some_scenario, "--set", "schedule.reserved_sms=131"}).code == 0);
}

TEST_CASE("hardware errors name the file and what it has, or the --set that made them") {
  const std::string crowd = simulate_error({"parallel.ranks=16"});
  CHECK(contains(crowd, "hardware/h100x8.toml: network.fabric: 16 ranks need 2 nodes of 8 GPUs"));
  CHECK(contains(crowd, "legal for parallel.ranks x parallel.replicas: 1 to 8"));
  // The same limit, but made by hand: the file is not to blame.
  CHECK(simulate_error({"hardware.node.gpus=2"}).find("cplab: --set hardware.node.gpus: network.fabric: ") ==
        0);
  // And a change that has nothing to do with it is not.
  CHECK(contains(simulate_error({"parallel.ranks=16", "hardware.gpu.copy_bytes_s=1e12"}),
                 "cplab: " CPLAB_TEST_SCENARIOS "/hardware/h100x8.toml: network.fabric"));
  for (const char* set :
       {"hardware.host.kernel_launch_s=1e18", "hardware.gpu.capacity_bytes=-5",
        "hardware.node.link_bytes_s=1e19", "hardware.gpu.sms=0", "hardware.fixed.bytes=-1"}) {
    const std::string text = set;
    CHECK(simulate_error({text}).find("cplab: --set " + text.substr(0, text.find('='))) == 0);
  }
}

TEST_CASE("inputs that are no numbers: valid rows are refused, padding may hold anything") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("in"));
  // Packed: lengths 5 and 3 padded to 8 and 4: T = 12, rows 5..7 and 11 are padding.
  const std::string scenario = folder.write(
      "packed.toml",
      "[problem]\nlengths = [5, 3]\npadded_lengths = [8, 4]\nheads = 2\nhead_size = 4\ndtype = \"fp16\"\n"
      "mask = \"causal\"\n[parallel]\nranks = 2\nalgorithm = \"ring\"\n");
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double inf = std::numeric_limits<double>::infinity();
  const auto write = [&](const std::string& name, std::size_t row, double value) {
    std::vector<double> values(12 * 2 * 4);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7 % 23) / 11 - 1;
    values[(row * 2 + 1) * 4 + 3] = value;  // [row, 1, 3]
    folder.write("in/" + name + ".npy",
                 cplab::format_npy(std::vector<std::int64_t>{12, 2, 4}, values, false));
  };
  const auto result = [&] { return run_cplab({"verify", scenario, "--inputs", folder.path("in")}); };
  for (const char* name : {"q", "k", "v", "dout"}) write(name, 0, 0.5);
  CHECK(result().code == 0);
  for (const char* name : {"q", "k", "v", "dout"}) {
    for (const auto& [value, text] : {std::pair{nan, "nan"},
                                      {-nan, "nan"},
                                      {inf, "inf"},
                                      {-inf, "-inf"},
                                      {70000.0, "70000, which is beyond"}}) {
      for (const std::size_t row : {std::size_t{0}, std::size_t{4}, std::size_t{10}}) {
        write(name, row, value);
        const ProgramResult refused = result();
        CAPTURE(refused.err);
        CHECK(refused.code == 2);
        CHECK(contains(refused.err,
                       std::string(name) + ".npy: element [" + std::to_string(row) + ", 1, 3] is " + text));
      }
      for (const std::size_t row : {std::size_t{5}, std::size_t{7}, std::size_t{11}}) {
        write(name, row, value);
        CHECK(result().code == 0);
      }
    }
    write(name, 0, 0.5);
  }
}

TEST_CASE("findings are one line each, without signs of NaN, counted as people count") {
  const json faults = json_of({"list", "faults"});
  int hangs = 0, nans = 0;
  for (const json& fault : faults.at("faults")) {
    if (fault.at("expected").is_null()) continue;
    const std::vector<std::string> arguments{
        "verify", fault.at("scenario"), "--inject", fault.at("name"), "--order", "random:6"};
    const json report = json_of(arguments, 1);
    for (const json& finding : report.at("findings")) {
      const std::string message = finding.at("message");
      CAPTURE(message);
      CHECK_FALSE(contains(message, "\n"));
      CHECK_FALSE(contains(message, "-nan"));
      CHECK(message.back() != ' ');
      nans += contains(message, " is nan and should be ");
      if (finding.at("kind") != "deadlock" || message.find("execution hangs") != 0) continue;
      ++hangs;
      CHECK(contains(message, ": rank 0: "));
      CHECK(contains(message, "; rank 1: "));
      CHECK_FALSE(contains(message, ": ;"));
    }
    const ProgramResult text = run_cplab(arguments);
    CHECK_FALSE(contains(text.out, " -nan"));
    const std::size_t count = report.at("findings").size();
    CHECK(contains(text.out,
                   "\nwrong: " + std::to_string(count) + (count == 1 ? " finding\n" : " findings\n")));
  }
  CHECK(hangs > 0);
  CHECK(nans > 0);
}

TEST_CASE("the example of verify --help finds what it injects") {
  const std::string help = run_cplab({"verify", "--help"}).out;
  CHECK(contains(help, "cplab verify faults/ring --inject ring-slot-reuse --order random:6\n"));
  const json report =
      json_of({"verify", "faults/ring", "--inject", "ring-slot-reuse", "--order", "random:6"}, 1);
  bool raced = false, wrong_number = false;
  for (const json& finding : report.at("findings")) {
    raced = raced || finding.at("kind") == "race";
    wrong_number = wrong_number || finding.at("kind") == "numerics";
  }
  CHECK(raced);
  CHECK(wrong_number);
}

TEST_CASE("placement_padding_tokens in every result about a plan") {
  // One sequence of 61 tokens over 4 ranks, zigzag: padded to 64.
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"check"}, {"show"}, {"verify"}, {"run", "--device", "cpu"}, {"simulate"}}) {
    auto arguments = command;
    arguments.insert(arguments.begin() + 1, "faults/ring");
    arguments.insert(arguments.end(), {"--set", "hardware.file=hardware/h100x8.toml", "--set",
                                       "problem.dtype=bf16", "--set", "problem.head_size=64"});
    CHECK(json_of(arguments).at("placement_padding_tokens") == 0);
    arguments.insert(arguments.end(), {"--set", "problem.sequence=61"});
    CHECK(json_of(arguments).at("placement_padding_tokens") == 3);
  }
}

TEST_CASE("list algorithms says when an option does not apply") {
  const json list = json_of({"list", "algorithms"});
  bool has_out_slots = false;
  for (const json& algorithm : list.at("algorithms")) {
    if (algorithm.at("name") != "ring") continue;
    for (const json& option : algorithm.at("options")) {
      CAPTURE(option.dump());
      if (option.at("key") == "out_slots") {
        CHECK(option.at("applies") == "not with merge=fused");
        has_out_slots = true;
      } else if (option.at("key") == "dkv_tile_heads") {
        CHECK(option.at("applies") == "not with gradient_sum=fused");
      } else if (option.at("key") == "travels") {
        CHECK(option.at("applies") == "of latent keys and values (problem.kv_latent)");
      } else {
        CHECK(option.at("applies").is_null());
      }
    }
  }
  CHECK(has_out_slots);
  const std::string folded = run_cplab({"list", "algorithms"}).out;
  CHECK(contains(folded, "merge=fused)"));
}

TEST_CASE("check notes messages of many contiguous pieces, a line for each kind") {
  // Two of four heads of 300 rows, [rows, heads, 8] in bf16: a piece for every row. What is received for them
  // is one piece, and so is every message of K and V whole.
  const TemporaryFolder folder;
  const auto notes = [&](std::int64_t rows) {
    std::ostringstream text;
    cplab::write_plan_json(text, cplab::hand::traded(rows, cplab::DType::bf16), {});
    std::vector<std::string> list;
    const json result = json_of({"check", "--plan", folder.write("plan.json", text.str())});
    for (const json& note : result.at("notes")) {
      if (contains(note, "contiguous pieces")) list.push_back(note);
    }
    return list;
  };
  CHECK(notes(256).empty());
  const std::vector<std::string> many = notes(300);
  CHECK(many.size() == 8);
  CHECK(std::count(
            many.begin(), many.end(),
            "all_to_all 0/forward/0 of q, rank 0, to rank 1: 300 contiguous pieces for 9600 bytes; 2 such "
            "messages of more than 256 pieces: packed by a copy it would be one") == 1);
}

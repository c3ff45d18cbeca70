// verify --inject: every fault of the table in its example, and where it has no place.
#include <doctest/doctest.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"

using nlohmann::json;

TEST_CASE("every fault is found as it says") {
  const json faults = json_of({"list", "faults"}, 0);
  CHECK(faults.at("faults").size() >= 10);
  for (const json& fault : faults.at("faults")) {
    const std::string name = fault.at("name");
    CAPTURE(name);
    const bool clean = fault.at("expected").is_null();
    const json result =
        json_of({"verify", fault.at("scenario"), "--inject", name, "--order", "random:7"}, clean ? 0 : 1);
    CHECK(result.at("ok") == clean);
    CHECK(result.at("injected") == name);
    if (clean) continue;
    CHECK(run_cplab({"verify", fault.at("scenario")}).code == 0);
    const json& expected = fault.at("expected");
    const auto& findings = result.at("findings");
    CHECK(std::any_of(findings.begin(), findings.end(), [&](const json& finding) {
      return finding.at("kind") == expected.at("kind") &&
             (expected.at("rank").is_null() || finding.at("rank") == expected.at("rank")) &&
             (expected.at("operation").is_null() || finding.at("operation") == expected.at("operation"));
    }));
  }
}

TEST_CASE("a fault that has no place in a plan says what it needs") {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"gather-reuse",
       "a gather that waits for a tile (three strides of key heads that are sent as they are: "
       "pack_above)"},
      {"no-visible-clamp",
       "gathered keys, a causal mask, and a sequence that ends inside a chunk (all_gather, padding)"},
      {"communicator-order",
       "a ring across teams, in which every rank sends and receives, beside what they do "
       "inside (hierarchical or usp, 1 < inner_ranks < ranks)"},
  };
  for (const auto& [fault, needs] : cases) {
    const ProgramResult result = run_cplab({"verify", "faults/ring", "--inject", fault});
    CHECK(result.code == 2);
    CHECK(result.err.find("fault " + std::string(fault) + " has no place in this plan; it needs " + needs) !=
          std::string::npos);
  }
}

TEST_CASE("check, show and simulate take a bug of a plan, and say that it is in there") {
  const char* note = "injected: left-edge-partner, the up-sweep takes the left edge";
  const json wrong = json_of({"check", "faults/scan", "--inject", "left-edge-partner"}, 1);
  CHECK(wrong.at("ok") == false);
  CHECK(wrong.at("notes").at(0).get<std::string>().find(note) == 0);
  const std::vector<std::string> machine{"--set", "hardware.file=hardware/h100x8.toml"};
  for (const char* command : {"show", "simulate"}) {
    CAPTURE(command);
    std::vector<std::string> arguments{command, "faults/scan", "--inject", "left-edge-partner"};
    arguments.insert(arguments.end(), machine.begin(), machine.end());
    const ProgramResult result = run_cplab(arguments);
    CHECK(result.code == 0);
    CHECK(result.err.find(note) != std::string::npos);
  }
  // A plan that show wrote with the bug in it is as wrong as the one it was injected into.
  TemporaryFolder folder;
  const std::string plan = folder.path("plan.json");
  CHECK(run_cplab({"show", "faults/scan", "--inject", "left-edge-partner", "--json", plan}).code == 0);
  CHECK(json_of({"check", "--plan", plan}, 1).at("findings") == wrong.at("findings"));
  CHECK(run_cplab({"check", "--plan", plan, "--inject", "identity"}).code == 1);

  for (const char* command : {"check", "show", "simulate"}) {
    CAPTURE(command);
    const auto with = [&](const char* scenario, const char* fault) {
      std::vector<std::string> arguments{command, scenario, "--inject", fault};
      arguments.insert(arguments.end(), machine.begin(), machine.end());
      return run_cplab(arguments);
    };
    const ProgramResult tile = with("faults/scan", "decay-division");
    CHECK(tile.code == 2);
    CHECK(tile.err.find("--inject decay-division: a tile of the CPU, which verify executes") !=
          std::string::npos);
    const ProgramResult unknown = with("faults/scan", "blocking-shifts");
    CHECK(unknown.code == 2);
    CHECK(unknown.err.find("did you mean blocking-shift?") != std::string::npos);
    const ProgramResult nowhere = with("faults/ring", "blocking-shift");
    CHECK(nowhere.code == 2);
    CHECK(nowhere.err.find("fault blocking-shift has no place in this plan; it needs the scan of "
                           "lasp_blelloch") != std::string::npos);
  }
}

// What the source's scan by hand says: right up to 7 ranks, whatever the number.
TEST_CASE("published-down-sweep is right on seven ranks and wrong on eight") {
  for (const int P : {2, 3, 5, 7, 8, 9}) {
    CAPTURE(P);
    CHECK(run_cplab({"verify", "faults/scan", "--inject", "published-down-sweep", "--set",
                     "parallel.ranks=" + std::to_string(P)})
              .code == (P < 8 ? 0 : 1));
  }
}

// Groups of one replica are numbered as their ranks are: the bug that needs a second group is not there.
TEST_CASE("local-rank-as-global needs a second group") {
  const ProgramResult one = run_cplab(
      {"verify", "faults/replicas", "--inject", "local-rank-as-global", "--set", "parallel.replicas=1"});
  CHECK(one.code == 2);
  CHECK(one.err.find("(replicas=2)") != std::string::npos);
}

// The gradients of the last rank, which no state from the right enters, are exact, and so is the forward
// everywhere: what flash-linear-attention#1115 saw.
TEST_CASE("backward-right-on-last-rank-only is wrong where its report says so, and nowhere else") {
  const json result = json_of({"verify", "faults/gates", "--inject", "backward-right-on-last-rank-only"}, 1);
  for (const json& tensor : result.at("tensors")) {
    const std::string name = tensor.at("tensor");
    const int rank = tensor.at("rank");
    CAPTURE(name);
    CAPTURE(rank);
    const bool reached = name == "dk" || name == "dv" || name == "dg" || name == "dstate";
    CHECK(tensor.at("ok") == (rank == 3 || !reached));
  }
}

// One more rank is one more message that waits for the last: the time that the chain adds grows by as much
// from 16 to 32 ranks as from 32 to 48, where the grouped shift adds one round to the tree's.
TEST_CASE("blocking-shift in the simulator: a chain that grows with the ranks") {
  const auto time = [&](int P, const char* fault) {
    const std::string ranks = "parallel.ranks=" + std::to_string(P),
                      tokens = "problem.sequence=" + std::to_string(8 * P);
    const json result = json_of({"simulate", "faults/scan", "--inject", fault, "--set", ranks, "--set",
                                 tokens, "--set", "hardware.file=hardware/h100x64.toml", "--set",
                                 "problem.direction=forward", "--set", "schedule.transport=nccl"},
                                0);
    return result.at("time_s").get<double>();
  };
  double grouped = 0, chain = 0;
  for (int P = 4; P <= 64; P *= 2) {
    CAPTURE(P);
    const double next_grouped = time(P, "identity"), next_chain = time(P, "blocking-shift");
    CHECK(next_chain > next_grouped);
    if (P > 8) {
      CHECK(next_chain / chain > 1.6);      // towards 2: as many rounds more as there are ranks more
      CHECK(next_grouped / grouped < 1.5);  // one level of the tree: two rounds
    }
    grouped = next_grouped, chain = next_chain;
  }
  CHECK(chain / grouped > 3);
}

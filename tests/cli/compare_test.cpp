// cplab compare: two results in, errors out; and what it refuses.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

using nlohmann::json;

namespace {

// Two ranks of a small ring; the machine is made for tests.
std::string simulated_file(const TemporaryFolder& folder, const std::string& name,
                           std::vector<std::string> more = {"--operations"}) {
  std::vector<std::string> words{"simulate", some_scenario, "--set",          "problem.sequence=4K",
                                 "--quiet",  "--json",      folder.path(name)};
  words.insert(words.end(), more.begin(), more.end());
  const ProgramResult result = run_cplab(words);
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  return folder.path(name);
}

const json& segment(const json& report, const std::string& name) {
  for (const json& each : report.at("segments"))
    if (each.at("name") == name) return each;
  throw std::out_of_range(name);
}

void expect_not_compared(const std::vector<std::string>& words, const std::string& message) {
  const ProgramResult result = run_cplab(words);
  CHECK(result.code == 2);
  CHECK(result.out.empty());
  CAPTURE(result.err);
  CHECK(result.err.find(message) != std::string::npos);
}

}  // namespace

TEST_CASE("compare: the keys of the contract, and which kinds of operation differ") {
  const TemporaryFolder folder;
  const std::string predicted = simulated_file(folder, "predicted.json");
  // The same plan where launching a kernel costs the host 100 microseconds more: only times change.
  const std::string slower =
      simulated_file(folder, "slower.json", {"--operations", "--set", "hardware.host.kernel_launch_s=1e-4"});
  const ProgramResult result = run_cplab({"compare", predicted, slower, "--json", "-"});
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const json report = json::parse(result.out);
  CHECK(report.at("schema") == "cplab.compare.1");
  CHECK(report.at("command") == "compare");
  CHECK(report.at("versions").at("cplab").is_string());
  CHECK(report.at("scenario").at("parallel").at("algorithm") == "ring");
  const json a = json::parse(read_file(predicted)), b = json::parse(read_file(slower));
  const double time_a = a.at("time_s"), time_b = b.at("time_s");
  CHECK(report.at("time_error").get<double>() == doctest::Approx(time_a / time_b - 1).epsilon(1e-14));
  CHECK(report.at("time_error").get<double>() < 0);
  double alone_s = 0;
  for (const json& rank : a.at("ranks")) alone_s = std::max(alone_s, rank.at("compute_s").get<double>());
  CHECK(report.at("compute_alone_s") == alone_s);
  CHECK(report.at("compute_alone_error").get<double>() ==
        doctest::Approx(alone_s / time_b - 1).epsilon(1e-14));
  CHECK(report.at("memory_error_bytes") == 0);
  CHECK(report.at("predicted").at("time_s") == time_a);
  CHECK(report.at("measured").at("time_s") == time_b);
  CHECK(report.at("measured").at("file") == slower);
  for (const char* name :
       {"total", "forward", "backward", "compute", "communication", "exposed_communication", "forward/attend",
        "forward/exchange", "backward/attend_backward"}) {
    const json& each = segment(report, name);
    CHECK(each.at("predicted_s").is_number());
    CHECK(each.at("measured_s").is_number());
    CHECK(each.contains("error"));
  }
  double attend_s = 0;
  for (const json& op : a.at("operations"))
    if (op.at("kind") == "attend") attend_s += op.at("end_s").get<double>() - op.at("start_s").get<double>();
  CHECK(segment(report, "forward/attend").at("predicted_s").get<double>() ==
        doctest::Approx(attend_s / static_cast<double>(a.at("ranks").size())).epsilon(1e-12));

  const ProgramResult text = run_cplab({"compare", predicted, slower, "--csv", folder.path("out.csv")});
  CHECK(text.code == 0);
  CHECK(text.out.find("note: both files are predictions") != std::string::npos);
  CHECK(text.out.find("most of the difference, mean of the ranks: ") != std::string::npos);
  CHECK(text.out.find("exposed_communication") != std::string::npos);
  CHECK(text.out.find("\ncompute alone, without launches, messages and waiting: ") != std::string::npos);
  CHECK(read_file(folder.path("out.csv")).starts_with("segment,predicted_s,measured_s,error\ntotal,"));
}

TEST_CASE("compare: a prediction beside a run on the CPU") {
  const TemporaryFolder folder;
  const std::string predicted = folder.path("predicted.json"), measured = folder.path("measured.json");
  REQUIRE(run_cplab({"simulate", "ring-small", "--set", "hardware.file=hardware/h100x8.toml", "--operations",
                     "--quiet", "--json", predicted})
              .code == 0);
  REQUIRE(run_cplab({"run", "ring-small", "--device", "cpu", "--iterations", "1", "--warmup", "0",
                     "--operations", "--quiet", "--json", measured})
              .code == 0);
  const ProgramResult result = run_cplab({"compare", predicted, measured, "--json", "-"});
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const json report = json::parse(result.out);
  CHECK(report.at("measured").at("machine") == "cpu");
  CHECK(report.at("memory_error_bytes") == 0);
  CHECK(report.at("rank_memory_error_bytes") == 0);
  expect_not_compared({"compare", measured, predicted}, "the prediction comes first");
}

TEST_CASE("compare: what it refuses, and why") {
  const TemporaryFolder folder;
  const std::string a = simulated_file(folder, "a.json");
  const std::string bare = simulated_file(folder, "bare.json", {});
  const std::string slots =
      simulated_file(folder, "slots.json", {"--operations", "--set", "schedule.kv_slots=3"});
  expect_not_compared({"compare"}, "two results are needed");
  expect_not_compared({"compare", a}, "two results are needed");
  expect_not_compared({"compare", a, a, a}, "one argument too many");
  expect_not_compared({"compare", a, folder.path("missing.json")}, "no such file");
  expect_not_compared({"compare", a, a, "--set", "problem.heads=2"}, "--set: ");
  expect_not_compared({"compare", a, bare}, "bare.json: no operations in it; write it with cplab simulate");
  expect_not_compared({"compare", bare, a}, "--operations");
  const ProgramResult two = run_cplab({"compare", a, slots});
  CHECK(two.code == 0);
  CHECK(cplab::testing::contains(unfolded(two.out), "schedule.kv_slots is 2 in " + a + ", 3 in " + slots));
  expect_not_compared({"compare", a, folder.write("list.json", "[]")}, "list.json: /: ");
  expect_not_compared({"compare", a, folder.write("cut.json", read_file(a).substr(0, 1000))}, "cut.json:");
  json other = json::parse(read_file(a));
  other.at("operations").erase(5);
  const std::string gone = folder.write("gone.json", other.dump());
  expect_not_compared({"compare", a, gone}, "is in " + a + " only");
  expect_not_compared({"compare", gone, a}, "is in " + a + " only");
  other = json::parse(read_file(a));
  other.at("operations").at(5).at("kind") = "fill";
  expect_not_compared({"compare", a, folder.write("kind.json", other.dump())},
                      "the plans differ: operation 0/");
  other = json::parse(read_file(a));
  other.at("operations").at(5).at("end_s") = nullptr;
  expect_not_compared({"compare", a, folder.write("null.json", other.dump())}, "/operations/5/end_s: ");
}

TEST_CASE("compare: beside a trace of another program") {
  const TemporaryFolder folder;
  const std::string a = simulated_file(folder, "a.json");
  const std::string trace =
      folder.write("trace.json",
                   R"({"traceEvents": [{"cat": "kernel", "name": "flash_fwd_kernel", "ts": 0, "dur": 100},
          {"cat": "kernel", "name": "gemm", "ts": 100, "dur": 50}]})");
  const ProgramResult text = run_cplab({"compare", a, trace});
  CAPTURE(text.err);
  CHECK(text.code == 0);
  CHECK(text.out.find("(Kineto)") != std::string::npos);
  CHECK(text.out.find("not matched") != std::string::npos);
  CHECK(text.out.find("gemm") != std::string::npos);
  const json report = json::parse(run_cplab({"compare", a, trace, "--json", "-"}).out);
  CHECK(report.at("schema") == "cplab.spans.1");
  CHECK(report.at("command") == "compare");
  CHECK(report.at("matched").at(0).at("measured_s").get<double>() == doctest::Approx(100e-6));
  CHECK(run_cplab({"compare", a, trace, "--csv", "-"})
            .out.starts_with("class,ours,theirs,matched,predicted_s"));
  expect_not_compared({"compare", trace, a}, "trace.json: is a trace; the prediction comes first");
  expect_not_compared({"compare", simulated_file(folder, "bare.json", {}), trace}, "no operations in it");
}

TEST_CASE("plots/compare.py: one row a comparison, peers beside it") {
  if (std::system("python3 --version > /dev/null 2>&1") != 0) {
    MESSAGE("no python3: not tested");
    return;
  }
  const TemporaryFolder folder;
  const std::string a = simulated_file(
      folder, "a.json", {"--operations", "--set", "problem.kv_heads=32", "--set", "schedule.transport=nccl"});
  const json ranks = json::parse(read_file(a)).at("ranks");
  const std::string name = "compare-S4096-P" + std::to_string(ranks.size()) + ".json";
  REQUIRE(run_cplab({"compare", a, a, "--json", folder.path(name)}).code == 0);
  json report = json::parse(read_file(folder.path(name)));
  report.at("predicted").at("time_s") = 0.003;
  report.at("measured").at("time_s") = 0.004;
  report.at("time_error") = -0.25;
  report.at("compute_alone_error") = -0.5;
  report.at("measured").at("peak_bytes") = std::int64_t{3} << 29;
  folder.write(name, report.dump());
  const auto rows = [&](const char* rotate, double time_s) {
    return json{{"sequence", 4096}, {"ranks", ranks.size()}, {"rotate", rotate},
                {"time_s", time_s}, {"iterations", 20},      {"direction", "forward+backward"}};
  };
  const json& problem = report.at("scenario").at("problem");
  json peer{{"schema", "cplab.peer.1"}, {"peer", "other"}, {"rows", {rows("allgather", 0.0055)}}};
  for (const char* key : {"batch", "heads", "head_size", "dtype", "mask"})
    peer["problem"][key] = problem.at(key);
  peer.at("rows").push_back(rows("alltoall", 1));
  peer.at("rows").at(1)["error"] = "out of memory";
  const std::string good = peer.dump(), peers = folder.write("peers.json", good);
  const std::string table = folder.path("table.md");
  const std::string script = std::string("python3 '") + CPLAB_TEST_SCENARIOS + "/../plots/compare.py' '";
  const std::string command = script + folder.path("") + "' --peers '" + peers + "' > '" + table + "'";
  REQUIRE(std::system(command.c_str()) == 0);
  const std::string text = read_file(table);
  CAPTURE(text);
  CHECK(
      text.starts_with("| tokens | GPUs | predicted (ms) | measured (ms) | error (%) | compute alone (%) |"));
  CHECK(text.find("| other, allgather (ms) | other, alltoall (ms) |\n") != std::string::npos);
  const std::string row =
      "| 4K | " + std::to_string(ranks.size()) + " | 3.000 | 4.000 | -25.0 | -50.0 | +0.0 | +0.0 |";
  CHECK(text.find(row) != std::string::npos);
  CHECK(text.find(" | 1.50 | 5.500 | failed |\n") != std::string::npos);
  // Columns by name, the first peer only, another link beside; and the sizes of errors.
  const std::string more = script + folder.path("") + "' --beside '" + folder.path("") + "' --peers '" +
                           peers + "' --columns tokens,error,beside.null,peer > '" + table + "'";
  REQUIRE(std::system(more.c_str()) == 0);
  CHECK(read_file(table) ==
        "| tokens | error (%) | nccl: compute alone (%) | other (ms) |\n"
        "| ---: | ---: | ---: | ---: |\n| 4K | -25.0 | -50.0 | 5.500 |\n");
  REQUIRE(std::system((script + folder.path("") + "' --summary > '" + table + "'").c_str()) == 0);
  CHECK(read_file(table).ends_with("| " + std::to_string(ranks.size()) +
                                   " | 1 | 25.00 | 25.00 | 25.00 | 50.00 | 50.00 | 50.00 | 0 |\n"));
  CHECK(std::system((script + folder.path("") + "' --columns nonsense 2> /dev/null").c_str()) != 0);
  // Another problem than the peer's is refused.
  peer["problem"]["heads"] = 3;
  folder.write("peers.json", peer.dump());
  CHECK(std::system((command + " 2> /dev/null").c_str()) != 0);
  folder.write("peers.json", json{{"schema", "cplab.peer.1"}}.dump());
  CHECK(std::system((command + " 2> /dev/null").c_str()) != 0);
  // A file that is not what its name says is refused.
  folder.write("peers.json", good);
  REQUIRE(std::system(command.c_str()) == 0);
  folder.write("compare-S8192-P2.json", report.dump());
  CHECK(std::system((command + " 2> /dev/null").c_str()) != 0);
}

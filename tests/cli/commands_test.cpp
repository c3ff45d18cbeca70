// What tests from outside rely on: the keys of every JSON result, exit codes, streams, help.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/verify/npy.hpp"
#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"

using nlohmann::json;

namespace {

// As json_of, with what every result says of itself.
json result_of(const std::vector<std::string>& arguments, int code = 0) {
  json parsed = json_of(arguments, code);
  CHECK(parsed.at("schema").get<std::string>().rfind("cplab.", 0) == 0);
  CHECK(parsed.at("versions").at("cplab").is_string());
  for (const char* library : {"commit", "compiler", "simgrid", "eigen"}) {
    CHECK(parsed.at("versions").at(library).get<std::string>() != "");
  }
  return parsed;
}

void check_keys(const json& object, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    CAPTURE(key);
    CHECK(object.contains(key));
  }
}

void check_scenario(const json& result, const std::string& command) {
  CHECK(result.at("command") == command);
  const json& scenario = result.at("scenario");
  CHECK(scenario.at("problem").at("heads").is_number_integer());
  CHECK(scenario.at("parallel").at("algorithm") == "ring");
  CHECK(scenario.at("schedule").contains("kv_slots"));  // as resolved: defaults too
}

const std::vector<std::string> figure_keys{"time_s",         "phases",       "ranks",     "peak_bytes",
                                           "peak_rank",      "peak_buffers", "fits",      "capacity_bytes",
                                           "headroom_bytes", "messages",     "host_syncs"};
const std::vector<std::string> rank_keys{"rank",
                                         "replica",
                                         "position",
                                         "time_s",
                                         "compute_s",
                                         "communication_s",
                                         "exposed_communication_s",
                                         "exposed_wait_s",
                                         "exposed_transfer_s",
                                         "peak_bytes",
                                         "arena_bytes",
                                         "sent_bytes",
                                         "received_bytes"};

void check_figures(const json& result, std::size_t world) {
  check_keys(result, figure_keys);
  REQUIRE(result.at("ranks").size() == world);
  for (const json& rank : result.at("ranks")) check_keys(rank, rank_keys);
  CHECK(result.at("phases").at(0).at("name") == "forward");
  CHECK(result.at("phases").at(0).at("time_s").get<double>() > 0);
  CHECK_FALSE(result.at("peak_buffers").empty());
  std::int64_t sum = 0;
  for (const json& buffer : result.at("peak_buffers")) sum += buffer.at("bytes").get<std::int64_t>();
  CHECK(sum == result.at("peak_bytes"));
}

}  // namespace

TEST_CASE("help of every command ends with an example, version names the parts") {
  for (const char* command : {"list", "show", "check", "simulate", "run", "verify", "reproduce", "demo"}) {
    const ProgramResult help = run_cplab({command, "--help"});
    CHECK(help.code == 0);
    CHECK(help.err.empty());
    CHECK(help.out.find(std::string("usage: cplab ") + command) == 0);
    CHECK(help.out.find("\nexample: cplab " + std::string(command)) != std::string::npos);
  }
  const ProgramResult version = run_cplab({"--version"});
  CHECK(version.code == 0);
  CHECK(version.out.find("cplab ") == 0);
  CHECK(version.out.find("\nsimgrid 3.") != std::string::npos);
  CHECK(run_cplab({"--help"}).code == 0);
}

TEST_CASE("list as JSON") {
  const json algorithms = result_of({"list", "algorithms"});
  CHECK(algorithms.at("command") == "list");
  bool has_ring = false;
  for (const json& algorithm : algorithms.at("algorithms")) {
    check_keys(algorithm, {"name", "aliases", "options", "placements"});
    has_ring = has_ring || algorithm.at("name") == "ring";
    for (const json& option : algorithm.at("options"))
      check_keys(option, {"key", "legal", "default", "help"});
  }
  CHECK(has_ring);
  CHECK(result_of({"list", "placements"}).at("placements").size() == 7);
  const json hardware = result_of({"list", "hardware"});
  CHECK(hardware.at("hardware").size() >= 3);
  const json published = result_of({"list", "published"});
  std::set<std::string> names;
  for (const json& each : published.at("published")) names.insert(each.at("name").get<std::string>());
  CHECK(names == std::set<std::string>{"lasp-errors", "lasp-throughput", "llama-strides", "magi-cluster",
                                       "magi-cp8", "te-p2p-memory"});
  const json faults = result_of({"list", "faults"});
  for (const json& fault : faults.at("faults")) {
    check_keys(fault, {"name", "form", "scenario", "devices", "expected"});
    CHECK(std::filesystem::exists(std::string(CPLAB_TEST_SCENARIOS) + "/" +
                                  fault.at("scenario").get<std::string>()));
    // A chain where one round would do: results stay right.
    const bool stays_right = fault.at("form") == "identity" || fault.at("name") == "blocking-shift";
    CHECK(fault.at("expected").is_null() == stays_right);
    if (!stays_right) {
      check_keys(fault.at("expected"), {"kind", "rank", "operation"});
    }
  }
  const json all = result_of({"list"});
  check_keys(all, {"algorithms", "placements", "hardware", "faults", "published"});
  CHECK(run_cplab({"list"}).out.find("kv_slots") != std::string::npos);
}

TEST_CASE("check as JSON: ring sends P(P-1) messages forward") {
  const json forward = result_of({"check", "faults/ring", "--set", "problem.direction=forward"});
  check_scenario(forward, "check");
  CHECK(forward.at("ok") == true);
  CHECK(forward.at("findings").empty());
  CHECK(forward.at("messages") == 4 * 3);
  CHECK(forward.at("rounds") == 3);
  CHECK(forward.at("flops").size() == 4);
  // Zigzag balances the causal mask: 64 tokens, 4 heads, 2(D+E) = 32 FLOP a pair, 64 * 65 / 2 pairs.
  for (const json& flops : forward.at("flops")) CHECK(flops == 4 * 32 * (64 * 65 / 2) / 4);
  // K and V of 16 rows, 2 heads, 16 columns in fp32, three hops.
  for (const json& bytes : forward.at("sent_bytes")) CHECK(bytes == 3 * 16 * 2 * 16 * 4);
}

TEST_CASE("show as JSON is what check --plan reads") {
  const TemporaryFolder folder;
  const json plan = result_of({"show", "faults/ring"});
  check_scenario(plan, "show");
  REQUIRE(plan.at("ranks").size() == 4);
  for (const json& rank : plan.at("ranks")) {
    for (const json& buffer : rank.at("buffers")) check_keys(buffer, {"name", "role", "category", "axes"});
    for (const json& op : rank.at("operations")) {
      check_keys(op, {"id", "phase", "step", "lane", "kind", "transport", "group", "reads", "writes", "parts",
                      "segments", "heads", "after"});
    }
  }
  const std::string file = folder.write("plan.json", plan.dump());
  const json from_file = result_of({"check", "--plan", file});
  const json from_scenario = result_of({"check", "faults/ring"});
  for (const char* key : {"ok", "rounds", "messages", "flops", "sent_bytes"}) {
    CHECK(from_file.at(key) == from_scenario.at(key));
  }
  // A well-formed wrong plan: every edge of rank 0 gone.
  json wrong = plan;
  for (json& op : wrong["ranks"][0]["operations"]) op["after"] = json::array();
  const json found = result_of({"check", "--plan", folder.write("wrong.json", wrong.dump())}, 1);
  CHECK(found.at("ok") == false);
  REQUIRE_FALSE(found.at("findings").empty());
  check_keys(found.at("findings").at(0), {"kind", "rank", "operation", "buffer", "message"});
  const auto& findings = found.at("findings");
  CHECK(std::any_of(findings.begin(), findings.end(), [](const json& finding) {
    return finding.at("kind") == "race" && finding.at("rank") == 0;
  }));
}

TEST_CASE("show proposes placement hybrid where a link binds and sequences could stay whole") {
  const std::string proposal = "placement hybrid leaves 68 of 68 sequences whole";
  const auto shown = [](const std::string& placement) {
    return run_cplab({"show", "documents", "--set", "parallel.placement=" + placement}).out;
  };
  CHECK(shown("zigzag").find(proposal) != std::string::npos);
  const std::string hybrid = shown("hybrid");
  CHECK(hybrid.find("placement hybrid leaves") == std::string::npos);
  CHECK(hybrid.find("ring, hybrid (68 of 68 sequences whole), 4 ranks") != std::string::npos);
  // Five sequences of six, but few of the rows.
  const ProgramResult one_long =
      run_cplab({"show", "documents", "--set", "parallel.ranks=64", "--set", "parallel.placement=zigzag",
                 "--set", "hardware.file=hardware/h100x64.toml", "--set", "schedule.transport=auto", "--set",
                 "problem.lengths=[131072,100,100,100,100,100]"});
  CHECK(one_long.code == 0);
  CHECK(one_long.out.find("bound by: link") != std::string::npos);
  CHECK(one_long.out.find("placement hybrid") == std::string::npos);
}

TEST_CASE("show as text names every operation of the rank and what it waits for") {
  const ProgramResult one = run_cplab({"show", "faults/ring", "--rank", "1"});
  CHECK(one.code == 0);
  CHECK(one.out.find("1/forward/4") != std::string::npos);
  CHECK(one.out.find("2/forward/4") == std::string::npos);
  CHECK(one.out.find("send kv to 2, receive kv_slots[0] from 0") != std::string::npos);
  const ProgramResult all = run_cplab({"show", "faults/ring", "--rank", "all"});
  CHECK(all.out.find("3/backward/0") != std::string::npos);
  const ProgramResult bound = run_cplab({"show", some_scenario});  // with hardware: what binds
  CHECK(bound.code == 0);
  CHECK(bound.out.find("steps are bound by: ") != std::string::npos);
  CHECK(bound.out.find("What would help: ") != std::string::npos);
}

TEST_CASE("simulate as JSON") {
  const json result = result_of({"simulate", some_scenario});
  check_scenario(result, "simulate");
  check_figures(result, 8);
  check_keys(result, {"origins", "low_s", "high_s", "chain"});
  const json& chain = result.at("chain");
  check_keys(chain, {"attention", "other_kernels", "communication", "host"});
  double shares = 0;
  for (const auto& [use, share] : chain.items()) shares += share.get<double>();
  CHECK(shares == doctest::Approx(1));
  check_keys(result.at("origins"), {"measured", "interpolated", "extrapolated", "assumed"});
  CHECK(result.at("low_s") <= result.at("time_s"));
  CHECK(result.at("time_s") <= result.at("high_s"));
  CHECK_FALSE(result.contains("operations"));
  CHECK(result.at("scenario").at("hardware").at("file") == "hardware/h100x8.toml");
  CHECK(result_of({"simulate", some_scenario}) == result);  // the same, run after run
  const json named = result_of({"simulate", some_scenario, "--operations", "--set", "problem.sequence=16K"});
  REQUIRE_FALSE(named.at("operations").empty());
  check_keys(named.at("operations").at(0),
             {"id", "rank", "lane", "kind", "start_s", "end_s", "wait_s", "bytes", "flops", "origin"});
}

TEST_CASE("simulate by either flow engine: the same, and the result names the one that was asked for") {
  const auto by = [](const char* engine) {
    return result_of({"simulate", some_scenario, "--set", std::string("simulate.engine=") + engine});
  };
  const json automatic = by("auto"), native = by("native"), reference = by("simgrid");
  CHECK(automatic == result_of({"simulate", some_scenario, "--set", "simulate.engine=auto"}));
  CHECK_FALSE(automatic.at("scenario").at("simulate").contains("engine"));
  CHECK(native.at("scenario").at("simulate").at("engine") == "native");
  CHECK(reference.at("scenario").at("simulate").at("engine") == "simgrid");
  CHECK(automatic.at("time_s") == native.at("time_s"));
  CHECK(reference.at("time_s").get<double>() ==
        doctest::Approx(native.at("time_s").get<double>()).epsilon(1e-9));
  CHECK(run_cplab({"simulate", some_scenario, "--set", "simulate.engine=ns3"}).code == 2);
}

TEST_CASE("simulate: strict, traces, hardware and --set hardware.*") {
  const TemporaryFolder folder;
  const ProgramResult strict = run_cplab({"simulate", some_scenario, "--strict"});
  CHECK(strict.code == 1);
  CHECK(strict.err.find("extrapolated or assumed") != std::string::npos);
  CHECK(run_cplab({"simulate", some_scenario, "--trace", folder.path("traces"), "--quiet"}).code == 0);
  for (const char* rank : {"0", "7"}) {
    const std::string trace = folder.path("traces/rank" + std::string(rank) + "_trace.json");
    CHECK(json::parse(read_file(trace), nullptr, false).is_object());
  }
  const ProgramResult none = run_cplab({"simulate", "faults/ring"});
  CHECK(none.code == 2);
  CHECK(none.err.find("hardware.file: missing") != std::string::npos);
  CHECK(none.err.find("hardware/h100x8.toml") != std::string::npos);
  const ProgramResult unknown = run_cplab({"simulate", some_scenario, "--set", "hardware.gpu.smz=1"});
  CHECK(unknown.code == 2);
  CHECK(unknown.err.find("--set hardware.gpu.smz: unknown key; did you mean \"sms\"?") != std::string::npos);
  const ProgramResult section = run_cplab({"simulate", some_scenario, "--set", "hardware.foo.bar=1"});
  CHECK(section.err.find("--set hardware.foo: unknown section") != std::string::npos);
  const ProgramResult crowd = run_cplab({"simulate", some_scenario, "--set", "parallel.ranks=16"});
  CHECK(crowd.code == 2);
  CHECK(crowd.err.find("h100x8.toml") != std::string::npos);
  // No table is of fp64: the general kernel's time is assumed, and said to be slow.
  const ProgramResult dtype = run_cplab({"simulate", some_scenario, "--set", "problem.dtype=fp64"});
  CHECK(dtype.code == 0);
  CHECK(dtype.err.find("take attend general fp64") != std::string::npos);
  const double base = result_of({"simulate", some_scenario}).at("time_s");
  const json slow = result_of({"simulate", some_scenario, "--set", "hardware.gpu.copy_bytes_s=1e11"});
  CHECK(slow.at("time_s") > base);
  CHECK(slow.at("origins").at("assumed") > 0);
}

TEST_CASE("verify as JSON, right and wrong") {
  const json right = result_of({"verify", "faults/ring"});
  check_scenario(right, "verify");
  CHECK(right.at("ok") == true);
  CHECK(right.at("findings").empty());
  CHECK(right.at("tensors").size() == 4 * 5);  // four ranks: out, lse, dq, dk, dv
  for (const json& tensor : right.at("tensors")) {
    check_keys(tensor, {"rank", "tensor", "rel_l2", "max_abs", "tolerance", "ok"});
    CHECK(tensor.at("rel_l2") <= tensor.at("tolerance"));
  }
  const json forward = result_of({"verify", "faults/ring", "--set", "problem.direction=forward"});
  CHECK(forward.at("tensors").size() == 4 * 2);
  CHECK(run_cplab({"verify", "faults/ring", "--inject", "no-such-fault"}).code == 2);
  CHECK(run_cplab({"verify", "faults/ring", "--order", "backwards"}).code == 2);
  CHECK(run_cplab({"verify", "faults/ring", "--device", "gpu"}).code == 3);
}

TEST_CASE("run on the CPU, and where the GPU is missing") {
  const json result =
      result_of({"run", "ring-small", "--device", "cpu", "--iterations", "4", "--operations"});
  check_scenario(result, "run");
  check_figures(result, 4);
  CHECK(result.at("times_s").size() == 4);
  const json& phases = result.at("undisturbed_phases");
  REQUIRE(phases.size() == 2);
  CHECK(phases[0].at("name") == "forward");
  CHECK(phases[1].at("name") == "backward");
  double longest = 0;
  for (const json& time : result.at("times_s")) longest = std::max(longest, time.get<double>());
  for (const json& phase : phases) {
    CHECK(phase.at("time_s") > 0);
    CHECK(phase.at("time_s") < longest);
  }
  CHECK_FALSE(result_of({"run", "ring-small", "--device", "cpu", "--iterations", "1", "--set",
                         "problem.direction=forward"})
                  .contains("undisturbed_phases"));
  CHECK(result.at("fits") == true);
  CHECK(result.at("capacity_bytes").get<std::int64_t>() > result.at("peak_bytes").get<std::int64_t>());
  CHECK_FALSE(result.at("operations").empty());
  const ProgramResult gpu = run_cplab({"run", "ring-small"});
  CHECK(gpu.code == 3);
  CHECK(gpu.err.find("GPU") != std::string::npos);
  const ProgramResult large =
      run_cplab({"run", some_scenario, "--device", "cpu", "--set", "problem.sequence=64M"});
  CHECK(large.code == 3);
  CHECK(large.err.find("of memory") != std::string::npos);
  const ProgramResult hang =
      run_cplab({"run", "ring-small", "--device", "cpu", "--timeout", "0.001", "--iterations", "100000"});
  CHECK(hang.code == 3);
}

TEST_CASE("inputs and outputs as .npy") {
  const TemporaryFolder folder;
  // B 1, S 64, H 4, G 2, D = E = 8: q and dout 2048, k and v 1024 elements.
  const auto write = [&](const std::string& name, std::vector<std::int64_t> shape, double scale) {
    std::size_t count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = scale * (static_cast<double>(i * 7 % 23) - 11) / 11;
    return folder.write(name, cplab::format_npy(shape, values, false));
  };
  std::filesystem::create_directories(folder.path("in"));
  write("in/q.npy", {1, 64, 4, 8}, 1);
  write("in/k.npy", {1, 64, 2, 8}, 1);
  write("in/v.npy", {1, 64, 2, 8}, 1);
  const std::vector<std::string> verify{"verify", "faults/ring",      "--inputs", folder.path("in"),
                                        "--save", folder.path("out"), "--quiet"};
  const auto expect = [&](int code, const std::string& fragment) {
    const ProgramResult result = run_cplab(verify);
    CAPTURE(result.err);
    CHECK(result.code == code);
    CHECK(result.err.find(fragment) != std::string::npos);
  };
  expect(2, "dout.npy");  // missing
  write("in/dout.npy", {1, 64, 4, 8}, 1);
  expect(0, "");
  const auto lse = cplab::read_npy(folder.path("out/lse.npy"));
  CHECK(lse.shape == std::vector<std::int64_t>{1, 4, 64});
  CHECK_FALSE(lse.fp64);
  CHECK(cplab::read_npy(folder.path("out/dk.npy")).shape == std::vector<std::int64_t>{1, 64, 2, 8});
  // One key is visible to the first query: out is v, lse the scaled product.
  const auto out = cplab::read_npy(folder.path("out/out.npy"));
  const auto v = cplab::read_npy(folder.path("in/v.npy"));
  for (std::size_t e = 0; e < 8; ++e) CHECK(out.values[e] == doctest::Approx(v.values[e]).epsilon(1e-6));
  // run gives the same files, whatever the order.
  const ProgramResult run = run_cplab({"run", "faults/ring", "--device", "cpu", "--inputs", folder.path("in"),
                                       "--save", folder.path("again"), "--order", "random:3"});
  CHECK(run.code == 0);
  for (const char* name : {"out", "lse", "dq", "dk", "dv"}) {
    CHECK(read_file(folder.path("again/" + std::string(name) + ".npy")) ==
          read_file(folder.path("out/" + std::string(name) + ".npy")));
  }
  // Written also when the result is wrong.
  std::filesystem::remove_all(folder.path("out"));
  auto injected = verify;
  injected.insert(injected.end(), {"--inject", "stale-kv"});
  CHECK(run_cplab(injected).code == 1);
  CHECK(std::filesystem::exists(folder.path("out/dq.npy")));

  write("in/k.npy", {1, 64, 4, 8}, 1);
  expect(2, "k.npy");  // wrong shape
  folder.write("in/k.npy", "\x93NUMPY");
  expect(2, "k.npy");  // cut off
  folder.write("in/k.npy", "no array at all");
  expect(2, "k.npy");
  CHECK(run_cplab({"verify", "faults/ring", "--inputs", folder.path("nowhere")}).code == 2);
}

TEST_CASE("text on stdout, talk on stderr, CSV, colour") {
  const TemporaryFolder folder;
  const ProgramResult csv = run_cplab({"check", "faults/ring", "--csv", "-"});
  CHECK(csv.code == 0);
  CHECK(csv.out.rfind("rank,work_flop,sent_bytes\n", 0) == 0);
  CHECK(std::count(csv.out.begin(), csv.out.end(), '\n') == 5);
  const ProgramResult quiet = run_cplab({"check", "faults/ring", "--trace", folder.path("t"), "--quiet"});
  CHECK(quiet.err.empty());
  const ProgramResult talk = run_cplab({"check", "faults/ring", "--trace", folder.path("t")});
  CHECK(talk.err.find("no timeline") != std::string::npos);
  CHECK(talk.out == quiet.out);
  const std::vector<std::string> wrong{"verify", "faults/ring", "--inject", "skip-tile"};
  auto colored = wrong;
  colored.insert(colored.end(), {"--color", "always"});
  CHECK(run_cplab(colored).out.find("\033[") != std::string::npos);
  unsetenv("CLICOLOR_FORCE");
  CHECK(run_cplab(wrong).out.find("\033[") == std::string::npos);  // auto: no terminal here
  const std::string file = folder.path("result.json");
  const ProgramResult both = run_cplab({"check", "faults/ring", "--json", file});
  CHECK(both.out.find("right: ") != std::string::npos);
  CHECK(json::parse(read_file(file)).at("ok") == true);
}

TEST_CASE("demo: every row fits and is verified, one is best") {
  const json result = result_of({"demo"});
  CHECK(result.at("command") == "demo");
  REQUIRE(result.at("rows").size() == 9);
  int best = 0;
  for (const json& row : result.at("rows")) {
    CAPTURE(row.dump());
    CHECK(row.at("verified") == true);
    CHECK(row.at("fits") == true);
    CHECK(row.at("time_s").get<double>() > 0);
    best += row.at("best") == true;
  }
  CHECK(best == 1);
  CHECK(run_cplab({"demo", "--set", "schedule.kv_slots=2"}).code == 2);
}

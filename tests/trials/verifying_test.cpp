// cplab verify: limits of time, inputs that see each feature, results of others.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "cli/verify/npy.hpp"
#include "cli/verify/tolerance.hpp"
#include "reference/dense_attention.hpp"
#include "reference/row_sample.hpp"
#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"
#include "tests/trials/inputs.hpp"

using cplab::testing::contains;

TEST_CASE("a time limit of verify that ran out is no finding: exit 3, with how far it came") {
  const std::vector<std::string> slow{"verify",    "faults/ring", "--set", "problem.sequence=512",
                                      "--timeout", "0.001"};
  const ProgramResult up = run_cplab(slow);
  CHECK(up.code == 3);
  CHECK(contains(up.err, "the time is up after "));
  CHECK(contains(up.err, " operations; unfinished ranks: rank 0: "));
  CHECK(contains(up.err, "/forward/"));
  CHECK(contains(up.err, "--timeout 0.001"));
  CHECK_FALSE(contains(up.err + up.out, "deadlock"));
  CHECK_FALSE(contains(up.err + up.out, "wrong:"));
  // What the checker found stands.
  std::vector<std::string> faulty = slow;
  faulty.insert(faulty.end(), {"--inject", "ring-slot-reuse"});
  const ProgramResult found = run_cplab(faulty);
  CHECK(found.code == 1);
  CHECK(contains(found.out, "race"));
  CHECK(contains(found.out, "the execution did not end: the time is up after "));
  // Where nothing can move any more it is a deadlock, and known at once.
  const ProgramResult hang = run_cplab({"verify", "faults/ring", "--inject", "dropped-receive"});
  CHECK(hang.code == 1);
  CHECK(contains(hang.out, "execution hangs: "));
}

TEST_CASE("progress off a terminal: a line now and then, none with --quiet") {
  setenv("CPLAB_TEST_PROGRESS_LINES_S", "0.05", 1);
  const std::vector<std::string> work{"verify", "ring-small", "--set", "problem.sequence=1024"};
  const ProgramResult talks = run_cplab(work);
  std::vector<std::string> quiet = work;
  quiet.push_back("--quiet");
  const ProgramResult silent = run_cplab(quiet);
  unsetenv("CPLAB_TEST_PROGRESS_LINES_S");
  CHECK(talks.code == 0);
  CHECK(contains(talks.err, ", 0 s\n"));
  CHECK_FALSE(contains(talks.err, "\033["));
  CHECK(silent.err.empty());
}

TEST_CASE("random inputs see a softcap of 50 in bf16: a kernel that forgets it does not pass") {
  const TemporaryFolder folder;
  const std::string file = folder.path("plan.json");
  REQUIRE(run_cplab({"show", trial("03-by-dynamic-mask.toml"), "--json", file, "--quiet"}).code == 0);
  CHECK(run_cplab({"verify", "--plan", file}).code == 0);
  nlohmann::json plan = nlohmann::json::parse(read_file(file));
  for (nlohmann::json& rank : plan.at("ranks"))
    for (nlohmann::json& operation : rank.at("operations")) operation.erase("softcap");
  const nlohmann::json result = json_of({"verify", "--plan", folder.write("uncapped.json", plan.dump())}, 1);
  for (const nlohmann::json& tensor : result.at("tensors")) {
    CAPTURE(tensor.at("tensor"));
    CHECK_FALSE(tensor.at("ok").get<bool>());
    CHECK(tensor.at("rel_l2").get<double>() > 5 * tensor.at("tolerance").get<double>());
  }
}

TEST_CASE("verify says which feature its inputs cannot see, and leaves those of the caller alone") {
  const std::string capped = trial("03-by-dynamic-mask.toml");
  const ProgramResult enlarged = run_cplab({"verify", capped});
  CHECK(enlarged.code == 0);
  CHECK(contains(enlarged.err, "times standard normal, so that results show softcap 50"));
  const ProgramResult blind = run_cplab({"verify", capped, "--set", "problem.softcap=1e6"});
  CHECK(blind.code == 0);
  CHECK(contains(blind.err, "softcap 1e+06 changes out"));
  CHECK(contains(blind.err, "a kernel that forgets it could pass there"));
  // Without such a feature nothing is said, and nothing changes.
  CHECK(run_cplab({"verify", "faults/ring"}).err.empty());
}

TEST_CASE(
    "--save writes inputs, results and the reference, and --against compares results of others with it") {
  const TemporaryFolder folder;
  const std::string saved = folder.path("saved");
  const std::vector<std::string> problem{"faults/ring", "--set", "problem.max_logit=true"};
  const auto verify = [&](std::vector<std::string> more) {
    more.insert(more.begin(), problem.begin(), problem.end());
    more.insert(more.begin(), "verify");
    return run_cplab(more);
  };
  REQUIRE(verify({"--save", saved}).code == 0);
  const std::vector<std::string> both{"--inputs", saved, "--against", saved};
  const ProgramResult own = verify(both);
  CHECK(own.code == 0);
  CHECK(own.err.empty());
  CHECK(contains(own.out, "ok: " + saved + " is equal to the dense reference within tolerance"));
  CHECK(verify({"--inputs", saved, "--against", saved + "/reference"}).code == 0);
  CHECK(verify({"--against", saved}).code == 0);  // drawn from the same seed
  // Of dk the rows 37 and 38 of head 1 are wrong.
  const std::string path = saved + "/dk.npy";
  cplab::NpyArray dk = cplab::read_npy(path);
  dk.values[(37 * 2 + 1) * 8] += 1;
  dk.values[(38 * 2 + 1) * 8] += 9;
  std::ofstream(path, std::ios::binary) << cplab::format_npy(dk.shape, dk.values, false);
  const ProgramResult wrong = verify(both);
  CHECK(wrong.code == 1);
  CHECK(contains(wrong.out, "dk: 2 of "));
  CHECK(contains(unfolded(wrong.out), "the first in sequence 0, position 37, head 1; "));
  CHECK(contains(unfolded(wrong.out), "the worst: sequence 0, position 38, head 1"));
  // What is not there, or does not fit, is said.
  dk.shape = {64, 2, 8};
  std::ofstream(path, std::ios::binary) << cplab::format_npy(dk.shape, dk.values, false);
  CHECK(contains(verify(both).err, "dk.npy: has shape [64, 2, 8]; the scenario asks for [1, 64, 2, 8]"));
  std::filesystem::remove(path);
  CHECK(verify(both).code == 2);
  // Those that are there alone.
  const auto some = [&](const std::string& names) {
    return verify({"--inputs", saved, "--against", saved, "--tensors", names, "--csv", "-"});
  };
  const ProgramResult two = some("dv,out");
  CHECK(two.code == 0);
  CHECK(contains(two.out, ",dv,"));
  CHECK(contains(two.out, ",out,"));
  CHECK(!contains(two.out, ",dq,"));
  CHECK(some("dk").code == 2);
  CHECK(contains(some("dkv").err, "--tensors dkv: no output of this problem; legal: out, "));
  CHECK(contains(verify({"--tensors", "out"}).err, "--tensors: goes with --against"));
  CHECK(verify({"--against", saved, "--inject", "stale-kv"}).code == 2);
  // What is added in the dtype is declared, and legal.
  const auto with_sums = [&](const std::string& sums) {
    return verify({"--inputs", saved, "--against", saved, "--tensors", "out,dv", "--sums", sums});
  };
  CHECK(with_sums("out=1,dq=3,dkv=8").code == 0);
  for (const std::string bad : {"", "dkv", "dkv=", "dkv=0", "dkv=1.5", "dk=3", "=8", "dkv=99999999999"}) {
    const ProgramResult refused = with_sums(bad);
    CHECK(refused.code == 2);
    CHECK(contains(refused.err, "is not legal; legal: out=N, dq=N, dkv=N"));
  }
  CHECK(contains(verify({"--sums", "dkv=8"}).err, "--sums: goes with --against"));
}

namespace {

// Of the rows of [S,heads,width] (or [heads,S]: width 0) the largest difference.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b,
                          const std::vector<std::int64_t>& rows, std::int64_t S, std::int64_t heads,
                          std::int64_t width) {
  double most = 0;
  const auto compare = [&](std::int64_t at) {
    const auto i = static_cast<std::size_t>(at);
    most = std::max(most, std::abs(a.at(i) - b.at(i)) / std::max(1.0, std::abs(b.at(i))));
  };
  for (const std::int64_t row : rows) {
    for (std::int64_t h = 0; h < heads && width == 0; ++h) compare(h * S + row);
    for (std::int64_t x = 0; x < heads * width; ++x) compare(row * heads * width + x);
  }
  return most;
}

std::vector<double> normal_values(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = normal(random);
  return values;
}

}  // namespace

TEST_CASE("a sample's rows of the reference and of the tolerances are those of all rows") {
  using namespace cplab;
  const std::int64_t S = 300, H = 4, G = 2, D = 24, E = 16;
  const std::vector<double> q = normal_values(S * H * D, 1), k = normal_values(S * G * D, 2),
                            v = normal_values(S * G * E, 3), dout = normal_values(S * H * E, 4);
  const std::vector<std::int64_t> rows{0, 1, 2, 63, 64, 130, 131, 132, 255, 299};
  for (const std::int64_t left : {-1, 70}) {
    CAPTURE(left);
    const reference::AttentionShape shape{S, H, G, D, E, 0.2, left, 0};
    const reference::RowSample sample{rows, {}, true};
    const auto all = reference::dense_attention(shape, q, k, v, dout);
    const auto some = reference::dense_attention(shape, q, k, v, dout, {}, &sample);
    const auto forward = reference::dense_attention(shape, q, k, v, {}, {}, &sample);
    // Sums of a few hundred terms of size 1, in two orders.
    const double last_bits = 1e-13;
    CHECK(largest_difference(some.out, all.out, rows, S, H, E) < last_bits);
    CHECK(largest_difference(forward.out, all.out, rows, S, H, E) < last_bits);
    CHECK(largest_difference(some.lse, all.lse, rows, S, H, 0) < last_bits);
    CHECK(largest_difference(some.dq, all.dq, rows, S, H, D) < last_bits);
    CHECK(largest_difference(some.dk, all.dk, rows, S, G, D) < last_bits);
    CHECK(largest_difference(some.dv, all.dv, rows, S, G, E) < last_bits);
    CHECK(largest_difference(forward.max_logit, all.max_logit, {0}, 1, H, 1) < last_bits);
    const PlanRoundings roundings;
    const auto errors = [&](const reference::AttentionResult& right, const reference::RowSample* of) {
      ExpectedErrors e = expected_errors(DType::bf16, roundings, shape, q, k, v, dout, right, {}, of);
      // Variances relative to a rounding's, so that differences are seen.
      for (ExpectedError* each : {&e.out, &e.lse, &e.dq, &e.dk, &e.dv})
        for (double& variance : each->variance) variance *= 0x1p20;
      return e;
    };
    const ExpectedErrors a = errors(all, nullptr), s = errors(some, &sample);
    const double of_floats = 1e-4;
    CHECK(largest_difference(s.out.variance, a.out.variance, rows, S, H, E) < of_floats);
    CHECK(largest_difference(s.lse.variance, a.lse.variance, rows, S, H, 0) < of_floats);
    CHECK(largest_difference(s.dq.variance, a.dq.variance, rows, S, H, D) < of_floats);
    CHECK(largest_difference(s.dk.variance, a.dk.variance, rows, S, G, D) < of_floats);
    CHECK(largest_difference(s.dv.variance, a.dv.variance, rows, S, G, E) < of_floats);
    CHECK(largest_difference(s.dk.terms, a.dk.terms, rows, S, G, D) < of_floats);
  }
}

TEST_CASE("--sample compares the edges and rows drawn by the seed, and says so") {
  const TemporaryFolder folder;
  const std::string saved = folder.path("saved");
  REQUIRE(run_cplab({"verify", "faults/ring", "--save", saved}).code == 0);
  const auto against = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"verify", "faults/ring", "--inputs", saved, "--against", saved});
    return more;
  };
  // Four ranks in zigzag of 64 tokens: eight chunks, the last two of one rank: 14 edges, whatever is asked
  // for.
  CHECK(contains(run_cplab(against({"--sample", "1"})).out,
                 "within tolerance, of 14 of 64 rows per tensor and head\n"));
  const nlohmann::json right = json_of(against({"--sample", "20"}), 0);
  CHECK(right.at("sampled_rows") == 20);
  CHECK(right.at("rows") == 64);
  CHECK_FALSE(json_of(against({"--sample", "64"}), 0).contains("sampled_rows"));
  const nlohmann::json executed = json_of({"verify", "faults/ring", "--sample", "20"}, 0);
  CHECK(executed.at("sampled_rows") == 20);
  // A row of each tensor is wrong: an edge is found, the row beside it is not one of the 14.
  for (const char* const tensor : {"out", "lse", "dq", "dk", "dv"}) {
    CAPTURE(tensor);
    const std::string path = saved + "/" + tensor + ".npy";
    const cplab::NpyArray good = cplab::read_npy(path);
    const bool is_lse = std::string(tensor) == "lse";  // [B,H,S]
    const std::size_t row = is_lse ? 1 : good.values.size() / 64;
    for (const std::size_t token : {7, 8, 9}) {
      cplab::NpyArray bad = good;
      bad.values.at(token * row) += 1;
      std::ofstream(path, std::ios::binary) << cplab::format_npy(bad.shape, bad.values, false);
      CHECK(run_cplab(against({"--sample", "1"})).code == (token == 9 ? 0 : 1));
      CHECK(run_cplab(against({})).code == 1);
    }
    std::ofstream(path, std::ios::binary) << cplab::format_npy(good.shape, good.values, false);
  }
  // A kernel's fault is in every row, a plan's in a rank's.
  CHECK(run_cplab({"verify", "faults/ring", "--inject", "stale-kv", "--sample", "1"}).code == 1);
  CHECK(run_cplab({"verify", "faults/ring", "--sample", "0"}).code == 2);
  CHECK(contains(run_cplab({"verify", "faults/ring", "--sample", "9", "--save", saved}).err,
                 "--save: not beside --sample"));
}

TEST_CASE("heads are traded whatever is computed between: linear attention of every transition") {
  for (const char* const transition : {"decay", "head", "column", "matrix"}) {
    CAPTURE(transition);
    const std::string set = std::string("problem.transition=") + transition;
    for (const char* const command : {"check", "verify"})
      CHECK(run_cplab({command, trial("20-min.toml"), "--set", set}).code == 0);
    CHECK(run_cplab({"simulate", trial("20-min.toml"), "--hardware", "h100x8", "--set", set}).code == 0);
  }
  const ProgramResult refused = run_cplab({"check", trial("20-decay.toml")});
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, "legal: \"head\", \"column\", \"matrix\""));
}

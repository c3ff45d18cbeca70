// The keys of linear attention: what they become, and what is refused beside them.
#include "cli/files/scenario_linear.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

using namespace cplab;

using cplab::testing::contains;

namespace {

// [problem] of 4 heads with these lines more, read as linear attention.
Problem linear_problem(const std::string& lines, std::int64_t heads = 4) {
  const Table table = Table::parse("[problem]\n" + lines, "x.toml").table("problem");
  Problem p;
  p.attention = Attention::linear;
  p.heads = p.kv_heads = heads;
  p.causal = true;
  p.scale = 0.125;
  read_linear(table, p);
  return p;
}

std::string error_of_lines(const std::string& lines) {
  try {
    (void)linear_problem(lines);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

const std::string linear_lines = R"([problem]
attention = "linear"
sequence = 64
heads = 4
head_size = 8
dtype = "fp32"
mask = "causal"
)";

// The message about a whole scenario file: [problem] as above, changed or continued.
std::string file_error(const std::string& more, const std::string& without = "") {
  const TemporaryFolder folder;
  std::string text = linear_lines;
  if (!without.empty()) text.erase(text.find(without), without.size());
  const ProgramResult result = run_cplab(
      {"check", folder.write("x.toml", text + more + "[parallel]\nranks = 2\nalgorithm = \"ring\"\n")});
  CHECK(result.code == 2);
  CHECK(result.out.empty());
  return result.err;
}

}  // namespace

TEST_CASE("slopes: ALiBi's rule for powers of two and for other numbers of heads") {
  CHECK(alibi_slopes(1) == std::vector<double>{0x1p-8});
  CHECK(alibi_slopes(8) ==
        std::vector<double>{0x1p-1, 0x1p-2, 0x1p-3, 0x1p-4, 0x1p-5, 0x1p-6, 0x1p-7, 0x1p-8});
  // Twelve heads: those of eight, then the 1st, 3rd, 5th and 7th of sixteen, 2^-0.5 ... 2^-3.5.
  const std::vector<double> twelve = alibi_slopes(12);
  REQUIRE(twelve.size() == 12);
  for (std::size_t i = 0; i < 8; ++i) CHECK(twelve[i] == alibi_slopes(8)[i]);
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(twelve[8 + i] == doctest::Approx(std::exp2(-0.5 - static_cast<double>(i))).epsilon(1e-15));
  CHECK(alibi_slopes(3) == std::vector<double>{0x1p-4, 0x1p-8, 0x1p-2});
}

TEST_CASE("slopes and transition, and their defaults") {
  Problem p = linear_problem("");
  CHECK(p.transition == Transition::decay);
  CHECK(p.slopes == alibi_slopes(4));
  CHECK(p.scale == 1);
  CHECK(linear_problem("slopes = \"alibi\"").slopes == alibi_slopes(4));
  CHECK(linear_problem("slopes = 0.5").slopes == std::vector<double>(4, 0.5));
  CHECK(linear_problem("slopes = 0").slopes == std::vector<double>(4, 0));
  CHECK(linear_problem("slopes = [0.7, 0.5, 0, 8]").slopes == std::vector<double>{0.7, 0.5, 0, 8});
  CHECK(linear_problem("transition = \"decay\"").slopes.size() == 4);
  p = linear_problem("transition = \"column\"");
  CHECK(p.transition == Transition::column);
  CHECK(p.slopes.empty());
  CHECK(linear_problem("transition = \"matrix\"").transition == Transition::matrix);
  CHECK(linear_problem("transition = \"matrix\"").gate_columns() == p.head_size);
  CHECK(linear_problem("transition = \"matrix\"\ngate = \"head\"").gate_columns() == 1);
  p = linear_problem("transition = \"head\"");
  CHECK(p.transition == Transition::head);
  CHECK(p.gate_columns() == 1);
  CHECK(p.slopes.empty());
  CHECK(linear_problem("").gate_columns() == 0);
}

TEST_CASE("slopes and transition that are not legal") {
  CHECK(contains(error_of_lines("slopes = [0.5, 0.5]"),
                 "x.toml:2: problem.slopes: holds 2 slopes for 4 heads"));
  CHECK(contains(error_of_lines("slopes = -1"), "x.toml:2: problem.slopes: a slope is -1"));
  CHECK(contains(error_of_lines("slopes = nan"), "x.toml:2: problem.slopes: must be finite"));
  CHECK(contains(error_of_lines("slopes = inf"), "x.toml:2: problem.slopes: must be finite"));
  CHECK(contains(error_of_lines("slopes = true"), "x.toml:2: problem.slopes: legal: \"alibi\""));
  CHECK(contains(error_of_lines("slopes = \"alibbi\""), "did you mean \"alibi\"?"));
  CHECK(contains(error_of_lines("slopes = [\"a\"]"), "x.toml:2: problem.slopes"));
  CHECK(contains(error_of_lines("transition = \"gla\""), "did you mean \"column\"?"));
  CHECK(contains(error_of_lines("transition = \"gated_delta_net\""), "did you mean \"matrix\"?"));
  CHECK(contains(error_of_lines("transition = \"retention\""), "did you mean \"decay\"?"));
  CHECK(contains(error_of_lines("transition = \"mamba2\""), "did you mean \"head\"?"));
  CHECK(contains(error_of_lines("transition = \"matrix\"\ngate = \"scalar\""), "did you mean \"head\"?"));
  CHECK(contains(error_of_lines("transition = \"column\"\ngate = \"head\""),
                 "legal without: transition = \"head\""));
  CHECK(contains(error_of_lines("transition = 1"), "x.toml:2: problem.transition"));
  CHECK(contains(error_of_lines("transition = \"matrix\"\nslopes = 1"),
                 "x.toml:3: problem.slopes: only transition"));
}

TEST_CASE("what linear attention does not have, and what softmax has not") {
  CHECK(contains(file_error("scale = 0.5\n"), "x.toml:8: problem.scale: linear attention has no softmax"));
  CHECK(contains(file_error("max_logit = true\n"), "x.toml:8: problem.max_logit: linear attention"));
  CHECK(contains(file_error("kv_heads = 2\n"), "problem.kv_heads: linear attention has a key head"));
  CHECK(contains(file_error("kv_heads = 2\n"), "but kv_heads is 2; legal: 4"));
  CHECK(contains(file_error("window = [4, -1]\n"), "x.toml:8: problem.window: linear attention"));
  CHECK(contains(file_error("mask = \"full\"\n", "mask = \"causal\"\n"), "problem.mask: linear attention"));
  CHECK(contains(file_error("slopes = 0.5\n", "attention = \"linear\"\n"),
                 "x.toml:7: problem.slopes: only linear attention and bias = \"alibi\" have slopes"));
  CHECK(contains(file_error("transition = \"decay\"\n", "attention = \"linear\"\n"),
                 "x.toml:7: problem.transition: only linear attention has it"));
  CHECK(contains(file_error("slope = 0.5\n"), "did you mean \"slopes\"?"));
  CHECK(contains(file_error("decay = 0.5\n"), "did you mean \"slopes\"?"));
  CHECK(contains(file_error("gating = \"x\"\n"), "did you mean \"transition\"?"));
  CHECK(contains(file_error("slopes = 0.5\n"), "problem.attention"));  // ring is softmax attention
}

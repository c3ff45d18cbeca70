// Bad input of every kind: exit code 2, a message with file, line, key and what is legal; never a crash.
#include <doctest/doctest.h>

#include "tests/cli/program.hpp"

namespace {

const std::vector<std::string> base_lines{
    "[problem]",               // 1
    "batch = 2",               // 2
    "sequence = 64",           // 3
    "heads = 4",               // 4
    "kv_heads = 2",            // 5
    "head_size = 8",           // 6
    "dtype = \"fp32\"",        // 7
    "mask = \"causal\"",       // 8
    "[parallel]",              // 9
    "ranks = 2",               // 10
    "algorithm = \"ring\"",    // 11
    "placement = \"zigzag\"",  // 12
    "[schedule]",              // 13
    "kv_slots = 2",            // 14
};

// The base with one line replaced (several lines: "\n").
std::string with_line(std::size_t number, const std::string& text) {
  std::string file;
  for (std::size_t i = 0; i < base_lines.size(); ++i) {
    file += (i + 1 == number ? text : base_lines[i]) + "\n";
  }
  return file;
}

struct Bad {
  std::size_t line;      // that is replaced
  std::string text;      // by this
  int where;             // line that the message names
  std::string key;       // that it names
  std::string fragment;  // what it says
};

const std::vector<Bad>& bad_lines() {
  static const std::vector<Bad> all{
      {4, "haeds = 4", 4, "problem.haeds", "did you mean \"heads\"?"},
      {9, "[paralel]", 9, "paralel", "did you mean \"parallel\"?"},
      {4, "", 1, "problem.heads", "missing; legal: an integer from 1 to 65536"},
      {6, "", 1, "problem.head_size", "missing; legal: an integer from 1 to 65536"},
      {7, "", 1, "problem.dtype", "missing; legal: \"bf16\", \"fp16\", \"fp32\", \"fp64\""},
      {8, "", 1, "problem.mask", "missing; legal: \"full\", \"causal\", \"none\""},
      {3, "", 1, "problem.sequence", "missing; legal: an integer from 1 to 2147483648"},
      {10, "", 9, "parallel.ranks", "missing; legal: an integer from 1 to 65536"},
      {11, "", 9, "parallel.algorithm", "missing; legal: \"ring\""},
      {4, "heads = \"four\"", 4, "problem.heads", "must be an integer"},
      {4, "heads = 4.0", 4, "problem.heads", "must be an integer"},
      {4, "heads = [4]", 4, "problem.heads", "must be an integer"},
      {4, "heads = true", 4, "problem.heads", "must be an integer"},
      {4, "heads = 0", 4, "problem.heads", "from 1 to"},
      {4, "heads = -4", 4, "problem.heads", "from 1 to"},
      {4, "heads = 99999999999", 4, "problem.heads", "from 1 to"},
      {4, "heads = 9223372036854775808", 4, "not TOML", ""},
      {4, "heads = \"9999999999G\"", 4, "problem.heads", "64-bit"},
      {5, "kv_heads = 3", 5, "problem.kv_heads", "must divide heads = 4, but is 3; legal: 1, 2, 4"},
      {5, "kv_heads = 0", 5, "problem.kv_heads", "from 1 to"},
      {6, "head_size = -8", 6, "problem.head_size", "from 1 to"},
      {6, "head_size = 8\nvalue_size = 0", 7, "problem.value_size", "from 1 to"},
      {7, "dtype = \"float16\"", 7, "problem.dtype", "did you mean \"fp16\"?"},
      {7, "dtype = 16", 7, "problem.dtype", "must be text"},
      {8, "mask = \"casual\"", 8, "problem.mask", "did you mean \"causal\"?"},
      {8, "mask = \"full\"\nattention = \"linear\"", 8, "problem.mask", "\"causal\""},
      {5, "attention = \"linear\"", 5, "problem.attention", "softmax"},
      {5, "attention = \"dynamic\"", 5, "problem.attention", "softmax"},
      {8, "mask = \"full\"\nformat = \"bhsd\"", 9, "problem.format", "\"bshd\", \"sbhd\", \"thd\""},
      {8, "mask = \"none\"", 8, "problem.mask", "Legal with mask_rectangles, groups or prefix"},
      {8, "mask = \"none\"\nprefix = 3\nwindow = [3, 0]", 8, "problem.mask", "leave window and chunk out"},
      {8, "mask = \"full\"\nchunk = -1", 9, "problem.chunk", "from 0 to"},
      {8, "mask = \"full\"\ngroups = [[3, 3]]", 9, "problem.groups", "its first token below its end"},
      {8, "mask = \"full\"\ngroups = [3, 5]", 9, "problem.groups", "list of lists"},
      {8, "mask = \"full\"\ngroups = [[3, 70]]", 9, "problem.groups", "queries 0 to 64, keys 0 to 64"},
      {8, "mask = \"full\"\nmask_rectangles = [[0, 8, 0]]", 9, "problem.mask_rectangles", "[q0, q1, k0, k1,"},
      {8, "mask = \"full\"\nmask_rectangles = [[0, 8, 0, 8, \"bidirectional\"]]", 9,
       "problem.mask_rectangles", "\"inverse_causal\""},
      {8, "mask = \"full\"\nmask_rectangles = [[0, 8, 0, -8, \"full\"]]", 9, "problem.mask_rectangles",
       "an edge is"},
      {8, "mask = \"full\"\nmask_rectangles = [[8, 8, 0, 8, \"full\"]]", 9, "problem.mask_rectangles",
       "is empty"},
      {8, "mask = \"full\"\nmask_rectangles = [[0, 8, 0, 8, \"full\"], [7, 9, 7, 9, \"full\"]]", 9,
       "problem.mask_rectangles",
       "rectangle [7, 9, 7, 9, \"full\"] and rectangle [0, 8, 0, 8, \"full\"] share a pair"},
      {8, "mask = \"full\"\ngroups = [[0, 4]]\nmask_rectangles = [[0, 8, 0, 8, \"full\"]]", 10,
       "problem.mask_rectangles", "group [0, 4]"},
      {8, "mask = \"full\"\nq_ranges = [[0, 8]]", 9, "problem.q_ranges", "mask_rectangles"},
      {8, "mask = \"causal\"\nkv_sequence = 9", 1, "problem.align", "\"bottom_right\""},
      {8, "mask = \"full\"\nkv_lengths = [9]", 9, "problem.kv_lengths", "kv_sequence"},
      {8, "mask = \"full\"\nalign = \"top_left\"", 9, "problem.align", "needs kv_sequence"},
      {10, "ranks = 2\nkv_placement = \"replicated\"", 11, "parallel.kv_placement", "keys of their own"},
      {10, "ranks = 2\ntokens_per_rank = 9", 11, "parallel.tokens_per_rank", "dynamic"},
      {12, "placement = \"zigzag\"\npieces = [[0, 0, 0, 9]]", 13, "parallel.pieces", "\"balanced\""},
      {12, "placement = \"dynamic\"\npieces = [[0, 0, 0, 9]]", 13, "parallel.pieces",
       "each row of sequence 0 once"},
      {12, "placement = \"dynamic\"\npieces = [[0, 0, 0]]", 13, "parallel.pieces", "[position, sequence,"},
      {8, "mask = \"full\"\nwindow = 5", 9, "problem.window", "list"},
      {8, "mask = \"full\"\nwindow = [5]", 9, "problem.window", "[left, right]"},
      {8, "mask = \"full\"\nwindow = [5, -2]", 9, "problem.window", "[left, right]"},
      {8, "mask = \"full\"\nwindow = [1, 2, 3]", 9, "problem.window", "[left, right]"},
      {8, "mask = \"full\"\nscale = \"big\"", 9, "problem.scale", "must be a number"},
      {8, "mask = \"full\"\nscale = nan", 9, "problem.scale", "finite"},
      {8, "mask = \"full\"\nscale = nan", 9, "problem.scale", "finite"},
      {8, "mask = \"full\"\ndirection = \"both\"", 9, "problem.direction", "\"forward+backward\""},
      {2, "batch = 0", 2, "problem.batch", "from 1 to"},
      {2, "batch = 9000000000", 2, "problem.batch", "from 1 to"},
      {3, "sequence = -1", 3, "problem.sequence", "from 1 to"},
      {3, "sequence = \"9G\"", 3, "problem.sequence", "from 1 to"},
      {3, "sequence = \"64Q\"", 3, "problem.sequence", "must be an integer"},
      {3, "sequence = 64\nlengths = [64]", 2, "problem.batch", "goes without lengths"},
      {3, "sequence = 64\npadded_lengths = [64]", 4, "problem.padded_lengths", "needs lengths"},
      {10, "ranks = 0", 10, "parallel.ranks", "from 1 to 65536"},
      {10, "ranks = -8", 10, "parallel.ranks", "from 1 to 65536"},
      {10, "ranks = 1000000", 10, "parallel.ranks", "from 1 to 65536"},
      {10, "ranks = 300\nreplicas = 300", 11, "parallel.replicas", "at most 65536"},
      {10, "ranks = 2\nreplicas = 0", 11, "parallel.replicas", "from 1 to"},
      {10, "ranks = 2\ngroups = \"diagonal\"", 11, "parallel.groups", "\"consecutive\", \"strided\""},
      {10, "ranks = 2\ngroups = [[0, 1], [2, 3]]", 11, "parallel.groups", "holds 2 lists"},
      {10, "ranks = 2\ngroups = [[0, 1, 2]]", 11, "parallel.groups", "list 0 holds 3 ranks"},
      {10, "ranks = 2\ngroups = [[0, 0]]", 11, "parallel.groups", "rank 0 is there twice"},
      {10, "ranks = 2\ngroups = [[0, 2]]", 11, "parallel.groups", "names rank 2"},
      {10, "ranks = 2\ngroups = [0, 1]", 11, "parallel.groups", "list of lists"},
      {11, "algorithm = \"rnig\"", 11, "parallel.algorithm", "ring"},
      {12, "placement = \"zagzig\"", 12, "parallel.placement", "zigzag"},
      {12, "placement = \"hybrid\"\nhomes = [7, 0]", 13, "parallel.homes", "legal: 0 to"},
      {12, "placement = \"hybrid\"\nhomes = []", 13, "parallel.homes", "is empty"},
      {12, "placement = \"zigzag\"\nhomes = []", 13, "parallel.homes", "is empty"},
      {12, "placement = \"hybrid\"\nhomes = [4294967296]", 13, "parallel.homes", "at most 65536 ranks"},
      {12, "placement = \"hybrid\"\nhomes = [0, 0, 0, 0, 0]", 13, "parallel.homes", "one for each"},
      {12, "placement = \"hybrid\"\nhomes = 0", 13, "parallel.homes", "list of integers"},
      {12, "placement = \"zigzag\"\nhomes = [0]", 13, "parallel.homes", "hybrid"},
      {14, "kv_slot = 2", 14, "schedule.kv_slot", "kv_slots"},
      {14, "head_stride = 2", 14, "schedule.head_stride", "kv_slots"},  // of another algorithm
      {14, "kv_slots = 4", 14, "schedule.kv_slots", "legal: 2, 3, \"all\""},
      {14, "kv_slots = \"none\"", 14, "schedule.kv_slots", "legal: 2, 3, \"all\""},
      {14, "kv_slots = 2.5", 14, "schedule.kv_slots", "an integer or a word"},
      {14, "kv_slots = [2]", 14, "schedule.kv_slots", "an integer or a word"},
      {14, "merge = \"deferred\"\nout_slots = 2", 15, "schedule.out_slots", "\"all\""},
      {14, "kv_slots = 2\n[simulate]\ncollective_model = \"fast\"", 16, "simulate.collective_model", "curve"},
      {14, "kv_slots = 2\n[simulate]\nengine = \"ns3\"", 16, "simulate.engine", "simgrid"},
      {14, "kv_slots = 2\n[simulate]\ncuda_graph = 1", 16, "simulate.cuda_graph", "true or false"},
      {14, "kv_slots = 2\n[simulate]\nrun_ahead = 0", 16, "simulate.run_ahead", "from 1 to"},
      {14, "kv_slots = 2\n[simulate]\nrunahead = 1", 16, "simulate.runahead", "run_ahead"},
      {14, "kv_slots = 2\n[hardware]\nfile = \"hardware/h100x9.toml\"", 16, "hardware.file",
       "did you mean \"hardware/h100x8.toml\"?"},
      {14, "kv_slots = 2\n[hardware]\nname = \"h100x8\"", 16, "hardware.name", "file"},
      {14, "kv_slots = 2\nkv_slots = 3", 15, "not TOML", ""},
      {14, "kv_slots = = 2", 14, "not TOML", ""},
      {14, "problem = 1\n[problem]", 15, "not TOML", ""},
  };
  return all;
}

const std::vector<Bad>& bad_packed_lines() {  // with batch and sequence replaced by what stands in `text`
  static const std::vector<Bad> all{
      {0, "lengths = [64, 7]\npadded_lengths = [64, 6]", 3, "problem.padded_lengths", "shorter"},
      {0, "lengths = [64, 7]\npadded_lengths = [64]", 3, "problem.padded_lengths", "as many entries"},
      {0, "lengths = [64, -7]", 2, "problem.lengths", "from 0 to"},
      {0, "lengths = []", 2, "problem.lengths", "must hold"},
      {0, "lengths = 64", 2, "problem.lengths", "list of integers"},
      {0, "lengths = [64, \"x\"]", 2, "problem.lengths", "list of integers"},
      {0, "lengths = [64]\nformat = \"bshd\"", 3, "problem.format", "\"thd\""},
      {0, "lengths = [64]\nformat = \"sbhd\"", 3, "problem.format", "\"thd\""},
      {0, "lengths = [64]\nbatch = 1", 3, "problem.batch", "goes without lengths"},
      {0, "lengths = [64]\nsequence = 64", 3, "problem.sequence", "goes without lengths"},
  };
  return all;
}

void expect_bad(const std::string& text, const Bad& bad) {
  const TemporaryFolder folder;
  const std::string file = folder.write("bad.toml", text);
  const ProgramResult result = run_cplab({"check", file});
  CAPTURE(bad.text);
  CAPTURE(result.err);
  CHECK(result.code == 2);
  CHECK(result.out.empty());
  CHECK(result.err.find("cplab: " + file + ":" + std::to_string(bad.where) + ":") == 0);
  CHECK(result.err.find(" " + bad.key + ":") != std::string::npos);
  CHECK(result.err.find(bad.fragment) != std::string::npos);
}

void expect_usage(const std::vector<std::string>& arguments, const std::string& fragment) {
  const ProgramResult result = run_cplab(arguments);
  CAPTURE(arguments);
  CAPTURE(result.err);
  CHECK(result.code == 2);
  CHECK(result.err.find(fragment) != std::string::npos);
}

}  // namespace

TEST_CASE("the base of the bad scenarios is right") {
  const TemporaryFolder folder;
  const ProgramResult result = run_cplab({"check", folder.write("good.toml", with_line(0, ""))});
  CHECK(result.err == "");
  CHECK(result.code == 0);
}

TEST_CASE("bad scenario lines") {
  for (const Bad& bad : bad_lines()) expect_bad(with_line(bad.line, bad.text), bad);
}

TEST_CASE("bad packed scenarios") {
  for (const Bad& bad : bad_packed_lines()) {
    std::string text = "[problem]\n" + bad.text + "\n";
    for (std::size_t i = 3; i < base_lines.size(); ++i) text += base_lines[i] + "\n";
    expect_bad(text, bad);
  }
}

TEST_CASE("products that nobody can mean") {
  const TemporaryFolder folder;
  const std::string file = folder.write("good.toml", with_line(0, ""));
  expect_usage({"check", file, "--set", "problem.sequence=2G", "--set", "problem.batch=1M"},
               "more than 2147483648 tokens in all sequences together");
  expect_usage({"check", file, "--set", "problem.sequence=1G", "--set", "problem.heads=65536", "--set",
                "problem.head_size=65536"},
               "heads x (head_size + value_size) is 8589934592; at most 4194304");
  expect_usage(
      {"check", file, "--set", "problem.window=[9223372036854775807,0]"},
      "--set problem.window: a bound is 9223372036854775807; legal: a count of tokens up to 2147483648");
}

TEST_CASE("bad --set") {
  const TemporaryFolder folder;
  const std::string file = folder.write("good.toml", with_line(0, ""));
  expect_usage({"check", file, "--set", "problem.heads"}, "must be section.key=value");
  expect_usage({"check", file, "--set", "=8"}, "must be section.key=value");
  expect_usage({"check", file, "--set", "problem.haeds=8"},
               "--set problem.haeds: unknown key; did you mean \"heads\"?");
  expect_usage({"check", file, "--set", "heads=8"}, "--set heads: unknown key");
  expect_usage({"check", file, "--set", "problem.heads.x=8"}, "problem.heads is an integer, not a section");
  expect_usage({"check", file, "--set", "problem.heads=eight"}, "--set problem.heads: must be an integer");
  expect_usage({"check", file, "--set", "problem=8"}, "--set problem: must be a section");
  expect_usage({"check", file, "--set", "problem.window=[1,"},
               "--set problem.window: unterminated or malformed list: [1,");
  expect_usage({"check", file, "--set", "problem.dtype=\"fp32"}, "--set problem.dtype: unterminated");
  expect_usage({"check", file, "--set", "published.total=[1]"}, "--set published.total");
  expect_usage({"check", file, "--set", "schedule.kv_slots=9"}, "--set schedule.kv_slots: 9 is not legal");
  expect_usage({"check", file, "--set"}, "--set");
}

TEST_CASE("scenario files that are none") {
  const TemporaryFolder folder;
  expect_usage({"check", folder.path("missing.toml")}, "no such scenario");
  expect_usage({"check", "ring-smal.toml"}, "did you mean \"ring-small.toml\"?");
  expect_usage({"check", folder.path("")}, "is a directory");
  expect_usage({"check", folder.write("empty.toml", "")}, "empty.toml:1: problem.");
  expect_usage({"check", folder.write("binary.toml", std::string("\x7f"
                                                                 "ELF\0\1\2\xff\xfe",
                                                                 9))},
               "not TOML");
  expect_usage({"check"}, "SCENARIO is missing");
  expect_usage({"check", "a", "b"}, "b: one argument too many");
}

TEST_CASE("command lines that are wrong") {
  expect_usage({}, "usage: cplab");
  expect_usage({"simulat"}, "did you mean simulate?");
  expect_usage({"check", "--jsno", "-"}, "did you mean --json?");
  expect_usage({"check", "--jsno=x"}, "did you mean --json?");
  expect_usage({"check", "-x"}, "-x");
  expect_usage({"check", "--json"}, "--json");
  expect_usage({"check", "--json="}, "--json");
  expect_usage({"check", "--quiet=yes", "ring-small"}, "--quiet");
  expect_usage({"check", "ring-small", "--color", "blue"}, "Legal: auto always never");
  expect_usage({"check", "ring-small", "--seed", "x"}, "--seed x: must be an integer");
  expect_usage({"check", "ring-small", "--seed", "1", "--seed", "2"}, "--seed: given twice");
  expect_usage({"check", "ring-small", "--json", "-", "--csv", "-"}, "--json has stdout already");
  expect_usage({"list", "algorithm"}, "did you mean algorithms?");
  expect_usage({"reproduce", "te-p2p"}, "did you mean te-p2p-memory?");
  expect_usage({"show", "ring-small", "--rank", "4"}, "--rank 4: must be an integer from 0 to 3");
}

TEST_CASE("plan files that are wrong") {
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json");
  REQUIRE(run_cplab({"show", "faults/ring", "--json", plan, "--quiet"}).code == 0);
  REQUIRE(run_cplab({"check", "--plan", plan}).code == 0);
  const std::string text = read_file(plan);
  REQUIRE(text.size() > 10000);
  const std::string truncated = folder.write("truncated.json", text.substr(0, text.size() / 2));
  expect_usage({"check", "--plan", truncated}, truncated + ":");
  expect_usage({"check", "--plan", folder.write("empty.json", "")}, "empty.json");
  expect_usage({"check", "--plan", folder.write("list.json", "[]")}, "list.json");
  expect_usage({"check", "--plan", folder.write("garbage.json", "\x01\xff{")}, "garbage.json");
  expect_usage({"check", "--plan", folder.path("missing.json")}, "no such file");
  expect_usage({"check", "--plan", folder.path("")}, "is a directory");
  expect_usage({"check", "--plan", plan, "ring-small"}, "without SCENARIO");
  expect_usage({"check", "--plan", plan, "--set", "problem.heads=2"}, "as it is");
  // A reference to an operation that is not there names its place in the file.
  std::string dangling = text;
  const std::size_t after = dangling.find("\"0/forward/", dangling.find("\"after\": [\"") + 1);
  REQUIRE(after != std::string::npos);
  dangling.replace(after, 11, "\"9/forward/");
  expect_usage({"check", "--plan", folder.write("dangling.json", dangling)}, "/ranks/0/operations/");
}

// The strict TOML reader: types, sizes, --set, and messages that name file, line, key and what is legal.
#include "cli/files/toml_table.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "cli/vocabulary.hpp"

using cplab::InputError;
using cplab::Table;

namespace {

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

const char* const sample = R"([problem]
heads = 8
size = "128K"
big = "9007199254740992K"
list = [1, "2K", 3]
ratio = 0.5

[[kernel]]
seconds = 1e-3
[[kernel]]
seconds = 2
groups = [[0, 1], [2]]
)";

}  // namespace

TEST_CASE("toml values of every type") {
  const Table root = Table::parse(sample, "x.toml");
  const Table problem = root.table("problem");
  CHECK(problem.integer("heads") == 8);
  CHECK(problem.integer("size") == 128 * 1024);
  CHECK(problem.integer("absent", 5) == 5);
  CHECK(problem.integers("list") == std::vector<std::int64_t>{1, 2048, 3});
  CHECK(problem.number("ratio") == 0.5);
  CHECK(problem.number("heads") == 8.0);
  CHECK(problem.kind("size") == Table::Kind::text);
  CHECK(problem.kind("list") == Table::Kind::list);
  CHECK(problem.kind("nothing") == Table::Kind::missing);
  CHECK(problem.has("big"));
  const auto kernels = root.tables("kernel");
  REQUIRE(kernels.size() == 2);
  CHECK(kernels[0].number("seconds") == 1e-3);
  CHECK(kernels[1].number("seconds") == 2.0);
  CHECK(kernels[1].integer_lists("groups") == std::vector<std::vector<std::int64_t>>{{0, 1}, {2}});
  CHECK(root.tables("message").empty());
  CHECK(root.keys() == std::vector<std::string>{"problem", "kernel"});  // in the order of the file
  root.finish();
}

TEST_CASE("toml errors name file, line, key and what would be legal") {
  const Table root = Table::parse(sample, "x.toml");
  const Table problem = root.table("problem");
  CHECK(error_of([&] { problem.integer("ratio"); }) ==
        "x.toml:6: problem.ratio: must be an integer (or a size such as \"128K\"), but is a number with a "
        "fraction 0.5");
  CHECK(error_of([&] { problem.integer("big"); }) ==
        "x.toml:4: problem.big: \"9007199254740992K\" is beyond the 64-bit integers");
  CHECK(error_of([&] { problem.integer("batch"); }) ==
        "x.toml:1: problem.batch: missing; must be an integer (or a size such as \"128K\")");
  CHECK(error_of([&] { problem.text("heads"); }) ==
        "x.toml:2: problem.heads: must be text in quotes, but is an integer 8");
  CHECK(error_of([&] { problem.flag("heads", false); }) ==
        "x.toml:2: problem.heads: must be true or false, but is an integer 8");
  CHECK(error_of([&] { problem.number("list"); }) ==
        "x.toml:5: problem.list: must be a number, but is a list");
  CHECK(error_of([&] { root.tables("kernel")[1].integer("second"); }) ==
        "x.toml:10: kernel[1].second: missing; must be an integer (or a size such as \"128K\")");
  CHECK(error_of([&] { root.fail("problem.heads", "too many"); }) == "x.toml:2: problem.heads: too many");
  CHECK(error_of([&] { root.table("hardware").text("file"); }) ==
        "x.toml:1: hardware.file: missing; must be text in quotes");
  CHECK(error_of([&] { root.tables("problem"); }) ==
        "x.toml:1: problem: must be a list of tables, but is a table");
}

TEST_CASE("toml keys that nobody asked for") {
  const Table root =
      Table::parse("[problem]\nheads = 1\nhaeds = 2\naardvark = 3\n[shedule]\nx = 1\n", "x.toml");
  const Table problem = root.table("problem");
  (void)root.table("schedule");
  (void)problem.integer("heads");
  (void)problem.has("batch");
  CHECK(error_of([&] { problem.finish(); }) ==
        "x.toml:3: problem.haeds: unknown key; did you mean \"heads\"? Legal here: batch, heads");
  CHECK(error_of([&] { root.finish(); }) ==
        "x.toml:5: shedule: unknown section; did you mean \"schedule\"? Legal here: problem, schedule");
  // finish of the root also looks into the sections.
  const Table other = Table::parse("[a]\nb = 1\nc = 2\n", "y.toml");
  (void)other.table("a").integer("b");
  CHECK(error_of([&] { other.finish(); }) == "y.toml:3: a.c: unknown key. Legal here: b");
}

TEST_CASE("toml --set replaces, adds, and is named in errors") {
  Table root = Table::parse(sample, "x.toml");
  root.assign("problem.heads", "16");
  root.assign("problem.mask", "causal");
  root.assign("problem.size", "\"4M\"");
  root.assign("problem.list", "[4, 5]");
  root.assign("schedule.overlap", "false");
  root.assign("kernel.1.seconds", "7");
  const Table problem = root.table("problem");
  CHECK(problem.integer("heads") == 16);
  CHECK(problem.text("mask") == "causal");
  CHECK(problem.integer("size") == 4 << 20);
  CHECK(problem.integers("list") == std::vector<std::int64_t>{4, 5});
  CHECK_FALSE(root.table("schedule").flag("overlap", true));
  CHECK(root.tables("kernel")[1].number("seconds") == 7.0);
  CHECK(error_of([&] { problem.integer("mask"); }) ==
        "--set problem.mask: must be an integer (or a size such as \"128K\"), but is text \"causal\"");
  CHECK(error_of([&] { root.tables("kernel")[1].text("seconds"); }) ==
        "--set kernel[1].seconds: must be text in quotes, but is an integer 7");
  CHECK(error_of([&] { problem.text("ratio"); }) ==
        "x.toml:6: problem.ratio: must be text in quotes, but is a number with a fraction 0.5");
  CHECK(error_of([&] { root.assign("problem.heads.x", "1"); }) ==
        "--set problem.heads.x: problem.heads is an integer, not a section");
  CHECK(error_of([&] { root.assign("kernel.2.seconds", "1"); }) ==
        "--set kernel.2.seconds: after kernel comes a number from 0 to 1, then the key");
  CHECK(error_of([&] { root.assign("problem..x", "1"); }) == "--set problem..x: empty name in the key");
  root.assign("made.key", "1");  // a section that only --set knows
  CHECK(error_of([&] { root.fail("made", "unknown section"); }) == "--set made: unknown section");
  CHECK(error_of([&] { root.table("made").integer("other"); }) ==
        "x.toml:1: made.other: missing; must be an integer (or a size such as \"128K\")");
  root.assign("problem.colour", "1\n[hardware]\nfile=2");  // one value, never more TOML
  CHECK(root.table("problem").text("colour") == "1\n[hardware]\nfile=2");
}

TEST_CASE("toml files that are none") {
  const auto folder = std::filesystem::temp_directory_path() / "cplab_toml_table_test";
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(folder / name, std::ios::binary) << text;
    return (folder / name).string();
  };
  const std::string missing = (folder / "missing.toml").string();
  CHECK(error_of([&] { Table::open(missing); }) == missing + ": no such file");
  CHECK(error_of([&] { Table::open(folder.string()); }) == folder.string() + ": is a directory, not a file");
  const std::string empty = write("empty.toml", "");
  CHECK(error_of([&] { Table::open(empty).table("problem").integer("heads"); }) ==
        empty + ":1: problem.heads: missing; must be an integer (or a size such as \"128K\")");
  const std::string broken = write("broken.toml", "[problem]\nheads = = 3\n");
  CHECK(error_of([&] { Table::open(broken); }).find(broken + ":2:9: not TOML: ") == 0);
  std::string garbage;
  for (int i = 0; i < 4096; ++i) garbage += static_cast<char>((i * 2654435761U) >> 13);
  const std::string binary = write("binary.toml", garbage);
  CHECK(error_of([&] { Table::open(binary); }).find(binary + ":") == 0);
  const std::string deep = write("deep.toml", "x = " + std::string(100000, '['));
  CHECK(error_of([&] { Table::open(deep); }).find(deep + ":1: tables and lists stand more than 64") == 0);
  std::filesystem::remove_all(folder);
}

TEST_CASE("nearest word") {
  CHECK(cplab::nearest("rnig", {"ulysses", "ring", "all-gather"}) == "ring");
  CHECK(cplab::nearest("Zigzag", {"contiguous", "zigzag"}) == "zigzag");
  CHECK(cplab::nearest("x", {}).empty());
}

// Files that mean harm or were never meant: control characters, depth, pipes, devices, names with NUL.
#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <regex>

#include "cli/files/toml_nesting.hpp"
#include "tests/cli/program.hpp"

namespace {

bool is_printable(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\n' || (byte >= 0x20 && byte != 0x7F);
  });
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
  return text;
}

void expect_refused_input(const std::vector<std::string>& arguments, const std::string& fragment) {
  const ProgramResult result = run_cplab(arguments);
  CAPTURE(fragment);
  CAPTURE(result.err.substr(0, 500));
  CHECK(result.code == 2);
  CHECK(result.err.find(fragment) != std::string::npos);
  CHECK(is_printable(result.err));
  CHECK(result.err.size() < 20000);
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
}

const std::string hostile_base =
    "[problem]\nbatch = 1\nsequence = 8\nheads = 2\nkv_heads = 1\nhead_size = 2\ndtype = \"fp32\"\n"
    "mask = \"causal\"\n[parallel]\nranks = 2\nalgorithm = \"ring\"\n";

std::string repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

}  // namespace

TEST_CASE("control characters of scenario files reach no terminal") {
  const TemporaryFolder folder;
  const std::string escape = "\\u001b]0;x\\u0007\\u009b31m\\u007f\\nline\\u202e";  // as TOML writes them
  const auto with = [&](const std::string& line) {
    return folder.write("bad.toml", line + "\n" + hostile_base);
  };
  expect_refused_input({"check", with("\"" + escape + "\" = 1")},
                       "\\x1b]0;x\\x07\\u009b31m\\x7f\\nline\\u202e");
  const auto value = [&](const std::string& from, const std::string& to) {
    return folder.write("bad.toml", replaced(hostile_base, from, to));
  };
  expect_refused_input({"check", value("\"fp32\"", "\"" + escape + "\"")}, "problem.dtype: \"\\x1b]0;x");
  expect_refused_input({"check", value("heads = 2", "heads = \"" + escape + "\"")}, "must be an integer");
  expect_refused_input({"check", value("\"ring\"", "\"" + escape + "\"")}, "no algorithm \"\\x1b]0;x");
  expect_refused_input(
      {"check", folder.write("bad.toml", hostile_base + "[hardware]\nfile = \"" + escape + "\"\n")},
      "hardware.file: \"");
  expect_refused_input({"check", folder.write("bad.toml", "a = \"\x1b[31m\"\n")}, "not TOML");
  expect_refused_input({"check", folder.write("bad.toml", "# caf\xe9\n")}, "not TOML");
  expect_refused_input({"check", "no\x1b[31m\nsuch"}, "no\\x1b[31m\\nsuch");
  expect_refused_input({"check", "ring-small", "--set", "problem.h\x1b[2J=1"}, "problem.h\\x1b[2J");
  const std::string file = folder.write("\x1b[31mname.toml", "[problem]\n");
  expect_refused_input({"check", file}, "\\x1b[31mname.toml:1");
}

TEST_CASE("control characters of plan files reach no terminal, neither as text nor as JSON") {
  const TemporaryFolder folder;
  const std::string good = folder.path("plan.json");
  REQUIRE(run_cplab({"show", folder.write("s.toml", hostile_base), "--json", good, "--quiet"}).code == 0);
  const std::string text = read_file(good);
  const std::string escape = "\\u001b]0;x\\u0007\\u009b31m\\u007f\\nline";  // as JSON writes them
  // A buffer's name stands in the findings of a plan whose lanes do not wait for each other.
  std::string wrong = replaced(text, "\"kv_slots_backward\"", "\"" + escape + "\"");
  REQUIRE(wrong != text);
  wrong = std::regex_replace(wrong, std::regex("\"after\": \\[[^\\]]*\\]"), "\"after\": []");
  const std::string plan = folder.write("wrong.json", wrong);
  const ProgramResult shown = run_cplab({"check", "--plan", plan, "--color", "never"});
  CHECK(shown.code == 1);
  CHECK(shown.out.find("\\x1b]0;x\\x07\\u009b31m\\x7f\\nline") != std::string::npos);
  CHECK(is_printable(shown.out));
  const ProgramResult as_json = run_cplab({"check", "--plan", plan, "--json", "-"});
  CHECK(as_json.out.find("\\u001b]0;x\\u0007\\u009b31m\\u007f\\nline") != std::string::npos);
  CHECK(is_printable(as_json.out));
  // Our own colours still do.
  const ProgramResult colored = run_cplab({"check", "--plan", plan, "--color", "always"});
  CHECK(colored.out.find("\033[1;31m") != std::string::npos);
  CHECK(colored.out.find("\033]0;x") == std::string::npos);
  for (const char* key : {"\"ring\"", "\"zigzag\"", "\"attend\"", "\"cp0\"", "\"schema\""}) {
    const ProgramResult result =
        run_cplab({"check", "--plan", folder.write("key.json", replaced(text, key, "\"" + escape + "\""))});
    CAPTURE(key);
    CHECK(is_printable(result.out));
    CHECK(is_printable(result.err));
  }
}

TEST_CASE("TOML of any depth is refused with its line, and no legal file is") {
  const TemporaryFolder folder;
  const auto refuse = [&](const std::string& text, int line) {
    const std::string file = folder.write("deep.toml", text);
    expect_refused_input({"check", file},
                         "deep.toml:" + std::to_string(line) + ": tables and lists stand more than 64");
  };
  refuse("x = 1\na" + repeated(".a", 40000) + " = 1\n", 2);
  refuse("\n\n[a" + repeated(".a", 40000) + "]\n", 3);
  refuse("[[a" + repeated(".'a'", 40000) + "]]\n", 1);
  refuse("x = \"\"\"\n#[[[[\n\"\"\"\na" + repeated(" . \"a.b\"", 1000) + " = 1 = 2\n",
         4);  // and a mistake behind it
  refuse("x = " + repeated("[", 100000) + "\n", 1);
  refuse("x = " + repeated("{a.a.a.a=", 20) + "1" + repeated("}", 20) + "\n", 1);
  refuse("[a" + repeated(".a", 40) + "]\nb" + repeated(".b", 40) + " = 1\n", 2);
  refuse("x = [\n" + repeated("[\n", 70) + repeated("]\n", 70) + "]\n", 64);
  // Not TOML long before anything looks deep.
  expect_refused_input({"check", folder.write("deep.toml", "?\n\n\n\na" + repeated(".a", 1000) + " = 1\n")},
                       "deep.toml:1:1: not TOML");
  expect_refused_input({"check", "ring-small", "--set", "a" + repeated(".a", 40000) + "=1"},
                       "names in the key");
  expect_refused_input({"check", "ring-small", "--set", "problem.heads=" + repeated("[", 40000)}, "too deep");

  using cplab::line_nested_too_deep;
  const std::string dots = repeated(".", 1000), lists = repeated("[", 1000);
  for (const std::string& legal :
       {"x = \"" + dots + lists + "\"", "x = '" + dots + "'", "x = \"\\\"" + dots + "\"", "# " + dots + lists,
        "x = \"\"\"\n" + dots + "\n\\\"\"\" " + lists + "\"\"\"\"\"",
        "x = '''\n" + dots + "''" + lists + "'''''", "\"" + dots + "\".b = 1",
        repeated("[a.b.c]\nd.e = [[1.5, 2.5], [3.5]]\n", 1000), "x = [" + repeated("1.5,", 1000) + "]",
        "x = [\n" + repeated("[1.5], # [[[[ ...\n", 1000) + "]",
        "x = {" + repeated("a.b = 1.5, ", 1000) + "a.c = []}",
        "x = ''\ny = \"\"\nz" + repeated(".a", 60) + " = 1"}) {
    CAPTURE(legal.substr(0, 60));
    CHECK(line_nested_too_deep(legal + "\n") == 0);
  }
}

TEST_CASE("what is no regular file is refused at once") {
  const TemporaryFolder folder;
  const std::string pipe = folder.path("pipe.json");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const std::string local = folder.path("s");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  REQUIRE(local.size() < sizeof(address.sun_path));
  std::memcpy(address.sun_path, local.c_str(), local.size());
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  const std::string loop = folder.path("loop");
  std::filesystem::create_symlink(loop, loop);
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"check", "--plan"}, {"check"}, {"compare", "x"}}) {
    std::vector<std::string> arguments = command;
    if (command.size() == 2 && command[1] == "x") arguments.pop_back();
    const auto with = [&](const std::string& file) {
      std::vector<std::string> all = arguments;
      all.push_back(file);
      if (command[0] == "compare") all.push_back(file);
      return all;
    };
    expect_refused_input(with(pipe), "is a pipe, not a file");
    expect_refused_input(with("/dev/urandom"), "is a device, not a file");
    expect_refused_input(with("/dev/zero"), "is a device, not a file");
    expect_refused_input(with(folder.path("")), "is a directory");
    expect_refused_input(with(local), "is a socket, not a file");
    if (command.size() == 2) expect_refused_input(with(loop), "Too many levels of symbolic links");
  }
  close(listener);
  expect_refused_input(
      {"check",
       folder.write("nul.toml", hostile_base + "[hardware]\nfile = \"hardware/h100x8.toml\\u0000.x\"\n")},
      "hardware.file: a file name holds no NUL");
  const std::string inputs = folder.path("in");
  std::filesystem::create_directory(inputs);
  REQUIRE(mkfifo((inputs + "/q.npy").c_str(), 0600) == 0);
  expect_refused_input({"verify", folder.write("s.toml", hostile_base), "--inputs", inputs},
                       "q.npy: is not a file");
}

TEST_CASE("nightly: the longest problems are simulated to an end") {
  // Kernels of hours in millions of waves, on a clock of doubles.
  for (const char* tokens : {"problem.sequence=16M", "problem.sequence=2G"}) {
    const ProgramResult result =
        run_cplab({"simulate", some_scenario, "--quiet", "--set", "problem.batch=1", "--set", tokens});
    CHECK(result.err == "");
    CHECK(result.code == 0);
  }
}

TEST_CASE("names of a megabyte neither fill the screen nor take minutes") {
  const TemporaryFolder folder;
  const std::string name(1 << 20, 'x');
  expect_refused_input({"check", folder.write("long.toml", "[problem]\n" + name + " = 1\n")}, "unknown key");
  expect_refused_input({"check", folder.write("long.toml", replaced(hostile_base, "fp32", name))},
                       "problem.dtype");
  expect_refused_input({"check", folder.write("long.toml", name + "\n")}, "not TOML");
  expect_refused_input({"check", "--plan", folder.write("long.json", "{\"" + name + "\": 1}")},
                       "unknown key");
  expect_refused_input({"check", "--plan", folder.write("long.json", "[\"" + name)}, "no JSON");
}

// The program itself as a shell starts it: output files on full disks and under signals, standard output that
// is closed or full, and the exit codes of both.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

using cplab::testing::contains;

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

struct Ended {
  int status = 0;  // as waitpid gives it
  std::string out, err;
  int code() const { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }
  int signal() const { return WIFSIGNALED(status) ? WTERMSIG(status) : 0; }
};

// Starts the program in `folder` after `prepare` has changed the new process; its streams go to files there
// unless `prepare` sends them elsewhere.
pid_t start(const TemporaryFolder& folder, const Words& arguments, const std::function<void()>& prepare) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child > 0) return child;
  ::setenv("CPLAB_SCENARIOS", CPLAB_TEST_SCENARIOS, 1);
  ::dup2(::open(folder.path("stdout").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
  ::dup2(::open(folder.path("stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
  for (const int number : {SIGINT, SIGTERM, SIGPIPE}) std::signal(number, SIG_DFL);
  if (prepare) prepare();
  std::vector<char*> argv{const_cast<char*>(CPLAB_TEST_PROGRAM)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(CPLAB_TEST_PROGRAM, argv.data());
  ::_exit(127);
}

Ended wait_for(pid_t child, const TemporaryFolder& folder) {
  Ended ended;
  ::waitpid(child, &ended.status, 0);
  ended.out = read_file(folder.path("stdout"));
  ended.err = read_file(folder.path("stderr"));
  return ended;
}

Ended run(const TemporaryFolder& folder, const Words& arguments, const std::function<void()>& prepare = {}) {
  return wait_for(start(folder, arguments, prepare), folder);
}

void limit_files() {  // as a full disk, for whoever need not be root
  const rlimit limit = {600, 600};
  ::setrlimit(RLIMIT_FSIZE, &limit);
}

void stdout_to(const char* path) {
  ::dup2(::open(path, O_WRONLY), 1);
}

// Names of the folder, the program's own streams apart.
Words names(const TemporaryFolder& folder, const std::string& sub = "") {
  Words all;
  for (const auto& entry : fs::directory_iterator(folder.path(sub))) {
    const std::string name = entry.path().filename().string();
    if (name != "stdout" && name != "stderr") all.push_back(name);
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

TEST_CASE("a full or closed standard output is said and exits 3") {
  const TemporaryFolder folder;
  for (const Words& arguments :
       {Words{"show", "ring-small", "--quiet"}, Words{"list"}, Words{"--help"}, Words{"--version"},
        Words{"check", "--help"}, Words{"check", "ring-small", "--json", "-"},
        Words{"check", "ring-small", "--csv", "-"}}) {
    CAPTURE(arguments.back());
    const Ended full = run(folder, arguments, [] { stdout_to("/dev/full"); });
    CHECK(full.code() == 3);
    CHECK(full.err == "cplab: standard output: No space left on device\n");
    const Ended closed = run(folder, arguments, [] { ::close(1); });
    CHECK(closed.code() == 3);
    CHECK(closed.err == "cplab: standard output: Bad file descriptor\n");
  }
  // A finding stays a finding.
  const Ended wrong =
      run(folder, {"verify", "faults/ring", "--inject", "drop-wait"}, [] { stdout_to("/dev/full"); });
  CHECK(wrong.code() == 1);
  CHECK(contains(wrong.err, "standard output: No space left on device"));
}

TEST_CASE("a file that the program opens does not become its closed standard output") {
  const TemporaryFolder folder;
  const Ended ended = run(folder, {"check", "ring-small", "--json", folder.path("a.json")}, [] {
    for (const int descriptor : {0, 1}) ::close(descriptor);
  });
  CHECK(ended.code() == 3);
  CHECK(nlohmann::json::parse(read_file(folder.path("a.json"))).at("ok") == true);
}

TEST_CASE("whoever reads no further ends the program quietly, as SIGPIPE does") {
  const TemporaryFolder folder;
  const auto to_nobody = [] {
    int ends[2] = {};
    if (::pipe(ends) != 0) ::_exit(126);
    ::dup2(ends[1], 1);
    for (const int end : ends) ::close(end);
  };
  const Ended ended = run(folder, {"list", "--json", folder.path("a.json")}, to_nobody);
  CHECK(ended.signal() == SIGPIPE);  // 141 in a shell
  CHECK(ended.err.empty());
  for (const std::string& name : names(folder)) CHECK(name == "a.json");
  // Who ignores the signal hears of it.
  const Ended ignored = run(folder, {"list"}, [&] {
    to_nobody();
    std::signal(SIGPIPE, SIG_IGN);
  });
  CHECK(ignored.code() == 3);
  CHECK(ignored.err == "cplab: standard output: Broken pipe\n");
}

TEST_CASE("a full disk is exit 3 with path and reason, and leaves what was there") {
  const TemporaryFolder folder;
  const std::string old = folder.write("old", "old");
  for (const Words& arguments : {Words{"check", "ring-small", "--json", old},
                                 Words{"show", "ring-small", "--csv", old, "--rank", "all", "--quiet"},
                                 Words{"simulate", some_scenario, "--json", old, "--quiet"}}) {
    CAPTURE(arguments.front());
    const Ended ended = run(folder, arguments, [] {
      stdout_to("/dev/null");
      limit_files();
    });
    CHECK(ended.code() == 3);
    CHECK(ended.err == "cplab: " + old + ": cannot be written: File too large\n");
    CHECK(read_file(old) == "old");
    CHECK(names(folder) == Words{"old"});
  }
  const Ended device = run(folder, {"check", "ring-small", "--json", "/dev/full"});
  CHECK(device.code() == 3);
  CHECK(contains(device.err, "cplab: /dev/full: cannot be written: No space left on device\n"));

  folder.write("kept/out.npy", "old");
  const auto small = [] {
    stdout_to("/dev/null");
    limit_files();
  };
  const Ended saved = run(folder, {"verify", "ring-small", "--save", folder.path("kept")}, small);
  CHECK(saved.code() == 3);
  CHECK(contains(saved.err, "kept/out.npy: cannot be written: File too large"));
  CHECK_FALSE(std::filesystem::exists(folder.path("kept/lse.npy")));
  CHECK(read_file(folder.path("kept/out.npy")) == "old");
  const Ended traced =
      run(folder, {"simulate", some_scenario, "--trace", folder.path("kept"), "--quiet"}, small);
  CHECK(traced.code() == 3);
  CHECK(contains(traced.err, "rank0_trace.json: cannot be written: File too large"));
  CHECK_FALSE(std::filesystem::exists(folder.path("kept/rank0_trace.json")));
}

TEST_CASE("paths are tried before the work") {
  const TemporaryFolder folder;
  const std::string file = folder.write("file", "old");
  // The work would be minutes: verifying this scenario takes them.
  const auto refused = [&](const std::string& option, const std::string& path, const std::string& reason) {
    const ProgramResult result =
        run_cplab({"verify", "ring-small", "--set", "problem.sequence=16K", "--" + option, path});
    CAPTURE(path);
    CHECK(result.code == 3);
    CHECK(result.out.empty());
    CHECK(contains(result.err, "--" + option + " " + path));
    CHECK(contains(result.err, reason));
  };
  for (const char* option : {"json", "csv"}) {
    refused(option, folder.path("none/a"), "cannot be written: there is no folder " + folder.path("none"));
    refused(option, folder.path(""), "it is a folder, not a file");
    refused(option, file + "/a", "cannot be written: Not a directory");
    refused(option, "/proc/cplab.json", "cannot be written: in the folder /proc");
  }
  refused("save", file, "is not a folder");
  refused("save", file + "/deep", "is not a folder");
  fs::create_directories(folder.path("set/dv.npy"));
  CHECK(contains(run_cplab({"verify", "ring-small", "--save", folder.path("set")}).err,
                 "dv.npy: cannot be written: it is a folder"));
  const ProgramResult traced = run_cplab({"simulate", some_scenario, "--trace", file});
  CHECK(traced.code == 3);
  CHECK(contains(traced.err, "is not a folder"));
  CHECK(run_cplab({"verify", "ring-small", "--save", ""}).code == 2);
  CHECK(run_cplab({"simulate", some_scenario, "--trace", ""}).code == 2);
  const ProgramResult twice =
      run_cplab({"check", "ring-small", "--json", folder.path("a"), "--csv", folder.path("set/../a")});
  CHECK(twice.code == 2);
  CHECK(contains(twice.err, "--json writes to that file"));
  CHECK(read_file(file) == "old");
  CHECK(names(folder) == Words{"file", "set"});
}

TEST_CASE("/dev/stdout is what - is") {
  const TemporaryFolder folder;
  const Ended ended = run(folder, {"check", "ring-small", "--json", "/dev/stdout"});
  CHECK(ended.code() == 0);
  CHECK(nlohmann::json::parse(ended.out).at("ok") == true);
}

// At whatever moment it comes: before, within and after the writing of each file.
TEST_CASE("long: a signal at any moment leaves whole files only, and is what the shell sees") {
  const TemporaryFolder folder;
  const Words arguments{"simulate", some_scenario,         "--json", folder.path("a.json"), "--operations",
                        "--trace",  folder.path("traces"), "--quiet"};
  const auto begun = std::chrono::steady_clock::now();
  REQUIRE(run(folder, arguments).code() == 0);
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begun;
  const std::string result = read_file(folder.path("a.json"));
  const Words files = names(folder), traces = names(folder, "traces");
  const std::string trace = read_file(folder.path("traces/rank0_trace.json"));
  int interrupted = 0;
  constexpr int moments = 24;
  for (int moment = 0; moment < moments; ++moment) {
    CAPTURE(moment);
    const bool afresh = moment % 2 == 0;
    const int number = moment % 4 < 2 ? SIGTERM : SIGINT;
    for (const std::string& name : Words{"a.json", "traces"})
      if (afresh) fs::remove_all(folder.path(name));
    const pid_t child = start(folder, arguments, {});
    std::this_thread::sleep_for(whole * (moment + 1) / moments);
    ::kill(child, number);
    const Ended ended = wait_for(child, folder);
    if (ended.signal() != 0) {
      CHECK(ended.signal() == number);
      ++interrupted;
    } else {
      CHECK(ended.code() == 0);
    }
    CHECK(ended.err.empty());
    if (fs::exists(folder.path("a.json"))) CHECK(read_file(folder.path("a.json")) == result);
    for (const std::string& name : names(folder)) CHECK(std::count(files.begin(), files.end(), name) == 1);
    if (!fs::exists(folder.path("traces"))) continue;
    const Words there = names(folder, "traces");
    CHECK((there.empty() || there == traces));
    if (!there.empty()) CHECK(read_file(folder.path("traces/rank0_trace.json")) == trace);
  }
  CHECK(interrupted > 0);
}

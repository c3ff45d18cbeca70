// scripts/ranks.sh: what its processes are given, its exit code, and that none of them outlives it.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <thread>

#include "tests/empty_folder.hpp"
#include "tests/exec/processes.hpp"

namespace cplab {
namespace {

namespace fs = std::filesystem;
using processes::now_s;

std::string ranks_command(int world, const std::string& program) {
  return std::string(CPLAB_RANKS_SCRIPT) + " " + std::to_string(world) + " bash -c '" + program + "'";
}

int run_command(const std::string& command) {
  const int status = std::system((command + " 2>/dev/null").c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// A process that has ended but that nobody has waited for yet has ended all the same.
bool alive(pid_t process) {
  if (process <= 0) return false;
  const std::string stat = read_text("/proc/" + std::to_string(process) + "/stat");
  const auto name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.at(name_end + 2) != 'Z';
}

// Files pid-* of the folder hold one process id each.
std::set<pid_t> recorded(const fs::path& folder) {
  std::set<pid_t> all;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with("pid-"))
      if (const std::string text = read_text(entry.path()); !text.empty())
        all.insert(static_cast<pid_t>(std::stol(text)));
  return all;
}

void check_none_left(const fs::path& folder, std::size_t expected) {
  const std::set<pid_t> all = recorded(folder);
  CHECK(all.size() == expected);
  const double deadline = now_s() + 2;  // for the kernel to end what was just killed
  for (const pid_t process : all) {
    while (alive(process) && now_s() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    CHECK_FALSE(alive(process));
  }
}

// Each process and a child of it, both recorded, sleep.
std::string sleepers(const fs::path& folder) {
  const std::string pid = folder.string() + "/pid-$RANK";
  return "sleep 60 & echo $! >" + pid + "-child; echo $$ >" + pid + "; ";
}

TEST_CASE("ranks.sh gives each process its rank and one place to meet") {
  const testing::EmptyFolder folder;
  const std::string out = folder.path.string();
  CHECK(run_command(ranks_command(3, "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE >" + out +
                                         "/$RANK; echo $MASTER_ADDR $MASTER_PORT $TORCHELASTIC_RUN_ID >" +
                                         out + "/at-$RANK")) == 0);
  for (int rank = 0; rank < 3; ++rank) {
    const std::string number = std::to_string(rank);
    CHECK(read_text(folder.path / number) == number + " 3 " + number + " 3\n");
    const std::string place = read_text(folder.path / ("at-" + number));
    CHECK(place.starts_with("127.0.0.1 "));
    CHECK(place == read_text(folder.path / "at-0"));
  }
}

TEST_CASE("ranks.sh gives all processes one launch token, another in each launch, or the one it was given") {
  const testing::EmptyFolder folder;
  const std::string out = folder.path.string();
  ::unsetenv("CPLAB_TOKEN");
  for (const char* launch : {"a", "b"})
    CHECK(run_command(ranks_command(2, std::string("echo $CPLAB_TOKEN >") + out + "/" + launch + "$RANK")) ==
          0);
  CHECK(read_text(folder.path / "a0").size() == 33);  // 16 bytes in hexadecimal digits, and a line feed
  CHECK(read_text(folder.path / "a0") == read_text(folder.path / "a1"));
  CHECK(read_text(folder.path / "b0") == read_text(folder.path / "b1"));
  CHECK(read_text(folder.path / "a0") != read_text(folder.path / "b0"));
  CHECK(run_command("CPLAB_TOKEN=mine-mine-mine-mine " +
                    ranks_command(1, "echo $CPLAB_TOKEN >" + out + "/given")) == 0);
  CHECK(read_text(folder.path / "given") == "mine-mine-mine-mine\n");
}

TEST_CASE("ranks.sh fails as the first process that failed, and kills the others") {
  const testing::EmptyFolder folder;
  const double start_s = now_s();
  // Rank 0 ends well, rank 2 fails, the others would stay; rank 1 ignores the polite signal.
  const std::string program = sleepers(folder.path) +
                              "case $RANK in 0) exit 0;; 2) sleep 0.3; exit 7;; 1) trap : TERM;; esac; "
                              "while :; do wait; done";
  CHECK(run_command(ranks_command(4, program)) == 7);
  CHECK(now_s() - start_s < 20);
  check_none_left(folder.path, 8);
}

TEST_CASE("ranks.sh takes its processes along when it is signalled or killed") {
  for (const int signal : {SIGTERM, SIGINT, SIGKILL}) {
    CAPTURE(signal);
    // Killed, the script cannot end what its processes have started, only (through the kernel) them.
    if (signal == SIGKILL && std::system("command -v setpriv >/dev/null") != 0) continue;
    const testing::EmptyFolder folder;
    const std::string program = signal == SIGKILL
                                    ? "echo $$ >" + folder.path.string() + "/pid-$RANK; exec sleep 60"
                                    : sleepers(folder.path) + "wait";
    const std::size_t expected = signal == SIGKILL ? 2 : 4;
    const pid_t script = ::fork();
    REQUIRE(script >= 0);
    if (script == 0) {
      ::execl(CPLAB_RANKS_SCRIPT, CPLAB_RANKS_SCRIPT, "2", "bash", "-c", program.c_str(), nullptr);
      ::_exit(127);
    }
    const double deadline = now_s() + 10;
    while (recorded(folder.path).size() < expected && now_s() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ::kill(script, signal);
    int status = 0;
    ::waitpid(script, &status, 0);
    if (signal == SIGKILL)
      CHECK(WIFSIGNALED(status));
    else
      CHECK(WEXITSTATUS(status) == 128 + signal);
    check_none_left(folder.path, expected);
  }
}

TEST_CASE("ranks.sh refuses what is no count") {
  for (const char* arguments : {"", " 2", " 0 true", " -1 true", " two true"})
    CHECK(run_command(CPLAB_RANKS_SCRIPT + std::string(arguments)) == 2);
}

}  // namespace
}  // namespace cplab

// See terminal.hpp.
#include "tests/cli/terminal.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "cli/program.hpp"

bool has_terminals() {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  char name[64];
  const bool there =
      terminal >= 0 && ::ptsname_r(terminal, name, sizeof name) == 0 && ::access(name, F_OK) == 0;
  if (terminal >= 0) ::close(terminal);
  if (!there) MESSAGE("no pseudo-terminals here: left out");
  return there;
}

Terminal on_terminal(const std::vector<std::string>& arguments, const TerminalSetting& setting) {
  winsize size{};
  size.ws_col = setting.columns;
  size.ws_row = 24;
  int terminal = -1;
  std::fflush(nullptr);  // what is buffered would be written by both
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  REQUIRE(child >= 0);
  if (child == 0) {
    setenv("CPLAB_SCENARIOS", CPLAB_TEST_SCENARIOS, 1);
    unsetenv("COLUMNS");
    for (const auto& [name, value] : setting.environment) setenv(name.c_str(), value.c_str(), 1);
    std::vector<const char*> argv{"cplab"};
    for (const std::string& argument : arguments) argv.push_back(argument.c_str());
    const int code = cplab::run_program(static_cast<int>(argv.size()), argv.data(), std::cout, std::cerr);
    std::cout.flush();
    _exit(code);
  }
  Terminal result;
  if (!setting.typed.empty())
    REQUIRE(write(terminal, setting.typed.data(), setting.typed.size()) == std::ssize(setting.typed));
  std::array<char, 4096> chunk{};
  for (ssize_t n = 0; (n = read(terminal, chunk.data(), chunk.size())) > 0;)
    result.text.append(chunk.data(), static_cast<std::size_t>(n));
  close(terminal);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
  return result;
}

// The whole program in-process: arguments in, exit code and both streams out; and a folder for files.
#pragma once

#include <string>
#include <vector>

#include "tests/empty_folder.hpp"

// A scenario that is shipped and names a machine, for tests of what is the same with every scenario.
inline constexpr const char* some_scenario = "ring";

struct ProgramResult {
  int code = -1;
  std::string out, err;
};

// cplab with these arguments; CPLAB_SCENARIOS is the repository's scenarios/.
ProgramResult run_cplab(const std::vector<std::string>& arguments);

// Text for people with its paragraphs in one line each: lines that go on begin with two blanks.
std::string unfolded(const std::string& text);

// A folder of its own that is removed at the end.
class TemporaryFolder {
 public:
  std::string path(const std::string& name) const { return (folder_.path / name).string(); }
  std::string write(const std::string& name, const std::string& text) const;  // returns the path

 private:
  cplab::testing::EmptyFolder folder_;
};

std::string read_file(const std::string& path);

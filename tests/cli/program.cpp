// The program under test and its files.
#include "tests/cli/program.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "cli/program.hpp"

ProgramResult run_cplab(const std::vector<std::string>& arguments) {
  setenv("CPLAB_SCENARIOS", CPLAB_TEST_SCENARIOS, 1);
  std::vector<const char*> argv{"cplab"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out, err;
  ProgramResult result;
  result.code = cplab::run_program(static_cast<int>(argv.size()), argv.data(), out, err);
  result.out = out.str();
  result.err = err.str();
  return result;
}

std::string TemporaryFolder::write(const std::string& name, const std::string& text) const {
  const std::string file = path(name);
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  std::ofstream(file, std::ios::binary) << text;
  return file;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

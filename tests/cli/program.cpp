// The program under test and its files.
#include "tests/cli/program.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/program.hpp"
#include "tests/cli/schema_check.hpp"

namespace {

// What --json wrote, by its schema.
void check_schema(const std::vector<std::string>& arguments, const ProgramResult& result) {
  const auto option = std::find(arguments.begin(), arguments.end(), "--json");
  if (result.code > 1 || option == arguments.end() || option + 1 == arguments.end()) return;
  const std::string& file = *(option + 1);
  const std::string text = file == "-" ? result.out : read_file(file);
  const nlohmann::json parsed = nlohmann::json::parse(text, nullptr, false);
  if (!parsed.is_discarded()) check_result_schema(parsed);
}

}  // namespace

ProgramResult run_cplab(const std::vector<std::string>& arguments) {
  setenv("CPLAB_SCENARIOS", CPLAB_TEST_SCENARIOS, 1);
  std::vector<const char*> argv{"cplab"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out, err;
  ProgramResult result;
  result.code = cplab::run_program(static_cast<int>(argv.size()), argv.data(), out, err);
  result.out = out.str();
  result.err = err.str();
  check_schema(arguments, result);
  return result;
}

std::string unfolded(const std::string& text) {
  std::string joined;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.compare(at, 3, "\n  ") == 0)
      at += 2, joined += ' ';
    else
      joined += text[at];
  }
  return joined;
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

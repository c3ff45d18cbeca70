// The program's JSON; see json_program.hpp.
#include "tests/cli/json_program.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

nlohmann::json reproduced(const std::string& name, const std::vector<std::string>& sets) {
  std::vector<std::string> arguments{"reproduce", name, "--json", "-"};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  const ProgramResult result = run_cplab(arguments);
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  return nlohmann::json::parse(result.out);
}

std::map<std::string, nlohmann::json> by_label(const nlohmann::json& report) {
  std::map<std::string, nlohmann::json> rows;
  for (const nlohmann::json& row : report.at("rows")) rows[row.at("label")] = row;
  REQUIRE(rows.size() == report.at("rows").size());  // no label twice
  return rows;
}

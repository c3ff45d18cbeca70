// The program's JSON; see json_program.hpp.
#include "tests/cli/json_program.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

nlohmann::json json_of(std::vector<std::string> arguments, int code) {
  arguments.insert(arguments.end(), {"--json", "-"});
  const ProgramResult result = run_cplab(arguments);
  CAPTURE(arguments);
  CAPTURE(result.err);
  REQUIRE(result.code == code);
  nlohmann::json parsed = nlohmann::json::parse(result.out, nullptr, false);
  REQUIRE_FALSE(parsed.is_discarded());
  return parsed;
}

nlohmann::json reproduced(const std::string& name, const std::vector<std::string>& sets) {
  std::vector<std::string> arguments{"reproduce", name};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  return json_of(arguments);
}

std::map<std::string, nlohmann::json> by_label(const nlohmann::json& report) {
  std::map<std::string, nlohmann::json> rows;
  for (const nlohmann::json& row : report.at("rows")) rows[row.at("label")] = row;
  REQUIRE(rows.size() == report.at("rows").size());  // no label twice
  return rows;
}

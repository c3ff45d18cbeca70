// Results of the program as JSON, in-process.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

// What the program writes to stdout with --json -, which holds nothing else; the exit code must be `code`.
nlohmann::json json_of(std::vector<std::string> arguments, int code = 0);

// `cplab reproduce NAME --json -`, with --set before each of `sets`; it must succeed.
nlohmann::json reproduced(const std::string& name, const std::vector<std::string>& sets = {});

// The rows of a report by their labels, of which none is there twice.
std::map<std::string, nlohmann::json> by_label(const nlohmann::json& report);

// A reproduction in-process, and what it says as JSON.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

// `cplab reproduce NAME --json -`, with --set before each of `sets`; it must succeed.
nlohmann::json reproduced(const std::string& name, const std::vector<std::string>& sets = {});

// The rows of a report by their labels, of which none is there twice.
std::map<std::string, nlohmann::json> by_label(const nlohmann::json& report);

// A validator for the part of JSON Schema (2020-12) that the program's schemas use; a keyword that it does
// not know is an error of the schema.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

// What is wrong with `value`, a sentence each with the place in it ("$.ranks[3].time_s"); at most a few.
std::vector<std::string> schema_errors(const nlohmann::json& schema, const nlohmann::json& value);

// Holds a result of the program against the schema of its command; doctest checks that nothing is wrong. Of a
// result with a schema that no command has (lines of a sweep, traces), nothing.
void check_result_schema(const nlohmann::json& result);

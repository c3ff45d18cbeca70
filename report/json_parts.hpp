// Pieces that several JSON results have in common.
#pragma once

#include <optional>
#include <string_view>

#include "plan/plan.hpp"
#include "report/json_reader.hpp"
#include "report/json_writer.hpp"
#include "report/results.hpp"

namespace cplab {

// Opens the result's object, which the caller ends, with its schema ("cplab.SCHEMA.1"), command and versions.
void begin_result(JsonWriter&, std::string_view schema, std::string_view command, const Versions&);

// The same, with scenario and given.
void begin_result(JsonWriter&, std::string_view schema, std::string_view command, const ResultHeader&);

// The members versions and given.
void write_versions(JsonWriter&, const Versions&);
void write_given(JsonWriter&, const Given&);
// Of a result; nothing: it is older than 0.2.0. Throws JsonFileError.
Versions read_versions(const JsonNode& result);
std::optional<Given> read_given(const JsonNode& result);

// The members chain and origins.
void write_chain(JsonWriter&, const ChainShares&);
void write_origins(JsonWriter&, const OriginShares&);

// The member lane: {kind, index}.
void write_lane(JsonWriter&, Lane);

}  // namespace cplab

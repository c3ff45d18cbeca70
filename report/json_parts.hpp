// Pieces that several JSON results have in common.
#pragma once

#include <string_view>

#include "plan/plan.hpp"
#include "report/json_writer.hpp"
#include "report/results.hpp"

namespace cplab {

// Opens the result's object, which the caller ends, with its schema ("cplab.SCHEMA.1"), command and versions.
void begin_result(JsonWriter&, std::string_view schema, std::string_view command, const Versions&);

// The member lane: {kind, index}.
void write_lane(JsonWriter&, Lane);

}  // namespace cplab

// Members that the lines of a sweep and its JSON result have in common.
#pragma once

#include "report/json_writer.hpp"
#include "report/sweep.hpp"

namespace cplab {

// Each writes members of an object that is open.
void write_keys(JsonWriter&, std::string_view key, const SweepKeys&);
void write_nearest(JsonWriter&, const std::optional<std::string>&);
void write_study(JsonWriter&, const SweepStudy&);
void write_point(JsonWriter&, const SweepPoint&);

}  // namespace cplab

// A resolved scenario as JSON, in the words of the scenario file: {problem, parallel, schedule, ...}.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "plan/problem.hpp"
#include "report/json_reader.hpp"
#include "report/json_writer.hpp"
#include "report/results.hpp"

namespace cplab {

// The keys of [problem] and of [parallel], in a scenario file and here.
const std::vector<std::string>& problem_keys();
const std::vector<std::string>& parallel_keys();

// The value only; the caller has written the key. A dense problem has batch and sequence, a packed one
// lengths and padded_lengths. `sections` follow.
void write_scenario(JsonWriter&, const Scenario&, std::span<const ScenarioSection> sections);

// Reads what write_scenario writes; sections other than problem, parallel and schedule are skipped. Checks
// what a reader of plans relies on: sizes in range, kv_heads divides heads, groups a partition of the world.
// Names of algorithm, placement and options are taken as they are. Throws JsonFileError.
Scenario read_scenario(const JsonNode&);
// The sections of the same value that read_scenario skips.
std::vector<ScenarioSection> read_sections(const JsonNode&);

}  // namespace cplab

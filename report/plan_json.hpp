// A plan as JSON: what `show --json` writes and `check --plan` reads. Reading gives back what was written,
// with equal views, accesses and segments stored once.
//
//   {schema: "cplab.plan.1", command: "show", versions, scenario: {problem, parallel, schedule, ...},
//    given (may be left out), defaults: [{choice, value, rule}] (may be left out), placement_padding_tokens,
//    groups: [{name, ranks}],
//    ranks: [{rank, replica, position, arena_bytes,
//             buffers: [{name, role, category, layout, axes: [{name, size}], planes, bytes, offset}],
//             operations: [{id, phase, step, lane: {kind, index}, kind, transport, channels (0: left out),
//             group (null: none),
//                           reduction (all_reduce), value (fill, attend, attend_backward),
//                           reads: [{buffer, box}], writes: [{buffer, box, mode}],
//                           parts: [{send, peer, view: {buffer, box}}],
//                           segments: [{q: [begin, count], k: [begin, count], offset, left, right}],
//                           heads: [begin, end], after: [ids], flops, bytes}]}]}
//
// A box is {slot: [begin, end], rows: [[begin, count, step], ...], heads: [begin, end], width: [begin, end]}.
// A fill with a value that JSON has no number for has the string "inf", "-inf" or "nan".
#pragma once

#include <iosfwd>
#include <stdexcept>
#include <string>

#include "plan/plan.hpp"
#include "report/json_reader.hpp"
#include "report/results.hpp"

namespace cplab {

// The file is no plan: exit code 2. what() is complete: "FILE:LINE:COLUMN: message" where it is no JSON, else
// "FILE: PATH: message" with the JSON path (/ranks/0/operations/3/after/0) and what would be legal.
using PlanFileError = JsonFileError;

// What was taken because nobody chose otherwise: an option or another choice, its value, the rule in words.
struct PlanDefault {
  std::string choice;
  OptionValue value;
  std::string rule;
};

// Streams: no tree is built. `sections` are written into the scenario after `schedule`, `given` after it, and
// then the defaults, of which readers make nothing.
void write_plan_json(std::ostream&, const Plan&, const Versions&,
                     std::span<const ScenarioSection> sections = {}, const Given* given = nullptr,
                     std::span<const PlanDefault> defaults = {});

// `text` is the whole file; `file_name` is for messages only. Throws PlanFileError for anything that is not a
// plan: syntax, missing or unknown keys, wrong types, unknown words, references to nothing (buffer,
// operation, peer, group), a scenario that cannot be. Whether the plan is right is the checker's business,
// and so are boxes outside their buffer, operands that an operation does not take, edges that are missing or
// make a circle, buffers that share bytes.
// `sections`, where asked for, get those of the scenario that a plan does not depend on.
Plan read_plan_json(const std::string& text, const std::string& file_name,
                    std::vector<ScenarioSection>* sections = nullptr);

}  // namespace cplab

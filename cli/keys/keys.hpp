// The table of keys of everything that a user writes: scenarios, studies, hardware files. Its rows for
// [problem] and [parallel] are report's, those of [schedule] the algorithms' own
// (algorithms/core/algorithm.hpp).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/scenario_keys.hpp"

namespace cplab {

// The rows of one section: "problem", "parallel", "simulate", "model", "training", "hardware" (the key of a
// scenario and what hardware files hold), "study"; none for another.
std::span<const KeyInfo> key_table(std::string_view section);
// Sections in the order in which people meet them, without [schedule].
std::span<const std::string_view> key_sections();
// The row of "problem.mask"; null: there is none. Places in lists are left out: "hardware.kernel.2.seconds"
// and "simulate.slow[0].rank" have the rows "hardware.kernel[].seconds" and "simulate.slow[].rank".
const KeyInfo* find_key(std::string_view key);
// The page of docs/ for a row: its own, else that of its section.
std::string_view page_of(const KeyInfo&);
// The title of a section and the keys of it that a scenario, or a study, may have: "keys of a study".
std::string_view meaning_of_section(std::string_view section);

// The tables themselves, one file each.
std::span<const KeyInfo> simulate_key_table();
std::span<const KeyInfo> model_key_table();
std::span<const KeyInfo> training_key_table();
std::span<const KeyInfo> hardware_key_table();
std::span<const KeyInfo> study_key_table();

}  // namespace cplab

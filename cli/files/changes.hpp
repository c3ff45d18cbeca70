// What --set and --unset ask of a scenario: how they are handed on, and how a file's table is changed by
// them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/files/toml_table.hpp"

namespace cplab {

// A change is "section.key=value" of --set, or "unset section.key" of --unset. Keys are taken away first,
// from the file alone: so the order of the two on a command line means nothing.
std::vector<std::string> changes_of(const Arguments&);
// "--set section.key=value", "--unset section.key": as the command line had it.
std::string option_text(std::string_view change);
// Is it of a key of this section ("problem.")?
bool is_of_section(std::string_view change, std::string_view section_and_dot);
// Those of --unset ("section.key"), or those of --set ("section.key=value").
std::vector<std::string> unset_keys(const std::vector<std::string>& changes);
std::vector<std::string> set_keys(const std::vector<std::string>& changes);

// The keys that [problem], [parallel], [simulate] and [hardware] may have; none for another section.
const std::vector<std::string>& legal_keys(std::string_view section);

// Those of [schedule]: the options of all algorithms, sorted.
std::vector<std::string> option_keys();

// The VALUE of --unset hardware.KEY, which no --set can give.
inline const std::string no_value(1, '\0');
// "--set hardware.KEY", "--unset hardware.KEY".
std::string hardware_option(const std::string& key, const std::string& value);

// Changes the table of a scenario file. (KEY, VALUE) of --set hardware.KEY=VALUE, and (KEY, no_value) of
// --unset hardware.KEY, are left to the hardware file's reader and returned, the latter first. Keys of the
// file that go with a shape which --set replaces (batch and sequence by lengths, lengths by sequence) are
// taken away, and a note says so. Throws InputError for a change that is none, and for --unset of a key that
// the file has not got.
std::vector<std::pair<std::string, std::string>> apply_changes(Table&,
                                                               const std::vector<std::string>& changes,
                                                               std::vector<std::string>& notes);

}  // namespace cplab

// Messages of errors as reasons in a table of many scenarios, which says elsewhere what was set.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace cplab {

// "FILE:3: parallel.placement: why", "--set a=b, --set c=d: ...: why": without the file's name and the
// settings, which are the table's own doing. `own` are its changes, `changes` all; `path` is the scenario's.
std::string reason_of(const std::string& message, const std::vector<std::string>& changes,
                      const std::vector<std::string>& own, const std::string& path);

// The legal value that a message names as nearest to what was given: "... did you mean \"ring\"?", "... but
// is 5; legal: 1, 2, 4" (4), "must be from 1 to 8, but is 9" (8). Nothing where it names none.
std::optional<std::string> nearest_legal(const std::string& message);

}  // namespace cplab

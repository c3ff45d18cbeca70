// JSON schemas (2020-12) of results, made of the table of their keys (cli/keys/result_keys.hpp).
#pragma once

#include <iosfwd>
#include <string_view>

namespace cplab {

// The schema of everything that `cplab COMMAND --json` may write; of a command with several results one of
// them. Throws InputError with the nearest name for a command that writes none.
void write_schema(std::ostream& out, std::string_view command);

}  // namespace cplab

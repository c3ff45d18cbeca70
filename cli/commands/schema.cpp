// cplab schema COMMAND: the JSON schema of what the command's --json writes.
#include <ostream>

#include "cli/commands/command.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/option_words.hpp"
#include "cli/schema.hpp"
#include "cli/vocabulary.hpp"

namespace cplab {

int command_schema(const Arguments& arguments, Console& console) {
  if (arguments.positional().empty())
    throw InputError("schema: needs a COMMAND; legal: " + quoted_list(schema_words()));
  if (arguments.has("csv")) throw InputError("--csv: a schema is no table");
  const std::string command = arguments.positional().front();
  write_schema(console.text(), command);
  console.write_json_to_option([&](std::ostream& out) { write_schema(out, command); });
  return exit_fine;
}

}  // namespace cplab

// cplab reproduce [NAME]: published figures beside ours; without a name, what there is.
#include <ostream>

#include "cli/command.hpp"
#include "cli/reproduce.hpp"
#include "cli/session.hpp"
#include "cli/vocabulary.hpp"
#include "report/json.hpp"

namespace cplab {

const std::vector<Published>& published() {
  static const std::vector<Published> all{{"te-p2p-memory", "MiB", reproduce_te_p2p_memory}};
  return all;
}

int command_reproduce(const Arguments& arguments, Console& console) {
  std::ostream& out = console.text();
  std::vector<std::string> names;
  for (const Published& each : published()) names.emplace_back(each.name);
  if (arguments.positional().empty()) {
    if (arguments.has("json") || arguments.has("csv")) {
      throw InputError("reproduce: needs a NAME for --json and --csv; `list published --json` lists them");
    }
    for (const std::string& each : names) out << each << '\n';
    return exit_fine;
  }
  for (const std::string& set : arguments.all("set")) {
    if (!set.starts_with("simulate.") && !set.starts_with("hardware.")) continue;
    console.say("note: --set " + set + ": not used by reproduce, which has no clock and knows no machine");
  }
  const std::string wanted = arguments.positional().front();
  for (const Published& each : published()) {
    if (each.name != wanted) continue;
    Progress progress(console, "reading " + wanted);
    const ReproduceReport report =
        each.reproduce("published/" + wanted + ".toml", arguments.all("set"), progress);
    progress.end();
    for (const std::string& note : report.header.notes) console.say("note: " + note);
    const std::string unit(each.unit);
    TextTable table({{"figure", "", Align::left},
                     {"published", unit},
                     {"ours", unit},
                     {"error", "%"},
                     {"origin", "", Align::left}});
    for (const ReproduceRow& row : report.rows) {
      table.add_row({row.label, row.published ? format_fixed(*row.published, 0) : "",
                     format_fixed(row.ours, 2), row.error ? format_signed_percent(*row.error, 2) : "",
                     row.derived ? "plan" : "empirical"});
    }
    out << wanted << ": " << describe(report.header.scenario, report.ranks) << "\n\n";
    table.write(out, console.color());
    out << "\n\"plan\": named buffers of our plan at its peak. \"empirical\": a term of the source that no "
           "plan "
           "explains, or a sum with one.\n";
    for (const std::string& note : report.notes) out << "- " << note << '\n';
    console.write_json_to_option([&](std::ostream& stream) { write_json(stream, report); });
    console.write_csv_to_option([&](std::ostream& stream) { table.write_csv(stream); });
    return exit_fine;
  }
  throw InputError("reproduce " + wanted + ": not known; did you mean " + nearest(wanted, names) + "?");
}

}  // namespace cplab

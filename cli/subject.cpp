// Scenarios and plans from the command line; see subject.hpp.
#include "cli/subject.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "cli/files/changes.hpp"
#include "cli/files/hardware_table.hpp"
#include "cli/files/sha256.hpp"
#include "cli/files/text_file.hpp"
#include "cli/memory_need.hpp"
#include "plan/structure.hpp"
#include "report/plan_json.hpp"
#include "report/timeline_output.hpp"

namespace cplab {

namespace {

constexpr std::size_t most_plan_bytes = std::size_t{4} << 30;
constexpr const char* standard_input = "/dev/stdin";

// No TOML begins with a brace, and every JSON that we write does.
template <class Next>
bool begins_with_brace(Next next) {
  constexpr std::string_view blank = " \t\r\n\xEF\xBB\xBF";  // and the mark of the byte order
  for (int c = next(); c != EOF; c = next())
    if (blank.find(static_cast<char>(c)) == std::string_view::npos) return c == '{';
  return false;
}

bool is_json(const std::string& text) {
  std::size_t at = 0;
  return begins_with_brace([&] { return at < text.size() ? static_cast<unsigned char>(text[at++]) : EOF; });
}

bool file_is_json(const std::string& path) {
  if (const std::string* const text = text_for_file(path)) return is_json(*text);
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  std::ifstream in(path, std::ios::binary);
  return begins_with_brace([&] { return in.get(); });
}

ScenarioFile plan_file(const Arguments& arguments, Takes takes, const std::string& name,
                       const std::string& text) {
  require_json_memory(text, name);
  std::vector<ScenarioSection> sections;
  auto plan = std::make_shared<Plan>(read_plan_json(text, name, &sections));
  // A plan can be checked where the machine's file is not.
  if (!takes.machine) std::erase_if(sections, [](const auto& section) { return section.name == "hardware"; });
  require_check_memory(*plan, name);
  if (takes.form) require_form(*plan, name);
  ScenarioFile file = resolved_scenario(name, plan->scenario, sections, changes_of(arguments), name);
  file.plan = std::move(plan);
  file.files.push_back({"plan", name, sha256(text)});
  return file;
}

// The options that are the command's own: not what is changed, nor where results go or how they look.
std::vector<std::pair<std::string, std::string>> own_options(const Arguments& arguments) {
  std::vector<std::string> others{"set",   "unset", "plan", "json",  "csv",
                                  "quiet", "color", "help", "rerun", "anyway"};
  for (const TimelineOutput& output : timeline_outputs()) others.emplace_back(output.option);
  std::vector<std::pair<std::string, std::string>> own;
  for (const auto& option : arguments.options())
    if (std::find(others.begin(), others.end(), option.first) == others.end()) own.push_back(option);
  return own;
}

ScenarioFile read_named(const Arguments& arguments, Takes takes) {
  if (arguments.has("plan")) {
    if (!arguments.positional().empty()) throw InputError("--plan: goes without SCENARIO");
    const std::string given = arguments.text("plan", ""), path = given == "-" ? standard_input : given;
    const std::string text = read_text_file(path, most_plan_bytes);
    try {
      return plan_file(arguments, takes, given, text);
    } catch (const JsonFileError& error) {
      if (is_json(text)) throw;
      throw InputError(std::string(error.what()) + "; a scenario is named without --plan");
    }
  }
  if (arguments.positional().empty())
    throw InputError(
        std::string("SCENARIO is missing: a path, - for standard input, or a name in scenarios/") +
        (takes.plan ? "; or --plan FILE; see --help" : "; see --help"));
  const std::string& given = arguments.positional().front();
  const auto require_plan = [&] {
    if (!takes.plan) throw InputError(given + ": JSON, not a scenario, which is TOML");
  };
  if (given == "-" || given == standard_input) {
    const std::string text = read_text_file(standard_input, most_plan_bytes);
    if (is_json(text)) {
      require_plan();
      return plan_file(arguments, takes, "-", text);
    }
    ScenarioFile file = parse_scenario(text, "-", changes_of(arguments));
    file.argument = "-";
    file.text = text;
    file.files.push_back({"scenario", "-", sha256(text)});
    return file;
  }
  if (const std::string path = find_scenario(given); file_is_json(path)) {
    require_plan();
    return plan_file(arguments, takes, given, read_text_file(path, most_plan_bytes));
  }
  return read_scenario(given, changes_of(arguments));
}

}  // namespace

void require_form(const Plan& plan, const std::string& name) {
  const std::string more = "; cplab check names all that is wrong with it";
  if (const std::string wrong = wrong_groups(plan); !wrong.empty())
    throw InputError(name + ": " + wrong + more);
  const GroupIndex groups(plan);
  for (const RankPlan& rank : plan.ranks)
    (void)inspect(plan, rank, groups, [&](const StructureFault& fault) {
      const std::string where = fault.operation < rank.operations.size()
                                    ? operation_label(rank, rank.operations[fault.operation])
                                    : "rank " + std::to_string(rank.rank);
      throw InputError(name + ": " + where + ": " + fault.message + more);
    });
}

ScenarioFile read_subject(const Arguments& arguments, Takes takes) {
  ScenarioFile file = read_named(arguments, takes);
  file.options = own_options(arguments);
  if (arguments.has("choices"))
    if (const std::string path = arguments.text("choices", ""); std::filesystem::exists(path))
      file.files.push_back({"choices", path, sha256(read_text_file(path))});
  return file;
}

ScenarioFile reread(const ScenarioFile& file, const std::vector<std::string>& changes) {
  ScenarioFile again = file.text.empty() ? read_scenario(file.argument, changes)
                                         : parse_scenario(file.text, file.path, changes);
  again.machines = file.machines;
  return again;
}

Given given_of(const ScenarioFile& file) {
  Given given{file.argument,         file.files,   set_keys(file.sets),
              unset_keys(file.sets), file.options, file.read_notes};
  if (!file.hardware.empty()) {
    const auto read = file.machines->find({file.hardware, file.hardware_overrides});
    given.files.push_back(
        {"hardware", file.hardware_given,
         read == file.machines->end() ? hardware_hash(file.hardware) : read->second.sha256});
  }
  return given;
}

std::string hardware_hash(const std::string& path) {
  return sha256(open_hardware(read_text_file(path), path).text);
}

}  // namespace cplab

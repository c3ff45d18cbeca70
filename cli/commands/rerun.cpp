// Reading a result to make it again; see rerun.hpp.
#include "cli/commands/rerun.hpp"

#include <algorithm>
#include <map>
#include <memory>

#include "cli/console.hpp"
#include "cli/files/changes.hpp"
#include "cli/files/sha256.hpp"
#include "cli/files/text_file.hpp"
#include "cli/memory_need.hpp"
#include "cli/subject.hpp"
#include "report/json_parts.hpp"
#include "report/plan_json.hpp"
#include "report/scenario_json.hpp"

namespace cplab {

namespace {

// Everything else on the command line is decided by the result.
void refuse_others(const Arguments& arguments) {
  if (!arguments.positional().empty())
    throw InputError("--rerun: goes without SCENARIO, which the result names");
  for (const char* option :
       {"set", "unset", "hardware", "choose", "choices", "inject", "operations", "algorithms", "strict"})
    if (arguments.has(option))
      throw InputError("--" + std::string(option) +
                       ": goes without --rerun, which repeats a result as it was made");
}

std::string version_text(const Versions& versions) {
  std::string text;
  for (const auto& [what, version] : versions) text += (text.empty() ? "" : ", ") + what + " " + version;
  return text;
}

// What differs from the time of the result; with --anyway it is a note.
class Differences {
 public:
  Differences(const Arguments& arguments, std::string result)
      : anyway_(arguments.has("anyway")), result_(std::move(result)) {}

  template <class Error>
  void tell(const std::string& what, const std::string& legal) {
    if (!anyway_)
      throw Error(result_ + ": " + what + "; legal: " + legal +
                  ", or --anyway, which repeats it all the same and says so in the result");
    notes.push_back("--anyway: " + what);
  }
  void expect_hash(const Given& given, const char* option, const std::string& place, const std::string& now) {
    for (const GivenFile& file : given.files)
      if (file.option == option && file.sha256 != now)
        tell<InputError>("the " + std::string(option) + " file " + file.file + " held sha256 " + file.sha256 +
                             ", now " + (place == file.file ? "it" : place) + " holds " + now,
                         "the file as it was" +
                             std::string(std::string_view(option) == "choices"
                                             ? ""
                                             : " (--" + std::string(option) + " FILE says where it is)"));
  }

  std::vector<std::string> notes;

 private:
  bool anyway_ = false;
  std::string result_;
};

const GivenFile* file_of(const Given& given, std::string_view option) {
  const auto found = std::find_if(given.files.begin(), given.files.end(),
                                  [&](const GivenFile& file) { return file.option == option; });
  return found == given.files.end() ? nullptr : &*found;
}

void read_plan_again(const Arguments& arguments, const Given& given, Differences& differences,
                     ScenarioFile& file) {
  const GivenFile* const was = file_of(given, "plan");
  if (!was) {
    if (arguments.has("plan")) throw InputError("--plan: the result was made of a scenario");
    return;
  }
  const std::string place = arguments.text("plan", was->file);
  if (place == "-")
    throw InputError("--rerun: the plan came from standard input; --plan FILE says where it is now");
  const std::string text = read_text_file(place, std::size_t{4} << 30);
  differences.expect_hash(given, "plan", place, sha256(text));
  require_json_memory(text, place);
  file.plan = std::make_shared<Plan>(read_plan_json(text, place));
  require_check_memory(*file.plan, place);
  require_form(*file.plan, place);
}

}  // namespace

Rerun read_rerun(const Arguments& arguments) {
  refuse_others(arguments);
  const std::string name = arguments.text("rerun", "");
  const std::string text = read_text_file(name == "-" ? "/dev/stdin" : name, most_result_bytes);
  require_json_memory(text, name);
  const JsonDocument document(text, name);
  const JsonNode root = document.root();
  if (const JsonNode schema = root.at("schema"); schema.text() != "cplab.simulate.1")
    schema.fail("\"" + schema.text() + "\"; legal: cplab.simulate.1, a result of simulate");
  const std::optional<Given> given = read_given(root);
  if (!given) root.fail("says not what it was made with (key given), as results do from cplab 0.2.0 on");

  Differences differences(arguments, name);
  if (const Versions were = read_versions(root), are = versions_of_build();
      std::map(were.begin(), were.end()) != std::map(are.begin(), are.end()))
    differences.tell<EnvironmentError>("was made by " + version_text(were) + "; this is " + version_text(are),
                                       "the program that made it");

  std::vector<std::string> changes, later;
  for (const std::string& key : given->unset) {
    changes.push_back("unset " + key);
    if (key.starts_with("hardware.") && key != "hardware.file") later.push_back(changes.back());
  }
  for (const std::string& set : given->set) {
    changes.push_back(set);
    if (is_of_section(set, "simulate.") || is_of_section(set, "hardware.")) later.push_back(set);
  }
  const GivenFile* const plan = file_of(*given, "plan");
  const JsonNode scenario = root.at("scenario");
  ScenarioFile file = resolved_scenario(name, read_scenario(scenario), read_sections(scenario), later,
                                        plan ? plan->file : given->scenario, arguments.text("hardware", ""));
  file.argument = given->scenario;
  file.sets = std::move(changes);
  file.options = given->options;
  file.files = given->files;
  std::erase_if(file.files, [](const GivenFile& each) { return each.option == "hardware"; });
  file.notes = file.read_notes = given->notes;
  if (!file.hardware.empty())
    differences.expect_hash(*given, "hardware", file.hardware, hardware_hash(file.hardware));
  if (const GivenFile* const choices = file_of(*given, "choices"))
    differences.expect_hash(*given, "choices", choices->file, sha256(read_text_file(choices->file)));
  read_plan_again(arguments, *given, differences, file);
  file.notes.insert(file.notes.end(), differences.notes.begin(), differences.notes.end());
  return {arguments.with(given->options), std::move(file)};
}

}  // namespace cplab

// Where scenarios and hardware files are found: by path, by name in scenarios/, by the name that `list`
// prints.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string_view>

#include "cli/console.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/files/text_file.hpp"
#include "cli/vocabulary.hpp"

namespace cplab {

namespace {

namespace fs = std::filesystem;

// The folders of scenarios/ that hold scenarios.
constexpr const char* scenario_folders[] = {"", "published", "faults"};

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return text_for_file(path.native()) != nullptr ||
         (fs::exists(path, error) && !fs::is_directory(path, error));
}

// The names of files as `list` prints them.
std::vector<std::string> stems(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  for (const std::string& file : files) names.push_back(fs::path(file).stem().string());
  return names;
}

}  // namespace

namespace {

const char* given_folder() {
  const char* const given = std::getenv("CPLAB_SCENARIOS");
  return given && *given ? given : nullptr;
}

// The program, or the library that this code is part of: the Python module.
fs::path program_file() {
  std::error_code error;
  Dl_info library = {};
  const bool known = dladdr(reinterpret_cast<const void*>(&program_file), &library) != 0;
  if (known && std::string_view(library.dli_fname).ends_with(".so")) return fs::absolute(library.dli_fname);
  return fs::read_symlink("/proc/self/exe", error);
}

// Beside an installed library the folder lies as part of its package. Of a program that is installed,
// PREFIX/bin/cplab, it is PREFIX/share/cplab/scenarios; of what lies in a build, build/release/cplab, the
// tree's.
fs::path folder_beside_program() {
  const fs::path program = program_file();
  if (program.empty()) return {};
  const fs::path folder = program.parent_path();
  const bool library = program.extension() == ".so";
  const fs::path installed =
      (library ? folder / "scenarios" : folder / ".." / "share" / "cplab" / "scenarios").lexically_normal();
  return is_folder(installed) ? installed : (folder / ".." / ".." / "scenarios").lexically_normal();
}

// Why there is no folder scenarios/, and what to do.
std::string no_folder_text() {
  if (const char* given = given_folder()) return "CPLAB_SCENARIOS=" + std::string(given) + " is no folder";
  return "no folder of scenarios: " + folder_beside_program().string() +
         " (../../scenarios of the program, or ../share/cplab/scenarios) is not there; set CPLAB_SCENARIOS "
         "to the folder scenarios/ of "
         "cplab";
}

// Would a name be looked for in scenarios/?
bool may_be_name(const fs::path& given) {
  return !given.is_absolute() && !given.native().starts_with("./") && !given.native().starts_with("../");
}

}  // namespace

std::string scenarios_folder() {
  const char* const given = given_folder();
  const fs::path folder = given ? fs::path(given) : folder_beside_program();
  return is_folder(folder) ? folder.string() : std::string();
}

void require_scenarios_folder() {
  if (scenarios_folder().empty()) throw EnvironmentError(no_folder_text());
}

std::vector<std::string> scenario_names(const std::string& folder) {
  std::vector<std::string> names;
  const std::string root = scenarios_folder();
  if (root.empty()) return names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(fs::path(root) / folder, error)) {
    if (entry.path().extension() != ".toml") continue;
    names.push_back((fs::path(folder) / entry.path().filename()).string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> all_scenario_names() {
  std::vector<std::string> names;
  for (const char* each : scenario_folders) {
    const auto some = scenario_names(each);
    names.insert(names.end(), some.begin(), some.end());
  }
  return names;
}

std::string find_scenario(const std::string& argument) {
  if (text_for_file(argument) != nullptr) return argument;
  std::vector<fs::path> places{argument};
  const std::string folder = scenarios_folder();
  if (!folder.empty() && !fs::path(argument).is_absolute()) {
    places.push_back(fs::path(folder) / argument);
    places.push_back(fs::path(folder) / (argument + ".toml"));
  }
  for (const fs::path& place : places) {
    std::error_code error;
    // Not a folder that happens to have the name of a scenario (ring/ beside scenarios/ring.toml).
    const bool last_resort = place == places.front() && places.size() > 1;
    if (fs::exists(place, error) && !(last_resort && fs::is_directory(place, error))) return place.string();
  }
  // "te-p2p-memory" as `list published` prints it: a name in one of the folders.
  for (const std::string& file : all_scenario_names()) {
    if (fs::path(file).stem() == argument || fs::path(file).filename() == argument) {
      return (fs::path(folder) / file).string();
    }
  }
  if (is_folder(argument)) throw InputError(argument + ": is a directory, not a scenario");
  std::string message = argument + ": no such scenario; looked for:";
  for (const fs::path& place : places) message += " " + place.string();
  if (folder.empty() && may_be_name(argument) && fs::path(argument).extension() != ".toml")
    throw EnvironmentError(message + "; " + no_folder_text());
  if (folder.empty()) message += " (and " + no_folder_text() + ")";
  const auto names = all_scenario_names();
  if (!names.empty())
    message += clause(meant_file(argument, names)) + " `cplab list scenarios` names them all";
  throw InputError(message);
}

namespace {

// Who names the file: a file beside which it may lie (a scenario, or a machine that includes it), or the
// command line, whose paths are relative to the current folder.
struct NamedBy {
  std::string file;  // empty: none
  bool command_line = false;
};

// Where a hardware file of that name may be, in this order.
std::vector<fs::path> hardware_places(const fs::path& given, const NamedBy& by) {
  if (given.is_absolute()) return {given};
  std::vector<fs::path> places;
  const bool bare = !given.has_parent_path();  // a name such as h100x8
  const fs::path beside = fs::path(by.file).parent_path() / given;
  if (by.command_line) places.push_back(given);
  if (!by.command_line && !by.file.empty()) places.push_back(beside);
  if (const std::string folder = scenarios_folder(); !folder.empty()) {
    places.push_back(fs::path(folder) / given);
    if (bare) places.push_back(fs::path(folder) / "hardware" / given);
    places.push_back(fs::path(folder) / (bare ? "hardware" : "") / (given.string() + ".toml"));
  }
  if (by.command_line && !by.file.empty() && bare) places.push_back(beside);
  return places;
}

// The path; `fail` throws, given why there is none.
std::string hardware_place(const fs::path& given, const NamedBy& by,
                           const std::function<void(const std::string&)>& fail,
                           const std::function<std::string(const std::string&)>& said) {
  if (given.native().find('\0') != std::string::npos) fail("a file name holds no NUL");
  std::string looked;
  for (const fs::path& place : hardware_places(given, by)) {
    if (is_file(place)) return place.string();
    const std::string shown =
        place.is_absolute() ? place.string() : fs::absolute(place).lexically_normal().string();
    if (looked.find(shown) == std::string::npos) looked += (looked.empty() ? "" : ", ") + shown;
  }
  std::string message = "\"" + given.string() + "\" is not there; looked for: " + looked;
  if (scenarios_folder().empty() && may_be_name(given))
    throw EnvironmentError(said(message + "; " + no_folder_text()));
  const auto shipped = scenario_names("hardware");
  if (!shipped.empty()) {
    message += clause(meant_file(given.string(), shipped)) +
               " `cplab list hardware` names: " + quoted_list(stems(shipped));
  }
  fail(message);
  return {};
}

std::string hardware_of_key(const Table& table, const char* key, const NamedBy& by) {
  return hardware_place(
      table.text(key), by, [&](const std::string& why) { table.fail(key, why); },
      [&](const std::string& why) { return table.said(key, why); });
}

}  // namespace

std::string find_hardware(const Table& table, const std::string& scenario) {
  return hardware_of_key(table, "file", {scenario, table.is_set("file")});
}

std::string find_included(const Table& table, const std::string& including) {
  return hardware_of_key(table, "include", {including, false});
}

std::string find_hardware(const std::string& argument) {
  const auto said = [](const std::string& why) { return "--hardware: " + why; };
  return hardware_place(
      argument, {"", true}, [&](const std::string& why) { throw InputError(said(why)); }, said);
}

}  // namespace cplab

// Where scenarios and hardware files are found: by path, by name in scenarios/, by the name that `list`
// prints.
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "cli/scenario_file.hpp"
#include "cli/vocabulary.hpp"

namespace cplab {

namespace {

namespace fs = std::filesystem;

// The folders of scenarios/ that hold scenarios.
constexpr const char* scenario_folders[] = {"", "studies", "published", "faults"};

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) && !fs::is_directory(path, error);
}

// The names of files as `list` prints them.
std::vector<std::string> stems(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  for (const std::string& file : files) names.push_back(fs::path(file).stem().string());
  return names;
}

// Nearest among paths for what looks like one, else among names.
std::string near_file(const std::string& given, const std::vector<std::string>& files) {
  const bool looks_like_path = given.find('/') != std::string::npos || given.ends_with(".toml");
  return "did you mean \"" + nearest(given, looks_like_path ? files : stems(files)) + "\"?";
}

}  // namespace

std::string scenarios_folder() {
  std::error_code error;
  if (const char* given = std::getenv("CPLAB_SCENARIOS"); given && *given) return given;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  const fs::path folder = (program.parent_path() / ".." / ".." / "scenarios").lexically_normal();
  return fs::is_directory(folder, error) ? folder.string() : std::string();
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
  std::error_code error;
  if (fs::is_directory(argument, error)) throw InputError(argument + ": is a directory, not a scenario");
  std::string message = argument + ": no such scenario; looked for:";
  for (const fs::path& place : places) message += " " + place.string();
  if (folder.empty()) message += " (and found no scenarios/ folder: set CPLAB_SCENARIOS)";
  const auto names = all_scenario_names();
  if (!names.empty()) message += "; " + near_file(argument, names) + " `cplab list scenarios` names them all";
  throw InputError(message);
}

namespace {

// The path, or (second) why there is none.
std::pair<std::string, std::string> hardware_place(const fs::path& given, const std::string& scenario) {
  if (given.native().find('\0') != std::string::npos) return {"", "a file name holds no NUL"};
  std::vector<fs::path> places;
  const std::string folder = scenarios_folder();
  const bool bare = !given.has_parent_path();  // a name such as h100x8
  if (given.is_absolute()) {
    places.push_back(given);
  } else {
    if (!scenario.empty()) places.push_back(fs::path(scenario).parent_path() / given);
    if (!folder.empty()) {
      places.push_back(fs::path(folder) / given);
      if (bare) places.push_back(fs::path(folder) / "hardware" / given);
      places.push_back(fs::path(folder) / (bare ? "hardware" : "") / (given.string() + ".toml"));
    }
  }
  std::string looked;
  for (const fs::path& place : places) {
    if (is_file(place)) return {place.string(), ""};
    if (looked.find(place.string()) == std::string::npos)
      looked += (looked.empty() ? "" : ", ") + place.string();
  }
  const auto shipped = scenario_names("hardware");
  std::string message = "\"" + given.string() + "\" is not there; looked for: " + looked;
  if (!shipped.empty()) {
    message += "; " + near_file(given.string(), shipped) +
               " `cplab list hardware` names: " + quoted_list(stems(shipped));
  }
  return {"", message};
}

}  // namespace

std::string find_hardware(const Table& table, const std::string& scenario) {
  const auto [path, why] = hardware_place(table.text("file"), scenario);
  if (path.empty()) table.fail("file", why);
  return path;
}

std::string find_hardware(const std::string& argument) {
  const auto [path, why] = hardware_place(argument, "./");
  if (path.empty()) throw InputError("--hardware: " + why);
  return path;
}

}  // namespace cplab

// The rules about single files: length, being built at all, first comment, blanks, paths of a machine.
#include <algorithm>
#include <array>
#include <cctype>
#include <regex>
#include <set>

#include "tests/tidy/rules.hpp"

namespace cplab::tidy {
namespace {

constexpr int algorithm_lines = 100;
constexpr int class_lines = 600;
constexpr int other_lines = 450;  // 400 is the guide (CONTRIBUTING.md)

template <std::size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_source(std::string_view path) {
  constexpr std::array<std::string_view, 6> extensions = {".cpp", ".hpp", ".cu", ".cuh", ".py", ".sh"};
  return is_one_of(extension_of(path), extensions);
}

// A file that exports an algorithm, which the list in CMakeLists.txt names.
bool is_algorithm(std::string_view path, std::string_view text) {
  return folder_of(path) == "algorithms" && extension_of(path) == ".cpp" &&
         text.find("_algorithm() {") != std::string_view::npos;
}

// All that the file defines, but for what it keeps to itself, is members of one class, or it holds that
// class. What begins in the first column counts, as clang-format leaves it.
bool is_one_class(std::string_view text) {
  static const std::regex member(R"re(^(?:[A-Za-z_][^(="]*[^\w:])?([A-Z]\w*)::(?:~?\w+|operator[^(]*)\()re"),
      whole(R"re(^class (\w+)( final)?( :[^:].*)? \{)re"), function(R"re(^[A-Za-z_][^=;"]*\()re");
  std::set<std::string> classes;
  bool own = false, others = false;
  for (const std::string_view view : lines_of(text)) {
    const std::string line(view);
    own = (own || line == "namespace {") && line != "}  // namespace";
    std::smatch match;
    if (std::regex_search(line, match, member) || std::regex_search(line, match, whole))
      classes.insert(match[1]);
    else if (!own && std::regex_search(line, function) && !line.starts_with("template"))
      others = true;
  }
  return classes.size() == 1 && !others;
}

// Written by hand, line by line: not pictures, data or licences.
bool is_handwritten(std::string_view path) {
  constexpr std::array<std::string_view, 5> extensions = {".cmake", ".txt", ".md", ".toml", ".json"};
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return is_source(path) || is_one_of(extension_of(path), extensions) || name == "Makefile" ||
         path == ".ci/run" || name == ".gitignore";
}

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

// Where `folder` stands in `line` as a path of its own: not the tail or the beginning of a longer name.
bool names_folder(std::string_view line, std::string_view folder) {
  for (std::size_t at = line.find(folder); at != std::string_view::npos; at = line.find(folder, at + 1)) {
    const bool begins = at == 0 || (!is_name_character(line[at - 1]) && line[at - 1] != '/');
    const std::size_t end = at + folder.size();
    const bool ends = folder.ends_with('/') ? end < line.size() && is_name_character(line[end])
                                            : end == line.size() || !is_name_character(line[end]);
    if (begins && ends) return true;
  }
  return false;
}

}  // namespace

std::vector<Finding> check_budgets(const Tree& tree) {
  std::vector<Finding> findings;
  for (const auto& [path, text] : tree) {
    if (!is_source(path)) continue;
    const int lines = static_cast<int>(lines_of(text).size());
    int budget = is_algorithm(path, text) ? algorithm_lines : other_lines;
    if (lines > other_lines && is_one_class(text)) budget = class_lines;
    if (lines > budget)
      findings.push_back(
          {path, budget + 1, std::to_string(lines) + " lines; the budget is " + std::to_string(budget)});
  }
  return findings;
}

namespace {

// Whether a list of CMake names a file. In a family's lists a name stands behind "${family_folder}/".
bool names_source(std::string_view list, std::string_view name) {
  constexpr std::string_view folder = "${family_folder}/";
  for (const std::string_view line : lines_of(list)) {
    const std::string_view code = line.substr(0, line.find('#'));
    for (std::size_t at = code.find(name); at != std::string_view::npos; at = code.find(name, at + 1)) {
      const std::size_t end = at + name.size();
      const bool begins = at == 0 || (!is_name_character(code[at - 1]) && code[at - 1] != '/') ||
                          code.substr(0, at).ends_with(folder);
      if (begins && (end == code.size() || !is_name_character(code[end]))) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<Finding> check_listed(const Tree& tree) {
  std::vector<Finding> findings;
  for (const auto& [path, text] : tree) {
    if (extension_of(path) != ".cpp" && extension_of(path) != ".cu") continue;
    bool listed = false;
    for (std::size_t slash = path.rfind('/'); slash != std::string::npos && !listed;
         slash = slash == 0 ? std::string::npos : path.rfind('/', slash - 1))
      for (const char* const name : {"CMakeLists.txt", "family.cmake", "device.cmake"}) {
        const auto list = tree.find(path.substr(0, slash + 1) + name);
        listed = listed || (list != tree.end() && names_source(list->second, path.substr(slash + 1)));
      }
    if (!listed && path != "cmake/version.cpp")  // named by cmake/version.cmake
      findings.push_back({path, 0, "stands in no CMakeLists.txt of its folder: it is never built"});
  }
  return findings;
}

std::vector<Finding> check_first_comment(const Tree& tree) {
  std::vector<Finding> findings;
  for (const auto& [path, text] : tree) {
    constexpr std::array<std::string_view, 4> slashes = {".cpp", ".hpp", ".cu", ".cuh"};
    constexpr std::array<std::string_view, 4> hashes = {".cmake", ".toml", ".py", ".sh"};
    const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
    const bool hash = is_one_of(extension_of(path), hashes) || name == "CMakeLists.txt" ||
                      name == "Makefile" || path == ".ci/run";
    if (!hash && !is_one_of(extension_of(path), slashes)) continue;
    const std::vector<std::string_view> lines = lines_of(text);
    std::size_t first = 0;
    if (hash && !lines.empty() && lines[0].starts_with("#!")) first = 1;
    const std::string_view line = first < lines.size() ? lines[first] : std::string_view();
    const bool comment =
        hash ? line.starts_with("# ") || line.starts_with("\"\"\"") : line.starts_with("// ");
    if (!comment)
      findings.push_back(
          {path, static_cast<int>(first) + 1, "begins without a comment that says what it is"});
  }
  return findings;
}

std::vector<Finding> check_trailing_blanks(const Tree& tree) {
  std::vector<Finding> findings;
  for (const auto& [path, text] : tree) {
    if (!is_handwritten(path)) continue;
    int number = 0;
    for (const std::string_view line : lines_of(text)) {
      ++number;
      if (line.ends_with(' ') || line.ends_with('\t') || line.ends_with('\r'))
        findings.push_back({path, number, "blanks at the end of the line"});
    }
  }
  return findings;
}

std::vector<Finding> check_quoted_lists(const Tree& tree) {
  std::vector<Finding> findings;
  for (const auto& [path, text] : tree) {
    if (!path.ends_with("CMakeLists.txt") && extension_of(path) != ".cmake") continue;
    int number = 0;
    for (const std::string_view line : lines_of(text)) {
      ++number;
      bool quoted = false;
      for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '\\')
          ++i;
        else if (line[i] == '"')
          quoted = !quoted;
        else if (line[i] == '#' && !quoted)
          break;
        else if (quoted && (line.substr(i).starts_with(";${") ||
                            (line.substr(i).starts_with("};") && line.substr(i + 2, 1) != " ")))
          findings.push_back(
              {path, number, "a quoted list with a variable in it: \"a\" ${b} leaves out an empty b"});
      }
    }
  }
  return findings;
}

std::vector<Finding> check_case_names(const Tree& tree) {
  constexpr std::string_view begin = "TEST_CASE(\"";
  std::vector<Finding> findings;
  for (const auto& [path, text] : tree) {
    int number = 0;
    for (const std::string_view line : lines_of(text)) {
      ++number;
      if (!line.starts_with(begin)) continue;
      const std::string_view name = line.substr(begin.size(), line.rfind('"') - begin.size());
      if (name.find(';') != std::string_view::npos)
        findings.push_back({path, number, "CMake splits the name of this test case at ';'"});
    }
  }
  return findings;
}

std::vector<Finding> check_machine_paths(const Tree& tree, const std::vector<std::string>& folders) {
  // Put together here, so that this file does not accuse itself.
  std::vector<std::string> wanted;
  for (const char* home : {"home", "root", "Users"}) wanted.push_back("/" + std::string(home) + "/");
  for (const std::string& folder : folders)
    if (folder.rfind('/') > 0) wanted.push_back(folder);  // "/tmp" or "/src" alone is no machine's own
  std::vector<Finding> findings;
  for (const auto& [path, text] : tree) {
    int number = 0;
    for (const std::string_view line : lines_of(text)) {
      ++number;
      for (const std::string& folder : wanted)
        if (names_folder(line, folder))
          findings.push_back({path, number, "a path of one machine: " + folder});
    }
  }
  return findings;
}

}  // namespace cplab::tidy

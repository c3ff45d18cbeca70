// Reads the repository's files for the rules, and the small text helpers they share.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <ostream>
#include <regex>
#include <set>

#include "tests/tidy/rules.hpp"

namespace cplab::tidy {
namespace {

// Paths that git tracks or would track; empty when git cannot tell.
std::set<std::string> paths_from_git(const std::filesystem::path& root) {
  std::set<std::string> paths;
  std::string quoted = "'";  // for the shell: a quote ends the string, stands escaped, and begins it again
  for (const char c : root.string()) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  const std::string command =
      "git -C " + quoted + "' ls-files -z --cached --others --exclude-standard 2>/dev/null";
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return paths;
  std::string path;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    if (c != 0) {
      path += static_cast<char>(c);
      continue;
    }
    paths.insert(path);
    path.clear();
  }
  if (pclose(pipe) != 0) paths.clear();
  return paths;
}

std::set<std::string> paths_from_folders(const std::filesystem::path& root) {
  std::set<std::string> paths;
  for (auto at = std::filesystem::recursive_directory_iterator(root); at != end(at); ++at) {
    const std::string name = at->path().filename().string();
    if (at->is_directory()) {
      const bool hidden = name.starts_with('.') && name != ".ci";
      if (hidden || name == "__pycache__" ||
          (at.depth() == 0 && (name.starts_with("build") || name == "results")))
        at.disable_recursion_pending();
    } else if (at->is_regular_file()) {
      paths.insert(std::filesystem::relative(at->path(), root).generic_string());
    }
  }
  return paths;
}

std::set<std::string> paths_of(const std::filesystem::path& root) {
  const std::set<std::string> paths = paths_from_git(root);
  return paths.empty() ? paths_from_folders(root) : paths;
}

}  // namespace

std::uintmax_t checkout_bytes(const std::filesystem::path& root) {
  std::uintmax_t bytes = 0;
  for (const std::string& path : paths_of(root))
    if (std::filesystem::is_regular_file(root / path)) bytes += std::filesystem::file_size(root / path);
  return bytes;
}

Tree read_tree(const std::filesystem::path& root) {
  Tree tree;
  for (const std::string& path : paths_of(root)) {
    if (!std::filesystem::is_regular_file(root / path)) continue;  // deleted, not yet committed
    std::ifstream file(root / path, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (text.find('\0') == std::string::npos) tree.emplace(path, std::move(text));
  }
  return tree;
}

std::ostream& operator<<(std::ostream& out, const Finding& finding) {
  out << finding.path;
  if (finding.line > 0) out << ':' << finding.line;
  return out << ": " << finding.message;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

std::string_view folder_of(std::string_view path) {
  const std::size_t slash = path.find('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string_view extension_of(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos || dot == 0 ? std::string_view() : name.substr(dot);
}

std::vector<Include> includes_of(std::string_view text) {
  static const std::regex pattern(R"re(^\s*#\s*include\s*([<"])([^>"]*)[>"])re");
  std::vector<Include> includes;
  int number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    std::cmatch match;
    if (line.find('#') != std::string_view::npos &&
        std::regex_search(line.data(), line.data() + line.size(), match, pattern))
      includes.push_back({number, match[1] == "\"", match[2]});
  }
  return includes;
}

}  // namespace cplab::tidy

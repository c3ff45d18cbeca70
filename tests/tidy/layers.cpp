// Who may include and link whom: the table in CONTRIBUTING.md as data, and the three checks that read it.
#include <algorithm>
#include <array>
#include <regex>
#include <set>
#include <sstream>

#include "tests/tidy/rules.hpp"

namespace cplab::tidy {
namespace {

using Names = std::vector<std::string_view>;

bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct Folder {
  std::string_view name;
  Names may_use;  // folders of ours beside itself
};

const std::vector<Folder>& folders() {
  static const std::vector<Folder> table = {
      {"plan", {}},
      {"derive", {"plan"}},
      {"algorithms", {"plan", "derive"}},
      {"check", {"plan"}},
      {"calls", {"plan", "kernels"}},
      {"sim", {"plan", "derive", "calls", "kernels", "report"}},
      {"decide", {"plan", "derive", "algorithms", "check", "calls", "sim", "report"}},
      {"exec", {"plan", "derive", "calls", "kernels", "report"}},
      {"calibrate", {"algorithms", "plan", "derive", "sim", "exec", "kernels", "report"}},
      {"kernels", {}},
      {"reference", {}},
      {"report", {"plan", "derive"}},
      {"cli",
       {"plan", "derive", "algorithms", "check", "calls", "sim", "decide", "exec", "calibrate", "kernels",
        "reference", "report", "cmake"}},
      {"python",
       {"plan", "derive", "algorithms", "check", "calls", "sim", "decide", "exec", "calibrate", "kernels",
        "reference", "report", "cli"}},
      {"cmake", {}},  // cmake/version.hpp
  };
  return table;
}

// Of kernels, these folders see only the plain header and what is host-only: how a call is cut into blocks.
bool reaches_into_kernels(std::string_view from, std::string_view header) {
  if (!header.starts_with("kernels/") || header == "kernels/kernels.hpp" || header == "kernels/linear.hpp" ||
      header == "kernels/masked.hpp")
    return false;
  if (from == "calls") return true;
  return from == "sim" && !header.starts_with("kernels/tiles/") && !header.starts_with("kernels/families/") &&
         !header.starts_with("kernels/choice/");
}

const Folder* find_folder(std::string_view name) {
  const auto& table = folders();
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Folder& folder) { return folder.name == name; });
  return found == table.end() ? nullptr : &*found;
}

struct ThirdParty {
  std::string_view name;
  Names header_prefixes;  // of what stands between < and >
  Names link_prefixes;    // of CMake targets
  Names folders;
  Names extensions;
  int max_files = 0;  // 0 is any number
};

const std::vector<ThirdParty>& third_parties() {
  static const Names source = {".cpp"};
  static const Names gpu_source = {".cpp", ".cu"};
  static const Names device_code = {".cpp", ".cu", ".cuh"};  // only device code includes a .cuh
  static const std::vector<ThirdParty> table = {
      {"SimGrid", {"simgrid/", "xbt/", "smpi/"}, {"PkgConfig::simgrid"}, {"sim"}, source, 2},
      {"Eigen", {"Eigen/", "unsupported/Eigen/"}, {"Eigen3::"}, {"kernels", "reference"}, source},
      {"NCCL", {"nccl"}, {"cplab::nccl"}, {"exec", "kernels", "calibrate"}, gpu_source},
      {"CUDA",
       {"cuda", "cooperative_groups", "cub/", "thrust/", "cute/", "mma.h", "nvtx3/", "nvml",
        "vector_types.h"},
       {"CUDA::"},
       {"exec", "kernels", "calibrate"},
       device_code},
      {"JSON", {"nlohmann/"}, {"nlohmann_json::"}, {"report", "cli"}, source},
      {"fmt", {"fmt/"}, {"fmt::"}, {"report", "cli"}, source},
      {"Boost", {"boost/"}, {"Boost::"}, {"cli"}, source},
      {"toml++", {"toml++/"}, {"tomlplusplus::"}, {"cli"}, source},
      {"nanobind", {"nanobind/"}, {"nanobind::"}, {"python"}, {".cpp", ".hpp"}},
      {"doctest", {"doctest/"}, {"doctest::"}, {}, {}},
  };
  return table;
}

const ThirdParty* find_party(std::string_view name, Names ThirdParty::*prefixes) {
  for (const ThirdParty& party : third_parties())
    for (const std::string_view prefix : party.*prefixes)
      if (name.starts_with(prefix)) return &party;
  return nullptr;
}

// C++20, and C's headers by their C++ names.
bool is_standard(std::string_view header) {
  static const std::set<std::string_view> headers = {"algorithm",
                                                     "any",
                                                     "array",
                                                     "atomic",
                                                     "barrier",
                                                     "bit",
                                                     "bitset",
                                                     "cassert",
                                                     "cctype",
                                                     "cerrno",
                                                     "cfenv",
                                                     "cfloat",
                                                     "charconv",
                                                     "chrono",
                                                     "cinttypes",
                                                     "climits",
                                                     "clocale",
                                                     "cmath",
                                                     "codecvt",
                                                     "compare",
                                                     "complex",
                                                     "concepts",
                                                     "condition_variable",
                                                     "coroutine",
                                                     "csetjmp",
                                                     "csignal",
                                                     "cstdarg",
                                                     "cstddef",
                                                     "cstdint",
                                                     "cstdio",
                                                     "cstdlib",
                                                     "cstring",
                                                     "ctime",
                                                     "cuchar",
                                                     "cwchar",
                                                     "cwctype",
                                                     "deque",
                                                     "exception",
                                                     "execution",
                                                     "filesystem",
                                                     "format",
                                                     "forward_list",
                                                     "fstream",
                                                     "functional",
                                                     "future",
                                                     "initializer_list",
                                                     "iomanip",
                                                     "ios",
                                                     "iosfwd",
                                                     "iostream",
                                                     "istream",
                                                     "iterator",
                                                     "latch",
                                                     "limits",
                                                     "list",
                                                     "locale",
                                                     "map",
                                                     "memory",
                                                     "memory_resource",
                                                     "mutex",
                                                     "new",
                                                     "numbers",
                                                     "numeric",
                                                     "optional",
                                                     "ostream",
                                                     "queue",
                                                     "random",
                                                     "ranges",
                                                     "ratio",
                                                     "regex",
                                                     "scoped_allocator",
                                                     "semaphore",
                                                     "set",
                                                     "shared_mutex",
                                                     "source_location",
                                                     "span",
                                                     "sstream",
                                                     "stack",
                                                     "stdexcept",
                                                     "stop_token",
                                                     "streambuf",
                                                     "string",
                                                     "string_view",
                                                     "strstream",
                                                     "syncstream",
                                                     "system_error",
                                                     "thread",
                                                     "tuple",
                                                     "type_traits",
                                                     "typeindex",
                                                     "typeinfo",
                                                     "unordered_map",
                                                     "unordered_set",
                                                     "utility",
                                                     "valarray",
                                                     "variant",
                                                     "vector",
                                                     "version"};
  return headers.contains(header);
}

// Headers of the operating system and the processor: only in sources of folders that deal with a real
// machine.
bool is_system(std::string_view header) {
  static const Names prefixes = {"unistd.h", "fcntl.h",    "sys/",     "dlfcn.h",  "pthread.h",   "sched.h",
                                 "poll.h",   "netdb.h",    "netinet/", "arpa/",    "immintrin.h", "cxxabi.h",
                                 "spawn.h",  "execinfo.h", "ext/",     "termios.h"};
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return header.starts_with(prefix); });
}

bool is_cpp(std::string_view path) {
  static const Names extensions = {".cpp", ".hpp", ".cu", ".cuh", ".h", ".cc", ".c", ".inl"};
  return contains(extensions, extension_of(path));
}

// What is wrong with one include; empty when nothing is.
std::string complaint(std::string_view path, const Include& include) {
  const std::string_view from = folder_of(path);
  const std::string_view extension = extension_of(path);
  const bool header = extension != ".cpp" && extension != ".cu" && extension != ".cuh";
  const std::string quoted_name =
      (include.quoted ? "\"" : "<") + include.name + (include.quoted ? "\"" : ">");
  if (include.quoted) {
    // Written by the build.
    if (path == "cmake/version.cpp" && include.name == "commit.inc") return "";
    if (include.name == "attention_families.inc" && from == "kernels") return "";
    if (path == "kernels/families/rates.cpp" && include.name == "shipped_rates.inc") return "";
    if (path == "algorithms/core/list.cpp" && include.name == "named_algorithms.inc") return "";
    if (path == "report/timeline_outputs.cpp" && include.name == "named_outputs.inc") return "";
    if (path == "report/html/page.cpp" && include.name.ends_with("_asset.inc")) return "";
    const std::string_view to = folder_of(include.name);
    if (to != "tests" && find_folder(to) == nullptr)
      return quoted_name + " must be \"folder/name.hpp\" from the repository root, or <...>";
    if (from == "tests" || from == to) return "";
    const Folder* folder = find_folder(from);
    if (folder == nullptr || !contains(folder->may_use, to))
      return std::string(from) + "/ may not include " + quoted_name;
    if (reaches_into_kernels(from, include.name))
      return std::string(from) + "/ may not include " + quoted_name + ": not part of what kernels/ shows it";
    return "";
  }
  if (is_standard(include.name) || from == "tests") return "";
  if (const ThirdParty* party = find_party(include.name, &ThirdParty::header_prefixes)) {
    const std::string name(party->name);
    if (!contains(party->folders, from)) return std::string(from) + "/ may not include " + name;
    if (!contains(party->extensions, extension)) return name + " belongs into sources, never into a header";
    return "";
  }
  static const Names near_machine = {"sim", "exec", "calibrate", "kernels", "report", "cli", "python"};
  if (is_system(include.name) && contains(near_machine, from) && !header) return "";
  return std::string(from) + "/ may not include " + quoted_name +
         ": no standard header, and none that tests/tidy/layers.cpp allows here";
}

}  // namespace

std::vector<Finding> check_includes(const Tree& tree) {
  std::vector<Finding> findings;
  std::map<std::string_view, std::set<std::string>> users;  // third party -> files
  for (const auto& [path, text] : tree) {
    if (!is_cpp(path)) continue;
    if (folder_of(path) != "tests" && find_folder(folder_of(path)) == nullptr)
      findings.push_back({path, 0, "C++ outside the folders of the table in CONTRIBUTING.md"});
    for (const Include& include : includes_of(text)) {
      const std::string message = complaint(path, include);
      if (!message.empty()) findings.push_back({path, include.line, message});
      if (include.quoted || folder_of(path) == "tests") continue;
      if (const ThirdParty* party = find_party(include.name, &ThirdParty::header_prefixes))
        users[party->name].insert(path);
    }
  }
  for (const ThirdParty& party : third_parties()) {
    const auto& files = users[party.name];
    if (party.max_files > 0 && static_cast<int>(files.size()) > party.max_files)
      findings.push_back({*files.rbegin(), 0,
                          std::string(party.name) + " is used in " + std::to_string(files.size()) +
                              " files, at most " + std::to_string(party.max_files) + " may"});
  }
  return findings;
}

std::vector<Finding> check_links(const Tree& tree) {
  static const Names keywords = {"PUBLIC", "PRIVATE", "INTERFACE"};
  static const Names anywhere = {"cplab_flags", "Threads::Threads"};
  std::vector<Finding> findings;
  for (const auto& [path, text] : tree) {
    const std::string_view from = folder_of(path);
    const Folder* folder = find_folder(from);
    if (!path.ends_with("/CMakeLists.txt") || folder == nullptr) continue;

    std::string code;  // without comments
    for (const std::string_view line : lines_of(text)) code.append(line.substr(0, line.find('#'))) += '\n';
    static const std::regex call(R"(target_link_libraries\s*\(([^)]*)\))");
    for (std::sregex_iterator at(code.begin(), code.end(), call), end; at != end; ++at) {
      std::istringstream words((*at)[1].str());
      const int line = 1 + static_cast<int>(std::count(code.begin(), code.begin() + at->position(), '\n'));
      std::string target;
      words >> target;
      for (std::string word; words >> word;) {
        if (contains(keywords, word) || contains(anywhere, word)) continue;
        if (word.starts_with("cplab_")) {
          const std::string_view to = std::string_view(word).substr(6);
          if (to == from || contains(folder->may_use, to) || (to == "version" && from == "cli")) continue;
        } else if (const ThirdParty* party = find_party(word, &ThirdParty::link_prefixes)) {
          if (contains(party->folders, from)) continue;
        }
        findings.push_back({path, line, target + " may not link " + word});
      }
    }
  }
  return findings;
}

}  // namespace cplab::tidy

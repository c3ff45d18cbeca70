// Which headers of the standard library a file needs for the names that it uses. The build compiles several
// sources as one unit, in which an include that one of them lacks is found in another.
#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <sstream>
#include <utility>

#include "tests/tidy/rules.hpp"

namespace cplab::tidy {
namespace {

struct Header {
  std::string_view name;
  std::string_view declares;  // of namespace std, or std::ranges
};

// Names that one header alone declares for sure, of those that this repository uses much.
constexpr std::array declaring_headers = {
    Header{"algorithm",
           "sort stable_sort min max minmax clamp any_of all_of none_of find find_if fill fill_n copy copy_n "
           "count count_if equal reverse rotate unique lower_bound upper_bound max_element min_element "
           "transform is_sorted nth_element"},
    Header{"array", "array to_array"},
    Header{"atomic", "atomic atomic_ref"},
    Header{"bit", "bit_cast has_single_bit bit_ceil bit_width"},
    Header{"chrono", "chrono"},
    Header{"cmath", "sqrt exp exp2 log log2 log10 log1p pow ceil floor isnan isinf isfinite ldexp fma"},
    Header{"cstdio", "snprintf fprintf fopen"},
    Header{"cstdlib", "getenv strtol strtod"},
    Header{"cstring", "memcpy memset memcmp strerror"},
    Header{"deque", "deque"},
    Header{"filesystem", "filesystem"},
    Header{"fstream", "ifstream ofstream"},
    Header{"functional", "function plus"},
    Header{"limits", "numeric_limits"},
    Header{"map", "map multimap"},
    Header{"memory", "unique_ptr make_unique shared_ptr make_shared weak_ptr"},
    Header{"mutex", "mutex lock_guard unique_lock scoped_lock"},
    Header{"numeric", "accumulate iota inner_product partial_sum reduce"},
    Header{"optional", "optional nullopt"},
    Header{"random", "mt19937 mt19937_64 uniform_int_distribution uniform_real_distribution"},
    Header{"regex", "regex smatch cmatch regex_search regex_match"},
    Header{"set", "set multiset"},
    Header{"span", "span"},
    Header{"sstream", "ostringstream istringstream stringstream"},
    Header{"stdexcept", "invalid_argument runtime_error logic_error out_of_range"},
    Header{"string", "string to_string stoi stod getline"},
    Header{"string_view", "string_view"},
    Header{"thread", "thread this_thread"},
    Header{"tuple", "tuple tie make_tuple"},
    Header{"unordered_map", "unordered_map"},
    Header{"unordered_set", "unordered_set"},
    Header{"utility", "pair exchange"},
    Header{"variant", "variant visit get_if holds_alternative"},
    Header{"vector", "vector"},
};

const std::map<std::string, std::string, std::less<>>& header_of_name() {
  static const auto table = [] {
    std::map<std::string, std::string, std::less<>> of_name;
    for (const Header& header : declaring_headers) {
      std::istringstream names{std::string(header.declares)};
      for (std::string name; names >> name;) of_name.emplace(name, header.name);
    }
    return of_name;
  }();
  return table;
}

bool is_read(std::string_view path) {
  return extension_of(path) == ".cpp" || extension_of(path) == ".hpp";
}

// The standard headers that a file has by itself and by headers of ours.
std::set<std::string> reached(const Tree& tree, const std::string& path) {
  std::set<std::string> standard, seen;
  std::vector<std::string> open = {path};
  while (!open.empty()) {
    const std::string next = open.back();
    open.pop_back();
    const auto file = tree.find(next);
    if (file == tree.end() || !seen.insert(next).second) continue;
    for (Include& include : includes_of(file->second)) {
      if (include.quoted)
        open.push_back(std::move(include.name));
      else
        standard.insert(std::move(include.name));
    }
  }
  return standard;
}

// The line without what stands in quotes and behind //.
std::string code_of(std::string_view line) {
  std::string code;
  bool in_quotes = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (!in_quotes && line.substr(i).starts_with("//")) break;
    if (in_quotes && c == '\\') ++i;
    if (c == '"') in_quotes = !in_quotes;
    if (!in_quotes) code += c;
  }
  return code;
}

}  // namespace

std::vector<Finding> check_standard_headers(const Tree& tree) {
  static const std::string prefix = "std::";
  std::vector<Finding> findings;
  for (const auto& [path, text] : tree) {
    if (!is_read(path)) continue;
    const std::set<std::string> has = reached(tree, path);
    std::set<std::string> told;
    int number = 0;
    for (const std::string_view line : lines_of(text)) {
      ++number;
      if (line.find(prefix) == std::string_view::npos) continue;
      const std::string code = code_of(line);
      for (std::size_t at = code.find(prefix); at != std::string::npos; at = code.find(prefix, at)) {
        at += prefix.size();
        if (code.compare(at, 8, "ranges::") == 0) at += 8;
        const std::size_t end =
            std::min(code.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_", at), code.size());
        const auto name = header_of_name().find(std::string_view(code).substr(at, end - at));
        if (name == header_of_name().end() || has.contains(name->second) || !told.insert(name->second).second)
          continue;
        findings.push_back({path, number,
                            "uses std::" + name->first + " and has no #include <" + name->second +
                                ">, by itself or by a header of ours"});
      }
    }
  }
  return findings;
}

}  // namespace cplab::tidy

// Who runs which command, and whether it is there: callers against tests/tidy/commands.txt, and that list
// against scripts/setup.sh.
#include <algorithm>
#include <array>
#include <regex>
#include <set>
#include <sstream>

#include "tests/tidy/rules.hpp"
#include "tests/tidy/shell_words.hpp"

namespace cplab::tidy {
namespace {

constexpr const char* list_path = "tests/tidy/commands.txt";
constexpr const char* setup_path = "scripts/setup.sh";

struct Row {
  int line = 0;
  std::string command, source, rest;
};

std::vector<Row> read_list(std::string_view text) {
  std::vector<Row> rows;
  int number = 0;
  for (const std::string_view line : lines_of(text)) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    Row row;
    row.line = number;
    std::istringstream words{std::string(line)};
    words >> row.command >> row.source;
    std::getline(words >> std::ws, row.rest);
    rows.push_back(row);
  }
  return rows;
}

struct Call {
  std::string path;
  int line = 0;
  std::string command;
};

bool is_shell(const std::string& path, std::string_view text) {
  return path.ends_with(".sh") || (text.starts_with("#!") && text.substr(0, text.find('\n')).ends_with("sh"));
}

// The recipes of a Makefile as a script with the same line numbers.
std::string recipes(std::string_view text) {
  static const std::regex variable(R"(\$\([A-Za-z_]+\))");
  std::string script;
  for (std::string_view line : lines_of(text)) {
    if (line.starts_with('\t')) {
      line.remove_prefix(std::min(line.find_first_not_of("\t@-+"), line.size()));
      script += std::regex_replace(std::string(line), variable, "\"make\"");
    }
    script += '\n';
  }
  return script;
}

// The "$ " commands of a page's console blocks, likewise.
std::string console(std::string_view text) {
  std::string script;
  bool inside = false, command = false;
  for (std::string_view line : lines_of(text)) {
    if (line.starts_with("```")) inside = line.starts_with("```console");
    const bool begins = inside && line.starts_with("$ ");
    if (begins) line.remove_prefix(2);
    command = inside && (begins || command);
    if (command) script += line;
    script += '\n';
    command = command && line.ends_with('\\');
  }
  return script;
}

// Where `pattern` matches, its first group is the command.
void find_calls(const std::string& path, const std::string& text, const std::regex& pattern,
                std::vector<Call>& calls) {
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at)
    calls.push_back({path,
                     1 + static_cast<int>(std::count(text.begin(), text.begin() + at->position(), '\n')),
                     (*at)[1].str()});
}

std::vector<Call> calls_of(const Tree& tree) {
  static const std::regex python(R"rx((?:subprocess\.\w+|Popen)\(\s*\[\s*"([a-z][\w.+-]*)")rx");
  static const std::regex program(R"rx((?:std::system|popen)\(\s*"([^"]*)")rx");
  static const std::regex find_program(R"rx(find_program\(\w+\s+([a-z][\w.+-]*))rx");
  std::vector<Call> calls;
  std::set<std::string> functions;
  const auto add_shell = [&](const std::string& path, std::string_view text) {
    const ShellWords words = read_shell(text);
    for (const ShellCommand& command : words.commands) calls.push_back({path, command.line, command.name});
    functions.insert(words.functions.begin(), words.functions.end());
  };
  for (const auto& [path, text] : tree) {
    const std::string_view extension = extension_of(path);
    if (is_shell(path, text)) add_shell(path, text);
    if (path == "Makefile") add_shell(path, recipes(text));
    if (extension == ".md" && folder_of(path) == "docs") add_shell(path, console(text));
    if (extension == ".py") find_calls(path, text, python, calls);
    if (extension == ".cpp" && !path.starts_with("tests/tidy/")) {
      std::vector<Call> scripts;
      find_calls(path, text, program, scripts);
      for (const Call& script : scripts)
        for (const ShellCommand& command : read_shell(script.command).commands)
          calls.push_back({path, script.line, command.name});
    }
    if (path.ends_with("CMakeLists.txt") || extension == ".cmake") {
      find_calls(path, text, find_program, calls);
      if (text.find("find_package(Python3") != std::string::npos) calls.push_back({path, 0, "python3"});
      if (text.find("find_package(PkgConfig") != std::string::npos) calls.push_back({path, 0, "pkg-config"});
    }
    // Started by its #! line.
    if (extension == ".py" && text.starts_with("#!")) calls.push_back({path, 1, "python3"});
  }
  std::erase_if(calls, [&](const Call& call) { return functions.contains(call.command); });
  return calls;
}

// What scripts/setup.sh says in the branch of a group, with the functions that the branch calls.
std::string group_text(const std::string& setup, const std::string& group) {
  const std::size_t begin = setup.find("\n    " + group + ")");
  if (begin == std::string::npos) return "";
  std::string text = setup.substr(begin, setup.find(";;", begin) - begin);
  static const std::regex call(R"(\bneed_\w+)");
  const std::string branch = text;
  for (std::sregex_iterator at(branch.begin(), branch.end(), call), end; at != end; ++at) {
    const std::size_t body = setup.find("\n" + at->str() + "() {");
    if (body != std::string::npos) text += setup.substr(body, setup.find("\n}", body) - body);
  }
  return text;
}

bool has_word(const std::string& text, const std::string& word) {
  const auto part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '+';
  };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !part(text[at - 1])) && (end == text.size() || !part(text[end]))) return true;
  }
  return false;
}

bool asks_for(const std::string& text, const std::string& command) {
  constexpr std::array<std::string_view, 4> questions = {"need ", "command -v ", "for command in ",
                                                         "shutil.which("};
  for (const std::string_view line : lines_of(text))
    if (std::any_of(
            questions.begin(), questions.end(),
            [&](std::string_view question) { return line.find(question) != std::string_view::npos; }) &&
        has_word(std::string(line), command))
      return true;
  return false;
}

// Whether the caller may count on what scripts/setup.sh installs for `group`.
bool group_serves(const std::string& group, const Tree& tree, const std::string& path) {
  const std::string& text = tree.at(path);
  if (group == "build") return true;
  if (group == "lint") return text.find("exit 77") != std::string::npos;  // a test that is skipped without it
  const bool figures = path.starts_with("plots/") || path == "scripts/figures.sh";
  if (group == "figures") return figures;
  if (group == "site") return path == "scripts/site.sh";
  // group "test": tests, and what tests or users run by hand. A build must not need it.
  return !figures && (path.starts_with("tests/") || path.starts_with("docs/") ||
                      path.starts_with("scripts/gpu/") || extension_of(path) == ".py");
}

bool row_serves(const Row& row, const Tree& tree, const Call& call) {
  if (row.source == "bare" || row.source == "first" || row.source == "ours" || row.source == "without")
    return true;
  if (row.source != "asked") return group_serves(row.source, tree, call.path);
  const std::string& text = tree.at(call.path);
  if (asks_for(text, row.command)) return true;
  if (extension_of(call.path) == ".py" && text.find("except (OSError") != std::string::npos)
    return true;  // handles its absence
  const auto environment = tree.find("scripts/gpu/environment.sh");
  return environment != tree.end() && text.find(environment->first) != std::string::npos &&
         asks_for(environment->second, row.command);
}

// What is wrong with a row of the list; empty when nothing is.
std::string doubt(const Row& row, const Tree& tree) {
  const std::set<std::string> plain = {"bare", "first", "asked"};
  if (plain.contains(row.source)) return row.rest.empty() ? "" : "has more words than it may";
  if (row.source == "without") return row.rest.empty() ? "does not say what happens without it" : "";
  if (row.source == "ours") {
    for (const auto& [path, text] : tree)
      if (path.ends_with("CMakeLists.txt") &&
          (text.find("add_executable(" + row.command + " ") != std::string::npos ||
           text.find("add_executable(" + row.command + "\n") != std::string::npos))
        return "";
    return "is no program that is built here";
  }
  const auto setup = tree.find(setup_path);
  const std::string text = setup == tree.end() ? "" : group_text(setup->second, row.source);
  if (text.empty()) return "names no source: " + row.source;
  const std::string& wanted = row.rest.empty() ? row.command : row.rest;
  return has_word(text, wanted) ? "" : "is not installed by scripts/setup.sh " + row.source;
}

}  // namespace

std::vector<Finding> check_commands(const Tree& tree) {
  std::vector<Finding> findings;
  const auto list = tree.find(list_path);
  if (list == tree.end()) return {{list_path, 0, "the list of commands is missing"}};
  const std::vector<Row> rows = read_list(list->second);
  const std::vector<Call> calls = calls_of(tree);
  for (const Call& call : calls) {
    bool known = false, served = false;
    for (const Row& row : rows) {
      if (row.command != call.command) continue;
      known = true;
      served = served || row_serves(row, tree, call);
    }
    if (!known)
      findings.push_back({call.path, call.line, "runs " + call.command + ", which is not in " + list_path});
    else if (!served)
      findings.push_back({call.path, call.line, "runs " + call.command + ", which need not be there"});
  }
  for (const Row& row : rows) {
    const std::string why = doubt(row, tree);
    if (!why.empty()) findings.push_back({list_path, row.line, row.command + " " + why});
    if (std::none_of(calls.begin(), calls.end(),
                     [&](const Call& call) { return call.command == row.command; }))
      findings.push_back({list_path, row.line, "nothing runs " + row.command});
  }
  return findings;
}

}  // namespace cplab::tidy

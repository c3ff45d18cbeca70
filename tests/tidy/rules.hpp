// The rules of the source tree that a program can check: who may include and link whom (the table in
// CONTRIBUTING.md), how long a file may be, and what every file must or must not hold. Each rule is a pure
// function of a tree given as text, so that the tests can show it a small bad tree as well as this
// repository.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cplab::tidy {

// Path from the repository root, with '/', to the file's text.
using Tree = std::map<std::string, std::string>;

struct Finding {
  std::string path;
  int line = 0;  // 1 is the first; 0 concerns the whole file
  std::string message;
};

std::ostream& operator<<(std::ostream& out, const Finding& finding);

// --- layers.cpp: the table of folders and third parties

// Every #include: folders of ours by the table, third parties by folder and kind of file, unknown headers.
std::vector<Finding> check_includes(const Tree& tree);

// target_link_libraries of each folder's CMakeLists.txt, by the same table.
std::vector<Finding> check_links(const Tree& tree);

// --- files.cpp: single files

// Lines a source file may have: an algorithm 100, the members of one class 600, any other file 400.
std::vector<Finding> check_budgets(const Tree& tree);

// Every .cpp and .cu stands in its folder's CMakeLists.txt (or in one further up).
std::vector<Finding> check_listed(const Tree& tree);

// Every file that has comments begins with one (after #!, if there is one).
std::vector<Finding> check_first_comment(const Tree& tree);

// No blanks at the end of a line in what is written by hand.
std::vector<Finding> check_trailing_blanks(const Tree& tree);

// No path of one machine: the given folders (the repository's root, the user's home), anybody's home.
std::vector<Finding> check_machine_paths(const Tree& tree, const std::vector<std::string>& folders);

// A list in quotes with a variable as one of its elements, "a;${b}": where the variable is empty, so is an
// element, and a compiler launcher with an empty element runs a command without a name.
std::vector<Finding> check_quoted_lists(const Tree& tree);

// A test case with ';' in its name: CMake's list of cases would hold it as two, of which neither exists.
std::vector<Finding> check_case_names(const Tree& tree);

// --- standard_names.cpp

// A file that uses a name of the standard library has the header, by itself or by a header of ours.
std::vector<Finding> check_standard_headers(const Tree& tree);

// --- commands.cpp: what runs

// Every command that scripts, the Makefile, pages and programs run stands in tests/tidy/commands.txt and is
// there when they run; what that list says of scripts/setup.sh is so; nothing in it is left over.
std::vector<Finding> check_commands(const Tree& tree);

// --- records.cpp

// Every file of scenarios/measured has an entry in its INDEX.toml that names who opens it, and every entry
// has a file; a claim has one current file and at most one older; 150 files and 3 MB at most.
std::vector<Finding> check_records(const Tree& tree);

// --- tree.cpp

// What git tracks or would track under `root`; without git (or in no checkout), every file there except
// build*/, results/ and hidden folders other than .ci. Binary files (a zero byte in them) are left out.
Tree read_tree(const std::filesystem::path& root);

// Bytes of all those files, binary ones too.
std::uintmax_t checkout_bytes(const std::filesystem::path& root);

// Splits at '\n'; a last line without one counts.
std::vector<std::string_view> lines_of(std::string_view text);

struct Include {
  int line = 0;
  bool quoted = false;  // "name", or <name>
  std::string name;
};
std::vector<Include> includes_of(std::string_view text);

// "plan" of "plan/plan.hpp"; empty for a file at the root.
std::string_view folder_of(std::string_view path);

// ".cpp" of "a/b.cpp"; empty without one.
std::string_view extension_of(std::string_view path);

}  // namespace cplab::tidy

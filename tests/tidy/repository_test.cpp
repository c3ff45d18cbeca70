// This repository, held to each rule of rules.hpp. A failure lists file, line and what is wrong.
#include <doctest/doctest.h>

#include <cstdlib>
#include <sstream>
#include <string_view>

#include "tests/tidy/rules.hpp"

namespace cplab::tidy {
namespace {

const Tree& repository() {
  static const Tree tree = read_tree(CPLAB_SOURCE_DIR);
  return tree;
}

void expect_none(const std::vector<Finding>& findings) {
  std::ostringstream list;
  for (const Finding& finding : findings) list << '\n' << finding;
  CHECK_MESSAGE(findings.empty(), list.str());
}

TEST_CASE("tidy: the whole tree is read") {
  // Without this, a tree that could not be read would pass every rule below.
  for (const char* path : {"CMakeLists.txt", "LICENSE", ".ci/run", "tests/tidy/rules.hpp", "plan/plan.hpp"})
    CHECK_MESSAGE(repository().contains(path), path);
}

TEST_CASE("tidy: includes follow the table of folders and third parties") {
  expect_none(check_includes(repository()));
}

TEST_CASE("tidy: targets link what their folder may include") {
  expect_none(check_links(repository()));
}

TEST_CASE("tidy: files keep to their budget of lines") {
  expect_none(check_budgets(repository()));
}

TEST_CASE("tidy: every source is built") {
  expect_none(check_listed(repository()));
}

TEST_CASE("tidy: every file begins with a comment") {
  expect_none(check_first_comment(repository()));
}

TEST_CASE("tidy: every file includes the standard headers of the names that it uses") {
  expect_none(check_standard_headers(repository()));
}

TEST_CASE("tidy: no line ends in blanks") {
  expect_none(check_trailing_blanks(repository()));
}

TEST_CASE("tidy: no variable in a quoted CMake list") {
  expect_none(check_quoted_lists(repository()));
}

TEST_CASE("tidy: CTest finds every test case by its name") {
  expect_none(check_case_names(repository()));
}

TEST_CASE("tidy: every command that runs is installed or may be missing") {
  expect_none(check_commands(repository()));
}

TEST_CASE("tidy: every record is in the index and somebody opens it") {
  expect_none(check_records(repository()));
}

TEST_CASE("tidy: the whole checkout has at most 15 MB") {
  CHECK(checkout_bytes(CPLAB_SOURCE_DIR) <= 15'000'000);
}

TEST_CASE("tidy: the first section of CHANGELOG.md is the version, and it says something") {
  const std::string_view changes = repository().at("CHANGELOG.md"), root = repository().at("CMakeLists.txt");
  const auto between = [](std::string_view text, std::string_view before, std::string_view after) {
    const std::size_t from = text.find(before);
    if (from == std::string_view::npos) return std::string_view();
    text.remove_prefix(from + before.size());
    return text.substr(0, text.find(after));
  };
  const std::string_view version = between(root, "project(cplab VERSION ", " ");
  CHECK(!version.empty());
  CHECK(between(changes, "\n## ", "\n") == version);
  CHECK(between(between(changes, "\n## ", "\n## "), "\n\n- ", "\n").size() > 10);
}

TEST_CASE("tidy: no file names a path of one machine") {
  std::vector<std::string> folders = {CPLAB_SOURCE_DIR};
  if (const char* home = std::getenv("HOME")) folders.emplace_back(home);
  expect_none(check_machine_paths(repository(), folders));
}

}  // namespace
}  // namespace cplab::tidy

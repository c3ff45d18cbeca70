// The mask that show draws: behind each row of queries stand the ranks that hold them, token by token.
#include <doctest/doctest.h>

#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/program.hpp"

namespace {

// What stands behind the rows of the drawing; a group of one token adds no pair and asks for the drawing.
std::vector<std::string> ranks_behind_rows(const std::string& placement, int tokens, int ranks) {
  const ProgramResult result =
      run_cplab({"show", "faults/ring", "--quiet", "--set", "problem.groups=[[0,1]]", "--set",
                 "problem.sequence=" + std::to_string(tokens), "--set",
                 "parallel.ranks=" + std::to_string(ranks), "--set", "parallel.placement=" + placement});
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  std::vector<std::string> behind;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with('|')) behind.push_back(line.substr(line.rfind('|') + 2));
  return behind;
}

}  // namespace

TEST_CASE("show draws which rank holds which query") {
  using Rows = std::vector<std::string>;
  CHECK(ranks_behind_rows("contiguous", 8, 4) == Rows{"0", "0", "1", "1", "2", "2", "3", "3"});
  CHECK(ranks_behind_rows("zigzag", 8, 4) == Rows{"0", "1", "2", "3", "3", "2", "1", "0"});
  CHECK(ranks_behind_rows("striped", 8, 4) == Rows{"0", "1", "2", "3", "0", "1", "2", "3"});
}

TEST_CASE("show draws every rank of a row of several queries, and no other") {
  const std::vector<std::string> rows = ranks_behind_rows("striped", 48, 4);  // two tokens a row
  REQUIRE(rows.size() == 24);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    CAPTURE(row);
    CHECK(rows[row] == (row % 2 == 0 ? "0 1" : "2 3"));
  }
}

// Conditions of studies: precedence, types, what is no condition.
#include "cli/sweep/expression.hpp"

#include <doctest/doctest.h>

#include <map>

#include "tests/contains.hpp"

using cplab::Expression;
using cplab::ExpressionError;
using cplab::testing::contains;

namespace {

bool holds(const std::string& text, const std::map<std::string, Expression::Value>& values = {}) {
  return Expression(text).holds([&](const std::string& key) { return values.at(key); });
}

std::string error_of(const std::string& text, const std::map<std::string, Expression::Value>& values = {}) {
  try {
    (void)holds(text, values);
  } catch (const ExpressionError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("arithmetic binds tighter than comparison, comparison than not, and, or") {
  CHECK(holds("1 + 2 * 3 == 7"));
  CHECK(holds("(1 + 2) * 3 == 9"));
  CHECK(holds("10 - 4 - 3 == 3"));  // from the left
  CHECK(holds("64 / 4 / 2 == 8"));  // from the left
  CHECK(holds("7 / 2 == 3.5"));     // as numbers, not as whole numbers
  CHECK(holds("17 % 5 * 2 == 4"));  // (17 % 5) * 2
  CHECK(holds("-3 + 5 == 2"));
  CHECK(holds("2 * -3 == -6"));
  CHECK(holds("1 == 1 or 1 == 2 and 1 == 3"));  // or (.. and ..)
  CHECK_FALSE(holds("(1 == 1 or 1 == 2) and 1 == 3"));
  CHECK(holds("not 1 == 2"));  // not (1 == 2)
  CHECK_FALSE(holds("not not 1 == 2"));
  CHECK(holds("1 < 2 and 2 <= 2 and 3 > 2 and 3 >= 3 and 1 != 2"));
}

TEST_CASE("sizes are powers of 1024, quoted ones too, and rates powers of 1000") {
  CHECK(holds("32K == 32768"));
  CHECK(holds("1M == 1024 * 1K"));
  CHECK(holds("\"64K\" == 65536"));
  CHECK(holds("problem.sequence / parallel.ranks >= 8K",
              {{"problem.sequence", cplab::value_of_text("128K")}, {"parallel.ranks", 16.0}}));
  CHECK(holds("hardware.network.nic_bytes_s == \"50GB/s\"",
              {{"hardware.network.nic_bytes_s", cplab::value_of_text("400Gb/s")}}));
}

TEST_CASE("words, flags and divisibility") {
  CHECK(holds("parallel.algorithm == 'ring'", {{"parallel.algorithm", std::string("ring")}}));
  CHECK(holds("parallel.algorithm != \"ring\" or parallel.ranks == 8",
              {{"parallel.algorithm", std::string("ring")}, {"parallel.ranks", 8.0}}));
  CHECK(holds("schedule.overlap", {{"schedule.overlap", true}}));
  CHECK(holds("schedule.overlap == false", {{"schedule.overlap", false}}));
  for (const double ranks : {1.0, 2.0, 4.0, 7.0, 14.0, 28.0})
    CHECK(holds("problem.heads % parallel.ranks == 0", {{"problem.heads", 28.0}, {"parallel.ranks", ranks}}));
  CHECK_FALSE(
      holds("problem.heads % parallel.ranks == 0", {{"problem.heads", 28.0}, {"parallel.ranks", 8.0}}));
}

TEST_CASE("what the left side decides is not looked at on the right") {
  CHECK(holds("parallel.ranks == 0 or 8 / parallel.ranks > 1", {{"parallel.ranks", 0.0}}));
  CHECK_FALSE(holds("parallel.ranks != 0 and 8 % parallel.ranks == 0", {{"parallel.ranks", 0.0}}));
}

TEST_CASE("keys are named once, in order") {
  const Expression condition("a.b == c.d and a.b < 3 and e.f");
  CHECK(condition.keys() == std::vector<std::string>{"a.b", "c.d", "e.f"});
}

TEST_CASE("what is no condition says where") {
  CHECK(contains(error_of(""), "expected a key"));
  CHECK(contains(error_of("a.b =="), "at the end"));
  CHECK(contains(error_of("a.b = 3"), "at \"=\""));
  CHECK(contains(error_of("1 == 1 && 2 == 2"), "at \"&&\""));
  CHECK(contains(error_of("(1 == 1"), "expected \")\""));
  CHECK(contains(error_of("1 == 1)"), "at \")\""));
  CHECK(contains(error_of("1 < 2 < 3"), "two comparisons in a row"));
  CHECK(contains(error_of("heads == 3"), "problem.heads"));  // a key has a section
  CHECK(contains(error_of("a.b == \"x"), "does not end"));
  CHECK(contains(error_of("3x == 3"), "no number"));
  CHECK(contains(error_of("1 == 1 2"), "expected \"and\""));
  CHECK(contains(error_of(std::string(1000, '(')), "too deep"));
  CHECK(contains(error_of(std::string(20000, ' ') + "1 == 1"), "longer than"));
}

TEST_CASE("what has no answer says why") {
  CHECK(contains(error_of("1 / 0 == 1"), "division by zero"));
  CHECK(contains(error_of("1 % 0 == 1"), "division by zero"));
  CHECK(contains(error_of("1.5 % 2 == 1"), "whole numbers"));
  CHECK(contains(error_of("a.b == 3", {{"a.b", std::string("ring")}}), "do not compare"));
  CHECK(contains(error_of("a.b < \"z\"", {{"a.b", std::string("ring")}}), "takes numbers"));
  CHECK(contains(error_of("a.b + 1 == 2", {{"a.b", true}}), "takes numbers"));
  CHECK(contains(error_of("a.b", {{"a.b", 3.0}}), "takes conditions"));
  CHECK(contains(error_of("a.b and 1 == 1", {{"a.b", 3.0}}), "takes conditions"));
}

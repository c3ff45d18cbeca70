// Conditions over keys of a scenario, for the constraints of a study: "problem.heads % parallel.ranks == 0".
//
//   condition  = all {"or" all}              all     = one {"and" one}          one = ["not"] comparison
//   comparison = sum [("==" | "!=" | "<" | "<=" | ">" | ">=") sum]
//   sum        = product {("+" | "-") product}
//   product    = factor {("*" | "/" | "%") factor}
//   factor     = ["-"] (number | size | text in quotes | "true" | "false" | key | "(" condition ")")
//
// A size is a number with K, M, G or T (powers of 1024). A key has a dot. "/" divides as numbers do (7 / 2 is
// 3.5); "%" takes whole numbers and has the sign of its left side.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cplab {

// What is wrong with the text of a condition, or with its values; what() quotes the place.
struct ExpressionError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Expression {
 public:
  using Value = std::variant<bool, double, std::string>;
  // The value of a key, for holds(). Text that is a size or a rate should come as a number (value_of_text).
  using Lookup = std::function<Value(const std::string& key)>;

  // Throws ExpressionError for what is no condition.
  explicit Expression(const std::string& text);

  const std::string& text() const { return text_; }
  const std::vector<std::string>& keys() const { return keys_; }  // each once, in order of appearance

  // Whether the condition holds. Throws ExpressionError where it cannot be said: division by zero, a number
  // compared with text, a remainder of fractions.
  bool holds(const Lookup&) const;

  struct Node;

 private:
  std::string text_;
  std::vector<std::string> keys_;
  std::shared_ptr<const Node> root_;
};

// A number where the text is a size or a rate ("128K", "400Gb/s"), else the text.
Expression::Value value_of_text(const std::string& text);

}  // namespace cplab

// Recursive descent into a tree, and its evaluation; see expression.hpp.
#include "cli/sweep/expression.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "report/quantity.hpp"

namespace cplab {

struct Expression::Node {
  std::string what;  // an operator, "key", or "value"
  Value value;       // of "value"; of "key" its name
  std::vector<Node> inner;
};

namespace {

using Node = Expression::Node;
using Value = Expression::Value;

constexpr int deepest = 100;  // brackets, "not" and "-" inside one another

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

class Parser {
 public:
  Parser(const std::string& text, std::vector<std::string>& keys) : text_(text), keys_(keys) { next(); }

  Node whole() {
    Node node = condition();
    if (!token_.empty()) fail("expected \"and\", \"or\" or the end");
    return node;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const std::string at = token_.empty() ? "at the end" : "at \"" + token_ + "\"";
    throw ExpressionError("\"" + text_ + "\": " + what + " " + at);
  }

  void next() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
    const std::size_t begin = at_;
    token_.clear();
    if (at_ == text_.size()) return;
    const char c = text_[at_];
    if (is_word(c)) {
      while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    } else if (c == '"' || c == '\'') {
      at_ = text_.find(c, at_ + 1);
      if (at_ == std::string::npos) throw ExpressionError("\"" + text_ + "\": text in quotes does not end");
      ++at_;
    } else {
      const bool two = at_ + 1 < text_.size() &&
                       ((text_[at_ + 1] == '=' && std::string_view("=!<>").find(c) != std::string::npos) ||
                        (text_[at_ + 1] == c && (c == '&' || c == '|')));
      at_ += two ? 2 : 1;
    }
    token_ = text_.substr(begin, at_ - begin);
  }
  bool take(std::string_view word) {
    if (token_ != word) return false;
    next();
    return true;
  }
  // One of several operators between two operands; empty: none.
  std::string take_one(std::initializer_list<std::string_view> words) {
    if (std::find(words.begin(), words.end(), token_) == words.end()) return {};
    std::string found = token_;
    next();
    return found;
  }

  template <class Operand>
  Node chain(std::initializer_list<std::string_view> operators, Operand operand) {
    Node left = operand();
    for (std::string found = take_one(operators); !found.empty(); found = take_one(operators))
      left = binary(std::move(found), std::move(left), operand());
    return left;
  }
  static Node binary(std::string what, Node left, Node right) {
    Node node{std::move(what), {}, {}};
    node.inner.push_back(std::move(left));
    node.inner.push_back(std::move(right));
    return node;
  }

  Node condition() {
    return chain({"or"}, [&] { return chain({"and"}, [&] { return one(); }); });
  }
  Node one() {
    const Deeper deeper(*this);
    if (!take("not")) return comparison();
    Node node{"not", {}, {}};
    node.inner.push_back(one());
    return node;
  }
  Node comparison() {
    const std::initializer_list<std::string_view> operators{"==", "!=", "<=", ">=", "<", ">"};
    Node left = sum();
    std::string found = take_one(operators);
    if (found.empty()) return left;
    Node node = binary(std::move(found), std::move(left), sum());
    if (!take_one(operators).empty())
      throw ExpressionError("\"" + text_ + "\": two comparisons in a row; put \"and\" between them");
    return node;
  }
  Node sum() {
    return chain({"+", "-"}, [&] { return chain({"*", "/", "%"}, [&] { return factor(); }); });
  }
  Node factor() {
    const Deeper deeper(*this);
    if (take("-")) {
      Node node{"negative", {}, {}};
      node.inner.push_back(factor());
      return node;
    }
    if (take("(")) {
      Node node = condition();
      if (!take(")")) fail("expected \")\"");
      return node;
    }
    return operand();
  }
  Node operand() {
    if (token_.empty()) fail("expected a key, a number or text in quotes");
    if (token_ == "&&" || token_ == "||" || token_ == "!" || token_ == "=")
      fail("operators are ==, !=, <, <=, >, >=, + - * / %, and, or, not; found one that is none");
    if (token_.front() == '"' || token_.front() == '\'') {
      Node node{"value", value_of_text(token_.substr(1, token_.size() - 2)), {}};
      next();
      return node;
    }
    if (!is_word(token_.front())) fail("expected a key, a number or text in quotes");
    if (token_ == "true" || token_ == "false") {
      Node node{"value", token_ == "true", {}};
      next();
      return node;
    }
    return std::isdigit(static_cast<unsigned char>(token_.front())) != 0 ? number() : key();
  }
  Node number() {
    double plain = 0;
    const char* const end = token_.data() + token_.size();
    const auto read = std::from_chars(token_.data(), end, plain);
    const auto size = parse_quantity(token_, Quantity::count);
    if (!size && (read.ec != std::errc() || read.ptr != end)) fail("no number or size (such as 128K)");
    Node node{"value", size ? *size : plain, {}};
    next();
    return node;
  }
  Node key() {
    if (token_.find('.') == std::string::npos || token_.front() == '.' || token_.back() == '.')
      fail("a key has a section and a dot (problem.heads), a word as a value stands in quotes;");
    if (std::find(keys_.begin(), keys_.end(), token_) == keys_.end()) keys_.push_back(token_);
    Node node{"key", token_, {}};
    next();
    return node;
  }

  struct Deeper {
    explicit Deeper(Parser& parser) : of(parser) {
      if (++of.depth_ > deepest) throw ExpressionError("\"" + of.text_.substr(0, 40) + "...\": too deep");
    }
    ~Deeper() { --of.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    Parser& of;
  };

  const std::string& text_;
  std::vector<std::string>& keys_;
  std::size_t at_ = 0;
  std::string token_;
  int depth_ = 0;
};

std::string shown(const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return "\"" + *text + "\"";
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  std::string text = std::to_string(std::get<double>(value));
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

double number_in(const Value& value, const std::string& operation) {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  throw ExpressionError(operation + " takes numbers, not " + shown(value));
}

bool truth_in(const Value& value, const std::string& operation) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  throw ExpressionError(operation + " takes conditions, not " + shown(value));
}

Value calculate(const std::string& what, double a, double b) {
  if (what == "+") return a + b;
  if (what == "-") return a - b;
  if (what == "*") return a * b;
  if (b == 0) throw ExpressionError(shown(a) + " " + what + " 0: division by zero");
  if (what == "/") return a / b;
  if (a != std::floor(a) || b != std::floor(b))
    throw ExpressionError(shown(a) + " % " + shown(b) + ": a remainder is of whole numbers");
  return std::fmod(a, b);
}

bool compare(const std::string& what, const Value& a, const Value& b) {
  if (a.index() != b.index())
    throw ExpressionError(shown(a) + " " + what + " " + shown(b) + ": a number and a word do not compare");
  if (what == "==") return a == b;
  if (what == "!=") return a != b;
  const double x = number_in(a, what), y = number_in(b, what);
  if (what == "<") return x < y;
  if (what == "<=") return x <= y;
  if (what == ">") return x > y;
  return x >= y;
}

Value evaluate(const Node& node, const Expression::Lookup& lookup) {
  if (node.what == "value") return node.value;
  if (node.what == "key") return lookup(std::get<std::string>(node.value));
  const Value left = evaluate(node.inner.front(), lookup);
  if (node.what == "not") return !truth_in(left, "not");
  if (node.what == "negative") return -number_in(left, "-");
  // What stands behind "and" and "or" need not mean anything where the left side has decided.
  if (node.what == "and" && !truth_in(left, "and")) return false;
  if (node.what == "or" && truth_in(left, "or")) return true;
  const Value right = evaluate(node.inner.back(), lookup);
  if (node.what == "and" || node.what == "or") return truth_in(right, node.what);
  if (std::string_view("+-*/%").find(node.what) != std::string_view::npos)
    return calculate(node.what, number_in(left, node.what), number_in(right, node.what));
  return compare(node.what, left, right);
}

}  // namespace

Expression::Expression(const std::string& text) : text_(text) {
  constexpr std::size_t longest = 10000;
  if (text.size() > longest)
    throw ExpressionError("\"" + text.substr(0, 40) + "...\": longer than " + std::to_string(longest) +
                          " characters");
  root_ = std::make_shared<const Node>(Parser(text_, keys_).whole());
}

bool Expression::holds(const Lookup& lookup) const {
  try {
    return truth_in(evaluate(*root_, lookup), "a constraint");
  } catch (const ExpressionError& error) {
    throw ExpressionError("\"" + text_ + "\": " + error.what());
  }
}

Expression::Value value_of_text(const std::string& text) {
  for (const Quantity quantity : {Quantity::count, Quantity::bytes_s, Quantity::flops_s})
    if (const auto number = parse_quantity(text, quantity)) return *number;
  return text;
}

}  // namespace cplab

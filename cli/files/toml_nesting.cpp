// Reads as little of TOML as tells a dot in a key from one in text, a comment or a number.
#include "cli/files/toml_nesting.hpp"

#include <toml++/toml.h>

#include <vector>

#include "cli/files/toml_table.hpp"

namespace cplab {

namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::size_t run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        skip_text(c);
        fresh_line_ = false;
        continue;
      }
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
        continue;
      }
      step(c);
      ++at_;
      if (depth() > deepest_toml) return line_;
    }
    return 0;
  }

 private:
  // Dots separate the parts of a key. A number in a value has at most one, too few to matter.
  void step(char c) {
    switch (c) {
      case '\n':
        ++line_;
        if (open_.empty()) {
          if (in_header_) header_ = parts_;
          in_header_ = false;
          parts_ = 0;
          fresh_line_ = true;
        }
        return;
      case ' ':
      case '\t':
      case '\r': return;
      case '[':
        if (open_.empty() && fresh_line_) {  // [table] or [[table]]
          in_header_ = true;
          header_ = 0;
          parts_ = 0;
          break;
        }
        if (in_header_) break;
        [[fallthrough]];
      case '{':
        open_.push_back(parts_);
        below_ += parts_ + 1;
        parts_ = 0;
        break;
      case ']':
      case '}':
        if (open_.empty()) break;  // the end of a header
        below_ -= open_.back() + 1;
        parts_ = open_.back();
        open_.pop_back();
        break;
      case ',':
        if (!open_.empty()) parts_ = 0;
        break;
      case '.': ++parts_; break;
      default: break;
    }
    fresh_line_ = false;
  }

  std::size_t depth() const { return (in_header_ ? 0 : header_) + below_ + parts_ + 1; }

  // Text in quotes, of one line or, between three quotes, of many.
  void skip_text(char quote) {
    const std::string_view three(quote == '"' ? "\"\"\"" : "'''");
    const bool many = text_.substr(at_, 3) == three;
    at_ += many ? 3 : 1;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') {
        if (!many) return;  // an unclosed quote: text of one line ends with its line
        ++line_;
      } else if (c == '\\' && quote == '"') {
        if (at_ + 1 < text_.size() && text_[at_ + 1] == '\n') ++line_;
        ++at_;
      } else if (c == quote) {
        if (!many) {
          ++at_;
          return;
        }
        if (text_.substr(at_, 3) != three) continue;
        at_ += 3;
        for (int more = 0; more < 2 && at_ < text_.size() && text_[at_] == quote; ++more) ++at_;
        return;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0, line_ = 1;
  bool fresh_line_ = true;  // nothing but blanks on it yet
  bool in_header_ = false;
  std::size_t header_ = 0;         // parts of the header of the current table, less one
  std::size_t parts_ = 0;          // dots of the key at hand
  std::size_t below_ = 0;          // levels of all that is open
  std::vector<std::size_t> open_;  // lists and inline tables: dots of the key before each
};

}  // namespace

std::size_t line_nested_too_deep(std::string_view text) {
  return Scanner(text).run();
}

void require_shallow_toml(const std::string& text, const std::string& file_name) {
  const std::size_t line = line_nested_too_deep(text);
  if (line == 0) return;
  std::size_t end = 0;  // of the lines before it
  for (std::size_t i = 1; i < line; ++i) end = text.find('\n', end) + 1;
  try {
    (void)toml::parse(std::string_view(text).substr(0, end));
  } catch (const toml::parse_error& error) {
    // At the end of the excerpt an error may come from the cut alone: a list that goes on below it.
    const auto& at = error.source().begin;
    if (at.line + 1 < line)
      throw InputError(file_name + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) +
                       ": not TOML: " + std::string(error.description()));
  }
  throw InputError(file_name + ":" + std::to_string(line) + ": tables and lists stand more than " +
                   std::to_string(deepest_toml) + " levels deep in one another");
}

}  // namespace cplab

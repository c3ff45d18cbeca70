// HTML, streamed: elements that close in order, escaped text, and numbers that say which number of the JSON
// result they are.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cplab {

// &, <, > and quotes as entities; what is no text (report/printable.hpp) as escapes.
std::string html_escaped(std::string_view text);

// What a page shows of one value. `value`: its digits as the JSON result has them, and `key` the JSON pointer
// (RFC 6901) to it there: "/ranks/3/time_s"; both empty for what is no number of the result.
struct Shown {
  std::string text;
  std::string value = {}, key = {};
  std::string css = {};     // classes of the cell
  std::string markup = {};  // our own, after the text
};
Shown shown(std::string text, double value, std::string key);
Shown shown(std::string text, std::int64_t value, std::string key);
// Not a number of the result, but sorted as one.
Shown sorted_as(std::string text, double value);

class HtmlWriter {
 public:
  using Attributes = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  explicit HtmlWriter(std::ostream& out) : out_(out) {}

  void open(std::string_view tag, Attributes attributes = {});
  void close();  // what was opened last
  void element(std::string_view tag, std::string_view text, Attributes attributes = {});
  void text(std::string_view text);
  void raw(std::string_view markup);  // our own: nothing of a user's is in it
  void value(const Shown&);           // <data>, or the text alone

 private:
  std::ostream& out_;
  std::vector<std::string> tags_;
};

// A table whose columns a click sorts.
class HtmlTable {
 public:
  struct Column {
    std::string header;
    std::string unit = {};
    bool number = true;
    std::string help = {};  // shown above the header
  };
  explicit HtmlTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void add_row(std::vector<Shown> cells, std::string css = {});
  std::size_t rows() const { return rows_.size(); }
  bool empty() const { return rows_.empty(); }
  // `id`: of the element; `caption` may be empty.
  void write(HtmlWriter&, std::string_view id, std::string_view caption) const;

 private:
  struct Row {
    std::vector<Shown> cells;
    std::string css;
  };
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace cplab

// See writer.hpp.
#include "report/html/writer.hpp"

#include <fmt/format.h>

#include <ostream>
#include <stdexcept>

#include "report/printable.hpp"

namespace cplab {

std::string html_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : printable(text)) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

Shown shown(std::string text, double value, std::string key) {
  return {std::move(text), fmt::format("{}", value), std::move(key)};
}

Shown shown(std::string text, std::int64_t value, std::string key) {
  return {std::move(text), std::to_string(value), std::move(key)};
}

Shown sorted_as(std::string text, double value) {
  return {std::move(text), fmt::format("{}", value)};
}

void HtmlWriter::open(std::string_view tag, Attributes attributes) {
  out_ << '<' << tag;
  for (const auto& [name, value] : attributes) out_ << ' ' << name << "=\"" << html_escaped(value) << '"';
  out_ << '>';
  tags_.emplace_back(tag);
}

void HtmlWriter::close() {
  if (tags_.empty()) throw std::logic_error("an element of a page is closed and none is open");
  out_ << "</" << tags_.back() << ">\n";
  tags_.pop_back();
}

void HtmlWriter::element(std::string_view tag, std::string_view content, Attributes attributes) {
  open(tag, attributes);
  text(content);
  close();
}

void HtmlWriter::text(std::string_view content) {
  out_ << html_escaped(content);
}

void HtmlWriter::raw(std::string_view markup) {
  out_ << markup;
}

void HtmlWriter::value(const Shown& shown) {
  if (shown.key.empty()) return text(shown.text);
  out_ << "<data value=\"" << shown.value << "\" data-key=\"" << html_escaped(shown.key) << "\">"
       << html_escaped(shown.text) << "</data>";
}

void HtmlTable::add_row(std::vector<Shown> cells, std::string css) {
  if (cells.size() != columns_.size()) throw std::invalid_argument("a row needs a cell for every column");
  rows_.push_back({std::move(cells), std::move(css)});
}

void HtmlTable::write(HtmlWriter& html, std::string_view id, std::string_view caption) const {
  html.open("div", {{"class", "scroll"}});
  html.open("table", {{"id", id}, {"class", "sortable"}});
  if (!caption.empty()) html.element("caption", caption);
  html.raw("<thead><tr>");
  for (const Column& column : columns_) {
    html.open("th", {{"scope", "col"}, {"class", column.number ? "number" : ""}, {"title", column.help}});
    html.open("button", {{"type", "button"}});
    html.text(column.header);
    if (!column.unit.empty()) html.element("small", column.unit);
    html.close();
    html.close();
  }
  html.raw("</tr></thead>\n<tbody>\n");
  for (const Row& row : rows_) {
    html.open("tr", {{"class", row.css}});
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      const Shown& cell = row.cells[c];
      const std::string css = (columns_[c].number ? "number " : "") + cell.css;
      html.open("td", {{"class", css}, {"data-sort", cell.value}});
      html.value(cell);
      html.raw(cell.markup);
      html.close();
    }
    html.close();
  }
  html.raw("</tbody>");
  html.close();
  html.close();
}

}  // namespace cplab

// JSON as text, value by value.
#include "report/json_writer.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <ostream>

#include "report/printable.hpp"

namespace cplab {
namespace {

constexpr std::size_t flush_bytes = 1 << 16;

template <class Number>
void append_number(std::string& out, Number number) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

// The control character (C0, DEL, C1: terminals obey them all) that this sequence is, else 0.
unsigned control_in(std::string_view sequence) {
  const unsigned lead = static_cast<unsigned char>(sequence.front());
  if (sequence.size() == 1) return lead < 0x20 || lead == 0x7F ? lead : 0;
  const unsigned second = static_cast<unsigned char>(sequence[1]);
  return lead == 0xC2 && second < 0xA0 ? second : 0;
}

void append_text(std::string& out, std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  out += '"';
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char c = text.front();
    if (length == 0) {
      out += "\uFFFD";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (const unsigned control = control_in(text.substr(0, length)); control != 0) {
      out += "\\u00";
      out += hex[control >> 4];
      out += hex[control & 15];
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

}  // namespace

JsonWriter::JsonWriter(std::ostream& out) : out_(out) {}

JsonWriter::~JsonWriter() {
  buffer_ += '\n';
  out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  append_text(buffer_, name);
  buffer_ += ": ";
  after_key_ = true;
  return *this;
}

void JsonWriter::value(std::string_view text) {
  separate();
  append_text(buffer_, text);
  flush_if_full();
}

void JsonWriter::value(bool flag) {
  separate();
  buffer_ += flag ? "true" : "false";
}

void JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  separate();
  append_number(buffer_, number);
  flush_if_full();
}

void JsonWriter::value(std::int64_t number) {
  separate();
  append_number(buffer_, number);
  flush_if_full();
}

void JsonWriter::null() {
  separate();
  buffer_ += "null";
}

void JsonWriter::literal(std::string_view number) {
  separate();
  buffer_ += number;
}

void JsonWriter::pair(std::string_view name, std::int64_t first, std::int64_t second) {
  key(name);
  begin_array(Style::line);
  value(first);
  value(second);
  end_array();
}

void JsonWriter::open(char bracket, Style style) {
  separate();
  buffer_ += bracket;
  const bool inside_line = !levels_.empty() && levels_.back().in_line;
  levels_.push_back({.in_line = inside_line || style == Style::line, .empty = true});
}

void JsonWriter::close(char bracket) {
  const Level level = levels_.back();
  levels_.pop_back();
  if (!level.in_line && !level.empty) {
    buffer_ += '\n';
    buffer_.append(levels_.size(), ' ');
  }
  buffer_ += bracket;
  flush_if_full();
}

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (levels_.empty()) return;
  Level& level = levels_.back();
  if (!level.empty) buffer_ += ',';
  if (!level.in_line) {
    buffer_ += '\n';
    buffer_.append(levels_.size(), ' ');
  } else if (!level.empty) {
    buffer_ += ' ';
  }
  level.empty = false;
}

void JsonWriter::flush_if_full() {
  if (buffer_.size() < flush_bytes) return;
  out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  buffer_.clear();
}

}  // namespace cplab

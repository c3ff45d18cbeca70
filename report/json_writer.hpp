// A JSON writer that streams: results of millions of operations never sit in a tree. Values round trip
// (shortest decimal form); NaN and infinities become null; text that is not UTF-8 gets replacement
// characters.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

namespace cplab {

class JsonWriter {
 public:
  // block: one member a line, indented by one blank a level. line: everything down from here on one line.
  enum class Style : std::uint8_t { block, line };

  explicit JsonWriter(std::ostream& out);
  ~JsonWriter();  // writes what is left, and a line end
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;

  void begin_object(Style style = Style::block) { open('{', style); }
  void end_object() { close('}'); }
  void begin_array(Style style = Style::block) { open('[', style); }
  void end_array() { close(']'); }
  JsonWriter& key(std::string_view name);

  void value(std::string_view text);
  void value(const char* text) { value(std::string_view(text)); }
  void value(const std::string& text) { value(std::string_view(text)); }
  void value(bool flag);
  void value(double number);
  void value(std::int64_t number);
  void value(int number) { value(static_cast<std::int64_t>(number)); }
  void value(std::uint32_t number) { value(static_cast<std::int64_t>(number)); }
  void null();
  // A number that is already in JSON's form, such as "12.500".
  void literal(std::string_view number);

  template <class T>
  void field(std::string_view name, const T& member) {
    key(name);
    value(member);
  }
  // [a, b]
  void pair(std::string_view name, std::int64_t first, std::int64_t second);
  // Numbers or texts, all on one line.
  template <class Values>
  void list(std::string_view name, const Values& values) {
    key(name);
    begin_array(Style::line);
    for (const auto& entry : values) value(entry);
    end_array();
  }
  // One object a line; write_members(item) writes what is in it.
  template <class Items, class WriteMembers>
  void objects(std::string_view name, const Items& items, WriteMembers write_members) {
    key(name);
    begin_array();
    for (const auto& item : items) {
      begin_object(Style::line);
      write_members(item);
      end_object();
    }
    end_array();
  }

 private:
  void open(char bracket, Style style);
  void close(char bracket);
  void separate();  // comma, line end and blanks before the next value or key
  void flush_if_full();

  std::ostream& out_;
  std::string buffer_;
  struct Level {
    bool in_line = false;
    bool empty = true;
  };
  std::vector<Level> levels_;
  bool after_key_ = false;
};

}  // namespace cplab

// TOML as text: headings, and keys with their values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cplab::measure {

std::string quoted(std::string_view text);  // as a basic string
std::string number(double value);           // the shortest text that reads back as the same number

class TomlText {
 public:
  void line(const std::string& text) { text_ += text + "\n"; }
  void heading(const std::string& brackets) { text_ += "\n" + brackets + "\n"; }  // "[gpu]", "[[kernel]]"
  void key(const std::string& name, const std::string& value) { line(name + " = " + quoted(value)); }
  void key(const std::string& name, const char* value) { key(name, std::string(value)); }
  void key(const std::string& name, double value) { line(name + " = " + number(value)); }
  void key(const std::string& name, std::int64_t value) { line(name + " = " + std::to_string(value)); }
  void key(const std::string& name, int value) { key(name, static_cast<std::int64_t>(value)); }
  void key(const std::string& name, bool value) { line(name + (value ? " = true" : " = false")); }
  void list(const std::string& name, const std::vector<double>& values);
  void list(const std::string& name, const std::vector<std::int64_t>& values);
  void list(const std::string& name,
            const std::vector<std::string>& values);  // of more than one: a line each
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace cplab::measure

// TOML as text; see toml_text.hpp.
#include "calibrate/toml_text.hpp"

#include <array>
#include <charconv>
#include <cstdio>

namespace cplab::measure {
namespace {

template <class Value, class Text>
std::string joined(const std::vector<Value>& values, const char* between, Text text_of) {
  std::string text;
  for (const Value& value : values) text += (text.empty() ? "" : between) + text_of(value);
  return text;
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      std::array<char, 8> code{};
      std::snprintf(code.data(), code.size(), "\\u%04X",
                    static_cast<unsigned>(static_cast<unsigned char>(c)));
      result += code.data();
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string number(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  return {digits.data(), end.ptr};
}

void TomlText::list(const std::string& name, const std::vector<double>& values) {
  line(name + " = [" + joined(values, ", ", number) + "]");
}

void TomlText::list(const std::string& name, const std::vector<std::int64_t>& values) {
  line(name + " = [" + joined(values, ", ", [](std::int64_t value) { return std::to_string(value); }) + "]");
}

void TomlText::list(const std::string& name, const std::vector<std::string>& values) {
  const auto text_of = [](const std::string& value) { return quoted(value); };
  if (values.size() < 2) return line(name + " = [" + joined(values, "", text_of) + "]");
  line(name + " = [\n  " + joined(values, ",\n  ", text_of) + "\n]");
}

}  // namespace cplab::measure

// Values of TOML: in messages, and as --set gives them.
#include "cli/files/toml_values.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <sstream>

#include "cli/files/toml_nesting.hpp"

namespace cplab {
namespace {

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '/' || c == '+' ||
         c == '-';
}

// "8K": digits, then letters that no number of TOML has there.
bool is_size_without_quotes(std::string_view word) {
  const std::size_t digits = word.find_first_not_of("0123456789.");
  if (digits == 0 || digits == std::string_view::npos) return false;
  return std::string_view("KMGTPBkmgtpb").find(word[digits]) != std::string_view::npos;
}

// The same text with its sizes in quotes; what stands in quotes or behind "#" stays.
std::string with_quoted_sizes(const std::string& text, std::string* first = nullptr) {
  std::string result;
  char quote = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (quote == 0 && c == '#') return result + text.substr(i);
    if (quote == c) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    }
    std::size_t end = i;
    while (quote == 0 && end < text.size() && is_word_character(text[end])) ++end;
    if (end == i) {
      result += c;
      ++i;
      continue;
    }
    const std::string word = text.substr(i, end - i);
    const bool size = is_size_without_quotes(word);
    if (size && first && first->empty()) *first = word;
    result += size ? '"' + word + '"' : word;
    i = end;
  }
  return result;
}

// Nothing if the text is not exactly one value.
std::optional<toml::table> one_value(const std::string& text, std::string& why) {
  if (text.find('\n') != std::string::npos) return std::nullopt;
  try {
    toml::table parsed = toml::parse("value = " + text);
    if (parsed.size() == 1 && parsed.contains("value")) return parsed;
  } catch (const toml::parse_error& error) {
    why = error.description();
  }
  return std::nullopt;
}

// About text that is no number with a unit of the quantity.
std::string no_quantity(const std::string& text, const std::string& wanted, Quantity quantity) {
  const std::string meant = meant_unit(text, quantity);
  const bool number =
      !text.empty() && std::string_view("0123456789.-+").find(text.front()) != std::string::npos;
  std::string message = "must be " + wanted + ", but is text \"" + text.substr(0, 40) + "\"";
  if (!meant.empty()) message += "; " + meant;
  if (number) message += (meant.empty() ? "; units: " : " Units: ") + std::string(legal_units(quantity));
  return message;
}

// In quotes, with what would end them or is no character of a line escaped.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04X", static_cast<unsigned>(static_cast<unsigned char>(c)));
      result += code;
    } else {
      result += c;
    }
  }
  return result + '"';
}

std::string scalar_text(const toml::node& node) {
  if (const auto* s = node.as_string()) return quoted(s->get());
  if (const auto* f = node.as_floating_point(); f && std::isfinite(f->get())) {
    char digits[64];
    const auto written = std::to_chars(std::begin(digits), std::end(digits), f->get());
    const std::string text(digits, written.ptr);
    return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
  }
  std::ostringstream out;
  node.visit([&](const auto& value) { out << value; });
  return out.str();
}

TomlValue list_value(const toml::array& list) {
  TomlValue all{"[", {}, true, false, {}};
  for (const toml::node& each : list) {
    all.items.push_back(value_of_node(each));
    all.toml += (all.items.size() > 1 ? ", " : "") +
                (each.is_string() ? quoted(each.as_string()->get()) : all.items.back().toml);
  }
  all.value = all.toml += "]";
  return all;
}

TomlValue table_value(const toml::table& table) {
  TomlValue all{"{", {}, false, true, {}};
  for (const auto& [key, value] : table) {
    const std::string name(key.str());
    const bool bare = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
    });
    all.toml += (all.toml.size() > 1 ? ", " : "") + (bare ? name : quoted(name)) + " = " +
                (value.is_string() ? quoted(value.as_string()->get()) : value_of_node(value).toml);
  }
  all.value = all.toml += "}";
  return all;
}

}  // namespace

TomlValue value_of_node(const toml::node& node) {
  if (const auto* list = node.as_array()) return list_value(*list);
  if (const auto* table = node.as_table()) return table_value(*table);
  TomlValue plain;
  if (const auto* s = node.as_string()) {
    plain.toml = text_for_set(s->get());
    plain.value = s->get();
    return plain;
  }
  plain.toml = scalar_text(node);
  if (const auto* flag = node.as_boolean()) {
    plain.value = flag->get();
  } else if (const auto* i = node.as_integer()) {
    plain.value = i->get();
  } else if (const auto* f = node.as_floating_point(); f && std::isfinite(f->get())) {
    plain.value = f->get();
  } else {
    plain.value = plain.toml;
  }
  return plain;
}

std::string text_for_set(const std::string& text) {
  const bool bare = !text.empty() && std::all_of(text.begin(), text.end(),
                                                 [](char c) { return is_word_character(c) && c != '+'; });
  std::string why;
  return bare && !one_value(text, why) ? text : quoted(text);
}

std::string_view kind_text(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "a list";
    case toml::node_type::string: return "text";
    case toml::node_type::integer: return "an integer";
    case toml::node_type::floating_point: return "a number with a fraction";
    case toml::node_type::boolean: return "true or false";
    default: return "a date or time";
  }
}

std::string shown(const toml::node& node) {
  std::string text(kind_text(node));
  if (const auto* s = node.as_string()) {
    text += " \"" + s->get().substr(0, 40) + (s->get().size() > 40 ? "...\"" : "\"");
  } else if (const auto* i = node.as_integer()) {
    text += " " + std::to_string(i->get());
  } else if (const auto* f = node.as_floating_point()) {
    std::ostringstream out;
    out << f->get();
    const bool whole = out.str().find_first_not_of("-0123456789") == std::string::npos;
    text += " " + out.str() + (whole ? ".0" : "");
  }
  return text;
}

std::string wanted_text(Quantity quantity, bool list) {
  const auto text = [&](const char* one, const char* many, const char* example) {
    return std::string(list ? "a list of " : "") + (list ? many : one) + example;
  };
  switch (quantity) {
    case Quantity::count:
      return text("an integer", "integers",
                  list ? " (or sizes such as \"128K\")" : " (or a size such as \"128K\")");
    case Quantity::bytes: return text("a number of bytes", "numbers of bytes", " (or \"79G\", \"80GB\")");
    case Quantity::bytes_s:
      return text("a number of bytes/s", "numbers of bytes/s", " (or \"50G\", \"450GB/s\", \"400Gb/s\")");
    case Quantity::flops_s:
      return text("a number of FLOP/s", "numbers of FLOP/s", " (or \"989T\", \"989TFLOP/s\")");
  }
  return "";
}

std::optional<std::int64_t> whole_of(const toml::node& value, Quantity quantity, const std::string& wanted,
                                     std::string& why) {
  if (const auto* i = value.as_integer()) return i->get();
  why = "must be " + wanted + ", but is " + shown(value);
  if (const auto* f = value.as_floating_point()) {
    if (std::abs(f->get()) >= 0x1p63 || f->get() != std::floor(f->get())) return std::nullopt;
    const auto whole = static_cast<std::int64_t>(f->get());
    if (quantity != Quantity::count) return whole;  // 85e9 bytes
    why += "; write " + std::to_string(whole);
  } else if (const auto* s = value.as_string()) {
    bool overflow = false;
    if (const auto size = parse_whole(s->get(), quantity, overflow)) return size;
    why = overflow ? "\"" + s->get() + "\" is beyond the 64-bit integers"
                   : no_quantity(s->get(), wanted, quantity);
  }
  return std::nullopt;
}

std::optional<double> number_of(const toml::node& value, std::optional<Quantity> quantity,
                                const std::string& wanted, std::string& why) {
  why = "must be " + wanted + ", but is " + shown(value);
  std::optional<double> number;
  if (const auto* s = value.as_string(); s && quantity) {
    number = parse_quantity(s->get(), *quantity);
    if (!number) why = no_quantity(s->get(), wanted, *quantity);
  } else if (value.is_number()) {
    number = value.value<double>();  // integers too
  }
  if (number && !std::isfinite(*number)) {
    why = "must be finite";
    return std::nullopt;
  }
  return number;
}

toml::table value_of_set(const std::string& text, const std::function<void(const std::string&)>& refuse) {
  if (line_nested_too_deep("value = " + text) > 0) refuse("lists and tables stand too deep in one another");
  std::string why;
  if (auto value = one_value(text, why)) return std::move(*value);
  // What begins as a list, a table or quoted text is no bare word.
  const auto opening = std::string_view("[{\"'").find(text.empty() ? ' ' : text.front());
  if (!why.empty() && opening != std::string_view::npos) {
    std::string of_quoted;
    if (opening < 2) {
      if (auto value = one_value(with_quoted_sizes(text), of_quoted)) return std::move(*value);
    }
    const char* const what[] = {"list", "table", "text", "text"};
    refuse("unterminated or malformed " + std::string(what[opening]) + ": " + text + " (" + why + ")");
  }
  toml::table bare;
  bare.insert("value", text);
  return bare;
}

std::string unquoted_hint(const std::string& text, std::size_t line) {
  std::size_t begin = 0;
  for (std::size_t i = 1; i < line; ++i) {
    begin = text.find('\n', begin);
    if (begin == std::string::npos) return "";
    ++begin;
  }
  const std::string at = text.substr(begin, text.find('\n', begin) - begin);
  const std::size_t equals = at.find('=');
  if (equals == std::string::npos) return "";
  std::string first;
  (void)with_quoted_sizes(at.substr(equals + 1), &first);
  return first.empty() ? "" : "; a size stands in quotes: \"" + first + "\"";
}

}  // namespace cplab

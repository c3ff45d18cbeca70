// Reading JSON strictly; see json_config.hpp. Which line a key stands in is found in the text, because the
// parser keeps no places.
#include "cli/files/json_config.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "cli/files/toml_table.hpp"
#include "report/json_reader.hpp"

namespace cplab {

namespace {

// With Infinity, -Infinity and NaN outside strings as null.
std::string without_infinities(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  const auto starts = [&](std::size_t at, std::string_view word) {
    return text.substr(at, word.size()) == word;
  };
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == '"') {
      std::size_t end = i + 1;
      while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text.size());
      result += text.substr(i, end - i);
      i = end;
      continue;
    }
    const std::size_t sign = text[i] == '-' ? 1 : 0;
    const std::size_t word = starts(i + sign, "Infinity") ? sign + 8 : starts(i, "NaN") ? 3 : 0;
    if (word > 0)
      result += "null";
    else
      result += text[i];
    i += std::max<std::size_t>(word, 1);
  }
  return result;
}

// The line of every key of every object, by its path ("text_config.head_dim"); of text that is JSON.
std::map<std::string, std::int64_t, std::less<>> lines_of_keys(const std::string& text) {
  struct Open {
    bool object;
    std::string path;  // of what is open, with a dot behind it
    std::string key;   // that came last
  };
  std::map<std::string, std::int64_t, std::less<>> lines;
  std::vector<Open> open;
  std::int64_t line = 1;
  std::string last;  // string
  std::int64_t last_line = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (c == '"') {
      last.clear();
      last_line = line;
      for (++i; i < text.size() && text[i] != '"'; ++i) {
        if (text[i] == '\\') last += text[i++];
        if (i < text.size()) last += text[i];
      }
    } else if (c == ':' && !open.empty() && open.back().object) {
      open.back().key = last;
      lines.emplace(open.back().path + last, last_line);
    } else if (c == '{' || c == '[') {
      const std::string path = open.empty() ? "" : open.back().path + open.back().key + ".";
      open.push_back({c == '{', path, ""});
    } else if ((c == '}' || c == ']') && !open.empty()) {
      open.pop_back();
    }
  }
  return lines;
}

std::string range_text(std::int64_t low, std::int64_t high) {
  return "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
}

}  // namespace

struct JsonConfig::Document {
  Document(const std::string& text, const std::string& file_name)
      : file(file_name), json(text, file_name), lines(lines_of_keys(text)) {}
  std::string file;
  JsonDocument json;
  std::map<std::string, std::int64_t, std::less<>> lines;
};

struct JsonConfig::Object {
  JsonNode node;
  std::string path;  // with a dot behind it, empty of the root
  std::set<std::string, std::less<>> asked = {};
  std::map<std::string, std::shared_ptr<Object>, std::less<>> children = {};
};

JsonConfig::JsonConfig(std::shared_ptr<Document> document, std::shared_ptr<Object> object)
    : document_(std::move(document)), object_(std::move(object)) {}

JsonConfig JsonConfig::parse(const std::string& text, const std::string& file_name) {
  try {
    auto document = std::make_shared<Document>(without_infinities(text), file_name);
    const JsonNode root = document->json.root();
    if (!root.is_object()) root.fail("the file holds no JSON object, which the config of a model is");
    return {document, std::make_shared<Object>(Object{root, ""})};
  } catch (const JsonFileError& error) {
    throw InputError(error.what());
  }
}

bool JsonConfig::has(std::string_view key) const {
  object_->asked.emplace(key);
  return object_->node.has(key) && !object_->node.at(key).is_null();
}

bool JsonConfig::is_object(std::string_view key) const {
  return object_->node.has(key) && object_->node.at(key).is_object();
}

bool JsonConfig::is_list(std::string_view key) const {
  return object_->node.has(key) && object_->node.at(key).is_array();
}

bool JsonConfig::is_text(std::string_view key) const {
  return object_->node.has(key) && object_->node.at(key).is_text();
}

bool JsonConfig::is_negative(std::string_view key) const {
  if (!object_->node.has(key)) return false;
  const JsonNode value = object_->node.at(key);
  const bool other =
      value.is_null() || value.is_text() || value.is_boolean() || value.is_array() || value.is_object();
  return !other && value.number() < 0;
}

JsonConfig JsonConfig::object(std::string_view key) const {
  object_->asked.emplace(key);
  auto& child = object_->children[std::string(key)];
  if (!child) child = std::make_shared<Object>(Object{object_->node.at(key), path_of(key) + "."});
  return {document_, child};
}

std::optional<std::int64_t> JsonConfig::maybe_integer(const std::vector<std::string_view>& keys,
                                                      std::int64_t low, std::int64_t high) const {
  std::optional<std::int64_t> found;
  for (const std::string_view key : keys) {
    if (!has(key) || found) continue;
    try {
      found = object_->node.at(key).integer(low, high);
    } catch (const JsonFileError&) {
      fail(key, "must be " + range_text(low, high));
    }
  }
  return found;
}

std::int64_t JsonConfig::integer(const std::vector<std::string_view>& keys, std::int64_t low,
                                 std::int64_t high) const {
  if (const auto found = maybe_integer(keys, low, high)) return *found;
  std::string others;
  for (std::size_t i = 1; i < keys.size(); ++i) others += (i > 1 ? ", " : "") + std::string(keys[i]);
  fail(keys.front(), "missing; legal: " + range_text(low, high) +
                         (others.empty() ? "" : " (or under the name " + others + ")"));
}

bool JsonConfig::flag(std::string_view key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!object_->node.at(key).is_boolean()) fail(key, "must be true or false");
  return object_->node.at(key).boolean();
}

double JsonConfig::number(std::string_view key, double otherwise) const {
  if (!has(key)) return otherwise;
  try {
    return object_->node.at(key).number();
  } catch (const JsonFileError&) {
    fail(key, "must be a number");
  }
}

std::string JsonConfig::text(std::string_view key) const {
  if (!has(key)) fail(key, "missing; legal: a string");
  if (!object_->node.at(key).is_text()) fail(key, "must be a string");
  return object_->node.at(key).text();
}

std::optional<std::vector<std::string>> JsonConfig::maybe_texts(std::string_view key) const {
  if (!has(key)) return {};
  const JsonNode list = object_->node.at(key);
  if (!list.is_array()) fail(key, "must be a list of strings");
  std::vector<std::string> values;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list.at(i).is_text())
      fail(key, "must be a list of strings, but entry " + std::to_string(i) + " is none");
    values.push_back(list.at(i).text());
  }
  return values;
}

std::optional<std::vector<std::int64_t>> JsonConfig::maybe_integers(std::string_view key) const {
  if (!has(key)) return {};
  const JsonNode list = object_->node.at(key);
  if (!list.is_array()) fail(key, "must be a list of whole numbers");
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < list.size(); ++i) {
    try {
      values.push_back(list.at(i).integer());
    } catch (const JsonFileError&) {
      fail(key, "must be a list of whole numbers, but entry " + std::to_string(i) + " is none");
    }
  }
  return values;
}

void JsonConfig::ignore(std::string_view key) const {
  object_->asked.emplace(key);
}

std::vector<std::string> JsonConfig::unasked() const {
  std::vector<std::string> keys;
  const auto is_off = [](const JsonNode& value) {
    const bool empty = (value.is_array() && value.size() == 0) || (value.is_boolean() && !value.boolean());
    return value.is_null() || empty;
  };
  object_->node.members([&](const std::string& key, const JsonNode& value) {
    if (!object_->asked.contains(key) && !is_off(value)) keys.push_back(path_of(key));
  });
  for (const auto& [key, child] : object_->children) {
    const std::vector<std::string> below = JsonConfig(document_, child).unasked();
    keys.insert(keys.end(), below.begin(), below.end());
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::string JsonConfig::path_of(std::string_view key) const {
  return object_->path + std::string(key);
}

void JsonConfig::fail(std::string_view key, const std::string& message) const {
  auto line = document_->lines.find(path_of(key));
  if (line == document_->lines.end() && !object_->path.empty())
    line = document_->lines.find(object_->path.substr(0, object_->path.size() - 1));
  throw InputError(document_->file + ":" + std::to_string(line == document_->lines.end() ? 1 : line->second) +
                   ": " + path_of(key) + ": " + message);
}

}  // namespace cplab

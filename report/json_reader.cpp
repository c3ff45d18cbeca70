// nlohmann's parser behind JsonDocument and JsonNode.
#include "report/json_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <utility>
#include <vector>

namespace cplab {
namespace {

using Json = nlohmann::ordered_json;

// Far deeper than any file of ours; the recursive search for a path must not overflow the stack.
constexpr std::size_t deepest_nesting = 64;

const Json& json(const void* value) {
  return *static_cast<const Json*>(value);
}

// Finds `target` below `value` and writes its JSON pointer (RFC 6901) behind `path`.
bool find_path(const Json& value, const void* target, std::string& path) {
  if (&value == target) return true;
  const std::size_t length = path.size();
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      path += fmt::format("/{}", i);
      if (find_path(value[i], target, path)) return true;
      path.resize(length);
    }
  } else if (value.is_object()) {
    for (const auto& [key, member] : value.items()) {
      path += fmt::format("/{}", key);
      if (find_path(member, target, path)) return true;
      path.resize(length);
    }
  }
  return false;
}

// Builds the tree from the parser's events. nlohmann's own way with a callback looks through a whole list at
// the end of each object in it, and its objects are searched for every key that is added: either takes a time
// that grows with the square of the file. Refuses what nlohmann would accept silently (a key twice: the last
// one wins) or what could overflow a stack.
class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  explicit TreeBuilder(Json& root) : root_(root) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }  // not in a text

  bool start_object(std::size_t /*size*/) override { return open(Json::object()); }
  bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& key) override {
    Open& object = open_.back();
    auto& members = object.value->get_ref<Json::object_t&>();
    if (!is_new(object, members, key))
      throw JsonFileError("the key \"" + key + "\" occurs twice in one object");
    static_cast<std::vector<Json::object_t::value_type>&>(members).emplace_back(std::move(key), nullptr);
    return true;
  }

  bool parse_error(std::size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    if (const auto* syntax = dynamic_cast<const Json::parse_error*>(&error)) throw *syntax;
    throw JsonFileError(std::string("no JSON: ") + error.what());  // a number out of range
  }

 private:
  struct Open {
    Json* value;
    std::unordered_set<std::string> keys;  // of an object with many
  };

  // The place of the next value: the root, the end of a list, or the member whose key came last. A list does
  // not grow while a value in it is open, so that the pointers stay.
  template <class Value>
  Json* place(Value&& value) {
    if (open_.empty()) return &(root_ = std::forward<Value>(value));
    Json& parent = *open_.back().value;
    if (parent.is_array()) return &parent.get_ref<Json::array_t&>().emplace_back(std::forward<Value>(value));
    return &(parent.get_ref<Json::object_t&>().back().second = std::forward<Value>(value));
  }
  template <class Value>
  bool add(Value&& value) {
    place(std::forward<Value>(value));
    return true;
  }
  bool open(Json&& value) {
    open_.push_back({place(std::move(value)), {}});
    if (open_.size() > deepest_nesting)
      throw JsonFileError("values nested deeper than " + std::to_string(deepest_nesting) + " levels");
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  // A few keys are sooner compared than put in a set.
  static bool is_new(Open& object, const Json::object_t& members, const std::string& key) {
    constexpr std::size_t few = 32;
    if (members.size() < few)
      return std::none_of(members.begin(), members.end(),
                          [&](const auto& each) { return each.first == key; });
    if (object.keys.empty())
      for (const auto& [known, value] : members) object.keys.insert(known);
    return object.keys.insert(key).second;
  }

  Json& root_;
  std::vector<Open> open_;
};

std::string position(const std::string& text, std::size_t byte) {
  const std::size_t end = std::min(byte > 0 ? byte - 1 : 0, text.size());
  const auto lines = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  const std::size_t line_start = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  const std::size_t column = line_start == std::string::npos ? end + 1 : end - line_start;
  return std::to_string(lines + 1) + ":" + std::to_string(column);
}

std::string_view type_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::object: return "an object";
    case Json::value_t::array: return "a list";
    case Json::value_t::string: return "a string";
    case Json::value_t::boolean: return "true or false";
    case Json::value_t::number_float: return "a number";
    default: return "a whole number";
  }
}

[[noreturn]] void fail_type(const JsonNode& node, const void* value, std::string_view wanted) {
  node.fail("this is " + std::string(type_of(json(value))) + "; legal: " + std::string(wanted));
}

}  // namespace

struct JsonDocument::Tree {
  Json root;
};

JsonDocument::JsonDocument(const std::string& text, std::string file_name)
    : file_name_(std::move(file_name)), tree_(std::make_unique<Tree>()) {
  try {
    TreeBuilder builder(tree_->root);
    Json::sax_parse(text, &builder);
  } catch (const Json::parse_error& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error ..."
    std::string message = error.what();
    const std::size_t column = message.find("column ");
    const std::size_t start = column == std::string::npos ? column : message.find(": ", column);
    if (start != std::string::npos) message.erase(0, start + 2);
    throw JsonFileError(file_name_ + ":" + position(text, error.byte) + ": no JSON: " + message);
  } catch (const JsonFileError& error) {
    throw JsonFileError(file_name_ + ": " + error.what());
  }
}

JsonDocument::~JsonDocument() = default;

JsonNode JsonDocument::root() const {
  return {this, &tree_->root};
}

void JsonNode::fail(const std::string& message) const {
  std::string path;
  find_path(document_->tree_->root, value_, path);
  throw JsonFileError(document_->file_name_ + ": " + (path.empty() ? "/" : path) + ": " + message);
}

bool JsonNode::is_null() const {
  return json(value_).is_null();
}
bool JsonNode::is_text() const {
  return json(value_).is_string();
}
bool JsonNode::is_boolean() const {
  return json(value_).is_boolean();
}
bool JsonNode::is_integer() const {
  return json(value_).is_number_integer();
}
bool JsonNode::is_array() const {
  return json(value_).is_array();
}
bool JsonNode::is_object() const {
  return json(value_).is_object();
}
bool JsonNode::has(std::string_view key) const {
  return json(value_).contains(key);
}

JsonNode JsonNode::at(std::string_view key) const {
  if (!is_object()) fail_type(*this, value_, "an object with \"" + std::string(key) + "\"");
  const auto found = json(value_).find(key);
  if (found == json(value_).end()) fail("the key \"" + std::string(key) + "\" is missing");
  return {document_, &*found};
}

void JsonNode::only(std::initializer_list<std::string_view> legal) const {
  only(std::vector<std::string>(legal.begin(), legal.end()));
}

void JsonNode::only(const std::vector<std::string>& legal) const {
  if (!is_object()) fail_type(*this, value_, "an object");
  members([&](const std::string& key, const JsonNode& member) {
    if (std::find(legal.begin(), legal.end(), key) != legal.end()) return;
    std::string list;
    for (const std::string& word : legal) (list += list.empty() ? "" : ", ") += word;
    member.fail("unknown key; legal: " + list);
  });
}

std::size_t JsonNode::size() const {
  if (!is_array()) fail_type(*this, value_, "a list");
  return json(value_).size();
}

JsonNode JsonNode::at(std::size_t index) const {
  return {document_, &json(value_).at(index)};
}

void JsonNode::expect_size(std::size_t size_, std::string_view legal) const {
  if (size() != size_)
    fail("a list of " + std::to_string(size()) + " entries; legal: " + std::string(legal) + ", " +
         std::to_string(size_) + " entries");
}

std::int64_t JsonNode::integer(std::int64_t least, std::int64_t most) const {
  const Json& value = json(value_);
  if (!value.is_number_integer()) fail_type(*this, value_, "a whole number");
  const bool huge = value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX;
  if (huge || value.get<std::int64_t>() < least || value.get<std::int64_t>() > most) {
    const std::string from = least == INT64_MIN ? "" : " from " + std::to_string(least);
    const std::string to = most == INT64_MAX ? "" : " to " + std::to_string(most);
    fail(value.dump() + " is out of range; legal: whole numbers" + from + to);
  }
  return value.get<std::int64_t>();
}

double JsonNode::number() const {
  if (!json(value_).is_number()) fail_type(*this, value_, "a number");
  return json(value_).get<double>();
}

bool JsonNode::boolean() const {
  if (!json(value_).is_boolean()) fail_type(*this, value_, "true or false");
  return json(value_).get<bool>();
}

const std::string& JsonNode::text() const {
  if (!is_text()) fail_type(*this, value_, "a string");
  return json(value_).get_ref<const std::string&>();
}

std::size_t JsonNode::member_count() const {
  if (!is_object()) fail_type(*this, value_, "an object");
  return json(value_).size();
}

const std::string& JsonNode::member_key(std::size_t index) const {
  return (json(value_).get_ref<const Json::object_t&>().begin() + static_cast<std::ptrdiff_t>(index))->first;
}

JsonNode JsonNode::member(std::size_t index) const {
  const auto& object = json(value_).get_ref<const Json::object_t&>();
  return {document_, &(object.begin() + static_cast<std::ptrdiff_t>(index))->second};
}

}  // namespace cplab

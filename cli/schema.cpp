// See schema.hpp.
#include "cli/schema.hpp"

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "cli/files/toml_table.hpp"
#include "cli/keys/result_keys.hpp"
#include "cli/option_words.hpp"
#include "cli/vocabulary.hpp"
#include "report/json_writer.hpp"

namespace cplab {

namespace {

// A value of a result: what it may be, and the keys or the entries in it.
struct Node {
  std::string_view name;
  const ResultKey* key = nullptr;
  std::vector<std::unique_ptr<Node>> keys;
  std::unique_ptr<Node> entry;  // of a list

  bool is_optional() const { return key->type.ends_with("?"); }
};

Node& child(Node& node, std::string_view name) {
  for (const auto& each : node.keys)
    if (each->name == name) return *each;
  node.keys.push_back(std::make_unique<Node>());
  node.keys.back()->name = name;
  return *node.keys.back();
}

// "ranks[].time_s" from the root.
Node& place_of(Node& root, std::string_view path) {
  Node* node = &root;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find_first_of(".["), path.size());
    if (end > 0) node = &child(*node, path.substr(0, end));
    path.remove_prefix(end);
    while (path.starts_with("[]")) {
      if (!node->entry) node->entry = std::make_unique<Node>();
      node = node->entry.get();
      path.remove_prefix(2);
    }
    if (path.starts_with(".")) path.remove_prefix(1);
  }
  return *node;
}

std::vector<std::string> words_of(std::string_view type) {
  if (type.ends_with("?")) type.remove_suffix(1);
  std::vector<std::string> words;
  for (std::size_t at = 0; at <= type.size();) {
    const std::size_t end = std::min(type.find('|', at), type.size());
    words.emplace_back(type.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::string json_name(const std::string& word) {
  if (word == "list") return "array";
  return word.starts_with("map ") ? "object" : word;
}

class SchemaWriter {
 public:
  explicit SchemaWriter(JsonWriter& json) : json_(json) {}

  // The keys of an object; `fixed` says what "schema" and "command" are.
  void keys(const Node& node, const ResultTable* fixed) {
    json_.key("properties").begin_object();
    for (const auto& each : node.keys) {
      json_.key(each->name).begin_object();
      if (fixed && each->name == "schema")
        json_.field("const", fixed->schema);
      else if (fixed && each->name == "command")
        json_.field("const", fixed->command);
      value(*each);
      json_.end_object();
    }
    json_.end_object();
    json_.key("required").begin_array();
    for (const auto& each : node.keys)
      if (!each->is_optional()) json_.value(each->name);
    json_.end_array();
    json_.field("additionalProperties", false);
  }

 private:
  void value(const Node& node) {
    const ResultKey& key = *node.key;
    std::string meaning(key.meaning);
    if (!key.unit.empty()) meaning += " (in " + std::string(key.unit) + ")";
    json_.field("description", meaning);
    const std::vector<std::string> words = words_of(key.type);
    if (words.front() == "any") return;
    if (words.size() == 1) {
      json_.field("type", json_name(words.front()));
    } else {
      json_.key("type").begin_array(JsonWriter::Style::line);
      for (const std::string& word : words) json_.value(json_name(word));
      json_.end_array();
    }
    if (words.front() == "list" && node.entry) {
      json_.key("items").begin_object();
      value(*node.entry);
      json_.end_object();
    }
    if (words.front() == "object") keys(node, nullptr);
    if (words.front() == "map string") {
      json_.key("additionalProperties").begin_object();
      json_.field("type", "string");
      json_.end_object();
    }
  }

  JsonWriter& json_;
};

void write_result(JsonWriter& json, const ResultTable& table) {
  Node root;
  for (const ResultKey& key : table.keys) place_of(root, key.path).key = &key;
  json.field("title", table.schema);
  json.field("description", "docs/" + std::string(table.page));
  json.field("type", "object");
  SchemaWriter(json).keys(root, &table);
}

}  // namespace

void write_schema(std::ostream& out, std::string_view command) {
  std::vector<const ResultTable*> tables;
  for (const ResultTable& table : result_tables())
    if (table.command == command) tables.push_back(&table);
  if (tables.empty()) {
    const std::string near = nearest(std::string(command), schema_words());
    throw InputError("schema " + std::string(command) + ": no command that writes JSON has that name" +
                     clause(near.empty() ? near : "did you mean " + near + "?") +
                     " Legal: " + quoted_list(schema_words()));
  }
  JsonWriter json(out);
  json.begin_object();
  json.field("$schema", "https://json-schema.org/draft/2020-12/schema");
  json.field("$id", "urn:cplab:" + std::string(command));
  if (tables.size() == 1) {
    write_result(json, *tables.front());
  } else {
    json.key("oneOf").begin_array();
    for (const ResultTable* table : tables) {
      json.begin_object();
      write_result(json, *table);
      json.end_object();
    }
    json.end_array();
  }
  json.end_object();
}

}  // namespace cplab

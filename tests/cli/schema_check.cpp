// See schema_check.hpp.
#include "tests/cli/schema_check.hpp"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/keys/result_keys.hpp"
#include "cli/schema.hpp"

namespace {

using nlohmann::json;

constexpr std::size_t most_errors = 5;

bool has_type(const json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return false;
}

class Validator {
 public:
  std::vector<std::string> errors;

  void check(const json& schema, const json& value, const std::string& at) {
    if (errors.size() >= most_errors) return;
    for (const auto& [keyword, of] : schema.items()) check(schema, keyword, of, value, at);
  }

 private:
  void fail(const std::string& at, const std::string& what) { errors.push_back(at + " " + what); }

  void check(const json& schema, const std::string& keyword, const json& of, const json& value,
             const std::string& at) {
    static const std::set<std::string> silent{"$schema", "$id", "title", "description"};
    if (silent.contains(keyword)) return;
    if (keyword == "const") {
      if (value != of) fail(at, "is not " + of.dump());
    } else if (keyword == "type") {
      check_type(of, value, at);
    } else if (keyword == "oneOf") {
      check_one_of(of, value, at);
    } else if (keyword == "items") {
      if (!value.is_array()) return;
      for (std::size_t i = 0; i < value.size(); ++i) check(of, value[i], at + "[" + std::to_string(i) + "]");
    } else if (keyword == "required") {
      if (!value.is_object()) return;
      for (const json& key : of)
        if (!value.contains(key)) fail(at, "lacks " + key.get<std::string>());
    } else if (keyword == "properties" || keyword == "additionalProperties") {
      if (value.is_object()) check_keys(schema, keyword, of, value, at);
    } else {
      fail(at, "has a schema with the keyword " + keyword + ", which the validator does not know");
    }
  }

  void check_type(const json& of, const json& value, const std::string& at) {
    bool right = false;
    for (const json& type : of.is_array() ? of : json::array({of})) right = right || has_type(value, type);
    if (!right) fail(at, "is " + value.dump().substr(0, 60) + ", not of type " + of.dump());
  }

  void check_one_of(const json& schemas, const json& value, const std::string& at) {
    int valid = 0;
    for (const json& each : schemas) {
      Validator inner;
      inner.check(each, value, at);
      valid += inner.errors.empty();
    }
    if (valid != 1)
      fail(at, "is valid under " + std::to_string(valid) + " of several schemas, not under one");
  }

  void check_keys(const json& schema, const std::string& keyword, const json& of, const json& value,
                  const std::string& at) {
    const json properties = schema.value("properties", json::object());
    for (const auto& [key, member] : value.items()) {
      const bool known = properties.contains(key);
      if (keyword == "properties" && known) check(of.at(key), member, at + "." + key);
      if (keyword == "additionalProperties" && !known) {
        if (of == false)
          fail(at, "has the key " + key + ", which the schema does not know");
        else if (of.is_object())
          check(of, member, at + "." + key);
      }
    }
  }
};

// The schema whose title is the schema that a result names.
const json* schema_named(const std::string& name) {
  static std::map<std::string, json> known;
  if (const auto found = known.find(name); found != known.end()) return &found->second;
  for (const cplab::ResultTable& table : cplab::result_tables()) {
    if (table.schema != name) continue;
    std::ostringstream text;
    cplab::write_schema(text, table.command);
    json schema = json::parse(text.str());
    if (schema.contains("oneOf"))
      for (const json& each : schema.at("oneOf"))
        if (each.at("title") == name) return &known.emplace(name, each).first->second;
    return &known.emplace(name, std::move(schema)).first->second;
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> schema_errors(const json& schema, const json& value) {
  Validator validator;
  validator.check(schema, value, "$");
  return validator.errors;
}

void check_result_schema(const json& result) {
  if (!result.is_object() || !result.contains("schema") || !result.at("schema").is_string()) return;
  const json* const schema = schema_named(result.at("schema"));
  if (!schema) return;
  const std::vector<std::string> errors = schema_errors(*schema, result);
  CAPTURE(result.at("schema"));
  for (const std::string& error : errors) FAIL_CHECK(error);
}

// Reading JSON with errors a person can act on: where (line and column, or a JSON path) and what is legal.
// The parser is nlohmann's; this header keeps its types out of everyone else's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace cplab {

// A JSON file cannot be used: exit code 2. what() is complete: "FILE:LINE:COLUMN: message" for text that is
// no JSON, else "FILE: PATH: message".
struct JsonFileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class JsonDocument;

// One value of a document; valid as long as the document. Every getter throws JsonFileError for another type.
class JsonNode {
 public:
  bool is_null() const;
  bool is_text() const;
  bool is_boolean() const;
  bool is_integer() const;  // a whole number, written without a point
  bool is_array() const;
  bool is_object() const;
  bool has(std::string_view key) const;
  JsonNode at(std::string_view key) const;  // throws for a missing key

  // Throws for a key of this object that is not in `legal`, and names those that are.
  void only(std::initializer_list<std::string_view> legal) const;
  void only(const std::vector<std::string>& legal) const;

  std::size_t size() const;  // of an array
  JsonNode at(std::size_t index) const;
  void expect_size(std::size_t size, std::string_view legal) const;  // `legal` says what the entries are

  // A whole number in [least, most].
  std::int64_t integer(std::int64_t least = INT64_MIN, std::int64_t most = INT64_MAX) const;
  double number() const;
  bool boolean() const;
  const std::string& text() const;

  // Calls visit(key, value) for the members of an object, in the order of the file.
  template <class Visit>
  void members(Visit visit) const {
    for (std::size_t i = 0; i < member_count(); ++i) visit(member_key(i), member(i));
  }

  [[noreturn]] void fail(const std::string& message) const;

 private:
  friend class JsonDocument;
  JsonNode(const JsonDocument* document, const void* value) : document_(document), value_(value) {}
  std::size_t member_count() const;
  const std::string& member_key(std::size_t index) const;
  JsonNode member(std::size_t index) const;

  const JsonDocument* document_;
  const void* value_;
};

class JsonDocument {
 public:
  // Throws JsonFileError for text that is not one JSON value, or an object with a key twice.
  JsonDocument(const std::string& text, std::string file_name);
  ~JsonDocument();
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  JsonNode root() const;

 private:
  friend class JsonNode;
  struct Tree;
  std::string file_name_;
  std::unique_ptr<Tree> tree_;
};

}  // namespace cplab

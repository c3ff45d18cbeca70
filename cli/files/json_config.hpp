// Strict reading of a JSON object with the lines of its keys: who asks for a key learns its value or throws
// an error that names file, line, key and what would be legal, and what nobody asked for can be listed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cplab {

// One object of a document. Copies share what was asked for. Keys may name others that mean the same: the
// first that is there counts. null is as if the key were not there.
class JsonConfig {
 public:
  // Throws InputError for text that is no JSON object, or that holds a key twice. Infinity and NaN, which
  // Python writes and JSON has not, are read as null.
  static JsonConfig parse(const std::string& text, const std::string& file_name);

  bool has(std::string_view key) const;
  bool is_object(std::string_view key) const;
  bool is_list(std::string_view key) const;
  bool is_text(std::string_view key) const;
  bool is_negative(std::string_view key) const;   // a number below 0, which some keys use for "all"
  JsonConfig object(std::string_view key) const;  // that is one

  // The value of the first key of `keys` that is there. Throws InputError for another type or range; the form
  // that returns no optional also if none is there.
  std::int64_t integer(const std::vector<std::string_view>& keys, std::int64_t low, std::int64_t high) const;
  std::optional<std::int64_t> maybe_integer(const std::vector<std::string_view>& keys, std::int64_t low,
                                            std::int64_t high) const;
  bool flag(std::string_view key, bool otherwise) const;
  double number(std::string_view key, double otherwise) const;
  std::string text(std::string_view key) const;
  std::optional<std::vector<std::string>> maybe_texts(std::string_view key) const;
  std::optional<std::vector<std::int64_t>> maybe_integers(std::string_view key) const;

  void ignore(std::string_view key) const;  // as if it had been asked for
  // Keys that nobody asked for, here and in the objects that were taken from here, as paths from the root.
  // Those that are null, false or an empty list are left out: what they name is switched off.
  std::vector<std::string> unasked() const;

  // Throws InputError "FILE:LINE: PATH: message": the line of the key, or of this object where it is missing.
  [[noreturn]] void fail(std::string_view key, const std::string& message) const;

 private:
  struct Document;
  struct Object;
  JsonConfig(std::shared_ptr<Document> document, std::shared_ptr<Object> object);
  std::string path_of(std::string_view key) const;

  std::shared_ptr<Document> document_;
  std::shared_ptr<Object> object_;
};

}  // namespace cplab

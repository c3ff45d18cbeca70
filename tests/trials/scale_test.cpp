// Inputs that took a time out of proportion to their size. Nothing is timed here: what used to take minutes
// is done, or its parts are counted.
#include <doctest/doctest.h>

#include <string>

#include "report/json_reader.hpp"
#include "tests/cli/program.hpp"
#include "tests/trials/inputs.hpp"

using namespace cplab;

TEST_CASE("long lists of objects, and objects with many keys, are read in proportion to their size") {
  constexpr int count = 400000;  // looked through once for each of them: 8e10 steps
  std::string list = "[", object = "{";
  for (int i = 0; i < count; ++i) {
    list += i == 0 ? "{}" : ",{}";
    object += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":[" + std::to_string(i) + "]";
  }
  const JsonDocument lists(list + "]", "lists.json");
  CHECK(lists.root().size() == count);
  const JsonDocument objects(object + "}", "objects.json");
  int members = 0;
  objects.root().members([&](const std::string& key, const JsonNode& value) {
    members += key == std::to_string(value.at(std::size_t{0}).integer());
  });
  CHECK(members == count);
  CHECK_THROWS_WITH(JsonDocument(object + ",\"399\":1}", "twice.json"),
                    "twice.json: the key \"399\" occurs twice in one object");
  CHECK_THROWS_WITH(JsonDocument("[1e999]", "large.json"),
                    "large.json: no JSON: [json.exception.out_of_range.406] number overflow parsing '1e999'");
}

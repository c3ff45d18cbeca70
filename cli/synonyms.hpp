// The tables behind cli/vocabulary.hpp: what is called how elsewhere.
#pragma once

#include <string_view>
#include <vector>

namespace cplab::synonyms {

// `is`: what it is here. Of keys: "section.key", or a sentence with what to write where a key alone would not
// do. Of values: the value. `called`: what others call it.
struct Synonyms {
  std::string_view is;
  std::vector<std::string_view> called;
};

struct ValueSynonyms {
  std::string_view key;
  std::vector<Synonyms> values;
};

const std::vector<Synonyms>& keys();           // of a scenario
const std::vector<Synonyms>& hardware_keys();  // of a hardware file
const std::vector<ValueSynonyms>& values();
const std::vector<Synonyms>& commands_elsewhere();
const std::vector<Synonyms>& options_elsewhere();

}  // namespace cplab::synonyms

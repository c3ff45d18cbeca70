// The tables behind cli/vocabulary.hpp: what is called how elsewhere.
#pragma once

#include <string_view>
#include <vector>

namespace cplab::synonyms {

// `is`: what it is here. Of keys: "section.key", or words with what to write where a key alone would not do.
// Of values: the value. A sentence, which ends with a full stop, is said as it is. `called`: what others call
// it.
struct Synonyms {
  std::string_view is;
  std::vector<std::string_view> called;
};

struct ValueSynonyms {
  std::string_view key;
  std::vector<Synonyms> values;
};

const std::vector<Synonyms>& keys();  // of a scenario
// For [model] and [training].
const std::vector<Synonyms>& planning_keys();
const std::vector<Synonyms>& hardware_keys();  // of a hardware file
const std::vector<Synonyms>& explained();      // keys and options of others that are no key here
const std::vector<Synonyms>& explained_commands();
const std::vector<Synonyms>& machines();  // hardware files
const std::vector<ValueSynonyms>& values();
const std::vector<Synonyms>& commands_elsewhere();
const std::vector<Synonyms>& options_elsewhere();

}  // namespace cplab::synonyms

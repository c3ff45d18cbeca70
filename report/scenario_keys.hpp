// The keys of a scenario, in one table: what readers take, what errors, `cplab explain`, the shell's
// completion, the manual page and docs/06-files.md say of each.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cplab {

enum class KeyType : std::uint8_t {
  word,     // one of `words`
  whole,    // an integer from `least` to `most`, or a size such as "128K"; or one of `words`
  number,   // what `legal` says of it
  flag,     // true or false
  text,     // a name, a path
  list,     // what `legal` says of it; or one of `words`
  section,  // a table, or a list of tables, whose keys have rows of their own
};
std::string_view name(KeyType);  // "word", "integer", ...

struct KeyInfo {
  std::string_view key;  // "problem.mask"; of a list of tables "simulate.slow[].rank"
  KeyType type = KeyType::text;
  std::vector<std::string_view> words = {};  // in the order by which readers count them
  std::int64_t least = 0, most = 0;          // of an integer; both 0: what `legal` says
  std::string_view legal = {};               // what is legal beside that, in words
  std::string_view unit = {};                // "tokens", "bytes/s"; empty: a bare number, or none
  std::string_view value = {};  // what is taken without the key, as TOML has it, words without their quotes
  std::string_view rule = {};   // the same in words, where it is no one value
  std::string_view taken_by = {};  // "linear attention"; empty: everybody
  std::string_view meaning = {};
  std::string_view page = {};  // of docs/, with its heading; empty: that of its section (page_of)

  bool is_required() const { return value.empty() && rule.empty() && type != KeyType::section; }
  std::string_view section() const { return key.substr(0, key.find_first_of(".[")); }
  // "sequence" of "problem.sequence", "slow[].rank" of "simulate.slow[].rank".
  std::string_view name_in_section() const { return key.substr(key.find_first_of(".") + 1); }
};

// Those of [problem] and of [parallel], which plan files have too.
std::span<const KeyInfo> problem_key_table();
std::span<const KeyInfo> parallel_key_table();
// What a reader accepts: "bf16, fp16", "an integer from 1 to 65536".
std::string legal_text(const KeyInfo&);
// "missing is an error", the value, or the rule.
std::string default_text(const KeyInfo&);

// The names of a table's keys, without the section and without those of tables inside of them.
std::vector<std::string> names_of(std::span<const KeyInfo>);

}  // namespace cplab

// The keys of a study file, which `cplab sweep` reads; see keys.hpp.
#include "cli/keys/keys.hpp"

namespace cplab {

std::span<const KeyInfo> study_key_table() {
  using enum KeyType;
  static const std::vector<KeyInfo> keys{
      {.key = "study.scenario",
       .type = text,
       .legal = "a name or path, or a section [scenario] that holds one",
       .meaning = "the scenario that all points begin with"},
      {.key = "study.vary",
       .type = section,
       .legal = "\"section.key\" = [values] or a range; \"a.b, c.d\" = [[values], ...] and lists of tables "
                "vary together",
       .meaning = "the keys that vary; points are the product of their values"},
      {.key = "study.vary[].from",
       .type = number,
       .legal = "a number, a size or a number with a unit",
       .meaning = "the first value of a range"},
      {.key = "study.vary[].to",
       .type = number,
       .legal = "a number, a size or a number with a unit",
       .meaning = "the value that a range does not go beyond"},
      {.key = "study.vary[].times",
       .type = number,
       .legal = "above 1",
       .rule = "step",
       .meaning = "each value of a range is so many times the one before"},
      {.key = "study.vary[].step",
       .type = number,
       .legal = "above 0",
       .rule = "times",
       .meaning = "each value of a range is so much more than the one before"},
      {.key = "study.where",
       .type = list,
       .legal = "an expression, or a list of them: \"problem.sequence / parallel.ranks <= 65536\"",
       .rule = "all points are kept",
       .meaning = "only points are kept for which all of these hold"},
      {.key = "study.constraint",
       .type = section,
       .meaning = "[[constraint]]: such an expression with the reason for it"},
      {.key = "study.constraint[].where",
       .type = text,
       .legal = "an expression",
       .meaning = "must hold for a point to be kept"},
      {.key = "study.constraint[].why",
       .type = text,
       .rule = "no reason is given",
       .meaning = "the reason, which results say with how many points it excluded"},
      {.key = "study.shard",
       .type = text,
       .legal = "\"i/n\", i from 0 to n",
       .rule = "all points",
       .meaning = "one point in n, beginning with the i-th, as --shard"},
      {.key = "study.output",
       .type = section,
       .meaning = "files that are written without options of the command line"},
      {.key = "study.output.csv", .type = text, .legal = "a path", .rule = "none", .meaning = "as --csv"},
      {.key = "study.output.jsonl", .type = text, .legal = "a path", .rule = "none", .meaning = "as --jsonl"},
  };
  return keys;
}

}  // namespace cplab

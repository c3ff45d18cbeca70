// Reading dynamic mask attention; see scenario_dynamic_mask.hpp.
#include "cli/files/scenario_dynamic_mask.hpp"

#include <array>
#include <string>

#include "cli/files/scenario_words.hpp"

namespace cplab {

void read_dynamic_mask(const Table& table, Problem& p) {
  if (p.attention != Attention::dynamic_mask) {
    for (const char* key : {"keep", "top_k", "block"})
      if (table.has(key))
        table.fail(key, "only dynamic mask attention has it; legal with attention = \"dynamic_mask\" alone");
    return;
  }
  p.keep = std::array{Keep::none, Keep::top_k, Keep::relu}.at(word(table, "keep"));
  if (p.keep != Keep::none && p.bias == BiasForm::none)
    table.fail("keep",
               "keys are selected by their biases: needs bias = \"full\" or \"keys\"; legal without a "
               "bias: \"none\"");
  if (p.keep == Keep::top_k) {
    if (!table.has("top_k"))
      table.fail("top_k",
                 "missing: keep = \"top_k\" keeps so many keys of a row; legal: an integer from 1 to " +
                     std::to_string(limits::tokens));
    p.top_k = whole(table, "top_k");
  } else if (table.has("top_k")) {
    table.fail("top_k", "only keep = \"top_k\" has it; \"" + std::string(name(p.keep)) + "\" keeps " +
                            (p.keep == Keep::relu ? "keys whose bias is above 0" : "all keys"));
  }
  if (table.has("block")) {
    if (p.keep == Keep::none)
      table.fail("block",
                 "smooths a selection of keys, and there is none; legal with keep = \"top_k\" or "
                 "\"relu\"");
    p.block = whole(table, "block");
  }
}

void note_selection(const Problem& problem, std::vector<std::string>& notes) {
  if (problem.keep == Keep::none) return;
  notes.push_back(
      "keys are selected by their biases before the plan begins, which is in none of these times "
      "(docs/15-dynamic-mask.md)");
}

}  // namespace cplab

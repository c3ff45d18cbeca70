// See scenario_rectangles.hpp.
#include "cli/files/scenario_rectangles.hpp"

#include <algorithm>
#include <string>

#include "cli/files/scenario_words.hpp"

namespace cplab {
namespace {

constexpr const char* legal_groups = "a list of groups [first, end], such as [[8, 24], [40, 56]]";
constexpr const char* legal_rectangles =
    "a list of [q0, q1, k0, k1, \"full\"|\"causal\"|\"inverse_causal\"]: queries from q0 to before q1 see "
    "keys from k0 to before k1";

MaskRectangle::Form form_of(const Table& table, const TomlValue& given) {
  using enum MaskRectangle::Form;
  const std::string* const text = std::get_if<std::string>(&given.value);
  for (const MaskRectangle::Form form : {full, causal, inverse_causal})
    if (text != nullptr && !given.is_list && !given.is_table && *text == name(form)) return form;
  table.fail("mask_rectangles",
             "a form is " + given.toml +
                 "; legal: \"full\", \"causal\" (the diagonal ends in the last row and column), "
                 "\"inverse_causal\" (it begins in the first ones)");
}

MaskRectangle rectangle_of(const Table& table, const TomlValue& given) {
  const auto edge = [&](std::size_t i) {
    const auto* const number = std::get_if<std::int64_t>(&given.items[i].value);
    if (number == nullptr || given.items[i].is_list || given.items[i].is_table || *number < 0 ||
        *number > limits::tokens)
      table.fail("mask_rectangles", "an edge is " + given.items[i].toml +
                                        "; legal: a count of tokens from 0 to " +
                                        std::to_string(limits::tokens));
    return *number;
  };
  if (!given.is_list || given.items.size() < 4 || given.items.size() > 5)
    table.fail("mask_rectangles", "an entry is " + given.toml + "; must be " + legal_rectangles);
  MaskRectangle r{edge(0), edge(1), edge(2), edge(3)};
  if (given.items.size() == 5) r.form = form_of(table, given.items[4]);
  return r;
}

}  // namespace

void read_rectangles(const Table& table, Problem& p) {
  p.chunk = whole(table, "chunk");
  p.prefix = whole(table, "prefix");
  if (table.has("groups")) {
    for (const std::vector<std::int64_t>& group : table.integer_lists("groups")) {
      if (group.size() != 2 || group[0] < 0 || group[0] >= group[1])
        table.fail("groups",
                   std::string("must be ") + legal_groups + ", each with its first token below its end");
      p.groups.emplace_back(group[0], group[1]);
    }
  }
  if (table.has("mask_rectangles")) {
    const TomlValue all = table.value("mask_rectangles");
    if (!all.is_list) table.fail("mask_rectangles", std::string("must be ") + legal_rectangles);
    for (const TomlValue& each : all.items) p.rectangles.push_back(rectangle_of(table, each));
  }
  if (p.only_rectangles && p.prefix == 0 && p.groups.empty() && p.rectangles.empty())
    table.fail("mask",
               "\"none\" leaves no pair; did you mean \"full\"? Legal with mask_rectangles, groups or prefix "
               "beside it");
  if (p.only_rectangles && (p.chunk > 0 || !(p.window == Window{})))
    table.fail("mask",
               "\"none\" has no pairs that a window or chunks could take away; leave window and chunk out");
}

}  // namespace cplab

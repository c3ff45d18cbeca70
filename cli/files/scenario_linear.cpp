// Reading linear attention; see scenario_linear.hpp.
#include "cli/files/scenario_linear.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "cli/files/scenario_words.hpp"
#include "cli/vocabulary.hpp"

namespace cplab {

namespace {

constexpr const char* legal_slopes =
    "\"alibi\", a number from 0 on for all heads, or a list with one for each head (decay = exp(-slope), "
    "bias = -slope x distance)";

// What softmax and linear attention do not share.
void refuse_other_keys(const Table& table, const Problem& p) {
  if (p.attention != Attention::linear) {
    for (const char* key : {"transition", "gate", "convolution"})
      if (table.has(key))
        table.fail(key, "only linear attention has it; legal with attention = \"linear\" alone");
    return;
  }
  if (table.has("scale"))
    table.fail("scale", "linear attention has no softmax and no scale; leave the key out");
  if (p.max_logit)
    table.fail("max_logit", "linear attention has no logits; legal with attention = \"linear\": false");
  if (!p.causal)
    table.fail("mask",
               "linear attention with a decay is causal; legal with attention = \"linear\": "
               "\"causal\"");
  if (p.window.left >= 0 || p.window.right > 0)
    table.fail("window",
               "linear attention has no window: what is far decays; legal with attention = "
               "\"linear\": [-1, -1]");
  if (p.kv_heads != p.heads)
    table.fail("kv_heads", "linear attention has a key head for every query head, but kv_heads is " +
                               std::to_string(p.kv_heads) + "; legal: " + std::to_string(p.heads));
}

std::vector<double> slopes_as_given(const Table& table, std::int64_t heads) {
  switch (table.kind("slopes")) {
    case Table::Kind::missing: return alibi_slopes(heads);
    case Table::Kind::text:
      if (table.text("slopes") != "alibi")
        table.fail("slopes", '"' + table.text("slopes") + "\" is not known" +
                                 clause(meant_value("slopes", table.text("slopes"), {"alibi"})) +
                                 " Legal: " + legal_slopes);
      return alibi_slopes(heads);
    case Table::Kind::integer:
    case Table::Kind::number:
      return std::vector<double>(static_cast<std::size_t>(heads), table.number("slopes"));
    case Table::Kind::list: return table.numbers("slopes");
    default: table.fail("slopes", std::string("legal: ") + legal_slopes);
  }
}

}  // namespace

std::vector<double> read_slopes(const Table& table, std::int64_t heads) {
  const std::vector<double> slopes = slopes_as_given(table, heads);
  if (std::ssize(slopes) != heads)
    table.fail("slopes", "holds " + std::to_string(slopes.size()) + " slopes for " + std::to_string(heads) +
                             " heads; legal: " + legal_slopes);
  for (const double slope : slopes)
    if (!(slope >= 0) || !std::isfinite(slope))
      table.fail("slopes", "a slope is " + std::to_string(slope) + "; legal: " + legal_slopes);
  return slopes;
}

std::vector<double> alibi_slopes(std::int64_t heads) {
  const auto power_of_two = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(heads)));
  std::vector<double> slopes;
  for (std::int64_t i = 1; i <= power_of_two; ++i)
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(power_of_two)));
  for (std::int64_t i = 1; std::ssize(slopes) < heads; i += 2)
    slopes.push_back(std::exp2(-4.0 * static_cast<double>(i) / static_cast<double>(power_of_two)));
  return slopes;
}

void read_linear(const Table& table, Problem& p) {
  refuse_other_keys(table, p);
  if (p.attention != Attention::linear) return;
  p.scale = 1;
  constexpr std::array transitions{Transition::decay, Transition::head, Transition::column,
                                   Transition::matrix};
  p.transition = transitions.at(word(table, "transition"));
  p.gate = std::array{Gate::column, Gate::head}.at(word(table, "gate"));
  if (table.has("gate") && p.transition != Transition::matrix)
    table.fail("gate",
               "only transition = \"matrix\" has it; legal without: transition = \"head\" (one gate a head), "
               "\"column\" (one for each column)");
  p.convolution = whole(table, "convolution");
  if (p.convolution == 1)
    table.fail("convolution", "1 is not legal; legal: 0 (none), 2 to " + std::to_string(limits::convolution) +
                                  " tokens that each row is made of");
  if (p.transition != Transition::decay) {
    if (table.has("slopes"))
      table.fail("slopes", "only transition = \"decay\" has slopes; \"" + std::string(name(p.transition)) +
                               "\" reads its factors from log_decay.npy");
    return;
  }
  p.slopes = read_slopes(table, p.heads);
}

}  // namespace cplab

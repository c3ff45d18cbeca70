// Reading softcap, sink and bias; see scenario_logits.hpp.
#include "cli/files/scenario_logits.hpp"

#include <array>
#include <cmath>
#include <string>

#include "cli/files/scenario_linear.hpp"
#include "cli/files/scenario_words.hpp"

namespace cplab {

namespace {

void refuse(const Table& table, std::initializer_list<const char*> keys, const std::string& why) {
  for (const char* key : keys)
    if (table.has(key)) table.fail(key, why);
}

void read_buckets(const Table& table, Problem& p) {
  if (p.bias != BiasForm::buckets)
    return refuse(table, {"buckets", "max_distance"}, "only bias = \"buckets\" has it");
  const bool both_ways = p.band().right != 0;
  const std::int64_t unit = both_ways ? 4 : 2;
  p.buckets = in_range(table, "buckets", table.integer("buckets", 32), unit, limits::buckets);
  if (p.buckets % unit != 0)
    table.fail("buckets", std::to_string(p.buckets) + " is not legal; legal: multiples of " +
                              std::to_string(unit) +
                              (both_ways ? " (half of them are for later keys, and half of each half for one "
                                           "distance each)"
                                         : " (half of them are for one distance each)"));
  p.max_distance = in_range(table, "max_distance", table.integer("max_distance", 128), p.buckets / unit + 1,
                            limits::tokens);
}

void read_bias(const Table& table, Problem& p) {
  const bool dynamic = p.attention == Attention::dynamic_mask;
  if (dynamic)
    p.bias = std::array{BiasForm::none, BiasForm::full, BiasForm::keys}.at(
        word_of(table, "bias", {"none", "full", "keys"}, "none"));
  else
    p.bias =
        std::array{BiasForm::none, BiasForm::alibi, BiasForm::buckets, BiasForm::full, BiasForm::keys}.at(
            word(table, "bias"));
  if (p.bias == BiasForm::full && p.heads * p.pair_columns() > limits::pair_elements)
    table.fail("bias", "\"full\" has heads x sequence = " + std::to_string(p.heads * p.pair_columns()) +
                           " numbers for every query, at most " + std::to_string(limits::pair_elements) +
                           " are legal; \"keys\" has one for each key");
  read_buckets(table, p);
  if (p.bias != BiasForm::alibi)
    return refuse(table, {"slopes"}, "only linear attention and bias = \"alibi\" have slopes");
  p.slopes = read_slopes(table, p.heads);
}

}  // namespace

void read_logits(const Table& table, Problem& p) {
  if (p.attention == Attention::linear)
    return refuse(table, {"softcap", "sink", "bias", "buckets", "max_distance"},
                  "linear attention has no logits; legal with attention = \"softmax\"");
  read_bias(table, p);
  p.softcap = number(table, "softcap");
  if (!(p.softcap >= 0) || !std::isfinite(p.softcap))
    table.fail("softcap", "legal: numbers from 0 on (0: none)");
  if (table.has("sink") && p.attention == Attention::dynamic_mask)
    table.fail("sink",
               "only attention = \"softmax\" has sinks: here a row may keep no key, and has no sum then");
  p.sink = p.attention == Attention::softmax && word(table, "sink") == 1;
  if (p.max_logit && !p.has_plain_logits())
    table.fail("max_logit",
               "is the largest scale q.k, of softmax attention without softcap and bias; legal here: false");
}

}  // namespace cplab

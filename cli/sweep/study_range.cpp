// Values of ranges; see study_range.hpp.
#include "cli/sweep/study_range.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <string>

namespace cplab {

namespace {

constexpr std::int64_t most_values = 100'000;

struct Number {
  double value = 0;
  std::string unit;  // of text that is no size: "Gb/s"
  bool whole = false;
};

Number number_of_key(const Table& range, const char* key) {
  const TomlValue given = range.value(key);
  const auto refuse = [&] {
    range.fail(key, "must be a number, a size (\"8K\") or a number with a unit, but is " + given.toml);
  };
  if (const auto* count = std::get_if<std::int64_t>(&given.value))
    return {static_cast<double>(*count), "", true};
  if (const auto* number = std::get_if<double>(&given.value)) return {*number, "", false};
  const auto* text = std::get_if<std::string>(&given.value);
  if (!text || given.is_list || given.is_table) refuse();
  bool overflow = false;
  if (const auto size = parse_whole(*text, Quantity::count, overflow))
    return {static_cast<double>(*size), "", true};
  Number number;
  const auto read = std::from_chars(text->data(), text->data() + text->size(), number.value);
  if (overflow || read.ec != std::errc()) refuse();
  number.unit.assign(read.ptr, text->data() + text->size());
  return number;
}

StudyValue value_of(double value, bool whole, const std::string& unit) {
  if (whole) {
    const auto count = static_cast<std::int64_t>(value);
    return {count, std::to_string(count)};
  }
  const std::string digits = fmt::format("{}", value);
  if (unit.empty()) return {value, digits};
  return {digits + unit, digits + unit};
}

}  // namespace

std::vector<StudyValue> range_values(const Table& range) {
  const Number from = number_of_key(range, "from"), to = number_of_key(range, "to");
  const bool times = range.has("times"), step = range.has("step");
  if (times == step) range.fail("", "must have one of times and step beside from and to");
  const char* const by_key = times ? "times" : "step";
  const Number by = number_of_key(range, by_key);
  if (from.unit != to.unit) range.fail("to", "must have the unit of from, \"" + from.unit + "\"");
  const bool unit_of_step = by.unit.empty() || (step && by.unit == from.unit);
  if (!unit_of_step)
    range.fail(by_key, times ? "must be a factor without a unit" : "must have the unit of from");
  if (times ? !(by.value > 1) || !(from.value > 0) : !(by.value > 0))
    range.fail(by_key, times ? "must be above 1, and from above 0" : "must be above 0");
  if (from.value > to.value) range.fail("to", "must not be less than from");
  constexpr double exact = 9007199254740992;  // 2^53
  if (to.value > exact) range.fail("to", "must be at most 2^53");
  const bool whole = from.whole && by.whole;
  std::vector<StudyValue> values;
  const double slack = whole ? 0 : 1e-9 * (times ? to.value : by.value);  // 0.1 + 0.2 and the like
  double value = from.value;
  for (std::int64_t i = 1; value <= to.value + slack; ++i) {
    if (i > most_values) range.fail(by_key, fmt::format("gives more than {} values", most_values));
    values.push_back(value_of(value, whole, from.unit));
    value = times ? value * by.value : from.value + static_cast<double>(i) * by.value;
  }
  return values;
}

}  // namespace cplab

// Questions about the options of one algorithm.
#include "algorithms/core/algorithm.hpp"

#include <algorithm>

namespace cplab {

const std::vector<std::string_view>& placements_for(const Algorithm& algorithm, const Problem& p) {
  const bool linear = p.attention == Attention::linear && !algorithm.linear_placements.empty();
  return linear ? algorithm.linear_placements : algorithm.placements;
}

std::string quoted(const OptionValue& value) {
  return std::holds_alternative<std::string>(value) ? '"' + to_string(value) + '"' : to_string(value);
}

std::string default_text(const OptionInfo& option) {
  return option.default_rule.empty() ? to_string(option.default_value) : std::string(option.default_rule);
}

std::string legal_values(const OptionInfo& option) {
  std::string values;
  for (const OptionValue& value : option.legal) values += (values.empty() ? "" : ", ") + quoted(value);
  return option.any_count ? "any integer >= " + values : values;
}

bool is_legal(const OptionInfo& option, const OptionValue& value) {
  if (option.any_count) {
    const std::int64_t* count = std::get_if<std::int64_t>(&value);
    return count && *count >= std::get<std::int64_t>(option.legal[0]) && *count <= INT32_MAX;
  }
  return std::find(option.legal.begin(), option.legal.end(), value) != option.legal.end();
}

const OptionInfo* find_option(const Algorithm& algorithm, std::string_view key) {
  for (const OptionInfo& option : algorithm.options)
    if (option.key == key) return &option;
  return nullptr;
}

bool is_softmax_problem(const Problem& p) {
  return p.attention != Attention::linear;
}

std::string applies_text(const Algorithm& algorithm, const OptionInfo& option) {
  const std::string serves = option.serves.test ? "of " + std::string(option.serves.words) : "";
  if (!option.applies) return serves;
  Schedule defaults;
  for (const OptionInfo& each : algorithm.options) defaults.set(each.key, each.default_value);
  const bool by_default = option.applies(defaults);
  std::string text;
  for (const OptionInfo& other : algorithm.options) {
    if (other.key == option.key) continue;
    for (const OptionValue& value : other.legal) {
      Schedule schedule = defaults;
      schedule.set(other.key, value);
      if (option.applies(schedule) == by_default) continue;
      text += text.empty() ? (by_default ? "not with " : "only with ") : " or ";
      text += std::string(other.key) + "=" + to_string(value);
    }
  }
  return serves + (serves.empty() || text.empty() ? "" : ", ") + text;
}

}  // namespace cplab

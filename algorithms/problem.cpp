// Names of the problem's words, and the schedule's look-ups.
#include "algorithms/problem.hpp"

#include <array>
#include <stdexcept>

namespace cplab {
namespace {
constexpr std::array<std::string_view, 3> attention_names{"softmax", "linear", "dynamic_mask"};
constexpr std::array<std::string_view, 4> dtype_names{"fp64", "fp32", "bf16", "fp16"};
constexpr std::array<std::string_view, 3> format_names{"bshd", "sbhd", "thd"};
constexpr std::array<std::string_view, 2> direction_names{"forward", "forward+backward"};
}  // namespace

std::string_view name(Attention value) {
  return attention_names.at(static_cast<std::size_t>(value));
}
std::string_view name(DType value) {
  return dtype_names.at(static_cast<std::size_t>(value));
}
std::string_view name(Format value) {
  return format_names.at(static_cast<std::size_t>(value));
}
std::string_view name(Direction value) {
  return direction_names.at(static_cast<std::size_t>(value));
}

Window Problem::visible() const {
  Window both = window;
  if (causal) both.right = 0;  // the intersection with any right bound >= 0
  return both;
}

std::string to_string(const OptionValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const std::int64_t* count = std::get_if<std::int64_t>(&value)) return std::to_string(*count);
  return std::get<std::string>(value);
}

const OptionValue* Schedule::find(std::string_view key) const {
  for (const auto& [name, value] : options)
    if (name == key) return &value;
  return nullptr;
}

void Schedule::set(std::string_view key, OptionValue value) {
  for (auto& [name, old] : options) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  options.emplace_back(std::string(key), std::move(value));
}

namespace {
template <class T>
const T& get(const Schedule& schedule, std::string_view key) {
  const OptionValue* value = schedule.find(key);
  if (!value || !std::holds_alternative<T>(*value))
    throw std::logic_error("schedule option read before it was resolved: " + std::string(key));
  return std::get<T>(*value);
}
}  // namespace

bool Schedule::is_on(std::string_view key) const {
  return get<bool>(*this, key);
}
std::int64_t Schedule::count(std::string_view key) const {
  return get<std::int64_t>(*this, key);
}
const std::string& Schedule::word(std::string_view key) const {
  return get<std::string>(*this, key);
}

bool Schedule::is_word(std::string_view key, std::string_view word) const {
  const OptionValue* value = find(key);
  const std::string* text = value ? std::get_if<std::string>(value) : nullptr;
  return text && *text == word;
}

int reserved_sms(const Schedule& schedule, int sms) {
  const OptionValue* value = schedule.find("reserved_sms");
  const auto* count = value ? std::get_if<std::int64_t>(value) : nullptr;
  if (!count) return 0;
  if (*count < 0 || *count >= sms)
    throw ScenarioError("schedule.reserved_sms", "must be from 0 to " + std::to_string(sms - 1) +
                                                     ", all but one of a GPU's multiprocessors, but is " +
                                                     std::to_string(*count));
  return static_cast<int>(*count);
}

}  // namespace cplab

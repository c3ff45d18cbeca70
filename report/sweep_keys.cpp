// See sweep_keys.hpp.
#include "report/sweep_keys.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/quantity.hpp"

namespace cplab {

std::string value_text(const SweepValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* count = std::get_if<std::int64_t>(&value)) return std::to_string(*count);
  return fmt::format("{}", std::get<double>(value));
}

std::string keys_text(const SweepKeys& keys) {
  std::string text;
  for (const auto& [key, value] : keys) text += (text.empty() ? "" : " ") + key + "=" + value_text(value);
  return text;
}

const SweepValue* find_value(const SweepPoint& point, const std::string& key) {
  for (const auto& [name, value] : point.set)
    if (name == key) return &value;
  return nullptr;
}

std::optional<double> number_of(const std::string& key, const SweepValue& value) {
  if (const auto* count = std::get_if<std::int64_t>(&value)) return static_cast<double>(*count);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  const auto* text = std::get_if<std::string>(&value);
  bool overflow = false;
  if (text == nullptr || key.starts_with("hardware.")) return {};
  const auto whole = parse_whole(*text, Quantity::count, overflow);
  return whole ? std::optional(static_cast<double>(*whole)) : std::nullopt;
}

std::vector<std::pair<std::string, std::string>> varying_keys(const std::vector<SweepPoint>& points) {
  std::vector<std::pair<std::string, std::string>> columns;
  if (points.empty()) return columns;
  std::map<std::string, int> short_names;
  const auto short_name = [](const std::string& key) { return key.substr(key.rfind('.') + 1); };
  for (const auto& [key, value] : points.front().set) ++short_names[short_name(key)];
  for (std::size_t k = 0; k < points.front().set.size(); ++k) {
    const auto& [key, first] = points.front().set[k];
    const bool varies = std::ranges::any_of(points, [&, &value = first](const SweepPoint& p) {
      return k < p.set.size() && p.set[k].second != value;
    });
    if (varies) columns.emplace_back(key, short_names[short_name(key)] > 1 ? key : short_name(key));
  }
  return columns;
}

}  // namespace cplab

// Sizes and rates in text: a number, then one of the units of the quantity.
#include "report/quantity.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>
#include <vector>

namespace cplab {

namespace {

// "131072" and "128K": digits, a sign before them if need be, and at most one of K, M, G, T after them
// (powers of 1024). Nothing if the text is not of that form, or if it is but beyond the 64-bit integers:
// `overflow` tells.
std::optional<std::int64_t> parse_size(std::string_view text, bool& overflow) {
  overflow = false;
  int shift = 0;
  if (!text.empty()) {
    const auto suffix = std::string_view("KMGT").find(text.back());
    if (suffix != std::string_view::npos) {
      shift = 10 * static_cast<int>(suffix + 1);
      text.remove_suffix(1);
    }
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || end != text.data() + text.size()) return std::nullopt;
  const std::int64_t limit = INT64_MAX >> shift;
  overflow = error == std::errc::result_out_of_range || value > limit || value < -limit;
  if (overflow) return std::nullopt;
  return value * (std::int64_t{1} << shift);
}

struct SizeUnit {
  std::string text;
  double factor;
};

// What stands between a letter for a power and the end of a unit, with the base of the powers.
struct UnitForm {
  std::string_view between, after;  // "i", "B/s" of "GiB/s"
  double base;
  double factor = 1;
};

std::vector<SizeUnit> with_letters(std::string_view letters, int first_power,
                                   std::initializer_list<UnitForm> forms) {
  std::vector<SizeUnit> units;
  for (const UnitForm& form : forms) {
    int power = first_power;
    for (const char letter : letters)
      units.push_back({letter + std::string(form.between) + std::string(form.after),
                       form.factor * std::pow(form.base, power++)});
  }
  return units;
}

std::vector<SizeUnit> units_of(Quantity quantity) {
  std::vector<SizeUnit> units;
  switch (quantity) {
    case Quantity::count: return with_letters("KMGT", 1, {{"", "", 1024}});
    case Quantity::bytes:
      units = with_letters("KMGT", 1, {{"", "", 1024}, {"i", "B", 1024}, {"", "B", 1000}});
      units.push_back({"B", 1});
      return units;
    case Quantity::bytes_s:
      units = with_letters(
          "KMGT", 1, {{"", "", 1000}, {"", "B/s", 1000}, {"i", "B/s", 1024}, {"", "b/s", 1000, 1.0 / 8}});
      units.push_back({"B/s", 1});
      return units;
    case Quantity::flops_s: return with_letters("MGTPE", 2, {{"", "", 1000}, {"", "FLOP/s", 1000}});
  }
  return units;
}

// The number that the text begins with, and what follows it, one blank between them left out.
std::optional<std::pair<double, std::string_view>> split(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (unit.size() > 1 && unit.front() == ' ') unit.remove_prefix(1);
  return std::pair{number, unit};
}

void replace(std::string& text, std::string_view from, std::string_view to) {
  if (const std::size_t at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
}

// One spelling for what people write: "gb/s" for Gbit/s, Gbps, GBps.
std::string plain(std::string_view unit) {
  std::string text(unit);
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  replace(text, "bit", "b");
  replace(text, "bytes", "b");
  replace(text, "flops", "flop/s");
  replace(text, "flop/s/s", "flop/s");
  replace(text, "ps", "/s");
  return text;
}

}  // namespace

std::optional<double> parse_quantity(std::string_view text, Quantity quantity) {
  const auto parts = split(text);
  if (!parts) return std::nullopt;
  if (parts->second.empty()) return parts->first;
  for (const SizeUnit& unit : units_of(quantity))
    if (unit.text == parts->second) return parts->first * unit.factor;
  return std::nullopt;
}

std::optional<std::int64_t> parse_whole(std::string_view text, Quantity quantity, bool& overflow) {
  if (const auto size = parse_size(text, overflow); size || overflow) return size;  // to the last digit
  const std::optional<double> value = parse_quantity(text, quantity);
  if (!value || *value != std::floor(*value)) return std::nullopt;
  overflow = std::abs(*value) >= 0x1p63;
  if (overflow) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::string_view legal_units(Quantity quantity) {
  switch (quantity) {
    case Quantity::count: return "K, M, G or T (powers of 1024)";
    case Quantity::bytes: return "K, M, G, T or KiB to TiB (powers of 1024), B, KB to TB (powers of 1000)";
    case Quantity::bytes_s:
      return "K, M, G, T or B/s, KB/s to TB/s (bytes, powers of 1000), KiB/s to TiB/s (of 1024), Kb/s to "
             "Tb/s "
             "(bits)";
    case Quantity::flops_s: return "M, G, T, P, E or MFLOP/s to EFLOP/s (powers of 1000)";
  }
  return "";
}

std::string meant_unit(std::string_view text, Quantity quantity) {
  const auto parts = split(text);
  if (!parts || parts->second.empty()) return "";
  const std::string_view given = parts->second;
  const std::string number(text.substr(0, static_cast<std::size_t>(given.data() - text.data())));
  // As it is written, as a rate, as no rate, and by the letter alone.
  const std::string same = plain(given);
  std::vector<std::string> forms{same, same + "/s"};
  if (same.ends_with("/s")) forms.push_back(same.substr(0, same.size() - 2));
  forms.push_back(same.substr(0, 1));
  for (const std::string& form : forms) {
    std::string ideas;
    for (const SizeUnit& unit : units_of(quantity)) {
      if (plain(unit.text) != form) continue;
      // A capital B is bytes, a small b behind a capital letter bits; in small letters alone it may be both.
      const bool bytes = given.find('B') != std::string_view::npos;
      const bool bits = !bytes && std::isupper(static_cast<unsigned char>(given.front())) != 0;
      const bool unit_bytes = unit.text.find('B') != std::string::npos;
      if (unit.text.size() > 1 && quantity == Quantity::bytes_s &&
          ((bytes && !unit_bytes) || (bits && unit_bytes)))
        continue;
      ideas += (ideas.empty() ? "\"" : " or \"") + number + unit.text + "\"";
    }
    if (!ideas.empty()) return "did you mean " + ideas + "?";
  }
  return "";
}

}  // namespace cplab

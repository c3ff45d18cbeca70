// Reasons and legal values, read from messages; see reasons.hpp.
#include "cli/reasons.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <string_view>

#include "cli/files/changes.hpp"

namespace cplab {

namespace {

std::optional<double> number_at(std::string_view text) {
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc()) return std::nullopt;
  return number;
}

// What was given: "but is 5", else the first number.
std::optional<double> given_in(std::string_view message) {
  constexpr std::string_view but_is = "but is ";
  if (const auto at = message.rfind(but_is); at != std::string_view::npos)
    if (const auto number = number_at(message.substr(at + but_is.size()))) return number;
  const auto digit = message.find_first_of("0123456789");
  return digit == std::string_view::npos ? std::nullopt : number_at(message.substr(digit));
}

std::optional<std::string> nearest_of_range(std::string_view range, double given) {
  const auto to = range.find(" to ");
  if (to == std::string_view::npos) return std::nullopt;
  const auto low = number_at(range), high = number_at(range.substr(to + 4));
  if (!low || !high || (given >= *low && given <= *high)) return std::nullopt;
  const std::string_view end = given < *low ? range : range.substr(to + 4);
  return std::string(end.substr(0, end.find_first_not_of("0123456789.")));
}

std::optional<std::string> nearest_of_list(std::string_view list, double given) {
  std::optional<std::string> nearest;
  double least = INFINITY;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(", ", at), list.size());
    const std::string_view item = list.substr(at, end - at);
    at = end + 2;
    const auto number = number_at(item);
    if (!number || item.find_first_not_of("0123456789.") != std::string_view::npos) continue;
    if (std::abs(*number - given) >= least) continue;
    least = std::abs(*number - given);
    nearest = std::string(item);
  }
  return nearest;
}

}  // namespace

std::string reason_of(const std::string& message, const std::vector<std::string>& changes,
                      const std::vector<std::string>& own, const std::string& path) {
  std::string_view rest = message;
  const auto skip = [&](const std::string& words) {
    if (!rest.starts_with(words)) return false;
    rest.remove_prefix(words.size());
    return true;
  };
  for (bool more = true; more;) {
    more = skip(", ") || skip(": ");
    for (const std::string& change : changes) more = skip(option_text(change)) || more;
    for (const std::string& set : own) more = skip("--set " + set.substr(0, set.find('='))) || more;
  }
  if (skip(path + ":")) {
    while (!rest.empty() && (std::isdigit(static_cast<unsigned char>(rest.front())) != 0))
      rest.remove_prefix(1);
    skip(": ");
  }
  return std::string(rest);
}

std::optional<std::string> nearest_legal(const std::string& message) {
  constexpr std::string_view meant = "did you mean ";
  if (const auto at = message.find(meant); at != std::string::npos) {
    std::string word = message.substr(at + meant.size());
    word.erase(std::min(word.find('?'), word.size()));
    std::erase(word, '"');
    return word;
  }
  const std::string_view text = message;
  const std::size_t legal = text.find("egal");
  const auto given = given_in(text.substr(0, legal));
  if (!given) return std::nullopt;
  constexpr std::string_view from = "must be from ";
  if (const auto at = text.find(from); at != std::string_view::npos)
    return nearest_of_range(text.substr(at + from.size()), *given);
  const std::size_t colon = legal == std::string_view::npos ? legal : text.find(": ", legal);
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view all = text.substr(colon + 2, text.find(';', colon) - colon - 2);
  if (const auto of_range = nearest_of_range(all, *given)) return of_range;
  return nearest_of_list(all, *given);
}

}  // namespace cplab

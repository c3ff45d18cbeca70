// The legal word that a misspelling was meant to be, for "did you mean".
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <utility>

#include "cli/vocabulary.hpp"

namespace cplab {

namespace {

// Letters in small, "-" as "_".
std::string in_small(std::string_view word) {
  std::string text;
  for (const char c : word)
    text += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Edits from a to b: a letter more, less or another, or two neighbours in the other order.
std::int64_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::int64_t> row(b.size() + 1), above, second;
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    second = std::exchange(above, row);
    row[0] = static_cast<std::int64_t>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], second[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string sorted_digits(std::string_view word) {
  std::string digits;
  std::copy_if(word.begin(), word.end(), std::back_inserter(digits),
               [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
  std::sort(digits.begin(), digits.end());
  return digits;
}

// Another part of one or two letters is another word ("top_p", "top_k"; "kv_slots", "q_slots").
bool differs_in_short_part(std::string_view a, std::string_view b) {
  constexpr std::size_t short_part = 2;
  while (true) {
    const std::string_view first = a.substr(0, a.find('_')), second = b.substr(0, b.find('_'));
    if (first != second && first.size() <= short_part && second.size() <= short_part) return true;
    if (first.size() == a.size() || second.size() == b.size()) return false;
    a.remove_prefix(first.size() + 1);
    b.remove_prefix(second.size() + 1);
  }
}

// How many edits a misspelling may be away: few, relative to its length, so that a word that means something
// else is not taken for one. Other digits are another thing, not a misspelling ("fp8", "h100x4").
bool misspells(std::string_view given, std::string_view word, std::int64_t edits) {
  if (edits == 0) return true;
  if (sorted_digits(given) != sorted_digits(word)) return false;
  if (differs_in_short_part(given, word)) return false;
  const std::size_t length = std::min(given.size(), word.size());
  const bool same_start = !given.empty() && !word.empty() && given.front() == word.front();
  if (length < 3) return false;
  if (length < 5) return edits == 1 && same_start;
  if (length < 8) return edits == 1;
  return edits == 1 || (same_start && edits <= (length < 14 ? 2 : 3));
}

}  // namespace

std::string nearest(std::string_view given, const std::vector<std::string>& legal) {
  const std::string wanted = in_small(given.substr(0, 100));  // longer than any legal word
  const std::string* best = nullptr;
  std::int64_t least = 0;
  for (const std::string& word : legal) {
    const std::int64_t edits = edit_distance(wanted, in_small(word));
    if (!misspells(wanted, in_small(word), edits) || (best && edits >= least)) continue;
    best = &word;
    least = edits;
  }
  if (best) return *best;
  // The beginning of one legal word alone ("contig").
  constexpr std::size_t shortest = 3;
  if (wanted.size() < shortest) return "";
  for (const std::string& word : legal) {
    if (!in_small(word).starts_with(wanted)) continue;
    if (best) return "";
    best = &word;
  }
  return best ? *best : "";
}

std::string quoted_list(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) text += (i ? ", \"" : "\"") + words[i] + "\"";
  return text;
}

}  // namespace cplab

// The nearest legal word, for "did you mean".
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <numeric>

#include "cli/vocabulary.hpp"

namespace cplab {

namespace {

std::int64_t edit_distance(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return std::tolower(static_cast<unsigned char>(c)); };
  std::vector<std::int64_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::int64_t diagonal = row[0];
    row[0] = static_cast<std::int64_t>(i) + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::int64_t change = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j + 1] + 1, row[j] + 1, change});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest(std::string_view given, const std::vector<std::string>& legal) {
  given = given.substr(0, 100);  // longer than any legal word; a word of a file may have a megabyte
  // A prefix of a legal word ("contig") means that word, though a short word may be fewer edits away.
  constexpr std::size_t least = 3;
  for (const std::string& word : legal) {
    if (given.size() >= least && edit_distance(given, word.substr(0, given.size())) == 0) return word;
  }
  const auto best =
      std::min_element(legal.begin(), legal.end(), [&](const std::string& a, const std::string& b) {
        return edit_distance(given, a) < edit_distance(given, b);
      });
  return best == legal.end() ? std::string() : *best;
}

std::string quoted_list(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) text += (i ? ", \"" : "\"") + words[i] + "\"";
  return text;
}

}  // namespace cplab

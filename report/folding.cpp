// Folding by words; see folding.hpp.
#include "report/folding.hpp"

#include <algorithm>
#include <numeric>
#include <ostream>

namespace cplab {

namespace {

// A word that is not broken where it can be helped: names of files, kernels, options.
constexpr std::size_t long_word = 24;
constexpr std::string_view breaks_after = ",/=_+-";

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// Bytes of the first `width` code points.
std::size_t bytes_of(std::string_view text, std::size_t width) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (!continues(text[at]) && width-- == 0) break;
    ++at;
  }
  return at;
}

// Where a word that does not fit is broken.
std::size_t break_of(std::string_view word, std::size_t width) {
  const std::size_t most = bytes_of(word, std::max<std::size_t>(width, 1));
  if (most == word.size()) return most;
  const std::size_t sign = word.substr(0, most).find_last_of(breaks_after);
  return sign == std::string_view::npos || sign == 0 ? most : sign + 1;
}

std::size_t gaps(std::size_t columns, std::size_t gap) {
  return columns == 0 ? 0 : gap * (columns - 1);
}

// Every column at least what it must have, the widest cut to one width, what is left given out from the left.
std::vector<std::size_t> shared_out(const std::vector<ColumnNeed>& needs, std::size_t width) {
  std::vector<std::size_t> widths(needs.size());
  const auto with = [&](std::size_t cap) {
    std::size_t sum = 0;
    for (std::size_t c = 0; c < needs.size(); ++c)
      sum += widths[c] = std::max(needs[c].least, std::min(needs[c].cells, cap));
    return sum;
  };
  std::size_t cap = 1;
  while (cap < width && with(cap + 1) <= width) ++cap;
  std::size_t sum = with(cap);
  for (std::size_t c = 0; c < needs.size() && sum < width; ++c) {
    if (widths[c] >= needs[c].cells) continue;
    ++widths[c];
    ++sum;
  }
  return widths;
}

}  // namespace

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return !continues(c); }));
}

std::vector<std::string> folded(std::string_view text, std::size_t width) {
  if (width_of(text) <= width) return {std::string(text)};
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const std::size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(word.size());
    const std::size_t used = width_of(lines.back());
    if (!lines.back().empty() && used + 1 + width_of(word) <= width) {
      lines.back().append(" ").append(word);
      continue;
    }
    if (!lines.back().empty()) lines.emplace_back();
    while (width_of(word) > width) {
      const std::size_t part = break_of(word, width);
      lines.back() = word.substr(0, part);
      lines.emplace_back();
      word.remove_prefix(part);
    }
    lines.back() = word;
  }
  return lines;
}

void write_folded(std::ostream& out, std::string_view text, std::size_t width, std::string_view indent) {
  const std::vector<std::string> first = folded(text, width);
  out << first.front() << '\n';
  if (first.size() == 1) return;
  std::string rest;
  for (std::size_t i = 1; i < first.size(); ++i) rest += (i > 1 ? " " : "") + first[i];
  const std::size_t left = width > indent.size() + 1 ? width - indent.size() : 1;
  for (const std::string& line : folded(rest, left)) out << indent << line << '\n';
}

void write_beside(std::ostream& out, std::string_view left, std::string_view text, std::size_t width) {
  const std::size_t used = width_of(left);
  const std::string blanks(used, ' ');
  std::string_view before = left;
  for (const std::string& line : folded(text, width > used ? width - used : 1)) {
    out << before << line << '\n';
    before = blanks;
  }
}

std::size_t unbroken_width(std::string_view text) {
  std::size_t most = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    std::string_view part = word;
    while (width_of(word) > long_word && part.find_first_of(breaks_after) + 1 < part.size()) {
      const std::size_t end = part.find_first_of(breaks_after);
      if (end == std::string_view::npos) break;
      most = std::max(most, width_of(part.substr(0, end + 1)));
      part.remove_prefix(end + 1);
    }
    most = std::max(most, width_of(part));
  }
  return most;
}

std::vector<ColumnBlock> fitted_columns(const std::vector<ColumnNeed>& needs, std::size_t width) {
  std::size_t all = 0;
  for (const ColumnNeed& need : needs) all += need.least;
  const std::size_t gap = all + gaps(needs.size(), 2) > width && all + gaps(needs.size(), 1) <= width ? 1 : 2;
  std::vector<ColumnBlock> blocks;
  for (std::size_t next = 0; next < needs.size() || blocks.empty();) {
    ColumnBlock& block = blocks.emplace_back();
    block.gap = gap;
    std::vector<ColumnNeed> chosen;
    std::size_t natural = 0, least = 0;
    const auto take = [&](std::size_t column) {
      block.columns.push_back(column);
      chosen.push_back(needs[column]);
      natural += needs[column].natural;
      least += needs[column].least;
    };
    if (blocks.size() > 1) take(0);
    const std::size_t own = block.columns.size();
    const auto fits = [&](std::size_t column) {
      return least + needs[column].least + gaps(block.columns.size() + 1, gap) <= width;
    };
    while (next < needs.size() && (block.columns.size() == own || fits(next))) take(next++);
    const std::size_t taken = gaps(chosen.size(), gap);
    const std::size_t left = width > taken ? width - taken : chosen.size();
    // One column beside the first and still too wide: words are broken.
    if (least > left)
      for (ColumnNeed& need : chosen) need.least = std::min(need.least, std::max<std::size_t>(left / 2, 1));
    if (natural <= left)
      for (const ColumnNeed& need : chosen) block.widths.push_back(need.natural);
    else
      block.widths = shared_out(chosen, left);
  }
  return blocks;
}

}  // namespace cplab

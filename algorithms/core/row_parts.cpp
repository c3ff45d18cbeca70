// Where rows are cut; see row_parts.hpp.
#include "algorithms/core/row_parts.hpp"

#include <algorithm>

#include "algorithms/core/defaults.hpp"

namespace cplab {
namespace {

// Rows that are cut only for a reason: a run, or all runs of a sequence. Counted over all runs.
struct Uncut {
  std::int64_t begin = 0, end = 0;
};

std::vector<Uncut> uncut_rows(std::span<const TokenRun> runs, CutAt at) {
  std::vector<Uncut> list;
  std::int64_t place = 0;
  for (std::size_t i = 0; i < runs.size(); ++i, place = list.back().end) {
    const bool goes_on = at == CutAt::sequences && i > 0 && runs[i].sequence == runs[i - 1].sequence;
    if (!goes_on) list.push_back({place, place});
    list.back().end += runs[i].rows;
  }
  return list;
}

std::int64_t cut_near(std::int64_t wanted, const Uncut& in, std::int64_t near) {
  const std::int64_t multiple = defaults::cut_rows();
  if (wanted - in.begin <= near) return in.begin;
  if (in.end - wanted <= near) return in.end;
  return std::min(in.begin + (wanted - in.begin + multiple / 2) / multiple * multiple, in.end);
}

// Appends the rows [begin, end), counted over all runs.
void append(Rows& rows, std::span<const TokenRun> runs, std::int64_t begin, std::int64_t end) {
  std::int64_t place = 0;
  for (const TokenRun& run : runs) {
    const std::int64_t first = std::max(begin, place), last = std::min(end, place + run.rows);
    rows.append(run.row + first - place, std::max<std::int64_t>(last - first, 0));
    place += run.rows;
  }
}

}  // namespace

std::vector<Rows> cut_in_parts(std::span<const TokenRun> runs, std::int64_t count, CutAt at) {
  const std::vector<Uncut> uncut = uncut_rows(runs, at);
  const std::int64_t total = uncut.empty() ? 0 : uncut.back().end;
  std::vector<Rows> parts(static_cast<std::size_t>(count));
  std::int64_t done = 0;
  for (std::int64_t part = 1; part <= count; ++part) {
    const std::int64_t wanted = total * part / count;
    std::int64_t end = total;
    if (part < count && total > 0) {
      const auto in = std::ranges::find_if(uncut, [&](const Uncut& s) { return s.end > wanted; });
      // A whole sequence goes to the side on which more of it lies.
      end = at == CutAt::rows                  ? cut_near(wanted, *in, total / count / 4)
            : 2 * wanted < in->begin + in->end ? in->begin
                                               : in->end;
    }
    append(parts[static_cast<std::size_t>(part - 1)], runs, done, std::max(done, end));
    done = std::max(done, end);
  }
  return parts;
}

}  // namespace cplab

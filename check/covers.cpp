// Which rows are covered by which keys, from rectangles of rows and keys; see coverage.hpp.
#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "check/coverage.hpp"

namespace cplab::checking {

bool collect(std::vector<Rectangle>& rectangles, Sets& sets, std::vector<Cover>& covers) {
  covers.clear();
  std::sort(rectangles.begin(), rectangles.end(), [](const Rectangle& a, const Rectangle& b) {
    return std::pair(a.first, a.begin) < std::pair(b.first, b.begin);
  });
  bool once = true;
  thread_local std::vector<Rectangle> active;
  thread_local std::vector<Sets::Interval> intervals;
  active.clear();
  std::int64_t at = 0;
  for (std::size_t n = 0; n < rectangles.size() || !active.empty();) {
    if (active.empty()) at = rectangles[n].first;
    while (n < rectangles.size() && rectangles[n].first == at) active.push_back(rectangles[n++]);
    std::int64_t end = n < rectangles.size() ? rectangles[n].first : std::numeric_limits<std::int64_t>::max();
    for (const Rectangle& r : active) end = std::min(end, r.first + r.count);
    intervals.clear();
    for (const Rectangle& r : active) intervals.push_back({r.begin, r.end});
    std::sort(intervals.begin(), intervals.end(),
              [](const Sets::Interval& a, const Sets::Interval& b) { return a.begin < b.begin; });
    std::size_t kept = 0;
    for (const Sets::Interval& i : intervals) {
      if (kept > 0 && i.begin < intervals[kept - 1].end) once = false;
      if (kept > 0 && i.begin <= intervals[kept - 1].end)
        intervals[kept - 1].end = std::max(intervals[kept - 1].end, i.end);
      else
        intervals[kept++] = i;
    }
    covers.push_back({at, end - at, sets.of({intervals.data(), kept})});
    std::erase_if(active, [&](const Rectangle& r) { return r.first + r.count == end; });
    at = end;
  }
  return once;
}

}  // namespace cplab::checking

// Rows of views as sets: sorted runs, and whether two of them meet; see structure.hpp.
#include <algorithm>
#include <numeric>
#include <utility>

#include "plan/structure.hpp"

namespace cplab {
namespace {

// Strided ranges are compared pair by pair up to this many; beyond, they are written out row by row.
constexpr std::size_t most_strided_ranges = 256;
constexpr std::int64_t most_written_out = 1 << 22;

std::vector<RowRange> written_out(const std::vector<RowRange>& ranges) {
  std::int64_t rows = 0;
  for (const RowRange& r : ranges) {
    if (r.count > most_written_out || (rows += r.step == 1 ? 1 : r.count) > most_written_out)
      throw PlanTooLarge("a view names more than " + std::to_string(most_written_out) +
                         " rows in more than " + std::to_string(most_strided_ranges) +
                         " strided ranges: fewer ranges, or smaller steps of the problem, can be checked");
  }
  std::vector<RowRange> plain;
  for (const RowRange& r : ranges) {
    if (r.step == 1)
      plain.push_back(r);
    else
      for (std::int64_t i = 0; i < r.count; ++i) plain.push_back({r.begin + i * r.step, 1, 1});
  }
  return plain;
}

// A list of ranges as maximal runs, whatever the pieces that the list cuts them into: equal lists of rows
// give equal runs.
std::vector<RowRange> joined(std::span<const RowRange> ranges) {
  std::vector<RowRange> runs;
  for (RowRange rest : ranges) {
    while (rest.count > 0) {
      RowRange* last = runs.empty() ? nullptr : &runs.back();
      if (last != nullptr && last->count == 1) last->step = rest.begin - last->begin;
      if (last == nullptr || rest.begin != last->begin + last->count * last->step) {
        runs.push_back({rest.begin, 1, 1});
        rest = {rest.begin + rest.step, rest.count - 1, rest.step};
        continue;
      }
      // Of a range that goes on in another step its first row is the run's last.
      const std::int64_t count = rest.count == 1 || rest.step == last->step ? rest.count : 1;
      last->count += count;
      rest = {rest.begin + count * rest.step, rest.count - count, rest.step};
    }
  }
  if (!runs.empty() && runs.back().count == 1) runs.back().step = 1;
  return runs;
}

}  // namespace

bool is_empty(const RankPlan& plan, const View& view) {
  return view.slot_begin >= view.slot_end || view.head_begin >= view.head_end ||
         view.width_begin >= view.width_end ||
         std::ranges::none_of(plan.rows_of(view), [](const RowRange& r) { return r.count > 0; });
}

bool same_elements(const RankPlan& plan, const View& a, const View& b) {
  View alike = b;
  alike.ranges = a.ranges;
  if (!(a == alike)) return false;
  return a.ranges == b.ranges || joined(plan.rows_of(a)) == joined(plan.rows_of(b));
}

RowSet row_set(std::span<const RowRange> ranges) {
  std::vector<RowRange> list;
  std::size_t strided = 0;
  for (const RowRange& r : ranges) {
    if (r.count <= 0) continue;
    list.push_back(r.count == 1 ? RowRange{r.begin, 1, 1} : r);
    strided += list.back().step != 1;
  }
  if (strided > 0 && list.size() > most_strided_ranges) {
    list = written_out(list);
    strided = 0;
  }
  std::sort(list.begin(), list.end(), [](const RowRange& a, const RowRange& b) { return a.begin < b.begin; });
  RowSet set;
  set.distinct = true;
  set.strided = strided > 0;
  if (set.strided) {
    for (std::size_t i = 0; i < list.size(); ++i)
      for (std::size_t j = i + 1; set.distinct && j < list.size(); ++j)
        set.distinct = !runs_meet(list[i], list[j]);
    set.sorted = std::move(list);
    return set;
  }
  for (const RowRange& r : list) {
    if (set.sorted.empty() || r.begin > set.sorted.back().begin + set.sorted.back().count) {
      set.sorted.push_back(r);
      continue;
    }
    RowRange& last = set.sorted.back();
    set.distinct = set.distinct && r.begin == last.begin + last.count;
    last.count = std::max(last.count, r.begin + r.count - last.begin);
  }
  return set;
}

// x = a.begin + a.step i = b.begin + b.step j has a solution within both runs.
bool runs_meet(const RowRange& a, const RowRange& b) {
  const std::int64_t a_last = a.begin + (a.count - 1) * a.step, b_last = b.begin + (b.count - 1) * b.step;
  if (a_last < b.begin || b_last < a.begin) return false;
  if (a.step == 1 && b.step == 1) return true;
  const std::int64_t divisor = std::gcd(a.step, b.step), apart = b.begin - a.begin;
  if (apart % divisor != 0) return false;
  // i = (apart / divisor) * (a.step / divisor)^-1 modulo b.step / divisor, by the extended algorithm of
  // Euclid.
  const std::int64_t modulus = b.step / divisor;
  std::int64_t inverse = 0, next = 1, r = modulus, next_r = a.step / divisor % modulus;
  while (next_r != 0) {
    const std::int64_t quotient = r / next_r;
    inverse = std::exchange(next, inverse - quotient * next);
    r = std::exchange(next_r, r - quotient * next_r);
  }
  // Rows are below 2^40; halving the factor keeps the product below 2^63.
  std::int64_t factor = ((apart / divisor) % modulus + modulus) % modulus, i = 0;
  for (std::int64_t power = ((inverse % modulus) + modulus) % modulus; factor > 0; factor /= 2) {
    if (factor % 2 != 0) i = (i + power) % modulus;
    power = power * 2 % modulus;
  }
  // The first common row that is in both.
  const std::int64_t least = apart <= 0 ? 0 : (apart + a.step - 1) / a.step;
  i = least + ((i - least) % modulus + modulus) % modulus;
  return i < a.count && a.begin + i * a.step <= b_last;
}

}  // namespace cplab

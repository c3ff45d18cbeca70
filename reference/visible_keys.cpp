// See visible_keys.hpp.
#include "reference/visible_keys.hpp"

#include <utility>

namespace cplab::reference {
namespace {

KeyRun row_of(const Rectangle& r, std::int64_t i) {
  if (i < r.q_begin || i >= r.q_end) return {};
  KeyRun run{r.k_begin, r.k_end};
  if (r.form == Rectangle::Form::causal) run.end = std::min(run.end, r.k_end - (r.q_end - 1 - i));
  if (r.form == Rectangle::Form::inverse_causal) run.begin = std::max(run.begin, r.k_begin + (i - r.q_begin));
  return run;
}

}  // namespace

VisibleKeys::VisibleKeys(VisibleRule rule) : rule_(std::move(rule)) {
  if (!rule_.rectangles.empty() || rule_.only_rectangles) find_runs();
}

KeyRun VisibleKeys::by_rule(std::int64_t i) const {
  const std::int64_t position = rule_.first_at + i;
  KeyRun run{0, rule_.keys};
  if (rule_.left >= 0) run.begin = std::max(run.begin, position - rule_.left);
  if (rule_.right >= 0) run.end = std::min(run.end, position + rule_.right + 1);
  if (rule_.chunk > 0) {
    const std::int64_t chunk = position >= 0 ? position / rule_.chunk : -1;
    run.begin = std::max(run.begin, chunk * rule_.chunk);
    run.end = std::min(run.end, (chunk + 1) * rule_.chunk);
  }
  return run;
}

void VisibleKeys::find_runs() {
  for (std::int64_t i = 0; i < rule_.queries; ++i) {
    first_run_.push_back(runs_.size());
    std::vector<KeyRun> row;
    if (!rule_.only_rectangles) row.push_back(by_rule(i));
    for (const Rectangle& r : rule_.rectangles) row.push_back(row_of(r, i));
    std::ranges::sort(row, {}, &KeyRun::begin);
    for (const KeyRun& run : row) {
      if (run.empty()) continue;
      if (runs_.size() > first_run_.back() && run.begin <= runs_.back().end)
        runs_.back().end = std::max(runs_.back().end, run.end);
      else
        runs_.push_back(run);
    }
  }
  first_run_.push_back(runs_.size());
}

KeyRun VisibleKeys::seen_by(std::int64_t query, std::int64_t queries) const {
  KeyRun all{rule_.keys, 0};
  for (std::int64_t i = query; i < query + queries; ++i)
    for_each(i, {0, rule_.keys}, [&](KeyRun run) {
      all = {std::min(all.begin, run.begin), std::max(all.end, run.end)};
    });
  return all.empty() ? KeyRun{} : all;
}

KeyRun VisibleKeys::seeing(std::int64_t key, std::int64_t keys) const {
  KeyRun all{0, rule_.queries};
  if (!first_run_.empty()) {
    all = {rule_.queries, 0};
    for (std::int64_t i = 0; i < rule_.queries; ++i)
      for_each(i, {key, key + keys}, [&](KeyRun) { all = {std::min(all.begin, i), i + 1}; });
  } else {
    if (rule_.right >= 0) all.begin = std::max(all.begin, key - rule_.right - rule_.first_at);
    if (rule_.left >= 0) all.end = std::min(all.end, key + keys + rule_.left - rule_.first_at);
  }
  return all.empty() ? KeyRun{} : all;
}

}  // namespace cplab::reference

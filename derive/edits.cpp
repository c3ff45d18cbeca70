// See edits.hpp. Every edit that moves operations rewrites all edges through a map of places.
#include "derive/edits.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace cplab {
namespace {

constexpr std::uint32_t gone = UINT32_MAX;

template <class T>
Span append(std::vector<T>& pool, const std::vector<T>& list) {
  const Span s{static_cast<std::uint32_t>(pool.size()), static_cast<std::uint32_t>(list.size())};
  pool.insert(pool.end(), list.begin(), list.end());
  return s;
}

// Renumbers all edges: places[old index] is the new index. Edges to removed operations and edges that would
// point forward are dropped.
void rewrite_edges(RankPlan& plan, const std::vector<std::uint32_t>& places) {
  const std::vector<std::uint32_t> old = std::move(plan.edges);
  plan.edges.clear();
  for (std::uint32_t i = 0; i < plan.operations.size(); ++i) {
    Operation& op = plan.operations[i];
    const auto moved = [&](Span span) {
      std::vector<std::uint32_t> after;
      for (const std::uint32_t before : RankPlan::slice(old, span))
        if (places[before] != gone && places[before] < i) after.push_back(places[before]);
      return append(plan.edges, after);
    };
    op.after = moved(op.after);
    op.after_started = moved(op.after_started);
  }
}

void count_ordinals(RankPlan& plan) {
  std::uint32_t ordinals[2] = {0, 0};
  for (Operation& op : plan.operations) op.ordinal = ordinals[static_cast<std::size_t>(op.phase)]++;
}

std::vector<std::uint32_t> same_places(const RankPlan& plan) {
  std::vector<std::uint32_t> places(plan.operations.size());
  std::iota(places.begin(), places.end(), 0u);
  return places;
}

}  // namespace

Span add_ranges(RankPlan& plan, const std::vector<RowRange>& list) {
  return append(plan.row_ranges, list);
}
Span add_accesses(RankPlan& plan, const std::vector<Access>& list) {
  return append(plan.accesses, list);
}
Span add_parts(RankPlan& plan, const std::vector<Part>& list) {
  return append(plan.parts, list);
}
Span add_segments(RankPlan& plan, const std::vector<Segment>& list) {
  return append(plan.segments, list);
}

Span add_chunks(RankPlan& plan, const std::vector<Chunk>& list) {
  return append(plan.chunks, list);
}

std::uint32_t add_view(RankPlan& plan, const View& view) {
  plan.views.push_back(view);
  return static_cast<std::uint32_t>(plan.views.size() - 1);
}

void set_after(RankPlan& plan, std::size_t operation, const std::vector<std::uint32_t>& after) {
  plan.operations[operation].after = append(plan.edges, after);
}
void set_after_started(RankPlan& plan, std::size_t operation, const std::vector<std::uint32_t>& after) {
  plan.operations[operation].after_started = append(plan.edges, after);
}

void insert_operation(RankPlan& plan, std::size_t place, Operation op) {
  std::vector<std::uint32_t> places = same_places(plan);
  for (std::size_t i = place; i < places.size(); ++i) ++places[i];
  plan.operations.insert(plan.operations.begin() + static_cast<std::ptrdiff_t>(place), op);
  rewrite_edges(plan, places);
  count_ordinals(plan);
}

void remove_operation(RankPlan& plan, std::size_t place) {
  std::vector<std::uint32_t> places = same_places(plan);
  places[place] = gone;
  for (std::size_t i = place + 1; i < places.size(); ++i) --places[i];
  plan.operations.erase(plan.operations.begin() + static_cast<std::ptrdiff_t>(place));
  rewrite_edges(plan, places);
  count_ordinals(plan);
}

void move_operation(RankPlan& plan, std::size_t from, std::size_t to) {
  std::vector<std::uint32_t> places = same_places(plan);
  for (std::size_t i = from + 1; i <= to && i < places.size(); ++i) --places[i];
  for (std::size_t i = to; i < from; ++i) ++places[i];
  places[from] = static_cast<std::uint32_t>(to);
  const auto at = [&](std::size_t i) { return plan.operations.begin() + static_cast<std::ptrdiff_t>(i); };
  if (from < to)
    std::rotate(at(from), at(from + 1), at(to + 1));
  else
    std::rotate(at(to), at(from), at(from + 1));
  rewrite_edges(plan, places);
  count_ordinals(plan);
}

void swap_operations(RankPlan& plan, std::size_t a, std::size_t b) {
  std::vector<std::uint32_t> places = same_places(plan);
  std::swap(places[a], places[b]);
  std::swap(plan.operations[a], plan.operations[b]);
  rewrite_edges(plan, places);
  count_ordinals(plan);
}

}  // namespace cplab

// Random mutations of a plan, for the question whether anything wrong can slip through the checker.
#include "tests/hand_plans/random_mutation.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "derive/arena.hpp"
#include "derive/edits.hpp"

namespace cplab {
namespace {

// splitmix64: the same numbers everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 0x632BE59BD9B4E019u) {}
  std::size_t below(std::size_t n) {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<std::size_t>((z ^ (z >> 31)) % n);
  }
  template <class T>
  const T& pick(const std::vector<T>& list) {
    return list[below(list.size())];
  }

 private:
  std::uint64_t state_;
};

std::string drop_edge(RankPlan& rank, Random& random) {
  std::vector<std::size_t> with_edges;
  for (std::size_t i = 0; i < rank.operations.size(); ++i)
    if (rank.operations[i].after.count + rank.operations[i].after_started.count > 0) with_edges.push_back(i);
  if (with_edges.empty()) return {};
  const std::size_t i = random.pick(with_edges);
  Operation& op = rank.operations[i];
  std::vector<std::uint32_t> after(rank.after(op).begin(), rank.after(op).end());
  std::vector<std::uint32_t> started(rank.after_started(op).begin(), rank.after_started(op).end());
  const std::size_t e = random.below(after.size() + started.size());
  if (e >= after.size()) {
    const auto edge = started.begin() + static_cast<std::ptrdiff_t>(e - after.size());
    const std::string what = "from the start of " + operation_id(rank, rank.operations[*edge]) + " to " +
                             operation_id(rank, op) + ": start edge dropped";
    started.erase(edge);
    set_after_started(rank, i, started);
    return what;
  }
  const std::string text = "from " + operation_id(rank, rank.operations[after[e]]) + " to " +
                           operation_id(rank, op) + ": edge dropped";
  after.erase(after.begin() + static_cast<std::ptrdiff_t>(e));
  set_after(rank, i, after);
  return text;
}

// Neighbours on one lane.
std::string swap_neighbours(RankPlan& rank, Random& random) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t i = 0; i < rank.operations.size(); ++i) {
    for (std::size_t j = i + 1; j < rank.operations.size(); ++j) {
      if (!(rank.operations[j].lane == rank.operations[i].lane)) continue;
      if (rank.operations[j].phase == rank.operations[i].phase) pairs.emplace_back(i, j);
      break;
    }
  }
  if (pairs.empty()) return {};
  const auto [a, b] = random.pick(pairs);
  const std::string text = operation_id(rank, rank.operations[a]) + " and " +
                           operation_id(rank, rank.operations[b]) + ": operations swapped";
  swap_operations(rank, a, b);
  return text;
}

// Moves a view to another slot or by one head, or its rows by one to a quarter of the buffer.
bool shift(RankPlan& rank, View& view, Random& random) {
  const Buffer& buffer = rank.buffers[view.buffer];
  if (buffer.slots > 1 && random.below(2) == 0) {
    const auto slots = static_cast<std::int32_t>(buffer.slots);
    view.slot_begin = (view.slot_begin + 1) % slots;
    view.slot_end = view.slot_begin + 1;
    return true;
  }
  if (view.head_end - view.head_begin < buffer.heads && random.below(2) == 0) {
    const std::int32_t by = random.below(2) == 0 ? 1 : -1;
    if (view.head_begin + by < 0 || view.head_end + by > buffer.heads) return false;
    view.head_begin += by, view.head_end += by;
    return true;
  }
  std::vector<RowRange> rows(rank.rows_of(view).begin(), rank.rows_of(view).end());
  if (rows.empty()) return false;
  const std::int64_t room_below = rows.front().begin;
  const std::int64_t room_above =
      buffer.rows - (rows.back().begin + (rows.back().count - 1) * rows.back().step) - 1;
  const std::int64_t by =
      1 + static_cast<std::int64_t>(random.below(static_cast<std::size_t>(buffer.rows / 4 + 1)));
  const bool up = random.below(2) == 0;
  if ((up ? room_above : room_below) < by) return false;
  for (RowRange& range : rows) range.begin += up ? by : -by;
  view.ranges = add_ranges(rank, rows);
  return true;
}

std::string shift_view(RankPlan& rank, Random& random) {
  const std::size_t i = random.below(rank.operations.size());
  Operation& op = rank.operations[i];
  const std::size_t total = op.reads.count + op.writes.count + op.parts.count;
  if (total == 0) return {};
  const std::size_t which = random.below(total);
  const auto moved = [&](std::uint32_t view_index) -> std::ptrdiff_t {
    View view = rank.views[view_index];
    if (!shift(rank, view, random)) return -1;
    return static_cast<std::ptrdiff_t>(add_view(rank, view));
  };
  const auto replace = [&](Span& span, std::size_t at) {
    std::vector<Access> list(RankPlan::slice(rank.accesses, span).begin(),
                             RankPlan::slice(rank.accesses, span).end());
    const std::ptrdiff_t view = moved(list[at].view);
    if (view < 0) return false;
    list[at].view = static_cast<std::uint32_t>(view);
    span = add_accesses(rank, list);
    return true;
  };
  bool done = false;
  if (which < op.reads.count) {
    done = replace(op.reads, which);
  } else if (which < op.reads.count + op.writes.count) {
    done = replace(op.writes, which - op.reads.count);
  } else {
    std::vector<Part> list(rank.parts_of(op).begin(), rank.parts_of(op).end());
    Part& part = list[which - op.reads.count - op.writes.count];
    const std::ptrdiff_t view = moved(part.view);
    if (view >= 0) {
      part.view = static_cast<std::uint32_t>(view);
      op.parts = add_parts(rank, list);
      done = true;
    }
  }
  return done ? "operand " + std::to_string(which) + " of " + operation_id(rank, op) + ": view shifted"
              : std::string();
}

std::string drop_part(RankPlan& rank, Random& random) {
  std::vector<std::size_t> exchanges;
  for (std::size_t i = 0; i < rank.operations.size(); ++i)
    if (rank.operations[i].parts.count > 0) exchanges.push_back(i);
  if (exchanges.empty()) return {};
  Operation& op = rank.operations[random.pick(exchanges)];
  std::vector<Part> list(rank.parts_of(op).begin(), rank.parts_of(op).end());
  const std::size_t which = random.below(list.size());
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(which));
  op.parts = add_parts(rank, list);
  return "part " + std::to_string(which) + " of " + operation_id(rank, op) + ": part dropped";
}

// A buffer leaves its slab and stays where it is, or a working buffer joins one.
std::string change_slab(RankPlan& rank, Random& random) {
  Buffer &one = rank.buffers[random.below(rank.buffers.size())],
         &two = rank.buffers[random.below(rank.buffers.size())];
  if (!one.slab.empty()) {
    const std::string text = one.name + " of rank " + std::to_string(rank.rank) + ": slab left";
    one.slab.clear();
    return text;
  }
  if (two.slab.empty() || one.category != Category::working) return {};
  one.slab = two.slab;
  one.offset = two.offset;
  const std::int64_t end = std::max(rank.arena_bytes, one.offset + one.bytes);
  rank.arena_bytes = (end + arena_alignment - 1) / arena_alignment * arena_alignment;
  return one.name + " of rank " + std::to_string(rank.rank) + ": slab joined";
}

bool has_slab(const RankPlan& rank) {
  return std::ranges::any_of(rank.buffers, [](const Buffer& b) { return !b.slab.empty(); });
}

}  // namespace

std::string mutate_at_random(Plan& plan, std::uint64_t seed) {
  Random random(seed);
  for (int attempt = 0; attempt < 1000; ++attempt) {
    RankPlan& rank = plan.ranks[random.below(plan.ranks.size())];
    if (rank.operations.empty()) continue;
    constexpr std::array mutations{drop_edge, swap_neighbours, shift_view, drop_part, change_slab};
    const std::size_t kinds = has_slab(rank) ? mutations.size() : mutations.size() - 1;
    const std::string text = mutations[random.below(kinds)](rank, random);
    if (!text.empty()) return text;
  }
  return "nothing to change";
}

}  // namespace cplab

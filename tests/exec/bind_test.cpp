// Binding of views to memory: element (row, head, column) of a kernel's view is that element of the buffer's
// box, for all layouts, planes, slots and row ranges.
#include <doctest/doctest.h>

#include <cstring>
#include <vector>

#include "exec/bind.hpp"
#include "exec/cpu/device.hpp"
#include "tests/hand_plans/hand_plans.hpp"

namespace cplab {
namespace {

// A rank's arena of doubles, each holding its own index: what is read says where it was.
struct Numbered {
  explicit Numbered(const RankPlan& plan)
      : memory(static_cast<std::size_t>(plan.arena_bytes) / sizeof(double)) {
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<double>(i);
  }
  std::byte* base() { return reinterpret_cast<std::byte*>(memory.data()); }
  std::vector<double> memory;
};

// The index of an element, as plan.hpp describes it: slots one after the other; with planes, columns
// [0, planes) as one tensor and the rest as another.
double place(const Buffer& b, std::int64_t slot, std::int64_t row, std::int64_t head, std::int64_t column) {
  const std::int64_t lines = b.rows * b.heads;
  const std::int64_t line = b.layout == Layout::rows_first ? row * b.heads + head : head * b.rows + row;
  const std::int64_t start = b.offset / 8 + slot * lines * b.width;
  if (b.planes == 0) return static_cast<double>(start + line * b.width + column);
  if (column < b.planes) return static_cast<double>(start + line * b.planes + column);
  return static_cast<double>(start + lines * b.planes + line * (b.width - b.planes) + column - b.planes);
}

double view_element(const kernels::View& view, std::int64_t row, std::int64_t head, std::int64_t x) {
  std::int64_t physical = row;
  if (!view.runs.empty()) {
    std::size_t run = 0;
    for (; row >= view.runs[run].count; ++run) row -= view.runs[run].count;
    physical = view.runs[run].begin + row * view.runs[run].step;
  }
  return kernels::load_element(view.data, view.dtype,
                               physical * view.row_stride + head * view.head_stride + x);
}

std::vector<std::int64_t> row_numbers(const std::vector<RowRange>& ranges, std::int64_t all) {
  std::vector<std::int64_t> rows;
  if (ranges.empty()) {
    for (std::int64_t r = 0; r < all; ++r) rows.push_back(r);
  }
  for (const RowRange& range : ranges) {
    for (std::int64_t i = 0; i < range.count; ++i) rows.push_back(range.begin + i * range.step);
  }
  return rows;
}

TEST_CASE("pieces name the elements of their box") {
  const std::vector<std::vector<RowRange>> row_choices{
      {}, {{2, 3, 1}}, {{1, 4, 2}}, {{0, 2, 1}, {5, 3, 1}}, {{6, 1, 1}, {0, 3, 2}}, {{0, 0, 1}, {7, 1, 1}}};
  for (const Layout layout : {Layout::rows_first, Layout::heads_first}) {
    for (const std::int64_t planes : {0, 2}) {
      for (const auto& ranges : row_choices) {
        Plan plan = hand::ranks_in_one_group(1);
        hand::Rank rank(plan, 0);
        rank.buffer(hand::column("front", 3));  // so that the offset is not 0
        Buffer b;
        b.name = "b";
        b.layout = layout;
        b.slots = 3;
        b.rows = 8;
        b.heads = 4;
        b.width = 5;
        b.planes = planes;
        const std::uint32_t index = rank.buffer(b);
        const Buffer& placed = plan.ranks[0].buffers[index];
        Numbered arena(plan.ranks[0]);
        for (const auto& [begin, end] :
             {std::pair{0, 5}, std::pair{1, 4}, std::pair{0, 2}, std::pair{2, 5}}) {
          const hand::At box{.buffer = index,
                             .slot = 1,
                             .width_begin = begin,
                             .width_end = end,
                             .head_begin = 1,
                             .head_end = 3,
                             .slots = 2};
          const std::uint32_t v = ranges.empty() ? rank.view(box) : rank.view(box, ranges);
          rank.fill(hand::compute, v);
          require_executable(plan);
          const Binder binder(plan.ranks[0], DType::fp64, arena.base());
          const auto pieces = binder.pieces(plan.ranks[0].views[v]);
          const bool cut = planes > begin && planes < end;
          REQUIRE(pieces.size() == (cut ? 4 : 2));
          std::size_t at = 0;
          for (std::int64_t slot = 1; slot < 3; ++slot) {
            std::int64_t first = begin;
            for (int piece = 0; piece < (cut ? 2 : 1); ++piece) {
              const kernels::View& view = pieces[at++];
              const auto rows = row_numbers(ranges, placed.rows);
              REQUIRE(view.rows == static_cast<std::int64_t>(rows.size()));
              REQUIRE(view.heads == 2);
              for (std::int64_t i = 0; i < view.rows; ++i) {
                for (std::int64_t h = 0; h < 2; ++h) {
                  for (std::int64_t x = 0; x < view.width; ++x) {
                    REQUIRE(view_element(view, i, h, x) ==
                            place(placed, slot, rows[static_cast<std::size_t>(i)], 1 + h, first + x));
                  }
                }
              }
              first += view.width;
            }
            REQUIRE(first == end);
          }
          plan.ranks[0].operations.clear();
        }
      }
    }
  }
}

// A framework's tensors: the second plane somewhere else, rows and heads of another buffer at distances of
// its own.
TEST_CASE("pieces of planes that lie apart, and of rows at other strides") {
  Plan plan = hand::ranks_in_one_group(1);
  hand::Rank rank(plan, 0);
  Buffer b{"kv", Role::nominal, Category::input, Layout::rows_first, 1, 8, 4, 5, 2};
  const std::uint32_t kv = rank.buffer(b);
  b.name = "q", b.planes = 0;
  const std::uint32_t q = rank.buffer(b);
  Numbered keys(plan.ranks[0]), values(plan.ranks[0]), queries(plan.ranks[0]);
  // q: each row 30 elements behind the one before, its heads 7 apart.
  std::vector<BufferMemory> memory{{keys.base(), values.base(), {}}, {queries.base(), nullptr, {30, 7}}};
  const auto view_of = [&](std::uint32_t buffer, std::vector<RowRange> rows) {
    return plan.ranks[0]
        .views[rank.view({.buffer = buffer, .width_end = 5, .head_begin = 1, .head_end = 3}, rows)];
  };
  for (const std::vector<RowRange>& rows :
       {std::vector<RowRange>{{2, 3, 1}}, {{1, 3, 2}}, {{0, 2, 1}, {5, 2, 1}}}) {
    const View of_keys = view_of(kv, rows), of_queries = view_of(q, rows);
    const Binder binder(plan.ranks[0], DType::fp64, memory);
    const auto planes = binder.pieces(of_keys);
    const auto whole = binder.pieces(of_queries);
    REQUIRE(planes.size() == 2);
    REQUIRE(whole.size() == 1);
    const auto numbers = row_numbers(rows, 8);
    for (std::int64_t i = 0; i < std::ssize(numbers); ++i) {
      const std::int64_t row = numbers[static_cast<std::size_t>(i)];
      for (std::int64_t h = 0; h < 2; ++h) {
        // Each plane from the first element of its own tensor on: rows of 4 heads of 2, or of 3 columns.
        CHECK(view_element(planes[0], i, h, 1) == static_cast<double>((row * 4 + 1 + h) * 2 + 1));
        CHECK(view_element(planes[1], i, h, 2) == static_cast<double>((row * 4 + 1 + h) * 3 + 2));
        CHECK(view_element(whole[0], i, h, 4) == static_cast<double>(row * 30 + (1 + h) * 7 + 4));
      }
    }
  }
  // Of messages: bytes of the second plane count from where it would lie behind the first.
  const Binder binder(plan.ranks[0], DType::fp64, memory);
  CHECK(binder.address({kv, 8 * 8 * 4 * 2}) == values.base());
  CHECK(binder.address({kv, 8 * (8 * 4 * 2 + 3)}) == values.base() + 8 * 3);
  CHECK(binder.address({kv, 8 * (8 * 4 * 2 - 1)}) == keys.base() + 8 * (8 * 4 * 2 - 1));
}

TEST_CASE("memory uses span exactly their box") {
  Plan plan = hand::ranks_in_one_group(1);
  hand::Rank rank(plan, 0);
  Buffer b;
  b.name = "kv";
  b.slots = 2;
  b.rows = 6;
  b.heads = 2;
  b.width = 5;
  b.planes = 3;
  const std::uint32_t index = rank.buffer(b);
  const std::uint32_t v = rank.view({.buffer = index, .slot = 1, .width_begin = 3, .width_end = 5},
                                    {{1, 2, 3}});  // V of rows 1 and 4, slot 1
  rank.fill(hand::compute1, v);
  Numbered arena(plan.ranks[0]);
  const Binder binder(plan.ranks[0], DType::fp64, arena.base());
  const auto uses = binder.uses(plan.ranks[0].operations[0]);
  REQUIRE(uses.size() == 1);
  const auto first = static_cast<std::int64_t>(place(b, 1, 1, 0, 3)),
             last = static_cast<std::int64_t>(place(b, 1, 4, 1, 4));
  CHECK(uses[0] == MemoryUse{0, index, first * 8, (last - first + 1) * 8, hand::compute1, true});
}

TEST_CASE("a copy between buffers with different planes is cut on both sides") {
  Plan plan = hand::ranks_in_one_group(1);
  hand::Rank rank(plan, 0);
  Buffer b;
  b.rows = 3;
  b.heads = 2;
  b.width = 6;
  b.name = "from";
  b.planes = 2;
  const std::uint32_t from = rank.buffer(b);
  b.name = "into";
  b.planes = 4;
  const std::uint32_t into = rank.buffer(b);
  rank.copy(hand::compute, rank.view(from), rank.view(into));
  Numbered arena(plan.ranks[0]);
  const Binder binder(plan.ranks[0], DType::fp64, arena.base());
  const auto calls = binder.bind(plan.ranks[0].operations[0]);
  REQUIRE(calls.size() == 3);  // columns 0-1, 2-3, 4-5
  for (const KernelCall& call : calls) launch({}, call);
  const Buffer &f = plan.ranks[0].buffers[from], &t = plan.ranks[0].buffers[into];
  for (std::int64_t row = 0; row < 3; ++row) {
    for (std::int64_t head = 0; head < 2; ++head) {
      for (std::int64_t x = 0; x < 6; ++x) {
        CHECK(arena.memory[static_cast<std::size_t>(place(t, 0, row, head, x))] == place(f, 0, row, head, x));
      }
    }
  }
}

TEST_CASE("roles become dtypes, and fp64 problems are fp64 throughout") {
  CHECK(kernel_dtype(Role::nominal, DType::bf16) == kernels::DType::bf16);
  CHECK(kernel_dtype(Role::nominal, DType::fp16) == kernels::DType::fp16);
  CHECK(kernel_dtype(Role::wide, DType::bf16) == kernels::DType::fp32);
  CHECK(kernel_dtype(Role::nominal, DType::fp64) == kernels::DType::fp64);
  CHECK(kernel_dtype(Role::wide, DType::fp64) == kernels::DType::fp64);
  CHECK_THROWS_AS(kernel_dtype(Role::integer, DType::fp32), BadPlan);
}

TEST_CASE("calls get the addresses of their buffers, and operands that do not fit are refused before") {
  Plan plan = hand::ranks_in_one_group(1, "all", DType::bf16);
  hand::Rank rank(plan, 0);
  const auto tensor = [&](const std::string& name, Role role, std::int64_t heads, std::int64_t width) {
    Buffer b;
    b.name = name;
    b.role = role;
    b.layout = width == 1 ? Layout::heads_first : Layout::rows_first;
    b.rows = 4;
    b.heads = heads;
    b.width = width;
    b.planes = name == "kv" ? 3 : 0;
    return rank.buffer(b);
  };
  const auto q = rank.view(tensor("q", Role::nominal, 4, 3)), kv = tensor("kv", Role::nominal, 2, 5);
  const auto k = rank.view({.buffer = kv, .width_end = 3}), v = rank.view({.buffer = kv, .width_begin = 3});
  const auto out = tensor("out", Role::wide, 4, 2), lse = tensor("lse", Role::wide, 4, 1);
  const auto attend = rank.attend(hand::compute, {q, k, v, rank.view(out), rank.view(lse), hand::merge},
                                  {{1, 2, 0, 4, 1, -1, 0}});
  RankPlan& of = plan.ranks[0];
  require_executable(plan);

  // Every buffer at an address of its own, 1000 bytes apart.
  std::vector<std::byte> memory(4000);
  std::vector<BufferMemory> places;
  for (std::size_t b = 0; b < of.buffers.size(); ++b)
    places.push_back({memory.data() + 1000 * b, nullptr, {}});
  const Binder apart(of, DType::bf16, places);
  const auto calls = apart.bind(of.operations[attend]);
  REQUIRE(calls.size() == 1);
  const auto& a = std::get<kernels::Attend>(calls[0]);
  CHECK(a.q.data == memory.data());
  CHECK(a.k.data == memory.data() + 1000);
  CHECK(a.v.data == memory.data() + 1000 + 4 * 2 * 3 * 2);  // behind K: rows x heads x columns x bytes
  CHECK(a.out.data == memory.data() + 2000);
  CHECK(a.lse.data == memory.data() + 3000);
  // All in one arena.
  const Binder together(of, DType::bf16, memory.data());
  const auto in_arena = together.bind(of.operations[attend]);
  CHECK(std::get<kernels::Attend>(in_arena.at(0)).lse.data == memory.data() + of.buffers[lse].offset);

  SUBCASE("q and v exchanged") {
    const std::uint32_t first = of.operations[attend].reads.first;
    std::swap(of.accesses[first].operand, of.accesses[first + 2].operand);
    CHECK_THROWS_AS(require_executable(plan), BadPlan);
  }
  SUBCASE("an operand under another name") {
    of.accesses[of.operations[attend].reads.first].operand = Operand::dout;
    CHECK_THROWS_AS(require_executable(plan), BadPlan);
    CHECK_THROWS_AS(apart.bind(of.operations[attend]), std::invalid_argument);
  }
  SUBCASE("a segment beyond the rows") {
    of.segments[0].k_count = 5;
    CHECK_THROWS_AS(require_executable(plan), BadPlan);
  }
  SUBCASE("K and V as one operand") {
    of.views[k].width_end = 5;
    CHECK_THROWS_AS(require_executable(plan), BadPlan);
  }
  SUBCASE("out stored, lse merged") {
    of.accesses[of.operations[attend].writes.first].mode = WriteMode::store;
    CHECK_THROWS_AS(require_executable(plan), BadPlan);
  }
}

}  // namespace
}  // namespace cplab

// See communication_plans.hpp.
#include "tests/hand_plans/communication_plans.hpp"

#include <utility>
#include <vector>

#include "tests/hand_plans/attention_plans.hpp"
#include "tests/hand_plans/hand_plans.hpp"

namespace cplab::hand {
namespace {

// Rows of a token axis that member m of P has: one range, or the two halves of zigzag.
std::vector<RowRange> rows_of_member(int m, int P, std::int64_t rows, bool zigzag) {
  if (!zigzag) return {{m * rows, rows, 1}};
  const std::int64_t half = rows / 2;
  return {{m * half, half, 1}, {(2 * P - 1 - m) * half, half, 1}};
}

Buffer lse_buffer(const char* name, std::int64_t rows, std::int64_t heads, Layout layout,
                  Category category = Category::working) {
  return {name, Role::wide, category, layout, 1, rows, heads};
}

}  // namespace

// K and V [rows, 2 heads, 3 + 2] of every member to all, into planes that span all rows.
Plan gather(const Shape& s) {
  Plan plan = ranks_in_one_group(s.P, "all", DType::bf16);
  for (int r = 0; r < s.P; ++r) {
    Rank rank(plan, r);
    const auto all =
        rank.buffer({"all", s.role, Category::output, Layout::rows_first, 1, s.P * s.rows, 2, 5, s.planes});
    const auto own =
        rank.buffer({"own", s.role, Category::input, Layout::rows_first, 1, s.rows, 2, 5, s.planes});
    std::vector<Part> parts;
    for (int peer = 0; peer < s.P; ++peer) {
      parts.push_back(send(rank.view(own), peer));
      parts.push_back(receive(rank.view({all}, rows_of_member(peer, s.P, s.rows, s.zigzag)), peer));
    }
    rank.communicate(comm, OpKind::all_gather, parts);
  }
  return plan;
}

// The gradients of all rows, summed where the rows are.
Plan scatter(const Shape& s) {
  Plan plan = ranks_in_one_group(s.P, "all", DType::bf16);
  for (int r = 0; r < s.P; ++r) {
    Rank rank(plan, r);
    const auto given =
        rank.buffer({"given", s.role, Category::input, Layout::rows_first, 1, s.P * s.rows, 2, 5, s.planes});
    const auto all =
        rank.buffer({"all", s.role, Category::working, Layout::rows_first, 1, s.P * s.rows, 2, 5, s.planes});
    const auto own =
        rank.buffer({"own", s.role, Category::output, Layout::rows_first, 1, s.rows, 2, 5, s.planes});
    rank.copy(compute, rank.view(given), rank.view(all));
    const auto of = [&](int peer) { return rank.view({all}, rows_of_member(peer, s.P, s.rows, s.zigzag)); };
    const auto into = s.in_place ? of(r) : rank.view(own);
    std::vector<Part> parts;
    for (int peer = 0; peer < s.P; ++peer) {
      parts.push_back(send(of(peer), peer));
      parts.push_back(receive(into, peer));
    }
    rank.communicate(comm, OpKind::reduce_scatter, parts);
    if (s.in_place) rank.copy(compute, into, rank.view(own));
  }
  return with_edges(std::move(plan));
}

Plan reduce(const Shape& s, Reduction reduction, Layout layout, std::int32_t heads) {
  Plan plan = ranks_in_one_group(s.P, "all", DType::bf16);
  for (int r = 0; r < s.P; ++r) {
    Rank rank(plan, r);
    const auto given = rank.buffer({"given", s.role, Category::input, layout, 1, s.rows, 4, 3});
    const auto all = rank.buffer({"all", s.role, Category::output, layout, 1, s.rows, 4, 3});
    rank.copy(compute, rank.view(given), rank.view(all));
    const auto view = rank.view(heads_of(all, 0, heads));
    rank.all_reduce(comm, view, view, {}, reduction);
  }
  return with_edges(std::move(plan));
}

Plan trade_of_lse(int P, std::int64_t rows, std::int32_t H, Layout from, Layout into) {
  Plan plan = empty_plan(P, P * rows, false, Direction::forward);
  const std::int32_t h = H / P;
  for (int r = 0; r < P; ++r) {
    Rank rank(plan, r);
    const auto tokens = rank.buffer(lse_buffer("tokens", rows, H, from, Category::input));
    const auto heads = rank.buffer(lse_buffer("heads", P * rows, h, into, Category::output));
    std::vector<Part> parts;
    for (int peer = 0; peer < P; ++peer) {
      parts.push_back(send(rank.view(heads_of(tokens, peer * h, (peer + 1) * h)), peer));
      parts.push_back(receive(rank.view(rows_of(heads, peer * rows, rows)), peer));
    }
    rank.communicate(comm, OpKind::all_to_all, parts);
  }
  return plan;
}

void set_transport(Plan& plan, Transport transport) {
  for (RankPlan& rank : plan.ranks)
    for (Operation& op : rank.operations)
      if (is_communication(op.kind)) op.transport = transport;
}

}  // namespace cplab::hand

// Operations to calls: what every view of every kind of operation is, worked out by hand for a bf16 problem
// (nominal elements of 2 bytes, wide ones of 4).
#include "calls/converter.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/hand_plans/hand_plans.hpp"

namespace cplab {
namespace {

using enum Operand;
using kernels::Write;
constexpr auto bf16 = kernels::DType::bf16, fp32 = kernels::DType::fp32;

struct Box {
  std::uint32_t buffer = 0;
  std::vector<RowRange> rows;
  std::pair<int, int> slots, heads, width;
};

struct Named {
  Operand operand;
  Box box;
  WriteMode mode = WriteMode::store;
};

// One rank whose operations are converted one by one. Offsets in the arena do not matter here.
struct Rank {
  Plan whole = hand::ranks_in_one_group(1, "all", DType::bf16);
  RankPlan& plan = whole.ranks[0];

  std::uint32_t buffer(Role role, Layout layout, std::int64_t slots, std::int64_t heads, std::int64_t width,
                       std::int64_t planes = 0) {
    Buffer b;
    b.role = role;
    b.layout = layout;
    b.slots = slots, b.rows = 8, b.heads = heads, b.width = width, b.planes = planes;
    return hand::Rank(whole, 0).buffer(b);
  }
  hand::ViewIndex view(const Box& box) {
    return hand::Rank(whole, 0).view({.buffer = box.buffer,
                                      .slot = box.slots.first,
                                      .width_begin = box.width.first,
                                      .width_end = box.width.second,
                                      .head_begin = box.heads.first,
                                      .head_end = box.heads.second,
                                      .slots = box.slots.second - box.slots.first},
                                     box.rows);
  }
  std::vector<Access> accesses(const std::vector<Named>& operands) {
    std::vector<Access> list;
    for (const Named& n : operands) list.push_back({view(n.box), n.mode, n.operand});
    return list;
  }
  Operation operation(OpKind kind, const std::vector<Named>& reads, const std::vector<Named>& writes,
                      double value = 0) {
    hand::Rank rank(whole, 0);
    Operation op = rank.op(rank.operation(hand::compute, kind, accesses(reads), accesses(writes)));
    op.value = value;
    return op;
  }
  std::vector<PlacedCall> calls(const Operation& op) const {
    return CallConverter(plan, DType::bf16).calls(op);
  }
};

struct Expected {
  kernels::DType dtype;
  std::int64_t rows, heads, width, row_stride, head_stride;
  Place place;
  std::size_t runs = 0;
};

void check(const kernels::View& view, const Place& place, const Expected& expected) {
  CHECK(view.data == nullptr);
  CHECK(view.dtype == expected.dtype);
  CHECK(view.rows == expected.rows);
  CHECK(view.heads == expected.heads);
  CHECK(view.width == expected.width);
  CHECK(view.row_stride == expected.row_stride);
  CHECK(view.head_stride == expected.head_stride);
  CHECK(view.runs.size() == expected.runs);
  CHECK(place.buffer == expected.place.buffer);
  CHECK(place.byte == expected.place.byte);
}

// All views of a call, in the order of its members.
void check(PlacedCall placed, const std::vector<Expected>& expected) {
  const auto views = views_of(placed.call);
  REQUIRE(views.size() == expected.size());
  REQUIRE(placed.places.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    check(*views[i], placed.places[i], expected[i]);
  }
}

const std::vector<RowRange> all_rows{{0, 8, 1}}, odd_rows{{1, 3, 2}};  // 1, 3, 5
const std::vector<RowRange> apart{{0, 2, 1}, {6, 1, 1}};               // 0, 1, 6

// Buffers of 8 rows. In elements:     slot  row  head
//  0 q    nominal, 2 slots, 4 x 3       96   12     3
//  1 kv   nominal, 2 slots, 2 x (3+2)   80    6     3 (K);  4  2 (V, behind 48)
//  2 out  wide, 4 x 2                         8     2
//  3 lse  wide, heads first, 4 x 1            1     8
//  4 dq   wide, 4 x 3                        12     3
//  5 dkv  wide, 2 x (3+2)                     6     3 (dK); 4  2 (dV, behind 48)
//  6 dout nominal, 2 slots, 4 x 2       64    8     2
struct Attention : Rank {
  Box q_box{0, odd_rows, {1, 2}, {2, 4}, {0, 3}}, k_box{1, all_rows, {1, 2}, {1, 2}, {0, 3}},
      v_box{1, all_rows, {1, 2}, {1, 2}, {3, 5}}, out_box{2, apart, {0, 1}, {2, 4}, {0, 2}},
      lse_box{3, {{2, 3, 1}}, {0, 1}, {2, 4}, {0, 1}}, dout_box{6, odd_rows, {1, 2}, {2, 4}, {0, 2}};
  // Slot 1 is 96 elements on, row 1 another 12, head 2 another 6: 114 elements of 2 bytes.
  Expected q_view{bf16, 3, 2, 3, 24, 3, {0, 228}};
  Expected k_view{bf16, 8, 1, 3, 6, 3, {1, 2 * (80 + 3)}},
      v_view{bf16, 8, 1, 2, 4, 2, {1, 2 * (80 + 48 + 2)}};
  Expected out_view{fp32, 3, 2, 2, 8, 2, {2, 4 * 4}, 2}, lse_view{fp32, 3, 2, 1, 1, 8, {3, 4 * (2 * 8 + 2)}};
  Expected dout_view{bf16, 3, 2, 2, 16, 2, {6, 2 * (64 + 8 + 4)}};

  Attention() {
    buffer(Role::nominal, Layout::rows_first, 2, 4, 3);
    buffer(Role::nominal, Layout::rows_first, 2, 2, 5, 3);
    buffer(Role::wide, Layout::rows_first, 1, 4, 2);
    buffer(Role::wide, Layout::heads_first, 1, 4, 1);
    buffer(Role::wide, Layout::rows_first, 1, 4, 3);
    buffer(Role::wide, Layout::rows_first, 1, 2, 5, 3);
    buffer(Role::nominal, Layout::rows_first, 2, 4, 2);
    plan.segments = {{0, 3, 0, 8, 0, -1, -1}, {1, 2, 0, 4, 1, 5, 0}};
  }
};

TEST_CASE("attend: slots, planes, strided rows, row runs, heads first") {
  Attention r;
  Operation op = r.operation(OpKind::attend, {{q, r.q_box}, {k, r.k_box}, {v, r.v_box}},
                             {{out, r.out_box, WriteMode::merge}, {lse, r.lse_box, WriteMode::merge}}, 0.25);
  op.segments = {1, 1};
  const CallConverter converter(r.plan, DType::bf16);
  const auto calls = converter.calls(op);
  REQUIRE(calls.size() == 1);
  check(calls[0], {r.q_view, r.k_view, r.v_view, r.out_view, r.lse_view});
  const auto& call = std::get<kernels::Attend>(calls[0].call);
  CHECK(call.write == Write::merge);
  CHECK(call.scale == 0.25);
  REQUIRE(call.segments.size() == 1);
  const kernels::Segment& s = call.segments[0];
  CHECK(std::vector{s.q_begin, s.q_count, s.k_begin, s.k_count, s.offset, s.left, s.right} ==
        std::vector<std::int64_t>{1, 2, 0, 4, 1, 5, 0});
  REQUIRE(call.out.runs.size() == 2);
  CHECK(call.out.runs[1].begin == 6);
  CHECK(call.out.runs[1].count == 1);
  CHECK(call.out.runs[1].step == 1);
}

TEST_CASE("attend: max_logit is a sixth view, of one row, where the operation has it") {
  Attention r;
  const std::uint32_t b = r.buffer(Role::wide, Layout::rows_first, 3, 4, 1);
  const Operation op = r.operation(OpKind::attend, {{q, r.q_box}, {k, r.k_box}, {v, r.v_box}},
                                   {{out, r.out_box},
                                    {lse, r.lse_box},
                                    {max_logit, {b, {{2, 1, 1}}, {1, 2}, {2, 4}, {0, 1}}, WriteMode::max}});
  const auto calls = r.calls(op);
  const Expected max_logit_view{fp32, 1, 2, 1, 4, 1, {b, 4 * (8 * 4 + 2 * 4 + 2)}};
  check(calls.at(0), {r.q_view, r.k_view, r.v_view, r.out_view, r.lse_view, max_logit_view});
  CHECK(std::get<kernels::Attend>(calls[0].call).max_logit.has_value());
  const Operation without = r.operation(OpKind::attend, {{q, r.q_box}, {k, r.k_box}, {v, r.v_box}},
                                        {{out, r.out_box}, {lse, r.lse_box}});
  const auto plain = r.calls(without);  // named: get() refers into it
  CHECK_FALSE(std::get<kernels::Attend>(plain.at(0).call).max_logit.has_value());
}

TEST_CASE("operands are taken by name, in whatever order they stand") {
  Attention r;
  const Operation op = r.operation(OpKind::attend, {{v, r.v_box}, {q, r.q_box}, {k, r.k_box}},
                                   {{lse, r.lse_box}, {out, r.out_box}});
  const auto calls = r.calls(op);
  check(calls.at(0), {r.q_view, r.k_view, r.v_view, r.out_view, r.lse_view});
  CHECK(std::get<kernels::Attend>(calls[0].call).write == Write::store);
  const Operation lacks = r.operation(OpKind::attend, {{v, r.v_box}, {q, r.q_box}}, {{out, r.out_box}});
  CHECK_THROWS_WITH_AS((void)r.calls(lacks), "there is no operand k", std::invalid_argument);
}

// Of a backward: the operands beside those of Attention, and all views but out.
struct Backward : Attention {
  const Box delta_box{3, {{5, 3, 1}}, {0, 1}, {0, 2}, {0, 1}}, dq_box{4, odd_rows, {0, 1}, {2, 4}, {0, 3}};
  const Box dk_box{5, all_rows, {0, 1}, {1, 2}, {0, 3}}, dv_box{5, all_rows, {0, 1}, {1, 2}, {3, 5}};
  std::vector<Expected> views{q_view,
                              k_view,
                              v_view,
                              dout_view,
                              lse_view,
                              {fp32, 3, 2, 1, 1, 8, {3, 4 * 5}},
                              {fp32, 3, 2, 3, 24, 3, {4, 4 * (12 + 6)}},
                              {fp32, 8, 1, 3, 6, 3, {5, 4 * 3}},
                              {fp32, 8, 1, 2, 4, 2, {5, 4 * (48 + 2)}}};

  // The call that has `read` beside q, k, v, dout and lse, and writes these.
  PlacedCall call(const Named& read, const std::vector<Named>& writes) {
    Operation op =
        operation(OpKind::attend_backward,
                  {{q, q_box}, {k, k_box}, {v, v_box}, {dout, dout_box}, {lse, lse_box}, read}, writes, 0.5);
    op.segments = {0, 2};
    const std::vector<PlacedCall> made = calls(op);
    REQUIRE(made.size() == 1);
    return made[0];
  }
};

TEST_CASE("attend_backward: nine operands, two write modes") {
  Backward r;
  const PlacedCall placed =
      r.call({delta, r.delta_box}, {{dq, r.dq_box, WriteMode::add}, {dk, r.dk_box}, {dv, r.dv_box}});
  check(placed, r.views);
  const auto& call = std::get<kernels::AttendBackward>(placed.call);
  CHECK(call.write_dq == Write::add);
  CHECK(call.write_dk == Write::store);
  CHECK(call.scale == 0.5);
  CHECK(call.segments.size() == 2);
}

TEST_CASE("attend_backward that computes delta: out is its last operand, delta one that it writes") {
  Backward r;
  r.views.push_back(r.out_view);
  const PlacedCall placed =
      r.call({out, r.out_box}, {{dq, r.dq_box}, {dk, r.dk_box}, {dv, r.dv_box}, {delta, r.delta_box}});
  check(placed, r.views);
  CHECK(std::get<kernels::AttendBackward>(placed.call).out);
}

TEST_CASE("row_dot and the three forms of merge") {
  Attention r;
  const Box part_box{2, {{3, 3, 1}}, {0, 1}, {0, 2}, {0, 2}}, part_lse_box{3, apart, {0, 1}, {0, 2}, {0, 1}};
  const Expected part_view{fp32, 3, 2, 2, 8, 2, {2, 4 * 3 * 8}},
      part_lse_view{fp32, 3, 2, 1, 1, 8, {3, 0}, 2};

  const Operation dot =
      r.operation(OpKind::row_dot, {{dout, r.dout_box}, {out, r.out_box}}, {{delta, r.lse_box}});
  auto calls = r.calls(dot);
  check(calls.at(0), {r.dout_view, r.out_view, r.lse_view});
  CHECK(std::get<kernels::Rowwise>(calls[0].call).kind == kernels::Rowwise::Kind::row_dot);

  const Operation incremental =
      r.operation(OpKind::merge, {{part_out, part_box}, {part_lse, part_lse_box}},
                  {{out, r.out_box, WriteMode::merge}, {lse, r.lse_box, WriteMode::merge}});
  calls = r.calls(incremental);
  check(calls.at(0), {part_view, part_lse_view, r.out_view, r.lse_view});
  CHECK(std::holds_alternative<kernels::Merge>(calls[0].call));

  const Operation fold =
      r.operation(OpKind::merge, {{part_lse, part_lse_box}}, {{lse, r.lse_box, WriteMode::merge}});
  calls = r.calls(fold);
  check(calls.at(0), {part_lse_view, r.lse_view});
  CHECK(std::holds_alternative<kernels::MergeLse>(calls[0].call));

  for (const WriteMode mode : {WriteMode::store, WriteMode::add}) {
    const Operation rescale =
        r.operation(OpKind::merge, {{part_out, part_box}, {part_lse, part_lse_box}, {lse, r.lse_box}},
                    {{out, r.out_box, mode}});
    calls = r.calls(rescale);
    check(calls.at(0), {part_view, part_lse_view, r.lse_view, r.out_view});
    CHECK(std::get<kernels::Rescale>(calls[0].call).write ==
          (mode == WriteMode::store ? Write::store : Write::add));
  }
}

TEST_CASE("fill: a call for each slot and plane, heads first too") {
  Rank r;
  // 2 x (1 + 2) columns, heads first: a slot has 8 * 2 * 3 = 48 elements, its second plane begins at 16.
  const std::uint32_t b = r.buffer(Role::wide, Layout::heads_first, 3, 2, 3, 1);
  const Operation op =
      r.operation(OpKind::fill, {}, {{into, {b, {{2, 4, 1}}, {1, 3}, {1, 2}, {0, 3}}}}, -1.5);
  const auto calls = r.calls(op);
  REQUIRE(calls.size() == 4);
  const auto first = [](std::int64_t slot) {  // row 2 of head 1 of a plane of one column
    return Expected{fp32, 4, 1, 1, 1, 8, {0, 4 * (slot * 48 + 8 + 2)}};
  };
  const auto second = [](std::int64_t slot) {
    return Expected{fp32, 4, 1, 2, 2, 16, {0, 4 * (slot * 48 + 16 + (8 + 2) * 2)}};
  };
  check(calls[0], {first(1)});
  check(calls[1], {second(1)});
  check(calls[2], {first(2)});
  check(calls[3], {second(2)});
  for (const PlacedCall& placed : calls) CHECK(std::get<kernels::Rowwise>(placed.call).value == -1.5);
}

TEST_CASE("copy, cast and add: both boxes are cut where the planes of either part") {
  Rank r;
  const std::uint32_t a = r.buffer(Role::nominal, Layout::rows_first, 1, 2, 6, 2);
  const std::uint32_t b = r.buffer(Role::nominal, Layout::rows_first, 1, 2, 6, 4);
  const std::uint32_t c = r.buffer(Role::wide, Layout::rows_first, 1, 2, 6);
  const auto box = [](std::uint32_t buffer) { return Box{buffer, {{4, 2, 1}}, {0, 1}, {0, 2}, {0, 6}}; };
  // Columns 0-1, 2-3, 4-5. Planes of a: 2 and 4 columns (the second behind 32 elements); of b: 4 and 2 (64).
  const Operation copies = r.operation(OpKind::copy, {{from, box(a)}}, {{into, box(b)}});
  auto calls = r.calls(copies);
  REQUIRE(calls.size() == 3);
  check(calls[0], {{bf16, 2, 2, 2, 4, 2, {a, 2 * 16}}, {bf16, 2, 2, 2, 8, 4, {b, 2 * 32}}});
  check(calls[1], {{bf16, 2, 2, 2, 8, 4, {a, 2 * (32 + 32)}}, {bf16, 2, 2, 2, 8, 4, {b, 2 * (32 + 2)}}});
  check(calls[2], {{bf16, 2, 2, 2, 8, 4, {a, 2 * (32 + 32 + 2)}}, {bf16, 2, 2, 2, 4, 2, {b, 2 * (64 + 16)}}});
  for (const PlacedCall& placed : calls)
    CHECK(std::get<kernels::Rowwise>(placed.call).kind == kernels::Rowwise::Kind::copy);

  const Operation casts = r.operation(OpKind::cast, {{from, box(c)}}, {{into, box(a)}});
  calls = r.calls(casts);
  REQUIRE(calls.size() == 2);
  check(calls[1], {{fp32, 2, 2, 4, 12, 6, {c, 4 * (48 + 2)}}, {bf16, 2, 2, 4, 8, 4, {a, 2 * (32 + 32)}}});
  CHECK(std::get<kernels::Rowwise>(calls[1].call).kind == kernels::Rowwise::Kind::copy);

  const Operation adds = r.operation(OpKind::add, {{from, box(a)}}, {{into, box(c), WriteMode::add}});
  calls = r.calls(adds);
  REQUIRE(calls.size() == 2);
  check(calls[0], {{bf16, 2, 2, 2, 4, 2, {a, 2 * 16}}, {fp32, 2, 2, 2, 12, 6, {c, 4 * 48}}});
  CHECK(std::get<kernels::Rowwise>(calls[0].call).kind == kernels::Rowwise::Kind::add);

  const Operation raises = r.operation(OpKind::maximum, {{from, box(c)}}, {{into, box(c), WriteMode::max}});
  calls = r.calls(raises);
  REQUIRE(calls.size() == 1);
  CHECK(std::get<kernels::Rowwise>(calls[0].call).kind == kernels::Rowwise::Kind::maximum);
}

TEST_CASE("pieces of a message: cuts count from the box's first column, those outside are none") {
  Rank r;
  const std::uint32_t b = r.buffer(Role::nominal, Layout::rows_first, 2, 1, 6, 4);
  const std::uint32_t index = r.view({b, all_rows, {0, 1}, {0, 1}, {1, 6}});
  const CallConverter converter(r.plan, DType::bf16);
  const auto widths = [&](std::initializer_list<std::int32_t> cuts) {
    std::vector<std::int64_t> found;
    for (const PlacedView& p : converter.pieces(r.plan.views[index], cuts)) found.push_back(p.view.width);
    return found;
  };
  CHECK(widths({}) == std::vector<std::int64_t>{3, 2});  // columns 1-3 and 4-5
  CHECK(widths({1}) == std::vector<std::int64_t>{1, 2, 2});
  CHECK(widths({3}) == std::vector<std::int64_t>{3, 2});
  CHECK(widths({0, 5, 9}) == std::vector<std::int64_t>{3, 2});
  r.plan.buffers[b].role = Role::integer;
  CHECK_THROWS_AS((void)widths({}), std::invalid_argument);
}

TEST_CASE("no kernel: communication and host_sync") {
  Rank r;
  for (const OpKind kind : {OpKind::exchange, OpKind::all_gather, OpKind::reduce_scatter, OpKind::all_to_all,
                            OpKind::all_reduce, OpKind::barrier, OpKind::host_sync}) {
    CHECK(r.calls(r.operation(kind, {}, {})).empty());
  }
}

TEST_CASE("an fp64 problem is fp64 throughout") {
  Rank r;
  for (const Role role : {Role::nominal, Role::wide}) {
    const std::uint32_t b = r.buffer(role, Layout::rows_first, 1, 1, 2);
    const std::uint32_t view = r.view({b, {{1, 1, 1}}, {0, 1}, {0, 1}, {0, 2}});
    const auto pieces = CallConverter(r.plan, DType::fp64).pieces(r.plan.views[view]);
    REQUIRE(pieces.size() == 1);
    check(pieces[0].view, pieces[0].place, {kernels::DType::fp64, 1, 1, 2, 2, 2, {b, 8 * 2}});
  }
  CHECK(kernel_dtype(DType::fp16) == kernels::DType::fp16);
  CHECK(kernel_dtype(DType::fp32) == kernels::DType::fp32);
}

}  // namespace
}  // namespace cplab

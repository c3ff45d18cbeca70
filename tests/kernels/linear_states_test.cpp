// States of linear attention on the CPU: of chunks, scanned, combined, cut into parts; what writes leave
// alone; and what calls must not be.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/kernels/linear_case.hpp"

namespace cplab::testing {
namespace {

using kernels::cpu_linear_tiles;
using kernels::LinearCombine;
using kernels::LinearInter;
using kernels::LinearLocal;
using kernels::LinearLocalBackward;
using kernels::LinearScan;
using kernels::LinearState;
using kernels::Write;

// States of one number for one head, and what they are afterwards.
Tensor number_states(const std::vector<double>& values) {
  Tensor tensor(DType::fp32, std::ssize(values), 1, 1);
  tensor.assign(values);
  return tensor;
}

std::vector<double> scanned_states(std::vector<double> values, const std::vector<Chunk>& chunks, bool reverse,
                                   std::vector<double>* final_values = nullptr, bool sums_only = false) {
  Tensor states = number_states(values), final_states(DType::fp32, 2, 1, 1);
  const std::vector<double> slopes = {std::log(2)};
  cpu_linear_tiles().scan({.state = states.view(),
                           .final_state = final_values ? std::optional(final_states.view()) : std::nullopt,
                           .chunks = {chunks, slopes},
                           .reverse = reverse,
                           .sums_only = sums_only});
  if (final_values) *final_values = final_states.values();
  return states.values();
}

void check_close(const std::vector<double>& values, const std::vector<double>& expected) {
  REQUIRE(values.size() == expected.size());
  // exp(-log 2) in double, rounded to fp32: exact powers of two, or one ulp off.
  for (std::size_t x = 0; x < values.size(); ++x)
    CHECK(std::fabs(values[x] - expected[x]) <= 4 * 0x1p-24 * std::fabs(expected[x]));
}

}  // namespace

// lambda = 1/2, lengths 1, 2, 1 | 3 (the last chunk resets), own states 8, 4, 2, 1.
// Forward: 0, 8, 8/4 + 4 = 6, and 0 behind the reset. Backward: chunk 0 sees 4 / ... from the right:
// chunk 3: 0; chunk 2: 0, as 3 resets; chunk 1: 2; chunk 0: 2/4 + 4 = 9/2.
// final: chunks 0 to 2 name right 0 with 3, 1, 0 tokens behind: 8/8 + 4/2 + 2 = 5; left 1 with 0, 1, 3
// before: 8 + 4/2 + 2/8 = 41/4. Nobody names the other one: 0.
TEST_CASE("a scan by hand: prefixes, suffixes, resets and what leaves the piece") {
  const std::vector<Chunk> chunks = {
      {.row = 0,
       .count = 1,
       .state = 0,
       .left = 1,
       .right = 0,
       .left_exponent = 0,
       .right_exponent = 3,
       .resets = true},
      {.row = 1, .count = 2, .state = 1, .left = 1, .right = 0, .left_exponent = 1, .right_exponent = 1},
      {.row = 3, .count = 1, .state = 2, .left = 1, .right = 0, .left_exponent = 3, .right_exponent = 0},
      {.row = 4, .count = 3, .state = 3, .left = -1, .right = -1, .resets = true}};
  std::vector<double> last;
  check_close(scanned_states({8, 4, 2, 1}, chunks, false, &last), {0, 8, 6, 0});
  check_close(last, {5, 0});
  check_close(scanned_states({8, 4, 2, 1}, chunks, true, &last), {4.5, 2, 0, 0});
  check_close(last, {0, 10.25});
  check_close(scanned_states({8, 4, 2, 1}, chunks, true, &last, true), {8, 4, 2, 1});  // sums alone
  check_close(last, {0, 10.25});
  // States are found by their number, not by their place in the list.
  std::vector<Chunk> renamed = chunks;
  std::swap(renamed[0].state, renamed[2].state);
  check_close(scanned_states({2, 4, 8, 1}, renamed, false), {6, 8, 0, 0});
}

// One-hot: only the state of chunk j is not 0. Exactly the chunks behind it hold lambda^(tokens between) of
// it.
TEST_CASE("a scan passes one chunk's state to those behind it alone") {
  const std::vector<std::int64_t> lengths = {3, 1, 0, 4, 2};
  std::vector<Chunk> chunks;
  std::int64_t row = 0;
  for (const std::int64_t length : lengths) {
    chunks.push_back({.row = row, .count = length, .state = static_cast<std::int32_t>(chunks.size())});
    row += length;
  }
  for (std::size_t j = 0; j < lengths.size(); ++j) {
    std::vector<double> own(lengths.size()), prefix = own, suffix = own;
    own[j] = 1;
    for (std::size_t i = j + 1; i < lengths.size(); ++i)
      prefix[i] = std::exp2(static_cast<double>(chunks[j].row + lengths[j] - chunks[i].row));
    for (std::size_t i = 0; i < j; ++i)
      suffix[i] = std::exp2(static_cast<double>(chunks[i].row + lengths[i] - chunks[j].row));
    check_close(scanned_states(own, chunks, false), prefix);
    check_close(scanned_states(own, chunks, true), suffix);
  }
}

// S at the right edge of a chunk is T S at its left edge plus the chunk's own; R likewise from the right with
// the transposed T: folding the chunks with combine gives the states of the recurrence at every edge.
TEST_CASE("states and transitions of chunks, folded by combine, are the states of the recurrence") {
  std::mt19937 generator(1);
  for (const DType nominal : all_dtypes) {
    for (const auto& [transition, gate] : all_transitions) {
      const std::int64_t D = 6;
      const LinearCase c =
          linear_case(generator, {.S = 0, .H = 2, .D = D, .E = 9, .transition = transition, .gate = gate},
                      {0.01, 0.4}, nominal, 12, {5, 1, 0, 30, 65}, 8);
      INFO(describe(c));
      const DType sums = wide(nominal);
      Tensor q = c.tokens(generator, nominal, c.q), k = c.tokens(generator, nominal, c.k);
      Tensor v = c.tokens(generator, nominal, c.v), dout = c.tokens(generator, nominal, c.dout);
      Tensor log_decay = c.tokens(generator, sums, c.decays() ? c.q : c.log_decay);
      Tensor beta = c.tokens(generator, sums, c.beta.empty() ? c.q : c.beta);
      Tensor own = c.states(generator, sums, c.count()), own_r = c.states(generator, sums, c.count());
      Tensor transitions = c.states(generator, sums, c.count(), transition == Transition::matrix ? D : 1);
      const auto if_any = [](bool any, Tensor& t) { return any ? std::optional(t.view()) : std::nullopt; };
      const auto g = [&] { return if_any(!c.decays(), log_decay); };
      const auto b = [&] { return if_any(!c.beta.empty(), beta); };
      cpu_linear_tiles().state({.rows = k.view(),
                                .columns = v.view(),
                                .log_decay = g(),
                                .beta = b(),
                                .state = own.view(),
                                .transition = transitions.view(),
                                .chunks = c.with()});
      cpu_linear_tiles().state({.rows = q.view(),
                                .columns = dout.view(),
                                .k = if_any(!c.beta.empty(), k),
                                .log_decay = g(),
                                .beta = b(),
                                .state = own_r.view(),
                                .chunks = c.with(),
                                .reverse = true});
      const auto one = [&](Tensor& all, std::int64_t s) {  // rows of state s
        Tensor state = c.states(generator, sums, 1, all.width());
        for (std::int64_t row = 0; row < D; ++row)
          for (std::int64_t h = 0; h < 2; ++h)
            for (std::int64_t x = 0; x < all.width(); ++x) state.set(row, h, x, all.at(s * D + row, h, x));
        return state;
      };
      const auto pass = [&](Tensor& from, std::int64_t s, Tensor& into, bool reverse) {
        Tensor t = one(transitions, s);
        const std::vector<Chunk> chunk = {{.count = c.chunks[static_cast<std::size_t>(s)].count, .state = 0}};
        cpu_linear_tiles().combine({.from = from.view(),
                                    .into = into.view(),
                                    .transition = if_any(s % 2 == 0 || !c.decays(), t),
                                    .chunks = {chunk, c.slopes},
                                    .reverse = reverse});
      };
      Tensor state = c.states(generator, sums, 1), state_r = c.states(generator, sums, 1);
      c.set_state(state, 0, c.exact.key_states, 0);
      c.set_state(state_r, 0, c.exact.query_states, c.count());
      for (std::int64_t s = 0; s < c.count(); ++s) {
        Tensor next = one(own, s);
        pass(state, s, next, false);
        state.assign(next.values());
        CHECK(c.state_share(state, 0, c.exact.key_states, c.majorant.key_states, s + 1) <= 1);
        const std::int64_t mirrored = c.count() - 1 - s;
        Tensor before = one(own_r, mirrored);
        pass(state_r, mirrored, before, true);
        state_r.assign(before.values());
        CHECK(c.state_share(state_r, 0, c.exact.query_states, c.majorant.query_states, mirrored) <= 1);
      }
      for (const Tensor* t : {&own, &own_r, &transitions}) CHECK(t->gaps_intact());
    }
  }
}

// The parts of the D rows of every state, as a box of a larger buffer has them: bit for bit the whole.
TEST_CASE("combine of parts of the rows of all states is combine of the states") {
  std::mt19937 generator(2);
  const std::int64_t D = 7, n = 3, H = 2, E = 5;
  const std::vector<double> slopes = {0.1, 0.6};
  const std::vector<Chunk> chunks = {
      {.count = 3, .state = 2}, {.count = 0, .state = 0}, {.count = 9, .state = 1, .resets = true}};
  for (const DType dtype : {DType::fp64, DType::fp32, DType::bf16}) {
    for (const Write write : {Write::store, Write::add}) {
      const std::vector<double> held = random_values(generator, n * D * H * E, dtype);
      Tensor from = random_tensor(generator, dtype, n * D, H, E, held);
      for (std::int64_t row = D; row < 2 * D; ++row) from.fill_row(row, nan);  // state 1 resets: unread
      const DType wide_dtype = wide(dtype);
      Tensor whole(wide_dtype, n * D, H, E), parts(wide_dtype, n * D, H, E);
      if (write == Write::add) {
        const std::vector<double> before = random_values(generator, n * D * H * E, wide_dtype);
        whole.assign(before);
        parts.assign(before);
      }
      Tensor plain(dtype, n * D, H, E);
      plain.assign(from.values());
      cpu_linear_tiles().combine(
          {.from = from.view(), .into = whole.view(), .chunks = {chunks, slopes}, .write = write});
      for (const auto& [begin, count] : {std::pair<std::int64_t, std::int64_t>{0, 4}, {4, 1}, {5, 2}}) {
        std::vector<kernels::RowRun> runs;
        for (std::int64_t s = 0; s < n; ++s) runs.push_back({.begin = s * D + begin, .count = count});
        View from_part = plain.view(), into_part = parts.view();
        for (View* view : {&from_part, &into_part}) {
          view->runs = runs;
          view->rows = n * count;
        }
        cpu_linear_tiles().combine(
            {.from = from_part, .into = into_part, .chunks = {chunks, slopes}, .write = write});
      }
      CHECK(parts.memory() == whole.memory());
      for (std::int64_t row = 0; row < n * D; ++row) {
        const bool resets = row >= D && row < 2 * D;
        const auto state = static_cast<double>(row < D ? 0 : 3);
        for (std::int64_t h = 0; h < H && write == Write::store; ++h) {
          const double power = std::exp(-slopes[static_cast<std::size_t>(h)] * state);
          const double expected = resets ? 0 : power * from.at(row, h, 0);
          CHECK(std::fabs(whole.at(row, h, 0) - expected) <=
                2 * unit_roundoff(wide_dtype) * std::fabs(expected));
        }
      }
    }
  }
}

TEST_CASE("add leaves rows in no chunk bit for bit, and adds to the others") {
  std::mt19937 generator(3);
  for (const Transition transition : {Transition::decay, Transition::matrix}) {
    const LinearCase c = linear_case(generator, {.S = 0, .H = 2, .D = 4, .E = 3, .transition = transition},
                                     {0.01, 0.4}, DType::bf16, 0, {70, 9}, 0);
    Tensor q = c.tokens(generator, c.nominal, c.q), k = c.tokens(generator, c.nominal, c.k);
    Tensor v = c.tokens(generator, c.nominal, c.v), dout = c.tokens(generator, c.nominal, c.dout);
    Tensor g = c.tokens(generator, DType::fp32, c.decays() ? c.q : c.log_decay);
    Tensor beta = c.tokens(generator, DType::fp32, c.decays() ? c.q : c.beta);
    const auto view_if = [&](Tensor& t) { return c.decays() ? std::nullopt : std::optional(t.view()); };
    const auto run = [&](Tensor& out, Tensor& dq, Tensor& dk, Tensor& dv, Write write) {
      cpu_linear_tiles().local({.q = q.view(),
                                .k = k.view(),
                                .v = v.view(),
                                .log_decay = view_if(g),
                                .beta = view_if(beta),
                                .out = out.view(),
                                .chunks = c.with(),
                                .write = write});
      cpu_linear_tiles().local_backward({.q = q.view(),
                                         .k = k.view(),
                                         .v = v.view(),
                                         .dout = dout.view(),
                                         .log_decay = view_if(g),
                                         .beta = view_if(beta),
                                         .dq = dq.view(),
                                         .dk = dk.view(),
                                         .dv = dv.view(),
                                         .chunks = c.with(),
                                         .write = write});
    };
    const auto tensor = [&](std::int64_t width) { return Tensor(DType::fp32, c.rows, 2, width); };
    Tensor stored[] = {tensor(3), tensor(4), tensor(4), tensor(3)};
    Tensor added[] = {tensor(3), tensor(4), tensor(4), tensor(3)};
    std::vector<char> inside(static_cast<std::size_t>(c.rows));
    for (const Chunk& chunk : c.chunks) std::fill_n(inside.begin() + chunk.row, chunk.count, char{1});
    for (Tensor& t : added)
      for (std::int64_t row = 0; row < c.rows; ++row)
        if (inside[static_cast<std::size_t>(row)] != 0 || row % 2 == 0)
          t.fill_row(row, inside[static_cast<std::size_t>(row)] != 0 ? 0.75 : -0.0);
    std::vector<std::vector<std::byte>> before;
    for (Tensor& t : added)
      for (std::int64_t row = 0; row < c.rows; ++row) before.push_back(t.bits(row, 1));
    run(stored[0], stored[1], stored[2], stored[3], Write::store);
    run(added[0], added[1], added[2], added[3], Write::add);
    for (std::size_t t = 0; t < 4; ++t) {
      for (std::int64_t row = 0; row < c.rows; ++row) {
        if (inside[static_cast<std::size_t>(row)] == 0) {
          CHECK(added[t].bits(row, 1) ==
                before[t * static_cast<std::size_t>(c.rows) + static_cast<std::size_t>(row)]);
          continue;
        }
        // The sum of two fp32 numbers, rounded once.
        const double sum = stored[t].at(row, 1, 0) + 0.75;
        CHECK(std::fabs(added[t].at(row, 1, 0) - sum) <=
              0x1p-23 * (std::fabs(sum) + std::fabs(stored[t].at(row, 1, 0))));
      }
    }
  }
}

// The last rank of a sequence has states of keys alone: nothing reaches dk and dv, and dq is not kept from
// it.
TEST_CASE("an output of inter whose states are absent gets nothing") {
  std::mt19937 generator(5);
  const LinearCase c =
      linear_case(generator, {.S = 0, .H = 1, .D = 4, .E = 3}, {0.1}, DType::fp32, 5, {7}, 0);
  Tensor v = c.tokens(generator, c.nominal, c.v), dout = c.tokens(generator, c.nominal, c.dout);
  Tensor k = c.tokens(generator, c.nominal, c.k), carry = c.states(generator, DType::fp32, 1);
  Tensor dq(DType::fp32, c.rows, 1, 4), dk(DType::fp32, c.rows, 1, 4), dv(DType::fp32, c.rows, 1, 3);
  c.set_state(carry, 0, c.exact.key_states, 0);
  for (const Write write : {Write::add, Write::store}) {
    for (std::int64_t row = 0; row < c.rows; ++row) {
      for (Tensor* t : {&dq, &dk, &dv}) t->fill_row(row, 0.5);
    }
    cpu_linear_tiles().inter({.k = k.view(),
                              .v = v.view(),
                              .dout = dout.view(),
                              .carry = carry.view(),
                              .dq = dq.view(),
                              .dk = dk.view(),
                              .dv = dv.view(),
                              .chunks = c.with(),
                              .write = write});
    for (const Tensor* t : {&dk, &dv})
      for (const double value : t->values()) CHECK(value == (write == Write::add ? 0.5 : 0));
    CHECK(dq.at(c.chunks[0].row, 0, 0) != (write == Write::add ? 0.5 : 0));
  }
}

TEST_CASE("calls of linear attention that do not fit together are refused before anything is written") {
  std::mt19937 generator(4);
  LinearCase c =
      linear_case(generator, {.S = 0, .H = 2, .D = 4, .E = 3}, {0.01, 0.4}, DType::fp32, 5, {7, 9}, 2);
  Tensor q = c.tokens(generator, c.nominal, c.q), k = c.tokens(generator, c.nominal, c.k);
  Tensor v = c.tokens(generator, c.nominal, c.v), dout = c.tokens(generator, c.nominal, c.dout);
  Tensor beta = c.result(generator, DType::fp32, 1), out = c.result(generator, DType::fp32, 3);
  Tensor dq = c.result(generator, DType::fp32, 4), dk = c.result(generator, DType::fp32, 4);
  Tensor dv = c.result(generator, DType::fp32, 3);
  Tensor states = c.states(generator, DType::fp32, 2), one = c.states(generator, DType::fp32, 1);
  Tensor squares = c.states(generator, DType::fp32, 2, 4);
  const LinearLocal local{.q = q.view(), .k = k.view(), .v = v.view(), .out = out.view(), .chunks = c.with()};
  const LinearLocalBackward backward{.q = q.view(),
                                     .k = k.view(),
                                     .v = v.view(),
                                     .dout = dout.view(),
                                     .dq = dq.view(),
                                     .dk = dk.view(),
                                     .dv = dv.view(),
                                     .chunks = c.with()};
  const LinearState state{.rows = k.view(), .columns = v.view(), .state = states.view(), .chunks = c.with()};
  const LinearScan scan{.state = states.view(), .chunks = c.with()};
  const LinearCombine combine{.from = states.view(), .into = states.view(), .chunks = c.with()};
  const LinearInter inter{.q = q.view(), .state = states.view(), .out = out.view(), .chunks = c.with()};
  const auto refused = [&](auto call, auto tile, auto spoil) {
    spoil(call);
    CHECK_THROWS_AS(tile(call), std::invalid_argument);
    for (const Tensor* t : {&out, &dq, &dk, &dv, &states, &one})
      for (const double value : t->values()) CHECK(std::isnan(value));
  };
  const auto& tiles = cpu_linear_tiles();
  std::vector<Chunk> far = c.chunks, shared = c.chunks, edge = c.chunks, alike = c.chunks,
                     negative = c.chunks;
  far[1].row = c.rows - far[1].count + 1;
  shared[1].row = shared[0].row + 1;
  edge[0].right = 1;
  alike[1].state = 0;
  negative[0].left_exponent = -1;
  const std::vector<double> too_few = {1}, growing = {1, -1e-9};
  refused(local, tiles.local, [&](LinearLocal& x) { x.k = v.view(); });
  refused(local, tiles.local, [&](LinearLocal& x) { x.out = q.view(); });
  refused(local, tiles.local, [&](LinearLocal& x) { x.beta = beta.view(); });
  refused(local, tiles.local, [&](LinearLocal& x) { x.write = Write::merge; });
  refused(local, tiles.local, [&](LinearLocal& x) { x.chunks.slopes = too_few; });
  refused(local, tiles.local, [&](LinearLocal& x) { x.chunks.slopes = growing; });
  refused(local, tiles.local, [&](LinearLocal& x) { x.chunks.list = far; });
  refused(local, tiles.local, [&](LinearLocal& x) { x.chunks.list = shared; });
  refused(local, tiles.local, [&](LinearLocal& x) { x.chunks.list = negative; });
  refused(local, tiles.local, [&](LinearLocal& x) { x.state = one.view(); });
  refused(local, tiles.local, [&](LinearLocal& x) { x.state = squares.view(); });
  refused(local, tiles.local, [&](LinearLocal& x) { x.final_state = one.view(); });  // not whole pieces
  refused(local, tiles.local, [&](LinearLocal& x) { x.final_state = one.view(), x.chunks.list = edge; });
  refused(local, tiles.local, [&](LinearLocal& x) { x.log_decay = q.view(), x.carry = one.view(); });
  refused(backward, tiles.local_backward, [&](LinearLocalBackward& x) { x.dout = q.view(); });
  refused(backward, tiles.local_backward, [&](LinearLocalBackward& x) { x.dq = dv.view(); });
  refused(backward, tiles.local_backward, [&](LinearLocalBackward& x) { x.dstate = one.view(); });
  refused(backward, tiles.local_backward, [&](LinearLocalBackward& x) { x.dlog_decay = dq.view(); });
  refused(backward, tiles.local_backward,  // of one gate a head
          [&](LinearLocalBackward& x) { x.log_decay = beta.view(), x.dlog_decay = dq.view(); });
  refused(backward, tiles.local_backward, [&](LinearLocalBackward& x) { x.chunks.list = shared; });
  refused(backward, tiles.local_backward,
          [&](LinearLocalBackward& x) { x.dcarry = one.view(), x.chunks.list = edge; });
  refused(state, tiles.state, [&](LinearState& x) { x.columns = View{}; });
  refused(state, tiles.state, [&](LinearState& x) { x.chunks.list = alike; });
  refused(state, tiles.state, [&](LinearState& x) { x.transition = squares.view(); });
  refused(state, tiles.state, [&](LinearState& x) { x.state = one.view(); });
  refused(state, tiles.state,
          [&](LinearState& x) { x.log_decay = q.view(), x.beta = beta.view(), x.reverse = true; });
  refused(scan, tiles.scan, [&](LinearScan& x) { x.chunks.list = alike; });
  refused(scan, tiles.scan, [&](LinearScan& x) { x.chunks.slopes = too_few; });
  refused(scan, tiles.scan, [&](LinearScan& x) { x.final_state = one.view(), x.chunks.list = edge; });
  refused(combine, tiles.combine, [&](LinearCombine& x) { x.from = one.view(); });
  refused(combine, tiles.combine, [&](LinearCombine& x) { x.chunks.list = alike; });
  refused(combine, tiles.combine, [&](LinearCombine& x) { x.transition = one.view(); });
  refused(combine, tiles.combine, [&](LinearCombine& x) { x.write = Write::merge; });
  refused(inter, tiles.inter, [&](LinearInter& x) { x.state = {}; });
  refused(inter, tiles.inter, [&](LinearInter& x) { x.q = {}; });
  refused(inter, tiles.inter, [&](LinearInter& x) { x.dk = dk.view(); });
  refused(inter, tiles.inter, [&](LinearInter& x) { x.out = {}; });
  refused(inter, tiles.inter, [&](LinearInter& x) { x.chunks.list = shared; });
}

}  // namespace cplab::testing

// The tiles of linear attention on the CPU, put together as algorithms put them together, against the
// recurrence over the whole sequence.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "tests/kernels/linear_case.hpp"

namespace cplab::testing {
namespace {

using kernels::cpu_linear_tiles;
using kernels::Write;

// All operands of a rank. States of keys and of queries at the edges of its piece are given (carry, dcarry);
// those of its chunks are computed.
struct Rank {
  Rank(std::mt19937& generator, const LinearCase& c, DType out_dtype)
      : q(c.tokens(generator, c.nominal, c.q)),
        k(c.tokens(generator, c.nominal, c.k)),
        v(c.tokens(generator, c.nominal, c.v)),
        dout(c.tokens(generator, c.nominal, c.dout)),
        log_decay(c.tokens(generator, wide(c.nominal), c.decays() ? c.q : c.log_decay)),
        beta(c.tokens(generator, wide(c.nominal), c.beta.empty() ? c.q : c.beta)),
        out(c.result(generator, out_dtype, c.shape.E)),
        dq(c.result(generator, out_dtype, c.shape.D)),
        dk(c.result(generator, out_dtype, c.shape.D)),
        dv(c.result(generator, out_dtype, c.shape.E)),
        dlog_decay(c.result(generator, wide(c.nominal), c.shape.gates())),
        dbeta(c.result(generator, wide(c.nominal), 1)),
        state(c.states(generator, wide(c.nominal), c.count() + 1)),
        dstate(c.states(generator, wide(c.nominal), c.count() + 1)),
        carry(c.states(generator, wide(c.nominal), 2)),
        dcarry(c.states(generator, wide(c.nominal), 2)),
        final_state(c.states(generator, wide(c.nominal), 2)) {
    if (c.begin > 0) c.set_state(carry, 0, c.exact.key_states, 0);
    if (c.end < c.shape.S) c.set_state(dcarry, 0, c.exact.query_states, c.count());
    has_log_decay = !c.decays();
    has_beta = !c.beta.empty();
  }

  std::optional<View> log_decay_view() {
    return has_log_decay ? std::optional(log_decay.view()) : std::nullopt;
  }
  std::optional<View> beta_view() { return has_beta ? std::optional(beta.view()) : std::nullopt; }

  bool gaps_intact() const {
    for (const Tensor* t : {&q, &k, &v, &dout, &log_decay, &beta, &out, &dq, &dk, &dv, &dlog_decay, &dbeta,
                            &state, &dstate, &carry, &dcarry, &final_state})
      if (!t->gaps_intact()) return false;
    return true;
  }

  Tensor q, k, v, dout, log_decay, beta, out, dq, dk, dv, dlog_decay, dbeta;
  Tensor state, dstate, carry, dcarry, final_state;
  bool has_log_decay = false, has_beta = false;
};

void check_rows_outside_are_zero(const LinearCase& c, const Tensor& tensor) {
  std::vector<char> inside(static_cast<std::size_t>(c.rows));
  for (const Chunk& chunk : c.chunks) std::fill_n(inside.begin() + chunk.row, chunk.count, char{1});
  for (std::int64_t row = 0; row < c.rows; ++row) {
    if (inside[static_cast<std::size_t>(row)] != 0) continue;
    for (std::int64_t h = 0; h < tensor.heads(); ++h)
      for (std::int64_t x = 0; x < tensor.width(); ++x) CHECK(tensor.at(row, h, x) == 0);
  }
}

void check_result(const LinearCase& c, Rank& rank, ChunkWork work) {
  CHECK(c.share(rank.out, c.exact.out, c.majorant.out, work) <= 1);
  CHECK(c.share(rank.dq, c.exact.dq, c.majorant.dq, work) <= 1);
  CHECK(c.share(rank.dk, c.exact.dk, c.majorant.dk, work) <= 1);
  CHECK(c.share(rank.dv, c.exact.dv, c.majorant.dv, work) <= 1);
  for (const Tensor* t : {&rank.out, &rank.dq, &rank.dk, &rank.dv}) check_rows_outside_are_zero(c, *t);
  CHECK(rank.gaps_intact());
}

constexpr double decay_slopes[] = {0, 1e-4, 0.5, 8};

std::vector<LinearCase> decay_cases(std::mt19937& generator, DType nominal) {
  const std::vector<double> four(std::begin(decay_slopes), std::end(decay_slopes));
  const reference::LinearShape small{.S = 0, .H = 4, .D = 5, .E = 3};
  std::vector<LinearCase> cases;
  cases.push_back(linear_case(generator, small, four, nominal, 0, {1}, 0));
  cases.push_back(linear_case(generator, small, four, nominal, 0, {63, 64, 65}, 0));
  cases.push_back(linear_case(generator, small, four, nominal, 9, {257, 0, 1, 128}, 4));
  cases.push_back(linear_case(generator, small, four, nominal, 0, {0, 3, 0}, 70));
  cases.push_back(linear_case(generator, small, four, nominal, 70, {130}, 0));
  cases.push_back(
      linear_case(generator, {.S = 0, .H = 2, .D = 130, .E = 70}, {0.03, 0.7}, nominal, 20, {70, 33}, 5));
  cases.push_back(linear_case(generator, {.S = 0, .H = 1, .D = 64, .E = 129}, {0.2}, nominal, 3, {100}, 2));
  return cases;
}

}  // namespace

// State, scan and local as fuse_parallel and the scans of ranks use them: chunks of a rank are scanned, what
// lies beyond it enters through carry and dcarry.
TEST_CASE("chunks joined by state and scan equal the recurrence over the sequence") {
  std::mt19937 generator(1);
  for (const DType nominal : all_dtypes) {
    for (const DType out : {nominal, wide(nominal)}) {
      for (const ChunkWork work : {ChunkWork::blocked, ChunkWork::serial, ChunkWork::sliced}) {
        for (const LinearCase& c : decay_cases(generator, nominal)) {
          INFO(describe(c), " to ", name_of(out), " work ", static_cast<int>(work));
          Rank r(generator, c, out);
          const Chunks chunks = c.with(work);
          const auto& tiles = cpu_linear_tiles();
          tiles.state({.rows = r.k.view(), .columns = r.v.view(), .state = r.state.view(), .chunks = chunks});
          tiles.state({.rows = r.q.view(),
                       .columns = r.dout.view(),
                       .state = r.dstate.view(),
                       .chunks = chunks,
                       .reverse = true});
          // The scan counts its states by its chunks: it gets exactly those.
          Tensor scanned = c.states(generator, wide(nominal), c.count());
          Tensor dscanned = c.states(generator, wide(nominal), c.count());
          for (std::int64_t row = 0; row < scanned.rows(); ++row)
            for (std::int64_t h = 0; h < c.shape.H; ++h)
              for (std::int64_t e = 0; e < c.shape.E; ++e) {
                scanned.set(row, h, e, r.state.at(row, h, e));
                dscanned.set(row, h, e, r.dstate.at(row, h, e));
              }
          tiles.scan({.state = scanned.view(), .chunks = chunks});
          tiles.scan({.state = dscanned.view(), .chunks = chunks, .reverse = true});
          tiles.local({.q = r.q.view(),
                       .k = r.k.view(),
                       .v = r.v.view(),
                       .state = scanned.view(),
                       .carry = r.carry.view(),
                       .out = r.out.view(),
                       .chunks = chunks});
          tiles.local_backward({.q = r.q.view(),
                                .k = r.k.view(),
                                .v = r.v.view(),
                                .dout = r.dout.view(),
                                .state = scanned.view(),
                                .carry = r.carry.view(),
                                .dstate = dscanned.view(),
                                .dcarry = r.dcarry.view(),
                                .dq = r.dq.view(),
                                .dk = r.dk.view(),
                                .dv = r.dv.view(),
                                .chunks = chunks});
          check_result(c, r, work);
          CHECK(scanned.gaps_intact());
          CHECK(dscanned.gaps_intact());
          for (std::int64_t h = 0; h < c.shape.H; ++h)
            CHECK(std::isnan(r.state.at(c.count() * c.shape.D, h)));
        }
      }
    }
  }
}

// The same with every incoming state given exactly, for all transitions, and with the states that leave a
// chunk that is the whole piece.
TEST_CASE("local and its backward read the states at both edges of a chunk, for every transition") {
  std::mt19937 generator(2);
  for (const DType nominal : all_dtypes) {
    for (const auto& [transition, gate] : all_transitions) {
      for (const std::vector<std::int64_t>& lengths :
           {std::vector<std::int64_t>{33}, std::vector<std::int64_t>{1, 0, 40, 7}}) {
        const LinearCase c =
            linear_case(generator, {.S = 0, .H = 2, .D = 6, .E = 9, .transition = transition, .gate = gate},
                        {0.01, 0.4}, nominal, 12, lengths, 8);
        INFO(describe(c));
        Rank r(generator, c, wide(nominal));
        const bool whole = lengths.size() == 1;
        for (std::int64_t s = 0; s < c.count(); ++s) {
          c.set_state(r.state, s, c.exact.key_states, s);
          c.set_state(r.dstate, s, c.exact.query_states, s + 1);
        }
        // A whole piece reads its edges (carry), chunks their own states.
        const auto own = [&](Tensor& t) { return whole ? std::nullopt : std::optional(t.view()); };
        const auto edge = [&](Tensor& t) { return whole ? std::optional(t.view()) : std::nullopt; };
        cpu_linear_tiles().local({.q = r.q.view(),
                                  .k = r.k.view(),
                                  .v = r.v.view(),
                                  .log_decay = r.log_decay_view(),
                                  .beta = r.beta_view(),
                                  .state = own(r.state),
                                  .carry = edge(r.carry),
                                  .out = r.out.view(),
                                  .final_state = edge(r.final_state),
                                  .chunks = c.with()});
        if (whole) {
          CHECK(c.state_share(r.final_state, 0, c.exact.key_states, c.majorant.key_states, 1) <= 1);
          CHECK(r.final_state.at(c.shape.D, 0) == 0);  // no chunk names it
        }
        const auto if_any = [](bool any, Tensor& t) { return any ? std::optional(t.view()) : std::nullopt; };
        cpu_linear_tiles().local_backward({.q = r.q.view(),
                                           .k = r.k.view(),
                                           .v = r.v.view(),
                                           .dout = r.dout.view(),
                                           .log_decay = r.log_decay_view(),
                                           .beta = r.beta_view(),
                                           .state = own(r.state),
                                           .carry = edge(r.carry),
                                           .dstate = own(r.dstate),
                                           .dcarry = edge(r.dcarry),
                                           .dq = r.dq.view(),
                                           .dk = r.dk.view(),
                                           .dv = r.dv.view(),
                                           .dlog_decay = if_any(r.has_log_decay, r.dlog_decay),
                                           .dbeta = if_any(r.has_beta, r.dbeta),
                                           .final_state = edge(r.final_state),
                                           .chunks = c.with()});
        if (whole)
          CHECK(c.state_share(r.final_state, 0, c.exact.query_states, c.majorant.query_states, 0) <= 1);
        check_result(c, r, ChunkWork::blocked);
        if (r.has_log_decay) {
          CHECK(c.share(r.dlog_decay, c.exact.dlog_decay, {}) <= 1);
          check_rows_outside_are_zero(c, r.dlog_decay);
        }
        if (r.has_beta) {
          CHECK(c.share(r.dbeta, c.exact.dbeta, {}) <= 1);
          check_rows_outside_are_zero(c, r.dbeta);
        }
      }
    }
  }
}

// local without states plus inter is local with them; each product of inter by itself, added to zeros, is the
// difference.
TEST_CASE("inter adds what states hold, each product for itself") {
  std::mt19937 generator(3);
  for (const DType nominal : all_dtypes) {
    const LinearCase c = linear_case(generator, {.S = 0, .H = 3, .D = 7, .E = 70}, {0, 0.02, 0.5}, nominal,
                                     11, {5, 70, 0, 130}, 6);
    INFO(describe(c));
    Rank r(generator, c, wide(nominal));
    // Once the whole of what enters a chunk is its own state, once it is split between carry and the states
    // of the chunks before it in the piece.
    for (const bool split : {false, true}) {
      for (std::int64_t s = 0; s < c.count(); ++s) {
        c.set_state(r.state, s, c.exact.key_states, s);
        c.set_state(r.dstate, s, c.exact.query_states, s + 1);
      }
      if (split) {
        for (std::int64_t s = 0; s < c.count(); ++s)
          for (std::int64_t row = 0; row < c.shape.D; ++row)
            for (std::int64_t h = 0; h < c.shape.H; ++h)
              for (std::int64_t e = 0; e < c.shape.E; ++e) {
                const Chunk& chunk = c.chunks[static_cast<std::size_t>(s)];
                const std::int64_t at = s * c.shape.D + row;
                const auto power = [&](std::int64_t n) {
                  return std::exp(-c.slopes[static_cast<std::size_t>(h)] * static_cast<double>(n));
                };
                r.state.set(at, h, e,
                            r.state.at(at, h, e) - power(chunk.left_exponent) * r.carry.at(row, h, e));
                r.dstate.set(at, h, e,
                             r.dstate.at(at, h, e) - power(chunk.right_exponent) * r.dcarry.at(row, h, e));
              }
      }
      const auto edge = [&](Tensor& t) { return split ? std::optional(t.view()) : std::nullopt; };
      const auto& tiles = cpu_linear_tiles();
      tiles.local(
          {.q = r.q.view(), .k = r.k.view(), .v = r.v.view(), .out = r.out.view(), .chunks = c.with()});
      tiles.local_backward({.q = r.q.view(),
                            .k = r.k.view(),
                            .v = r.v.view(),
                            .dout = r.dout.view(),
                            .dq = r.dq.view(),
                            .dk = r.dk.view(),
                            .dv = r.dv.view(),
                            .chunks = c.with()});
      tiles.inter({.q = r.q.view(),
                   .state = r.state.view(),
                   .carry = edge(r.carry),
                   .out = r.out.view(),
                   .chunks = c.with()});
      tiles.inter({.dout = r.dout.view(),
                   .state = r.state.view(),
                   .carry = edge(r.carry),
                   .dq = r.dq.view(),
                   .chunks = c.with()});
      tiles.inter({.v = r.v.view(),
                   .dstate = r.dstate.view(),
                   .dcarry = edge(r.dcarry),
                   .dk = r.dk.view(),
                   .chunks = c.with()});
      tiles.inter({.k = r.k.view(),
                   .dstate = r.dstate.view(),
                   .dcarry = edge(r.dcarry),
                   .dv = r.dv.view(),
                   .chunks = c.with()});
      check_result(c, r, ChunkWork::blocked);
      // The three of the backward at once, stored over what was there, and the difference to local's own
      // part.
      tiles.inter({.k = r.k.view(),
                   .v = r.v.view(),
                   .dout = r.dout.view(),
                   .state = r.state.view(),
                   .carry = edge(r.carry),
                   .dstate = r.dstate.view(),
                   .dcarry = edge(r.dcarry),
                   .dq = r.dq.view(),
                   .dk = r.dk.view(),
                   .dv = r.dv.view(),
                   .chunks = c.with(),
                   .write = Write::store});
      tiles.local_backward({.q = r.q.view(),
                            .k = r.k.view(),
                            .v = r.v.view(),
                            .dout = r.dout.view(),
                            .dq = r.dq.view(),
                            .dk = r.dk.view(),
                            .dv = r.dv.view(),
                            .chunks = c.with(),
                            .write = Write::add});
      check_result(c, r, ChunkWork::blocked);
    }
  }
}

// Powers down to exp(-8 * 70000) and sums of 70000 tokens: no overflow, and the error in units of the sums of
// magnitudes does not grow with slope or length beyond the count of blocks.
TEST_CASE("long chunks with slopes 0 to 8 stay within the tolerance") {
  std::mt19937 generator(4);
  const LinearCase c = linear_case(generator, {.S = 0, .H = 6, .D = 2, .E = 3}, {0, 1e-4, 0.01, 0.5, 1, 8},
                                   DType::fp32, 100, {70000, 1000}, 50);
  Rank r(generator, c, DType::fp32);
  cpu_linear_tiles().local({.q = r.q.view(),
                            .k = r.k.view(),
                            .v = r.v.view(),
                            .carry = r.carry.view(),
                            .out = r.out.view(),
                            .chunks = {std::span(c.chunks).first(1), c.slopes}});
  for (std::int64_t s = 0; s < c.count(); ++s) {
    c.set_state(r.state, s, c.exact.key_states, s);
    c.set_state(r.dstate, s, c.exact.query_states, s + 1);
  }
  cpu_linear_tiles().local({.q = r.q.view(),
                            .k = r.k.view(),
                            .v = r.v.view(),
                            .state = r.state.view(),
                            .out = r.out.view(),
                            .chunks = c.with()});
  cpu_linear_tiles().local_backward({.q = r.q.view(),
                                     .k = r.k.view(),
                                     .v = r.v.view(),
                                     .dout = r.dout.view(),
                                     .state = r.state.view(),
                                     .dstate = r.dstate.view(),
                                     .dq = r.dq.view(),
                                     .dk = r.dk.view(),
                                     .dv = r.dv.view(),
                                     .chunks = c.with()});
  check_result(c, r, ChunkWork::blocked);
}

}  // namespace cplab::testing

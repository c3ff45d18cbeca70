// Bytes, rounds and FLOPs of every algorithm against closed forms of its options, for every P from 1 to 16.
//
// n rows a rank, H query heads, G key heads, D and E columns; bf16: 2 bytes, LSE and delta 4, gradients of K
// and V w = 4 or 2 (gradient_wire_dtype). kv(g) = n g (D + E) elements: a rank's own K and V of g key heads.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/core/build.hpp"
#include "check/check.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/algorithms/scenarios.hpp"

using namespace cplab;
using testing::Options;
using testing::Shape;
using testing::word;

namespace {

constexpr std::int64_t D = 16, E = 8;

// Of a rank and a phase.
struct ClosedForm {
  std::vector<std::int64_t> forward, backward;  // bytes sent, by rank
  std::int64_t forward_rounds = 0, backward_rounds = 0;
};

struct FormCase {
  std::string algorithm;
  int P;
  std::int64_t H, G;
  Options options;
  std::string placement = {};
};

std::int64_t rows_for(int P) {
  return P % 3 == 0 ? 6 : 4;
}

Shape shape_of(const FormCase& c, bool backward) {
  return {.ranks = c.P,
          .placement = c.placement,
          .lengths = {rows_for(c.P) * c.P},
          .heads = c.H,
          .kv_heads = c.G,
          .head_size = D,
          .value_size = E,
          .backward = backward,
          .options = c.options,
          .algorithm = c.algorithm};
}

void check_form(const FormCase& c, const ClosedForm& form) {
  std::string text =
      c.algorithm + " P " + std::to_string(c.P) + " heads " + std::to_string(c.H) + ":" + std::to_string(c.G);
  for (const auto& [key, value] : c.options) text += " " + key + "=" + to_string(value);
  CAPTURE(text);
  const CheckResult forward = check(build_plan(testing::scenario(shape_of(c, false))));
  const CheckResult both = check(build_plan(testing::scenario(shape_of(c, true))));
  INFO(hand::text(forward) << hand::text(both));
  REQUIRE(forward.ok());
  REQUIRE(both.ok());
  CHECK(forward.rounds == form.forward_rounds);
  CHECK(both.rounds == form.forward_rounds + form.backward_rounds);
  for (std::size_t r = 0; r < static_cast<std::size_t>(c.P); ++r) {
    CAPTURE(r);
    CHECK(forward.sent_bytes[r] == form.forward[r]);
    CHECK(both.sent_bytes[r] - forward.sent_bytes[r] == form.backward[r]);
  }
}

std::vector<std::int64_t> everywhere(int P, std::int64_t bytes) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(P), bytes);
}

// Key heads that query heads [begin, end) read.
std::int64_t key_heads_of(std::int64_t H, std::int64_t G, std::int64_t begin, std::int64_t end) {
  return (end - 1) / (H / G) - begin / (H / G) + 1;
}

// Heads for P ranks: a key head each, shared by two ranks or by all, and some that begin in the middle of a
// rank's share.
std::vector<std::pair<std::int64_t, std::int64_t>> heads_for(int P) {
  return {{2 * P, 2 * P}, {2 * P, 1}, {6 * P, 3}, {2 * P, 2}};
}

// What is traded among A ranks, one message for every tensor and pair: q, K and V go there, out and LSE back;
// backward dout and delta go there, dq, dK and dV back. A rank sends each peer the peer's share of heads, and
// each peer's rows of its own share. dK and dV are sums over ranks, in the wire's dtype, only where some key
// head is held by two of them.
std::pair<std::int64_t, std::int64_t> traded_bytes(std::int64_t n, std::int64_t H, std::int64_t G,
                                                   std::int64_t A, std::int64_t place, std::int64_t w) {
  const std::int64_t share = H / A;
  std::int64_t forward = 0, backward = 0, all = 0;
  for (std::int64_t a = 0; a < A; ++a) all += key_heads_of(H, G, a * share, (a + 1) * share);
  const std::int64_t wire = all > G ? w : 2;
  for (std::int64_t peer = 0; peer < A; ++peer) {
    if (peer == place) continue;
    const std::int64_t theirs = key_heads_of(H, G, peer * share, (peer + 1) * share);
    const std::int64_t mine = key_heads_of(H, G, place * share, (place + 1) * share);
    forward += n * share * D * 2 + n * theirs * (D + E) * 2 + n * share * (E * 2 + 4);
    backward += n * share * (E * 2 + 4) + n * share * D * 2 + n * mine * (D + E) * wire;
  }
  return {forward, backward};
}

}  // namespace

TEST_CASE("closed form, ring: whole, P - 1 hops of kv, backward P - 1 of kv and of gradients") {
  for (int P = 1; P <= 16; ++P)
    for (const std::int64_t w : {4, 2}) {
      const std::int64_t kv = rows_for(P) * 2 * (D + E);
      check_form(
          {"ring",
           P,
           4,
           2,
           {{"rotation", word("whole")}, {"gradient_wire_dtype", word(w == 4 ? "fp32" : "nominal")}}},
          {everywhere(P, (P - 1) * kv * 2), everywhere(P, (P - 1) * kv * (2 + w)), P - 1, P > 1 ? P : 0});
    }
}

// Contiguous and causal: rank r passes on what came from 0 .. r, its own included; the last one passes on
// nothing, but sends gradients home to all others. Backward rounds: gradients travel one behind the P - 1
// hops of K and V, and once more from the last rank home.
TEST_CASE("closed form, ring: needed, contiguous causal, r + 1 shares leave rank r and none the last") {
  for (int P = 1; P <= 16; ++P) {
    const std::int64_t kv = rows_for(P) * 2 * (D + E);
    ClosedForm form{{}, {}, P - 1, P > 1 ? P + 1 : 0};
    for (int r = 0; r < P; ++r) {
      const std::int64_t shares = r < P - 1 ? r + 1 : 0;
      form.forward.push_back(shares * kv * 2);
      form.backward.push_back(r < P - 1 ? shares * kv * (2 + 4) : (P - 1) * kv * 4);
    }
    check_form({"ring", P, 4, 2, {{"rotation", word("needed")}}, "contiguous"}, form);
  }
}

// Every rank's kv goes to all others; backward again unless it was kept, and every other rank's gradients.
TEST_CASE("closed form, all_gather: P - 1 times kv, again or kept, P - 1 times gradients") {
  for (int P = 1; P <= 16; ++P)
    for (const std::int64_t w : {4, 2})
      for (const char* again : {"again", "keep"})
        for (const std::int64_t chunk : {0, 1, 2}) {
          const std::int64_t kv = rows_for(P) * 4 * (D + E), parts = chunk == 0 ? 1 : 4 / chunk;
          const bool twice = std::string_view(again) == "again";
          check_form({"all_gather",
                      P,
                      8,
                      4,
                      {{"backward_gather", word(again)},
                       {"gather_head_chunk", chunk},
                       {"gradient_wire_dtype", word(w == 4 ? "fp32" : "nominal")}}},
                     {everywhere(P, (P - 1) * kv * 2), everywhere(P, (P - 1) * kv * ((twice ? 2 : 0) + w)),
                      P > 1 ? parts : 0, P > 1 ? parts * (twice ? 2 : 1) : 0});
        }
}

// The same bytes whatever the strides. K and V of a stride are gathered apart, but the first together if it
// is cut and packed; a reduce-scatter for each of the backward's.
TEST_CASE("long: closed form, head_strided: the bytes of all_gather, rounds by the strides") {
  for (int P = 1; P <= 16; ++P) {
    const std::int64_t kv = rows_for(P) * 8 * (D + E);
    for (const auto& [h, f, first, last] : std::vector<std::array<std::int64_t, 4>>{
             {1, 0, 0, 0}, {2, 0, 0, 0}, {4, 1, 0, 0}, {4, 0, 1, 3}, {4, 2, 2, 0}, {8, 3, 0, 5}}) {
      for (const bool packs : {true, false}) {
        const std::int64_t parts = 8 / h + (f > 0), back = 8 / h + (first > 0) + (last > 0);
        check_form({"head_strided",
                    P,
                    8,
                    8,
                    {{"head_stride", h},
                     {"forward_first_stride", f},
                     {"backward_first_stride", first},
                     {"backward_last_stride", last},
                     {"pack_first_gather", packs}}},
                   {everywhere(P, (P - 1) * kv * 2), everywhere(P, (P - 1) * kv * (2 + 4)),
                    P > 1 ? 2 * parts - (packs && f > 0) : 0, P > 1 ? 3 * back : 0});
      }
    }
  }
}

TEST_CASE("closed form, all_to_all: shares of heads there and back, key heads as often as they are read") {
  for (int P = 1; P <= 16; ++P)
    for (const auto& [H, G] : heads_for(P))
      for (const std::int64_t w : {4, 2}) {
        ClosedForm form{{}, {}, P > 1 ? 3 : 0, P > 1 ? 3 : 0};
        for (int r = 0; r < P; ++r) {
          const auto [forward, backward] = traded_bytes(rows_for(P), H, G, P, r, w);
          form.forward.push_back(forward);
          form.backward.push_back(backward);
        }
        check_form({"all_to_all", P, H, G, {{"gradient_wire_dtype", word(w == 4 ? "fp32" : "nominal")}}},
                   form);
      }
}

// A trade among A ranks, and a ring of R = P / A with the rows of A ranks and a share of the heads.
TEST_CASE("long: closed form, hierarchical and usp: a trade inside and a ring across") {
  for (int P = 1; P <= 16; ++P)
    for (int A = 1; A <= P; ++A)
      for (const auto& [H, G] : heads_for(A))
        for (const char* name : {"hierarchical", "usp", "usp strided"}) {
          if (P % A != 0) continue;
          const std::int64_t R = P / A, share = H / A;
          const bool usp = name[0] == 'u', strided = std::string_view(name) == "usp strided";
          // usp trades q, K and V apart, and dq, dK and dV.
          const std::int64_t trades = A > 1 ? (usp ? 4 : 3) : 0;
          ClosedForm form{{}, {}, trades + R - 1, trades + (R > 1 ? R : 0)};
          for (int r = 0; r < P; ++r) {
            const std::int64_t place = strided ? r / R : r % A;
            const auto [forward, backward] = traded_bytes(rows_for(P), H, G, A, place, 4);
            const std::int64_t kv =
                A * rows_for(P) * key_heads_of(H, G, place * share, (place + 1) * share) * (D + E);
            form.forward.push_back(forward + (R - 1) * kv * 2);
            form.backward.push_back(backward + (R - 1) * kv * (2 + 4));
          }
          FormCase c{
              usp ? "usp" : name, P, H, G, {{"inner_ranks", std::int64_t{A}}, {"rotation", word("whole")}}};
          if (strided) c.options.push_back({"inner_order", word("strided")});
          check_form(c, form);
        }
}

// Causal: a zigzag gives each rank the P-th part of S (S + 1) / 2 pairs, and a share of the heads of all of
// them is as much; contiguous, rank r has n^2 r + n (n + 1) / 2.
TEST_CASE(
    "long: closed form, FLOPs of a rank: equal shares in a zigzag, and by rank where pieces are contiguous") {
  for (int P = 1; P <= 16; ++P) {
    for (const char* algorithm :
         {"ring", "all_gather", "all_to_all", "head_strided", "hierarchical", "usp"}) {
      for (const char* placement : {"zigzag", "contiguous"}) {
        const bool contiguous = std::string_view(placement) == "contiguous";
        const bool trades =
            std::string_view(algorithm) == "hierarchical" || std::string_view(algorithm) == "usp";
        FormCase c{algorithm, P, 2 * P, 2 * P, {}, placement};
        if (trades) c.options = {{"inner_ranks", std::int64_t{1}}};
        const std::vector<double> flops = check(build_plan(testing::scenario(shape_of(c, true)))).flops;
        const std::int64_t n = rows_for(P), S = n * P, products = 2 * (D + E) + 2 * (3 * D + 2 * E);
        for (std::int64_t r = 0; r < P; ++r) {
          CAPTURE(algorithm);
          CAPTURE(P);
          CAPTURE(r);
          const bool equal = !contiguous || std::string_view(algorithm) == "all_to_all";
          const std::int64_t pairs = equal ? S * (S + 1) / 2 / P : n * n * r + n * (n + 1) / 2;
          CHECK(flops[static_cast<std::size_t>(r)] == static_cast<double>(pairs * c.H * products));
        }
      }
    }
  }
}

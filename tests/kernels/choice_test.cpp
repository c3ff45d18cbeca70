// The four ways to choose a kernel, and classes of calls, without a GPU.
#include <doctest/doctest.h>

#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/choice/candidates.hpp"
#include "kernels/choice/choose.hpp"
#include "kernels/choice/measured_choices.hpp"
#include "tests/kernels/backward_names.hpp"
#include "tests/kernels/chosen_variant.hpp"
#include "tests/kernels/square_call.hpp"

namespace cplab::testing {
namespace {

using namespace kernels;
using namespace kernels::cuda;

VariantOptions in_way(ChoiceWay way, VariantOptions options = on_hopper) {
  options.way = way;
  return options;
}

// Gradients of keys and values in the dtype of k, stored.
AttendBackward rounding_dkv(const Call& call, std::span<const Segment> segments) {
  AttendBackward of = backward(call, segments);
  of.dk.dtype = of.dv.dtype = call.dtype;
  return of;
}

std::string rounded_name(const Call& call, const VariantOptions& options) {
  const std::vector<Segment> segments = call.segments();
  return choose_variant(rounding_dkv(call, segments), options).variant->name;
}

std::string adding_name(const Call& call, const VariantOptions& options) {
  const std::vector<Segment> segments = call.segments();
  AttendBackward of = backward(call, segments);
  of.write_dq = of.write_dk = Write::add;
  return choose_variant(of, options).variant->name;
}

double predicted_forward(const Call& call, const char* variant, VariantOptions options) {
  const std::vector<Segment> segments = call.segments();
  options.only = variant;
  return candidates(forward(call, segments), options).at(0).predicted_s;
}

double predicted(const Call& call, const char* variant, VariantOptions options = on_hopper) {
  const std::vector<Segment> segments = call.segments();
  options.only = variant;
  const AttendBackward of = backward(call, segments);
  return predicted_seconds(choose_variant(of, options), of, options);
}

}  // namespace

TEST_CASE("candidates are what is allowed, has room and fits, in the order of the table") {
  const Call call{.S = 1024, .D = 64};
  const std::vector<Segment> segments = call.segments();
  const auto names = [&](const VariantOptions& options) {
    std::vector<std::string> all;
    for (const Candidate& candidate : candidates(forward(call, segments), options))
      all.emplace_back(candidate.variant);
    return all;
  };
  CHECK(names(on_hopper) ==
        std::vector<std::string>{"attend hopper bf16 64", "attend hopper bf16 64, 128 rows",
                                 "attend hopper bf16 64, 64 rows", "attend mma bf16 64", "attend general"});
  CHECK(names(on_ampere) == std::vector<std::string>{"attend mma bf16 64", "attend general"});
  int of_table = 0;
  for (const Candidate& candidate : candidates(forward(call, segments), on_hopper)) {
    CHECK(candidate.predicted_s > 0);
    of_table += candidate.of_table ? 1 : 0;
  }
  CHECK(of_table == 1);

  const auto gradients = [&](const VariantOptions& options) {
    std::set<std::string_view> all;
    for (const Candidate& candidate : candidates(backward(call, segments), options))
      all.insert(candidate.variant);
    return all;
  };
  CHECK(gradients(on_hopper).contains("attend_backward hopper fused bf16 64"));
  CHECK_FALSE(gradients(with_same_bits(on_hopper)).contains("attend_backward hopper fused bf16 64"));
  CHECK(gradients(with_same_bits(on_hopper)).contains("attend_backward hopper ordered bf16 64"));
}

// dk and dv by mma.sync take 130 KiB at head size 128 (page 14), and a block of an SM 8.6 has 99; with small
// tiles 97.
TEST_CASE("a variant that the architecture has no room for is no candidate") {
  CHECK(backward_name({}, on_ampere) == mma_kernel);
  CHECK(backward_name({}, {.sm_major = 8, .sms = 84, .build = {}, .sm_minor = 6}) == mma_small_kernel);
  CHECK(backward_name({.D = 64}, {.sm_major = 8, .sms = 84, .build = {}, .sm_minor = 6}) ==
        "attend_backward mma bf16 64");
  CHECK(backward_name({}, {.sm_major = 12, .sms = 170, .build = {}}) ==
        mma_kernel);  // not in the table of architectures
}

// The table takes large tiles where there is room. Where they and small ones are candidates, either can be
// forced.
TEST_CASE("small tiles are taken on 8.6 and 8.9, and can be forced elsewhere") {
  for (const auto& [D, E] : {std::pair{128, 128}, {192, 128}, {256, 256}}) {
    const Call call{.D = D, .E = E};
    const std::string large = "attend_backward mma bf16 " + std::to_string(D) + (D == E ? "" : "x128");
    const std::string small = large + ", small tiles";
    VariantOptions options{.sm_major = 8, .sms = 84, .build = {.hopper = false, .full = true}, .sm_minor = 0};
    CHECK(backward_name(call, options) == large);
    options.only = small;
    CHECK(backward_name(call, options) == small);
    options.only = {};
    for (const int minor : {6, 9}) {
      options.sm_minor = minor;
      CHECK(backward_name(call, options) == small);
      options.way = ChoiceWay::heuristic;
      CHECK(backward_name(call, options) == small);
      options.way = ChoiceWay::table;
    }
    options.sm_major = 9;
    options.sm_minor = 0;
    CHECK(backward_name(call, options) == large);
  }
}

// One head, one tile of 128 keys, 128 queries, full: one block of 128 beyond 1.7 of them, nothing masked, at
// 3.98 us each, and a launch of 3.2 us: 3.2 + 2.7 * 3.98 = 13.946 us. Its bytes take 0.04 us. dq is set to
// zero before: 1.2 us and 128 * 128 * 4 bytes a head and 128 queries at 4.2161e12 bytes/s.
TEST_CASE("the predicted time of one tile") {
  const auto zeros = [](int tiles) { return 1.2e-6 + tiles * 128 * 128 * 4 / 4.2161e12; };
  const Call one{.S = 128, .H = 1, .G = 1, .causal = false};
  CHECK(predicted(one, fused_kernel) == doctest::Approx(13.946e-6 + zeros(1)).epsilon(1e-9));
  // 132 heads are one wave of 132 multiprocessors, 133 are two.
  const Call wave{.S = 128, .H = 132, .G = 132, .causal = false},
      more{.S = 128, .H = 133, .G = 133, .causal = false};
  CHECK(predicted(wave, fused_kernel) == doctest::Approx(13.946e-6 + zeros(132)).epsilon(1e-9));
  CHECK(predicted(more, fused_kernel) ==
        doctest::Approx(3.2e-6 + 2 * 2.7 * 3.98e-6 + zeros(133)).epsilon(1e-9));
  // Two key tiles with a full mask queue: 3.2 + 3.7 * 4.08 + 2.4. The first piece is stored. With 66 heads
  // side by side one tile of each begins on 66 multiprocessors, and nobody queues: two waves.
  const Call two{.S = 256, .H = 1, .G = 1, .causal = false};
  VariantOptions few = with_same_bits(on_hopper);
  CHECK(predicted(two, ordered_kernel, few) ==
        doctest::Approx((3.2 + 3.7 * 4.08 + 2.4) * 1e-6).epsilon(1e-9));
  few.sms = 66;
  const Call many{.S = 256, .H = 66, .G = 66, .causal = false};
  CHECK(predicted(many, ordered_kernel, few) == doctest::Approx((3.2 + 2 * 3.7 * 4.08) * 1e-6).epsilon(1e-9));
}

// 0.762 of that for half the keys, (3.2 + 2.7 * 3.03276) us: with 66 heads two of them run at once
// on 132 multiprocessors, with 67 they are two waves and take longer than one of the large tile. One head of
// 128 keys is too few for either, and for many waves the large tile takes less. Gradients are added to, which
// tiles apart do row by row.
TEST_CASE("the predicted time of small tiles, and where they are taken") {
  const auto zeros = [](int tiles) { return 1.2e-6 + tiles * 128 * 128 * 4 / 4.2161e12; };
  const Call wave{.S = 128, .H = 66, .G = 66, .causal = false},
      more{.S = 128, .H = 67, .G = 67, .causal = false};
  const double cost = 0.762 * 3.98;
  CHECK(predicted(wave, fused_small_kernel) ==
        doctest::Approx((3.2 + 2.7 * cost) * 1e-6 + zeros(66)).epsilon(1e-9));
  CHECK(predicted(more, fused_small_kernel) ==
        doctest::Approx((3.2 + 2 * 2.7 * cost) * 1e-6 + zeros(67)).epsilon(1e-9));
  for (const ChoiceWay way : {ChoiceWay::table, ChoiceWay::heuristic}) {
    const VariantOptions options = in_way(way);
    CHECK(adding_name(wave, options) == fused_small_kernel);
    CHECK(adding_name(more, options) == fused_kernel);
    CHECK(adding_name({.S = 512, .causal = false}, options) == fused_small_kernel);
    CHECK(adding_name({.S = 512}, options) == fused_small_kernel);
    CHECK(adding_name({.S = 8192, .B = 2, .causal = false}, options) == fused_kernel);
    CHECK(adding_name({.S = 8192, .B = 2}, options) == fused_kernel);
    CHECK(adding_name({.S = 512, .dtype = DType::fp16}, options) ==
          "attend_backward hopper fused fp16 128, 64 keys");
    CHECK(adding_name({.S = 512, .H = 32, .G = 32, .D = 64}, options) ==
          "attend_backward hopper fused bf16 64");
  }
  VariantOptions forced = on_hopper;
  forced.only = fused_kernel;
  CHECK(backward_name({.S = 512}, forced) == fused_kernel);
}

// Tiles of 128 keys, 4 of the 7 products, and tiles of 128 queries, the other 3, all in one launch, beyond
// 1: a wave of 66 heads lasts as long as a tile of keys, (1 + 1) * 5.6 * 4 / 7 us. With 67 heads two
// tiles of queries begin when the first others end, and last as long as those again. Two query heads of a key
// head are walked by one tile of keys. Results that are added to go row by row, 16 us a tile.
TEST_CASE("the predicted time of tiles of queries and of keys apart, and where they are taken") {
  VariantOptions only = on_hopper;
  only.only = apart_kernel;
  const auto seconds = [&](const Call& call, Write write_dk) {
    const std::vector<Segment> segments = call.segments();
    AttendBackward of = rounding_dkv(call, segments);
    of.write_dk = write_dk;
    return predicted_seconds(choose_variant(of, only), of, only);
  };
  const double queries = 2 * 5.6 * 3 / 7, keys = 2 * 5.6 * 4 / 7;
  const Call one{.S = 128, .H = 1, .G = 1, .causal = false},
      wave{.S = 128, .H = 66, .G = 66, .causal = false}, more{.S = 128, .H = 67, .G = 67, .causal = false},
      shared{.S = 128, .H = 2, .G = 1, .causal = false};
  CHECK(seconds(one, Write::store) == doctest::Approx((3.2 + keys) * 1e-6).epsilon(1e-9));
  CHECK(seconds(one, Write::add) == doctest::Approx((3.2 + keys + 16) * 1e-6).epsilon(1e-9));
  CHECK(seconds(wave, Write::store) == doctest::Approx((3.2 + keys) * 1e-6).epsilon(1e-4));
  CHECK(seconds(more, Write::store) == doctest::Approx((3.2 + 2 * queries) * 1e-6).epsilon(1e-4));
  CHECK(seconds(shared, Write::store) == doctest::Approx((3.2 + 3 * 5.6 * 4 / 7) * 1e-6).epsilon(1e-9));
  for (const VariantOptions& options : {on_hopper, with_same_bits(on_hopper)}) {
    CHECK(rounded_name(wave, options) == apart_kernel);
    CHECK(rounded_name({.S = 512}, options) == apart_kernel);
    CHECK(rounded_name({.S = 1024}, options) == apart_kernel);
    CHECK(rounded_name({.S = 256, .B = 4, .causal = false}, options) == apart_kernel);
    CHECK(rounded_name({.S = 8192, .B = 2}, options) != apart_kernel);
  }
}

// Two query heads of one key head whose gradients are rounded are walked by one tile, with one epilogue: two
// blocks of 128 queries beyond 1.7: 3.2 + (1.7 + 2) * 3.98, and two heads of dq are set to zero. Gradients
// in bf16 that are added to are loaded first: 1 us. Those of another dtype are read row by row: 16 us.
TEST_CASE("a tile of keys has one epilogue for its query heads, and rows that it adds to cost it") {
  Call two{.S = 128, .H = 2, .G = 1, .causal = false};
  const std::vector<Segment> segments = two.segments();
  VariantOptions options = on_hopper;
  options.only = fused_kernel;
  AttendBackward call = backward(two, segments);
  const double zeros = 1.2e-6 + 2 * 128 * 128 * 4 / 4.2161e12;
  call.dk.dtype = call.dv.dtype = DType::bf16;
  CHECK(predicted_seconds(choose_variant(call, options), call, options) ==
        doctest::Approx((3.2 + 3.7 * 3.98) * 1e-6 + zeros).epsilon(1e-9));
  call.write_dk = Write::add;
  CHECK(predicted_seconds(choose_variant(call, options), call, options) ==
        doctest::Approx((3.2 + 3.7 * 3.98 + 1) * 1e-6 + zeros).epsilon(1e-9));
  call.dk.dtype = call.dv.dtype = DType::fp16;
  CHECK(predicted_seconds(choose_variant(call, options), call, options) ==
        doctest::Approx((3.2 + 3.7 * 3.98 + 16) * 1e-6 + zeros).epsilon(1e-9));
}

// Keys of 192 and values of 128 need as many products as 160: 2.131 + (3.222 - 2.131) * 96 / 64 = 3.7675 us
// for 128 keys. At 256 a tile has half the rows, at half of 2.131 + 1.091 * 3 = 5.404. Backward, small tiles
// (64 rows), dk and dv: half of (5.983 + 5.689 * 96 / 64) * 4 / 7; dq, whose products are those of (2 * 192 +
// 128) / 3: half of (5.983 + 5.689 * (512 / 3 - 64) / 64) * 3 / 7. Each has one tile of 64 rows on one of two
// multiprocessors, and 2.32 blocks of 128.
TEST_CASE("the predicted time of tiles whose keys and values differ in size, and of half the rows") {
  const VariantOptions full{.sm_major = 8, .sms = 2, .build = {.hopper = false, .full = true}};
  const Call unequal{.S = 128, .H = 1, .G = 1, .D = 192, .causal = false, .E = 128};
  CHECK(predicted_forward(unequal, "attend mma bf16 192x128", full) ==
        doctest::Approx((3.2 + 2.32 * 3.7675) * 1e-6).epsilon(1e-9));
  const Call wide{.S = 128, .H = 1, .G = 1, .D = 256, .causal = false};
  CHECK(predicted_forward(wide, "attend mma bf16 256", full) ==
        doctest::Approx((3.2 + 2.32 * 2.702) * 1e-6).epsilon(1e-9));
  const double keys = (5.983 + 5.689 * 96 / 64) * 2 / 7;
  const double queries = (5.983 + 5.689 * (512.0 / 3 - 64) / 64) * 3 / 14;
  CHECK(predicted(unequal, "attend_backward mma bf16 192x128, small tiles", full) ==
        doctest::Approx((6.4 + 2.32 * (keys + queries)) * 1e-6).epsilon(1e-9));
}

// With the same bits and full masks, at 2048 tokens the tiles of a head queue, and yet are done before tiles
// apart are. With 1024 they are not (60.5 us measured on an H100, and 72.1 in turn on an H200).
TEST_CASE("the heuristic takes the kernel that was measured faster, whether its tiles queue or not") {
  const VariantOptions table = with_same_bits(on_hopper), model = in_way(ChoiceWay::heuristic, table);
  const Call small{.S = 1024, .causal = false}, middle{.S = 2048, .causal = false},
      large{.S = 8192, .B = 2, .causal = false};
  for (const VariantOptions& options : {table, model}) {
    CHECK(rounded_name(small, options) == apart_kernel);
    CHECK(rounded_name(middle, options) == ordered_kernel);
    CHECK(rounded_name(large, options) == ordered_kernel);
  }
}

TEST_CASE(
    "the heuristic never takes what does not fit or is not allowed, and is the table's where one is left") {
  const VariantOptions model = in_way(ChoiceWay::heuristic);
  CHECK(backward_name({.dtype = DType::fp32}, model) == "attend_backward general");
  CHECK(backward_name({.D = 100}, model) == "attend_backward general");
  CHECK(backward_name({}, in_way(ChoiceWay::heuristic, on_ampere)) == mma_kernel);
  VariantOptions portable = model;
  portable.choice = KernelChoice::portable;
  CHECK(backward_name({}, portable) == mma_kernel);
}

TEST_CASE("measured choices are taken by class, and by the table where nothing was measured") {
  const Call call{.S = 4096};
  const std::vector<Segment> segments = call.segments();
  const AttendBackward of = backward(call, segments);
  MeasuredChoices choices;
  for (const ChoiceWay way : {ChoiceWay::autotune, ChoiceWay::hybrid}) {
    VariantOptions options = in_way(way);
    CHECK(choose_variant(of, options).variant->name == fused_kernel);  // no choices
    options.choices = &choices;
    choices.set(call_class(of, options), mma_kernel);
    CHECK(choose_variant(of, options).variant->name == mma_kernel);
    CHECK(backward_name({.S = 8192}, options) == fused_kernel);  // another class
    // What cannot take the call is not taken, whoever says that it was measured.
    choices.set(call_class(of, options), "attend_backward hopper fused fp16 128");
    CHECK(choose_variant(of, options).variant->name == fused_kernel);
    choices.set(call_class(of, options), "no such kernel");
    CHECK(choose_variant(of, options).variant->name == fused_kernel);
  }
}

TEST_CASE("classes tell apart what a choice depends on, and nothing else") {
  const auto of = [](const Call& call, const VariantOptions& options = on_hopper) {
    const std::vector<Segment> segments = call.segments();
    return call_class(backward(call, segments), options);
  };
  CHECK(of({}) ==
        "attend_backward bf16->fp32 D128 E128 H16/16 rows 2^12 keys 2^12 sequences 2^0 density 4/8 causal "
        "store "
        "sms 132");
  CHECK(of({.S = 4000}) == of({}));  // the nearest half octave
  std::set<std::string> all = {of({}),
                               of({.S = 2048}),
                               of({.S = 5800}),
                               of({.B = 2}),
                               of({.H = 32}),
                               of({.G = 4}),
                               of({.D = 64}),
                               of({.dtype = DType::fp16}),
                               of({.causal = false}),
                               of({}, with_same_bits(on_hopper)),
                               of({}, {.sm_major = 9, .sms = 120, .build = {}})};
  CHECK(all.size() == 11);

  const Call call;
  std::vector<Segment> window = call.segments();
  window.front().left = 1023;
  CHECK(call_class(forward(call, window), on_hopper).find("density 2/8 window") != std::string::npos);
  std::vector<Segment> unbounded = call.segments();
  unbounded.front().right = 100000;  // beyond all keys: full
  CHECK(call_class(forward(call, unbounded), on_hopper).find("density 8/8 full") != std::string::npos);
}

TEST_CASE("choices go through text, and other text is refused") {
  MeasuredChoices choices;
  choices.set("attend a", "kernel 1");
  choices.set("attend b", "kernel 2");
  CHECK(MeasuredChoices::from_text(choices.text()).all() == choices.all());
  CHECK(MeasuredChoices::from_text("").all().empty());
  for (const char* wrong : {"a", "a\tb", "a\n", "\tb\n", "a\t\n", "a\nb\tc\n"})
    CHECK_THROWS_AS(MeasuredChoices::from_text(wrong), std::invalid_argument);
}

}  // namespace cplab::testing

// Backward calls that round dk and dv of grouped heads: when these are summed first, and what that changes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/choice/choose.hpp"
#include "tests/kernels/chosen_variant.hpp"

namespace cplab::testing {

using namespace kernels;
using namespace kernels::cuda;

namespace {

VariantOptions with_sums(std::optional<bool> sums_dkv) {
  VariantOptions options = on_hopper;
  options.sums_dkv = sums_dkv;
  return options;
}

}  // namespace

// 8192 keys are 64 tiles a key head. With 8 query heads on one of them 64 thread blocks have work, of 132,
// and the last one has 8 times 128 blocks of queries; with a thread block for each query head 512 share it.
// On an H100 that is 215 and 580 TFLOP/s (drawn/sums.json).
TEST_CASE("rounded dk, dv: few key heads are summed, each query head by thread blocks of its own") {
  const Call few{.S = 8192, .H = 8, .G = 1};
  const std::vector<Segment> segments = few.segments();
  const AttendBackward call = rounding_all(few, segments);
  const ChosenBackward chosen = choose_variant(call, on_hopper);
  REQUIRE(chosen.sums_dkv);
  const AttendBackward launched = as_launched(call, chosen);
  CHECK(launched.dk.dtype == DType::fp32);
  CHECK(launched.dv.dtype == DType::fp32);
  CHECK(launched.rounded_dk);
  CHECK(casts_dkv(chosen, call));
  CHECK(casts_dkv(chosen, launched));
  CHECK(key_tile_heads(launched, *chosen.variant) == 8);
}

TEST_CASE("rounded dk, dv: stored by one thread block where tiles are enough, or nothing is shared") {
  for (const Call& shape : {Call{.S = 2048, .B = 16, .H = 32, .G = 8}, Call{.S = 8192, .H = 16, .G = 16}}) {
    CAPTURE(shape.H);
    const std::vector<Segment> segments = shape.segments();
    const AttendBackward call = rounding_all(shape, segments);
    const ChosenBackward chosen = choose_variant(call, on_hopper);
    CHECK(!chosen.sums_dkv);
    CHECK(!casts_dkv(chosen, call));
    const AttendBackward launched = as_launched(call, chosen);
    CHECK(launched.dk.dtype == DType::bf16);
    CHECK(launched.dv.dtype == DType::bf16);
    CHECK(!launched.rounded_dk);
    CHECK(!launched.rounded_dv);
    CHECK(key_tile_heads(launched, *chosen.variant) == shape.G);
  }
}

// Kernels for every architecture give a key head to one thread block whatever the dtype: sums would only cost
// a cast.
TEST_CASE("rounded dk, dv: kernels that do not split query heads store them") {
  const Call few{.S = 8192, .H = 8, .G = 1};
  const std::vector<Segment> segments = few.segments();
  CHECK(!choose_variant(rounding_all(few, segments), on_ampere).sums_dkv);
}

TEST_CASE("rounded dk, dv: a caller may say which way") {
  const Call few{.S = 8192, .H = 8, .G = 1}, many{.S = 2048, .B = 16, .H = 32, .G = 8};
  const std::vector<Segment> of_few = few.segments(), of_many = many.segments();
  CHECK(!choose_variant(rounding_all(few, of_few), with_sums(false)).sums_dkv);
  CHECK(choose_variant(rounding_all(many, of_many), with_sums(true)).sums_dkv);
}

// What is chosen is the faster one of the two, as predicted.
TEST_CASE("rounded dk, dv: the choice compares both ways") {
  for (const std::int64_t G : {1, 2, 4, 8})
    for (const std::int64_t S : {512, 2048, 8192}) {
      const Call shape{.S = S, .H = 8, .G = G};
      CAPTURE(G);
      CAPTURE(S);
      const std::vector<Segment> segments = shape.segments();
      const AttendBackward call = rounding_all(shape, segments);
      const auto seconds = [&](std::optional<bool> sums_dkv) {
        return predicted_seconds(choose_variant(call, with_sums(sums_dkv)), call, on_hopper);
      };
      CHECK(seconds({}) == std::min(seconds(false), seconds(true)));
    }
}

// Of 8192 rows of one head of 128, dk and dv: 8.4 MB of fp32 and 4.2 of bf16, read and written by
// one launch of 3.2 us; the model takes 4.2 TB/s for them.
TEST_CASE("rounded dk, dv: what is predicted has the casts") {
  const Call few{.S = 8192, .H = 8, .G = 1};
  const std::vector<Segment> segments = few.segments();
  const AttendBackward call = rounding_all(few, segments);
  const ChosenBackward chosen = choose_variant(call, on_hopper);
  const double bytes = 2 * 8192.0 * 128 * (4 + 2);
  CHECK(predicted_seconds(chosen, call, on_hopper) -
            predicted_seconds(chosen, with_summed_dkv(call), on_hopper) ==
        doctest::Approx(3.2e-6 + bytes / 4.2161e12));
}

TEST_CASE("rounded dk and dv have the shapes and dtypes of k and v, and are stored") {
  const Call shape{.S = 64, .H = 4, .G = 2};
  const std::vector<Segment> segments = shape.segments();
  const AttendBackward call = rounding_all(shape, segments);
  check_call(call);
  const auto says = [&](auto change, const char* what) {
    AttendBackward wrong = call;
    change(wrong);
    CHECK_THROWS_WITH_AS(check_call(wrong), what, std::invalid_argument);
  };
  says([](AttendBackward& c) { c.rounded_dk->heads = 1; },
       "attend_backward: rounded_dk and k differ in shape");
  says([](AttendBackward& c) { c.rounded_dv->rows -= 1; },
       "attend_backward: rounded_dv and v differ in shape");
  says([](AttendBackward& c) { c.rounded_dv->dtype = DType::fp32; },
       "attend_backward: rounded_dv is not of v's dtype, or dv is narrower");
  says([](AttendBackward& c) { c.rounded_dv.reset(); },
       "attend_backward: one of rounded_dk and rounded_dv is missing");
  says([](AttendBackward& c) { c.write_dk = Write::add; },
       "attend_backward: rounded_dk and rounded_dv must be written with store");
}

}  // namespace cplab::testing

// Backward calls that compute delta: what is predicted of them, and what they must look like.
#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/choice/choose.hpp"
#include "kernels/masked.hpp"
#include "tests/kernels/backward_names.hpp"
#include "tests/kernels/chosen_variant.hpp"

namespace cplab::testing {

using namespace kernels;
using namespace kernels::cuda;

namespace {

double rate(Rate of) {
  return on_hopper.speeds()[of];
}

AttendBackward computing_delta(AttendBackward call) {
  call.out = call.dout;
  return call;
}

}  // namespace

// One sequence of 4096 tokens, 16 heads of 128: 34 MB of zeros at 4.2 TB/s are 8 us, less 1.5 where delta is
// computed beside, instead of 1.2 for a launch more; and the kernel's first loads are hidden.
TEST_CASE("computed delta: zeros need no launch of their own, and first blocks are loaded meanwhile") {
  const Call shape{.S = 4096};
  const std::vector<Segment> segments = shape.segments();
  const AttendBackward call = rounding(shape, segments);
  const auto seconds = [](const AttendBackward& of, const char* variant) {
    VariantOptions only = on_hopper;
    only.only = variant;
    return predicted_seconds(choose_variant(of, only), of, only);
  };
  const auto spared_us = [&](const char* variant) {
    return 1e6 * (seconds(call, variant) - seconds(computing_delta(call), variant));
  };
  const double first_blocks = rate(Rate::hopper_backward_d128_loads_beside_delta_us),
               zeros = rate(Rate::fill_us) + rate(Rate::hopper_backward_zeros_beside_delta_us);
  CHECK(spared_us(fused_kernel) == doctest::Approx(zeros + first_blocks));
  CHECK(spared_us(ordered_kernel) == 0);  // stores the first piece of dq
  CHECK(spared_us(apart_kernel) == 0);
}

// The same bytes at head size 64, whose kernel saves more.
TEST_CASE("computed delta: what the loads of the first blocks save depends on the head size") {
  const Call shape{.S = 4096, .H = 32, .G = 32, .D = 64};
  const std::vector<Segment> segments = shape.segments();
  const AttendBackward call = rounding(shape, segments);
  VariantOptions only = on_hopper;
  only.only = "attend_backward hopper fused bf16 64";
  const auto seconds = [&](const AttendBackward& of) {
    return predicted_seconds(choose_variant(of, only), of, only);
  };
  CHECK(1e6 * (seconds(call) - seconds(computing_delta(call))) ==
        doctest::Approx(rate(Rate::fill_us) + rate(Rate::hopper_backward_zeros_beside_delta_us) +
                        rate(Rate::hopper_backward_d64_loads_beside_delta_us)));
}

// Eight heads on one, 1024 tokens: zeros of dq are 1.0 us, of the sums of dk and dv 0.25, so that the one
// launch that has both, less 1.5, takes nothing for them.
TEST_CASE("computed delta: all zeros are in that launch") {
  const Call shape{.S = 1024, .H = 8, .G = 1};
  const std::vector<Segment> segments = shape.segments();
  const AttendBackward call = with_summed_dkv(rounding_all(shape, segments));
  VariantOptions only = on_hopper;
  only.only = fused_kernel;
  const auto seconds = [&](const AttendBackward& of) {
    return predicted_seconds(choose_variant(of, only), of, only);
  };
  const double bytes = 1024.0 * 128 * 4 * (8 + 2), zeros_us = bytes / 4.2161e12 * 1e6;
  CHECK(1e6 * (seconds(call) - seconds(computing_delta(call))) ==
        doctest::Approx(2 * rate(Rate::fill_us) + zeros_us +
                        rate(Rate::hopper_backward_d128_loads_beside_delta_us)));
}

TEST_CASE("computed delta: out has the shape of dout, and masks of pairs have none") {
  const Call shape{.S = 64};
  const std::vector<Segment> segments = shape.segments();
  AttendBackward call = computing_delta(backward(shape, segments));
  check_call(call);
  MaskedAttendBackward masked;
  masked.tile = call;
  CHECK_THROWS_WITH_AS(check_call(masked), "masked: delta is given, not computed from out",
                       std::invalid_argument);
  call.out->heads -= 1;
  CHECK_THROWS_WITH_AS(check_call(call), "attend_backward: out and dout differ in shape",
                       std::invalid_argument);
}

}  // namespace cplab::testing

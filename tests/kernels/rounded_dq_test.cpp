// Backward calls that round dq: which kernel takes them, and who rounds.
#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/choice/choose.hpp"
#include "tests/kernels/backward_names.hpp"
#include "tests/kernels/chosen_variant.hpp"

namespace cplab::testing {

using namespace kernels;
using namespace kernels::cuda;

TEST_CASE("rounded dq: stored by kernels that store it once, cast behind those that sum it") {
  const Call short_batch{.S = 256, .B = 64}, one_long{.S = 8192};
  const std::vector<Segment> many = short_batch.segments(), one = one_long.segments();
  const AttendBackward stored = rounding(short_batch, many), summed = rounding(one_long, one);

  const ChosenBackward apart = choose_variant(stored, on_hopper);
  REQUIRE(apart.variant->dq == DqSum::stored);
  CHECK(as_launched(stored, apart).dq.dtype == DType::bf16);
  CHECK(!as_launched(stored, apart).rounded_dq);

  const ChosenBackward fused = choose_variant(summed, on_hopper);
  REQUIRE(fused.variant->dq == DqSum::any_order);
  CHECK(as_launched(summed, fused).dq.dtype == DType::fp32);
  CHECK(as_launched(summed, fused).rounded_dq);

  AttendBackward added = stored;
  added.write_dq = Write::add;  // what it is added to is fp32
  CHECK(as_launched(added, apart).dq.dtype == DType::fp32);
  CHECK(as_launched(added, apart).rounded_dq);
}

// 16 x 1024 rows of 16 heads of 128: 134 MB of fp32 and 67 of bf16, which a cast reads and writes; the model
// takes 4.2 TB/s for them and 3.2 us for a launch.
TEST_CASE("rounded dq: what is predicted has the cast") {
  const auto seconds = [&](const AttendBackward& of, const char* variant) {
    VariantOptions only = on_hopper;
    only.only = variant;
    return predicted_seconds(choose_variant(of, only), of, only);
  };
  for (const std::int64_t batch : {16, 2}) {
    const Call shape{.S = 1024, .B = batch};
    const std::vector<Segment> segments = shape.segments();
    const AttendBackward call = rounding(shape, segments);
    AttendBackward sum = call;
    sum.rounded_dq.reset();
    const double bytes = static_cast<double>(batch) * 1024 * 16 * 128 * (4 + 2);
    CHECK(seconds(call, fused_kernel) - seconds(sum, fused_kernel) ==
          doctest::Approx(3.2e-6 + bytes / 4.2161e12));
    AttendBackward stored = sum;
    stored.dq = *call.rounded_dq;
    CHECK(seconds(call, apart_kernel) == seconds(stored, apart_kernel));
  }
}

TEST_CASE("rounded dq has the shape and the dtype of q") {
  const Call shape{.S = 64};
  const std::vector<Segment> segments = shape.segments();
  AttendBackward call = rounding(shape, segments);
  check_call(call);
  AttendBackward wide = call;
  wide.rounded_dq->dtype = DType::fp32;
  CHECK_THROWS_WITH_AS(check_call(wide), "attend_backward: rounded_dq is not of q's dtype, or dq is narrower",
                       std::invalid_argument);
  call.rounded_dq->heads -= 1;
  CHECK_THROWS_WITH_AS(check_call(call), "attend_backward: rounded_dq and q differ in shape",
                       std::invalid_argument);
}

}  // namespace cplab::testing

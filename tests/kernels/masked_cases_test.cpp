// The cases of dynamic mask attention on the CPU's own tiles: what is asked of GPUs holds for these.
#include <doctest/doctest.h>

#include <string>

#include "tests/kernels/masked_cases.hpp"

namespace cplab::testing {
namespace {

MaskedRunner cpu_runner() {
  MaskedRunner runner;
  runner.has_fp64 = true;
  runner.most_rows = 100;
  runner.attend = [](MaskedRunner::Tensors, std::int64_t, const kernels::MaskedAttend& call, bool skips) {
    kernels::masked_attend_cpu(call, skips);
    return TileRun{"cpu", true};
  };
  runner.attend_backward = [](MaskedRunner::Tensors, std::int64_t, const kernels::MaskedAttendBackward& call,
                              bool skips) {
    kernels::masked_attend_backward_cpu(call, skips);
    return TileRun{"cpu", true};
  };
  runner.select = [](MaskedRunner::Tensors, std::int64_t, const kernels::SelectKeys& call) {
    kernels::select_keys_cpu(call);
    return TileRun{"select_keys cpu", true};
  };
  return runner;
}

}  // namespace

TEST_CASE("masked cases: the CPU tiles are within the tolerances of brute force") {
  Report report;
  const MaskedRunner runner = cpu_runner();
  for (std::int64_t number = 0; number < 40; ++number)
    masked_case(report, {.seed = 1, .number = number, .only = ""}, runner);
  CHECK(report.summary());
}

TEST_CASE("masked cases: the CPU selects the keys that counting finds") {
  Report report;
  const MaskedRunner runner = cpu_runner();
  for (std::int64_t number = 0; number < 200; ++number)
    select_case(report, {.seed = 1, .number = number, .only = ""}, runner);
  CHECK(report.summary());
}

}  // namespace cplab::testing

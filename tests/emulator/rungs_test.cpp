// Every rung of the ladder on emulated thread blocks against a plain double loop: tails, both masks, threads
// in random order, copies as early or as late as possible, memory behind the result untouched.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "tests/emulator/rungs.hpp"
#include "tests/rungs/check.hpp"

namespace cplab::emulator {
namespace {

namespace rungs = kernels::cuda::hopper::rungs;

constexpr std::size_t guard = 128 * 128;  // elements behind every tensor
constexpr std::uint16_t nan_bits = 0xFFFF;

std::vector<std::uint16_t> guarded(const std::vector<std::uint16_t>& values) {
  std::vector<std::uint16_t> all(values);
  all.resize(values.size() + guard, nan_bits);
  return all;
}

TEST_CASE("hopper rungs: small problems") {
  // Less than a tile, whole tiles, a row more, several blocks of keys, several tiles a thread block of
  // rung 5.
  const rungs::Shape shapes[] = {{1, 1, false},   {1, 2, true},    {77, 2, false},  {77, 2, true},
                                 {127, 2, false}, {128, 1, true},  {129, 2, false}, {192, 2, true},
                                 {255, 1, true},  {256, 2, false}, {300, 2, false}, {300, 3, true},
                                 {512, 1, true},  {640, 2, false}};
  std::uint64_t seed = 0;
  for (const rungs::Shape& shape : shapes) {
    const rungs::Case expected = rungs::random_case(shape, ++seed);
    const std::vector<std::uint16_t> q = guarded(expected.q), k = guarded(expected.k),
                                     v = guarded(expected.v);
    for (int n = 0; n < rung_count(); ++n)
      for (const bool late_copies : {false, true}) {
        CAPTURE(shape.S);
        CAPTURE(shape.heads);
        CAPTURE(shape.causal);
        CAPTURE(late_copies);
        const std::string name = rung_name(n);
        CAPTURE(name);
        std::vector<std::uint16_t> out(q.size(), nan_bits);
        std::vector<float> lse(expected.lse.size() + 128, std::numeric_limits<float>::quiet_NaN());
        const rungs::Problem problem{.q = q.data(),
                                     .k = k.data(),
                                     .v = v.data(),
                                     .out = out.data(),
                                     .lse = lse.data(),
                                     .S = shape.S,
                                     .heads = shape.heads,
                                     .causal = shape.causal};
        REQUIRE_NOTHROW(run_rung(n, problem, ++seed, late_copies));
        const rungs::Errors errors = rungs::errors_of(expected, out, lse);
        const std::string text = errors.text();
        CAPTURE(text);
        CHECK(errors.small());
        CHECK(std::all_of(out.begin() + static_cast<std::ptrdiff_t>(expected.out.size()), out.end(),
                          [](std::uint16_t bits) { return bits == nan_bits; }));
        CHECK(std::all_of(lse.begin() + static_cast<std::ptrdiff_t>(expected.lse.size()), lse.end(),
                          [](float value) { return value != value; }));
      }
  }
}

}  // namespace
}  // namespace cplab::emulator

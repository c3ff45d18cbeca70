// Small device functions on their own, against arithmetic of the host.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tests/emulator/shim/device.hpp"
//
#include "kernels/families/parts/exp2_polynomial.cuh"
#include "kernels/families/parts/hopper/mask.cuh"
#include "kernels/families/parts/hopper/tile_scheduler.cuh"

namespace cplab::emulator {
namespace {

using namespace kernels::cuda;

double worst_error() {
  double worst = 0;
  for (int step = 0; step <= 1 << 20; ++step) {
    const float x = -126.0f * static_cast<float>(step) / (1 << 20);
    const double exact = std::exp2(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(exp2_polynomial(x)) - exact) / exact);
  }
  return worst;
}

void check_ends() {
  CHECK(exp2_polynomial(0.0f) == 1.0f);
  CHECK(exp2_polynomial(-1.0f) == 0.5f);
  CHECK(exp2_polynomial(-126.0f) == std::exp2(-126.0f));
  for (const float x : {-127.0f, -1000.0f, -1e30f, -std::numeric_limits<float>::infinity()})
    CHECK(exp2_polynomial(x) == 0.0f);
  CHECK(std::isnan(exp2_polynomial(std::numeric_limits<float>::quiet_NaN())));
  CHECK(std::isnan(exp2_polynomial(-std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("exp2 by a polynomial") {
  CHECK(worst_error() < 3.2e-6);
  check_ends();
}

TEST_CASE("division by multiplication") {
  constexpr int most = std::numeric_limits<int>::max();
  for (const int divisor :
       {1, 2, 3, 5, 7, 16, 24, 127, 128, 132, 641, 65535, 65537, 1 << 30, most - 1, most}) {
    const hopper::FastDivmod by(divisor);
    for (const int multiple : {0, 1, 2, 3, 1000, most / divisor})
      for (const int near : {-2, -1, 0, 1, 2}) {
        const long long n = static_cast<long long>(multiple) * divisor + near;
        if (n < 0 || n > most) continue;
        const int quotient = by.quotient(static_cast<int>(n));
        CHECK(quotient == n / divisor);
        CHECK(by.remainder(static_cast<int>(n), quotient) == n % divisor);
      }
  }
}

TEST_CASE("tiles of a group of heads side by side, each once") {
  AttendParams call;
  call.work.count = 5;
  call.q.heads = 6;
  call.k.heads = 2;
  for (const int group : {1, 2, 4, 5, 6}) {
    const hopper::TileScheduler order(call.work.count, call.q.heads, group, call.q.heads / call.k.heads);
    REQUIRE(order.tiles == 30);
    int number = 0;
    for (int first = 0; first < 6; first += group)
      for (int tile = 0; tile < 5; ++tile)
        for (int head = first; head < std::min(6, first + group); ++head, ++number) {
          int found_tile = -1, found_head = -1;
          order.find(number, found_tile, found_head);
          CHECK(found_tile == tile);
          CHECK(found_head == head);
        }
  }
}

TEST_CASE("columns of a lane as bits") {
  for (int lane = 0; lane < 4; ++lane)
    for (int column = -300; column <= 300; ++column) {
      std::uint32_t expected = 0;
      for (int bit = 0; bit < 32; ++bit)
        if (bit / 2 * 8 + 2 * lane + bit % 2 < column) expected |= 1u << bit;
      CHECK(hopper::bits_below(column, lane) == expected);
    }
}

}  // namespace
}  // namespace cplab::emulator

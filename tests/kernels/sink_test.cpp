// Sinks of the CPU tiles: closed forms, one of several tiles, and their gradient.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

#include "kernels/kernels.hpp"

namespace cplab::testing {
namespace {

using namespace cplab::kernels;

constexpr double infinity = std::numeric_limits<double>::infinity();

// One row against n keys of equal scores, two heads, values 1 .. n.
struct Row {
  std::int64_t n;
  std::vector<double> q, k, v, out, lse, sink;
  std::vector<Segment> segments;

  explicit Row(std::int64_t keys, std::vector<double> sinks)
      : n(keys),
        q(2, 0.0),
        k(static_cast<std::size_t>(keys), 0.0),
        out(2, -7),
        lse(2, -7),
        sink(std::move(sinks)) {
    for (std::int64_t j = 1; j <= n; ++j) v.push_back(static_cast<double>(j));
    segments = {{.q_count = 1, .k_count = n}};
  }
  Attend call(Write write = Write::store) {
    Attend call{.q = rows_first(q.data(), DType::fp64, 1, 2, 1),
                .k = rows_first(k.data(), DType::fp64, n, 1, 1),
                .v = rows_first(v.data(), DType::fp64, n, 1, 1),
                .out = rows_first(out.data(), DType::fp64, 1, 2, 1),
                .lse = rows_first(lse.data(), DType::fp64, 1, 2, 1),
                .segments = segments};
    call.write = write;
    if (!sink.empty()) call.sink = rows_first(sink.data(), DType::fp64, 1, 2, 1);
    return call;
  }
};

TEST_CASE("sink: n equal scores of 0 and a sink of 0 give n / (n + 1) of the mean") {
  for (const std::int64_t n : {1, 5, 300}) {
    Row row(n, {0, -infinity});
    cpu_tiles().attend(row.call());
    const double keys = static_cast<double>(n), mean = (keys + 1) / 2;
    CHECK(row.out[0] == doctest::Approx(mean * keys / (keys + 1)));
    CHECK(row.lse[0] == doctest::Approx(std::log(keys + 1)));
    CHECK(row.out[1] == doctest::Approx(mean));  // a sink of -inf is none
    CHECK(row.lse[1] == doctest::Approx(std::log(keys)));
  }
}

TEST_CASE("sink: far above all scores it takes everything, without overflow") {
  Row row(4, {1000, 500});
  cpu_tiles().attend(row.call());
  CHECK(row.lse == std::vector<double>{1000, 500});
  CHECK(row.out[0] == 0);
  CHECK(row.out[1] == doctest::Approx(2.5 * 4 * std::exp(-500.0)));
}

TEST_CASE("sink: of a row without a key it is all there is, but for merge") {
  Row row(4, {3, -infinity});
  row.segments.clear();
  cpu_tiles().attend(row.call());
  CHECK(row.out == std::vector<double>{0, 0});
  CHECK(row.lse == std::vector<double>{3, -infinity});
  row.out = {5, 6}, row.lse = {1, -infinity};
  cpu_tiles().attend(row.call(Write::merge));
  CHECK(row.out == std::vector<double>{5, 6});
  CHECK(row.lse == std::vector<double>{1, -infinity});
}

TEST_CASE("sink: counted in one of two tiles, whichever, the merge has it once") {
  Row whole(6, {0.5, 1});
  cpu_tiles().attend(whole.call());
  for (const int with : {0, 1}) {
    Row parts(6, {0.5, 1});
    for (const int tile : {0, 1}) {
      parts.segments = {{.q_count = 1, .k_begin = 3 * tile, .k_count = 3}};
      Attend call = parts.call(tile == 0 ? Write::store : Write::merge);
      if (tile != with) call.sink.reset();
      cpu_tiles().attend(call);
    }
    for (const std::size_t h : {0u, 1u}) {
      CHECK(parts.out[h] == doctest::Approx(whole.out[h]).epsilon(1e-14));
      CHECK(parts.lse[h] == doctest::Approx(whole.lse[h]).epsilon(1e-14));
    }
  }
}

TEST_CASE("sink: max_logit is of keys alone") {
  Row row(3, {9, 9});
  std::vector<double> most{-infinity, -infinity};
  Attend call = row.call();
  call.max_logit = rows_first(most.data(), DType::fp64, 1, 2, 1);
  cpu_tiles().attend(call);
  CHECK(most == std::vector<double>{0, 0});
}

TEST_CASE(
    "sink_gradient: -sum of exp(sink - lse) delta; rows without a key, and what they hold, do not count") {
  std::vector<double> sink{0.5, -1}, lse{1, 2, -infinity, 0.25, -infinity, 3},
      delta{2, -1, std::nan(""), 4, std::nan(""), 0.5}, dsink{7, 7};
  const SinkGradient call{
      rows_first(sink.data(), DType::fp64, 1, 2, 1), rows_first(lse.data(), DType::fp64, 3, 2, 1),
      rows_first(delta.data(), DType::fp64, 3, 2, 1), rows_first(dsink.data(), DType::fp64, 1, 2, 1)};
  cpu_tiles().sink_gradient(call);
  CHECK(dsink[0] == doctest::Approx(-2 * std::exp(0.5 - 1)));
  CHECK(dsink[1] == doctest::Approx(std::exp(-1.0 - 2) - 4 * std::exp(-1 - 0.25) - 0.5 * std::exp(-1.0 - 3)));

  SinkGradient none = call;
  none.lse.rows = none.delta.rows = 0;
  cpu_tiles().sink_gradient(none);
  CHECK(dsink == std::vector<double>{0, 0});
  SinkGradient wrong = call;
  wrong.delta.rows = 2;
  CHECK_THROWS_AS(cpu_tiles().sink_gradient(wrong), std::invalid_argument);
}

}  // namespace
}  // namespace cplab::testing

// Biases of positions of the CPU tiles: the same numbers as a stored bias has the same results, and the
// gradient of a table is that of the stored one, summed by bucket.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <vector>

#include "kernels/masked.hpp"
#include "tests/kernels/random_tile.hpp"

namespace cplab::testing {
namespace {

using namespace cplab::kernels;

constexpr std::int64_t nq = 40, nk = 50, H = 4, G = 2, D = 3;

struct Case {
  std::mt19937 generator{3};
  std::vector<double> q = draw(nq * H * D), k = draw(nk * G * D), v = draw(nk * G * D),
                      dout = draw(nq * H * D), delta = draw(nq * H), out, lse, dq, dk, dv,
                      slopes{0.5, 0.25, 0.125, 1.5}, table, dtable, bias, dbias;
  // Two stretches of keys apart from one another, and queries every second token.
  std::vector<RowRun> keys{{0, 20, 1}, {100, 30, 1}}, queries{{60, 40, 2}},
      positions{{0, 20, 1}, {100, 30, 1}, {60, 40, 2}}, columns{{0, nk, 1}};
  std::vector<std::int64_t> starts{1, 2, 4, 20, 70};
  std::vector<Segment> segments{{.q_count = nq, .k_count = nk}};
  bool buckets, both_ways;

  std::vector<double> draw(std::int64_t count) { return random_values(generator, count, DType::fp64); }

  Case(bool buckets_, bool both) : buckets(buckets_), both_ways(both) {
    const std::int64_t columns_of_table = (std::ssize(starts) + 1) * (both ? 2 : 1);
    table = draw(H * columns_of_table), dtable.assign(table.size(), 0.25);
    out.assign(static_cast<std::size_t>(nq * H * D), -7), lse.assign(static_cast<std::size_t>(nq * H), -7);
    dq = out, dk.assign(static_cast<std::size_t>(nk * G * D), -7), dv = dk;
    for (std::int64_t i = 0; i < nq; ++i)
      for (std::int64_t h = 0; h < H; ++h)
        for (std::int64_t j = 0; j < nk; ++j)
          bias.push_back(buckets ? table[static_cast<std::size_t>(h * columns_of_table + bucket(i, j))]
                                 : -slopes[static_cast<std::size_t>(h)] *
                                       static_cast<double>(std::abs(distance(i, j))));
    dbias.assign(bias.size(), -7);
  }
  std::int64_t distance(std::int64_t i, std::int64_t j) const { return (j < 20 ? j : 80 + j) - (60 + 2 * i); }
  std::int64_t bucket(std::int64_t i, std::int64_t j) const {
    const std::int64_t d = distance(i, j), far = both_ways ? std::abs(d) : d < 0 ? -d : 0;
    const std::int64_t found =
        std::ranges::count_if(starts, [&](std::int64_t start) { return start <= far; });
    return found + (both_ways && d > 0 ? std::ssize(starts) + 1 : 0);
  }
  static View rows(std::vector<double>& of, std::int64_t n, std::int64_t heads, std::int64_t width) {
    return rows_first(of.data(), DType::fp64, n, heads, width);
  }
  PairMask mask(bool stored) {
    PairMask mask;
    mask.softcap = 2;
    mask.columns = stored ? columns : positions;
    if (stored) mask.bias = rows(bias, nq, H, nk);
    if (!stored && !buckets) mask.slopes = slopes;
    if (!stored && buckets)
      mask.table = rows(table, 1, H, std::ssize(table) / H), mask.starts = starts, mask.both_ways = both_ways;
    return mask;
  }
  void run(bool stored) {
    const Attend forward{.q = rows(q, nq, H, D),
                         .k = rows(k, nk, G, D),
                         .v = rows(v, nk, G, D),
                         .out = rows(out, nq, H, D),
                         .lse = rows(lse, nq, H, 1),
                         .segments = segments,
                         .scale = 0.7};
    masked_attend_cpu({forward, mask(stored)});
    const AttendBackward backward{.q = rows(q, nq, H, D),
                                  .k = rows(k, nk, G, D),
                                  .v = rows(v, nk, G, D),
                                  .dout = rows(dout, nq, H, D),
                                  .lse = rows(lse, nq, H, 1),
                                  .delta = rows(delta, nq, H, 1),
                                  .dq = rows(dq, nq, H, D),
                                  .dk = rows(dk, nk, G, D),
                                  .dv = rows(dv, nk, G, D),
                                  .segments = segments,
                                  .scale = 0.7};
    MaskedAttendBackward call{backward, mask(stored)};
    if (stored) call.dbias = rows(dbias, nq, H, nk);
    if (!stored && buckets) call.dtable = rows(dtable, 1, H, std::ssize(table) / H);
    masked_attend_backward_cpu(call);
  }
};

void check_same(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-12).scale(1e-300));
}

TEST_CASE("a bias of positions is the stored bias of the same numbers") {
  for (const bool buckets : {false, true})
    for (const bool both_ways : {false, true}) {
      CAPTURE(buckets);
      CAPTURE(both_ways);
      Case placed(buckets, both_ways), stored(buckets, both_ways);
      placed.run(false), stored.run(true);
      check_same(placed.out, stored.out), check_same(placed.lse, stored.lse);
      check_same(placed.dq, stored.dq), check_same(placed.dk, stored.dk), check_same(placed.dv, stored.dv);
      if (!buckets) continue;
      std::vector<double> sums(placed.table.size(), 0.25);  // what it held is added to
      const std::size_t columns = sums.size() / H;
      for (std::int64_t i = 0; i < nq; ++i)
        for (std::int64_t h = 0; h < H; ++h)
          for (std::int64_t j = 0; j < nk; ++j)
            sums[static_cast<std::size_t>(h) * columns + static_cast<std::size_t>(placed.bucket(i, j))] +=
                stored.dbias[static_cast<std::size_t>((i * H + h) * nk + j)];
      for (std::size_t x = 0; x < sums.size(); ++x)
        CHECK(placed.dtable[x] == doctest::Approx(sums[x]).epsilon(1e-10));
    }
}

TEST_CASE("positions, slopes and tables that do not fit are refused") {
  const auto refused = [](auto change) {
    Case c(true, false);
    MaskedAttend call{{.q = Case::rows(c.q, nq, H, D),
                       .k = Case::rows(c.k, nk, G, D),
                       .v = Case::rows(c.v, nk, G, D),
                       .out = Case::rows(c.out, nq, H, D),
                       .lse = Case::rows(c.lse, nq, H, 1),
                       .segments = c.segments},
                      c.mask(false)};
    change(c, call.mask);
    CHECK_THROWS_AS(masked_attend_cpu(call), std::invalid_argument);
  };
  refused([](Case& c, PairMask& mask) { mask.columns = c.keys; });
  refused([](Case&, PairMask& mask) { mask.both_ways = true; });
  refused([](Case& c, PairMask& mask) { mask.slopes = c.slopes; });
  refused([](Case& c, PairMask& mask) { mask.table.reset(), mask.slopes = std::span(c.slopes).first(2); });
  refused([](Case& c, PairMask& mask) { mask.bias = Case::rows(c.bias, nq, H, nk); });
}

}  // namespace
}  // namespace cplab::testing

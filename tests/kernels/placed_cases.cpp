// See placed_cases.hpp.
#include "tests/kernels/placed_cases.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace cplab::testing {
namespace {

using namespace cplab::kernels;

constexpr std::int64_t nq = 70, nk = 90, H = 4, G = 2;

std::vector<std::uint16_t> bf16_of(const std::vector<double>& values) {
  std::vector<std::uint16_t> bits(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    store_element(bits.data(), DType::bf16, static_cast<std::int64_t>(i), values[i]);
  return bits;
}

struct Case {
  std::int64_t D;
  bool causal, buckets, both_ways;
  std::vector<std::uint16_t> q, k, v, dout;
  std::vector<float> out, lse, delta, dq, dk, dv, table, dtable, sink;
  std::vector<double> slopes;
  std::vector<std::int64_t> starts{1, 2, 3, 5, 9, 40};
  // Keys are tokens 5 .. 94, queries 25 .. 44, then 45 .. 94: as one causal segment whose offset is 20.
  std::vector<RowRun> positions{{5, 30, 1}, {35, 60, 1}, {25, 20, 1}, {45, 50, 1}};
  std::vector<Segment> segments;

  Case(std::int64_t head_size, bool causal_, bool buckets_, bool both)
      : D(head_size), causal(causal_), buckets(buckets_), both_ways(both) {
    std::mt19937 generator(5);
    const auto values = [&](std::int64_t count, double size) {
      std::vector<double> all = random_values(generator, count, DType::fp32);
      for (double& x : all) x *= size;
      return all;
    };
    q = bf16_of(values(nq * H * D, 1)), k = bf16_of(values(nk * G * D, 1)),
    v = bf16_of(values(nk * G * D, 1));
    dout = bf16_of(values(nq * H * D, 1));
    const std::size_t columns = (starts.size() + 1) * (both_ways ? 2 : 1);
    for (double x : values(H * static_cast<std::int64_t>(columns), 2)) table.push_back(static_cast<float>(x));
    for (double x : values(H, 2)) sink.push_back(static_cast<float>(x));
    slopes = {0.5, 0.125, 0.03125, 0};
    segments = {{.q_count = nq, .k_count = nk, .offset = 20, .right = causal ? 0 : -1}};
    out.assign(static_cast<std::size_t>(nq * H * D), -7), lse.assign(static_cast<std::size_t>(nq * H), -7);
    dq = out, dk.assign(static_cast<std::size_t>(nk * G * D), -7), dv = dk, delta = lse;
    dtable.assign(table.size(), 0.5);
  }
  View rows(auto& of, DType dtype, std::int64_t n, std::int64_t heads, std::int64_t width) {
    return rows_first(of.data(), dtype, n, heads, width);
  }
  PairMask mask() {
    PairMask mask;
    mask.columns = positions;
    mask.softcap = 3;
    mask.both_ways = buckets && both_ways;
    if (!buckets) mask.slopes = slopes;
    if (buckets) mask.table = rows(table, DType::fp32, 1, H, static_cast<std::int64_t>(table.size()) / H);
    if (buckets) mask.starts = starts;
    return mask;
  }
  MaskedAttend forward() {
    Attend tile{.q = rows(q, DType::bf16, nq, H, D),
                .k = rows(k, DType::bf16, nk, G, D),
                .v = rows(v, DType::bf16, nk, G, D),
                .out = rows(out, DType::fp32, nq, H, D),
                .lse = rows(lse, DType::fp32, nq, H, 1),
                .segments = segments,
                .scale = 0.2};
    tile.sink = rows(sink, DType::fp32, 1, H, 1);
    return {tile, mask()};
  }
  MaskedAttendBackward backward() {
    AttendBackward tile{.q = rows(q, DType::bf16, nq, H, D),
                        .k = rows(k, DType::bf16, nk, G, D),
                        .v = rows(v, DType::bf16, nk, G, D),
                        .dout = rows(dout, DType::bf16, nq, H, D),
                        .lse = rows(lse, DType::fp32, nq, H, 1),
                        .delta = rows(delta, DType::fp32, nq, H, 1),
                        .dq = rows(dq, DType::fp32, nq, H, D),
                        .dk = rows(dk, DType::fp32, nk, G, D),
                        .dv = rows(dv, DType::fp32, nk, G, D),
                        .segments = segments,
                        .scale = 0.2};
    MaskedAttendBackward call{tile, mask()};
    if (buckets) call.dtable = rows(dtable, DType::fp32, 1, H, static_cast<std::int64_t>(table.size()) / H);
    return call;
  }
  void find_delta() {
    for (std::size_t row = 0; row < delta.size(); ++row) {
      double sum = 0;
      for (std::int64_t x = 0; x < D; ++x) {
        const std::int64_t at = static_cast<std::int64_t>(row) * D + x;
        sum += out[static_cast<std::size_t>(at)] * load_element(dout.data(), DType::bf16, at);
      }
      delta[row] = static_cast<float>(sum);
    }
  }
};

// P is rounded to bf16 on both sides, by 2^-9 of it at most, each with a maximum of its own: a sum of p v
// differs by 2^-8 of the sum of p |v|, which the largest out is about.
constexpr double of_two_roundings = 0x1p-8;

// How much of what may lie between them is between them: `part` of the largest number.
double share_of(const std::vector<float>& found, const std::vector<float>& right, double part) {
  double size = 0, most = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    size = std::max(size, std::abs(static_cast<double>(right[i])));
    const double error = std::abs(static_cast<double>(found[i]) - static_cast<double>(right[i]));
    most = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(most, error);
  }
  return most / (part * size);
}

}  // namespace

void placed_cases(Report& report, const MaskedRunner& runner) {
  for (const std::int64_t D : {64, 128})
    for (const bool causal : {true, false})
      for (const bool buckets : {false, true})
        for (const bool both_ways : {false, true}) {
          if (both_ways && !buckets) continue;
          const std::string where = std::string(buckets ? "buckets" : "alibi") +
                                    (both_ways ? " both ways" : "") + (causal ? ", causal, " : ", full, ") +
                                    std::to_string(D);
          Case right(D, causal, buckets, both_ways), found = right;
          masked_attend_cpu(right.forward());
          const std::string forward = runner.attend({}, 0, found.forward(), true).variant;
          report.share(forward, where, "out", share_of(found.out, right.out, of_two_roundings));
          report.share(forward, where, "lse", share_of(found.lse, right.lse, 1e-5));
          right.find_delta();
          found.lse = right.lse, found.delta = right.delta;
          masked_attend_backward_cpu(right.backward());
          const std::string backward = runner.attend_backward({}, 0, found.backward(), true).variant;
          report.share(backward, where, "dq", share_of(found.dq, right.dq, 5e-3));
          report.share(backward, where, "dk", share_of(found.dk, right.dk, 5e-3));
          report.share(backward, where, "dv", share_of(found.dv, right.dv, 5e-3));
          if (buckets) report.share(backward, where, "dtable", share_of(found.dtable, right.dtable, 5e-3));
        }
}

}  // namespace cplab::testing

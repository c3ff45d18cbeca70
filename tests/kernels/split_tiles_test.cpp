// A tile cut in parts over its keys, as a ring or an all-gather in slices does: merged parts equal the whole,
// summed gradients equal the whole, and the three ways to merge equal one another.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "kernels/kernels.hpp"
#include "tests/kernels/oracle.hpp"
#include "tests/kernels/random_tile.hpp"

namespace cplab::testing {
namespace {

using kernels::cpu_tiles;
using kernels::Write;

// The segments of `problem` cut at key rows: part p keeps keys cuts[p] .. cuts[p + 1]. A cut segment's keys
// are counted from a later begin, so its diagonal moves by as much.
Problem part_of(const Problem& problem, std::int64_t begin, std::int64_t end) {
  Problem part = problem;
  part.segments.clear();
  for (Segment segment : problem.segments) {
    const std::int64_t first = std::max(segment.k_begin, begin);
    const std::int64_t last = std::min(segment.k_begin + segment.k_count, end);
    if (first >= last) continue;
    segment.offset -= first - segment.k_begin;
    segment.k_begin = first;
    segment.k_count = last - first;
    part.segments.push_back(segment);
  }
  return part;
}

std::vector<Problem> parts_of(const Problem& problem, std::int64_t count) {
  std::vector<Problem> parts;
  for (std::int64_t p = 0; p < count; ++p)
    parts.push_back(part_of(problem, p * problem.sizes.nk / count, (p + 1) * problem.sizes.nk / count));
  return parts;
}

Problem random_whole(std::mt19937& generator, DType dtype, int trial) {
  const Sizes sizes = random_sizes(generator, trial % 3 == 0 ? 260 : 50);
  return random_problem(generator, sizes, random_segments(generator, sizes.nq, sizes.nk), dtype);
}

// An accumulator before its first merge: lse -inf, out never written.
struct Accumulator {
  Accumulator(std::mt19937& generator, const Sizes& sizes, DType dtype)
      : out(random_tensor(generator, dtype, sizes.nq, sizes.H, sizes.E)),
        lse(random_tensor(generator, dtype, sizes.nq, sizes.H, 1)) {
    cpu_tiles().fill(lse.view(), -infinity);
  }
  Tensor out, lse;
};

// Rows that saw no key still hold poison after fused merges, which the contract leaves to the caller.
void clear_empty_rows(Accumulator& accumulator) {
  for (std::int64_t row = 0; row < accumulator.out.rows(); ++row)
    for (std::int64_t head = 0; head < accumulator.out.heads(); ++head)
      if (accumulator.lse.at(row, head) == -infinity)
        for (std::int64_t x = 0; x < accumulator.out.width(); ++x) accumulator.out.set(row, head, x, 0);
}

void check_whole(const Accumulator& accumulator, const Problem& problem, const Expected& expected,
                 const TileDTypes& dtypes) {
  CHECK(worst_share(accumulator.out.values(), expected.out, expected.out_majorant,
                    out_tolerance(problem, expected, dtypes)) <= 1);
  CHECK(worst_share(accumulator.lse.values(), expected.lse, std::vector<double>(expected.lse.size(), 1),
                    lse_tolerance(problem, expected, dtypes)) <= 1);
}

}  // namespace

TEST_CASE("parts merged one by one equal the whole, and a fused write equals tile then merge bit for bit") {
  std::mt19937 generator(1);
  for (const DType nominal : all_dtypes) {
    for (int trial = 0; trial < 12; ++trial) {
      const Problem problem = random_whole(generator, nominal, trial);
      const Expected expected = expected_of(problem);
      const std::int64_t P = draw(generator, 1, 8);
      Accumulator separate(generator, problem.sizes, wide(nominal));
      Accumulator fused(generator, problem.sizes, wide(nominal));
      const TileDTypes part_dtypes{.nominal = nominal, .out = wide(nominal), .lse = wide(nominal)};
      for (const Problem& part : parts_of(problem, P)) {
        TileTensors tensors(generator, part, part_dtypes);
        cpu_tiles().attend(tensors.attend(part, Write::store));
        cpu_tiles().merge({.part_out = tensors.out.view(),
                           .part_lse = tensors.lse.view(),
                           .into_out = separate.out.view(),
                           .into_lse = separate.lse.view()});
        kernels::Attend operation = tensors.attend(part, Write::merge);
        operation.out = fused.out.view();
        operation.lse = fused.lse.view();
        cpu_tiles().attend(operation);
      }
      clear_empty_rows(fused);
      INFO(name_of(nominal), " trial ", trial, " parts ", P);
      CHECK(fused.out.values() == separate.out.values());
      CHECK(fused.lse.values() == separate.lse.values());
      TileDTypes merged = part_dtypes;
      merged.merges = P;
      merged.part_roundoff = unit_roundoff(wide(nominal));
      check_whole(separate, problem, expected, merged);
      CHECK(separate.out.gaps_intact());
      CHECK(fused.out.gaps_intact());
    }
  }
}

TEST_CASE("deferred: folded lse, then rescaled parts added, equals the whole") {
  std::mt19937 generator(2);
  for (const DType nominal : all_dtypes) {
    for (int trial = 0; trial < 12; ++trial) {
      const Problem problem = random_whole(generator, nominal, trial);
      const Expected expected = expected_of(problem);
      const std::int64_t P = draw(generator, 1, 8);
      // Parts in the nominal dtype, as they would be stored.
      const TileDTypes part_dtypes{.nominal = nominal, .out = nominal, .lse = wide(nominal)};
      Accumulator whole(generator, problem.sizes, wide(nominal));
      std::vector<TileTensors> parts;
      for (const Problem& part : parts_of(problem, P)) {
        parts.emplace_back(generator, part, part_dtypes);
        cpu_tiles().attend(parts.back().attend(part, Write::store));
        cpu_tiles().merge_lse({.part_lse = parts.back().lse.view(), .into_lse = whole.lse.view()});
      }
      for (std::size_t p = 0; p < parts.size(); ++p) {
        cpu_tiles().rescale({.part_out = parts[p].out.view(),
                             .part_lse = parts[p].lse.view(),
                             .final_lse = whole.lse.view(),
                             .into_out = whole.out.view(),
                             .write = p == 0 ? Write::store : Write::add});
      }
      INFO(name_of(nominal), " trial ", trial, " parts ", P);
      TileDTypes merged{.nominal = nominal, .out = wide(nominal), .lse = wide(nominal)};
      merged.merges = P;
      merged.part_roundoff = unit_roundoff(nominal);
      check_whole(whole, problem, expected, merged);
    }
  }
}

TEST_CASE("gradients of parts, under the lse and delta of the whole, add up to those of the whole") {
  std::mt19937 generator(3);
  for (const DType nominal : all_dtypes) {
    for (int trial = 0; trial < 12; ++trial) {
      const Problem problem = random_whole(generator, nominal, trial);
      const Expected expected = expected_of(problem);
      const DType sum = wide(nominal);
      const TileDTypes dtypes{.nominal = nominal, .out = sum, .lse = sum};
      TileTensors whole(generator, problem, dtypes);
      whole.lse.assign(expected.lse);
      whole.delta.assign(expected.delta);
      for (Tensor* gradient : {&whole.dq, &whole.dk, &whole.dv}) cpu_tiles().fill(gradient->view(), 0);
      const std::int64_t P = draw(generator, 1, 8);
      for (const Problem& part : parts_of(problem, P))
        cpu_tiles().attend_backward(whole.backward(part, Write::add, Write::add));
      INFO(name_of(nominal), " trial ", trial, " parts ", P);
      GradientTolerances tolerances = gradient_tolerances(problem, expected, dtypes);
      // Every part rounds dq once more.
      tolerances.dq.majorant += static_cast<double>(P) * unit_roundoff(sum);
      tolerances.dk.majorant += static_cast<double>(P) * unit_roundoff(sum);
      tolerances.dv.majorant += static_cast<double>(P) * unit_roundoff(sum);
      CHECK(worst_share(whole.dq.values(), expected.dq, expected.dq_majorant, tolerances.dq) <= 1);
      CHECK(worst_share(whole.dk.values(), expected.dk, expected.dk_majorant, tolerances.dk) <= 1);
      CHECK(worst_share(whole.dv.values(), expected.dv, expected.dv_majorant, tolerances.dv) <= 1);
    }
  }
}

TEST_CASE("a fused merge leaves rows that see no key bit for bit") {
  std::mt19937 generator(5);
  for (const DType nominal : all_dtypes) {
    // Rows 0 .. 3 are in no segment, rows 4 and 5 in one that shows them nothing, row 6 and on see keys.
    const Problem problem = random_problem(
        generator, {.nq = 10, .nk = 8, .H = 1, .G = 1, .D = 3, .E = 2},
        {{.q_begin = 4, .q_count = 6, .k_begin = 0, .k_count = 8, .offset = -2, .left = -1, .right = 0}},
        nominal);
    Accumulator accumulator(generator, problem.sizes, wide(nominal));  // out is poison, lse -inf
    for (const std::int64_t row : {1, 5, 6, 7, 8, 9}) {
      accumulator.out.fill_row(row, -0.0);
      accumulator.lse.fill_row(row, 2);
    }
    const Accumulator before = accumulator;
    TileTensors tensors(generator, problem, {.nominal = nominal, .out = nominal, .lse = wide(nominal)});
    kernels::Attend operation = tensors.attend(problem, Write::merge);
    operation.out = accumulator.out.view();
    operation.lse = accumulator.lse.view();
    cpu_tiles().attend(operation);
    for (std::int64_t row = 0; row < 10; ++row) {
      CHECK((accumulator.out.bits(row, 0) == before.out.bits(row, 0)) == (row < 6));
      CHECK((accumulator.lse.bits(row, 0) == before.lse.bits(row, 0)) == (row < 6));
    }
  }
}

// The upper tile of a zigzag step: a row map picks the second half of the queries, and merges into that half
// of the accumulator; the first half must keep its bits, whatever they are.
TEST_CASE("a merge through a row map touches its rows only") {
  std::mt19937 generator(4);
  const std::int64_t n = 64;
  for (const DType nominal : all_dtypes) {
    Problem problem =
        random_problem(generator, {.nq = n / 2, .nk = 48, .H = 2, .G = 1, .D = 8, .E = 6},
                       {{.q_begin = 0, .q_count = n / 2, .k_begin = 0, .k_count = 48}}, nominal);
    TileTensors tile(generator, problem, {.nominal = nominal, .out = nominal, .lse = wide(nominal)});
    Tensor out(wide(nominal), n, 2, 6);
    Tensor lse(wide(nominal), n, 2, 1);
    for (std::int64_t row = n / 2; row < n; ++row) {
      out.fill_row(row, 1);
      lse.fill_row(row, 0);
    }
    const Tensor before_out = out;
    const Tensor before_lse = lse;
    const RowRun second_half[] = {{.begin = n / 2, .count = n / 2, .step = 1}};
    const auto half = [&](Tensor& tensor) {
      View view = tensor.view();
      view.rows = n / 2;
      view.runs = second_half;
      return view;
    };
    for (const bool fused : {true, false}) {
      if (fused) {
        kernels::Attend operation = tile.attend(problem, Write::merge);
        operation.out = half(out);
        operation.lse = half(lse);
        cpu_tiles().attend(operation);
      } else {
        cpu_tiles().attend(tile.attend(problem, Write::store));
        cpu_tiles().merge({.part_out = tile.out.view(),
                           .part_lse = tile.lse.view(),
                           .into_out = half(out),
                           .into_lse = half(lse)});
      }
      for (std::int64_t row = 0; row < n; ++row) {
        for (std::int64_t head = 0; head < 2; ++head) {
          const bool upper = row >= n / 2;
          CHECK((out.bits(row, head) == before_out.bits(row, head)) == !upper);
          CHECK((lse.bits(row, head) == before_lse.bits(row, head)) == !upper);
        }
      }
    }
  }
}

}  // namespace cplab::testing

// The recurrence of linear attention in double; see linear_oracle.hpp.
#include "tests/gpu/linear_oracle.hpp"

#include <algorithm>
#include <cmath>

namespace cplab::testing {

RoundingError rounding_error(DType dtype, int numbers) {
  const double u = unit_roundoff(dtype);
  const double tiny = dtype == DType::fp16 ? 0x1p-25 : 0;
  return numbers == 1 ? RoundingError{u, tiny} : RoundingError{u * u / 2, tiny / 2048};
}

double bound(const Sum& sum, double held, const Rounding& rounding) {
  const RoundingError once = rounding_error(rounding.nominal, rounding.numbers);
  const double wide = unit_roundoff(rounding.sums);
  const double result = unit_roundoff(rounding.result);
  const double spread = std::sqrt(sum.square);
  // Scores and states are rounded, of which every term is part of one at most.
  double all = std::min(sum.magnitude, 10 * spread) * once.relative;
  all += sum.magnitude * rounding.terms * wide;
  // Every partial result is rounded, and so is the sum after it, what was held included.
  all += rounding.slices * 2 * result * std::min(sum.magnitude, 10 * spread);
  all += 2 * result * std::fabs(sum.value) + std::max(rounding.slices, 2.0) * result * std::fabs(held);
  // Times a factor of at most 1 in every product that follows.
  const double tiny = once.absolute * rounding.terms;
  return 1.01 * all + tiny + (rounding.result == DType::fp16 ? 0x1p-24 : 0x1p-126);
}

std::vector<Sum> walk(const Walk& walk, const kernels::Chunk& chunk, Sums& entering) {
  const std::int64_t X = walk.a->width(), Y = walk.c->width();
  const double lambda = std::exp(-walk.slope);
  Sums own(static_cast<std::size_t>(X * Y));
  std::vector<Sum> out(static_cast<std::size_t>(chunk.count * Y));
  const auto decay = [&](Sum& sum) {
    sum.value *= lambda;
    sum.magnitude *= lambda;
    sum.square *= lambda * lambda;
  };
  for (std::int64_t n = 0; n < chunk.count; ++n) {
    const std::int64_t t = walk.reverse ? chunk.count - 1 - n : n;
    const std::int64_t row = chunk.row + t;
    if (walk.reverse) std::for_each(entering.begin(), entering.end(), decay);
    for (std::int64_t x = 0; x < X; ++x) {
      const double a = walk.a->at(row, walk.head, x), b = walk.b->at(row, walk.head, x);
      for (std::int64_t y = 0; y < Y; ++y) {
        const double c = walk.c->at(row, walk.head, y);
        Sum& sum = own[static_cast<std::size_t>(x * Y + y)];
        decay(sum);
        sum.value += b * c;
        sum.magnitude += std::fabs(b * c);
        sum.square += b * c * b * c;
        const Sum& passed = entering[static_cast<std::size_t>(x * Y + y)];
        Sum& into = out[static_cast<std::size_t>(t * Y + y)];
        into.value += a * (sum.value + passed.value);
        into.magnitude += std::fabs(a) * (sum.magnitude + passed.magnitude);
        into.square += a * a * (sum.square + passed.square);
      }
    }
    if (!walk.reverse) std::for_each(entering.begin(), entering.end(), decay);
  }
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (!walk.reverse) decay(own[i]);  // a key lies before its edge
    entering[i].value += own[i].value;
    entering[i].magnitude += own[i].magnitude;
    entering[i].square += own[i].square;
  }
  return out;
}

}  // namespace cplab::testing

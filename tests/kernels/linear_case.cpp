// Random problems of linear attention; see linear_case.hpp.
#include "tests/kernels/linear_case.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace cplab::testing {
namespace {

double largest_norm(const std::vector<double>& values, std::int64_t size) {
  double largest = 0;
  for (std::size_t begin = 0; begin < values.size(); begin += static_cast<std::size_t>(size)) {
    double sum = 0;
    for (std::size_t x = begin; x < begin + static_cast<std::size_t>(size); ++x) sum += values[x] * values[x];
    largest = std::max(largest, std::sqrt(sum));
  }
  return largest;
}

std::vector<double> magnitudes(std::vector<double> values) {
  for (double& value : values) value = std::fabs(value);
  return values;
}

}  // namespace

LinearCase linear_case(std::mt19937& generator, const reference::LinearShape& sizes,
                       const std::vector<double>& slopes, DType nominal, std::int64_t before,
                       const std::vector<std::int64_t>& lengths, std::int64_t after) {
  LinearCase c;
  c.shape = sizes;
  c.nominal = nominal;
  c.begin = before;
  c.end = std::accumulate(lengths.begin(), lengths.end(), before);
  c.shape.S = c.end + after;
  std::vector<std::int64_t> edges;
  std::int64_t token = before;
  for (const std::int64_t length : lengths) {
    c.rows += draw(generator, 0, 3);
    edges.push_back(token);
    c.chunks.push_back({.row = c.rows,
                        .count = length,
                        .state = static_cast<std::int32_t>(c.chunks.size()),
                        .left = before > 0 ? 0 : -1,
                        .right = after > 0 ? 0 : -1,
                        .left_exponent = token - before,
                        .right_exponent = c.end - token - length,
                        .resets = token == before});
    token += length;
    c.rows += length;
  }
  c.rows += draw(generator, 0, 3);
  edges.push_back(token);

  const auto [S, H, D, E, transition, gate] = c.shape;
  c.q = random_values(generator, S * H * D, nominal);
  c.k = random_values(generator, S * H * D, nominal);
  c.v = random_values(generator, S * H * E, nominal);
  c.dout = random_values(generator, S * H * E, nominal);
  reference::LinearInputs inputs{.q = c.q, .k = c.k, .v = c.v, .dout = c.dout};
  if (transition == Transition::decay) {
    c.slopes = slopes;
    inputs.slopes = c.slopes;
  } else {
    c.log_decay = random_values(generator, S * H * c.shape.gates(), wide(nominal));
    for (double& g : c.log_decay) g = -std::fabs(g);
    inputs.log_decay = c.log_decay;
  }
  if (transition == Transition::matrix) {
    // A power of two keeps them in their dtype.
    const double factor = std::exp2(-std::ceil(std::log2(static_cast<double>(D)) / 2));
    for (double& value : c.k) value *= factor;
    c.beta = magnitudes(random_values(generator, S * H, wide(nominal)));
    inputs.beta = c.beta;
  }
  c.exact = reference::linear_recurrence(c.shape, inputs, edges);
  if (!c.decays()) return c;
  const std::vector<double> q = magnitudes(c.q), k = magnitudes(c.k), v = magnitudes(c.v),
                            dout = magnitudes(c.dout);
  c.majorant = reference::linear_recurrence(
      c.shape, {.q = q, .k = k, .v = v, .dout = dout, .slopes = c.slopes}, edges);
  return c;
}

Tensor LinearCase::tokens(std::mt19937& generator, DType dtype, const std::vector<double>& values) const {
  const std::int64_t width = std::ssize(values) / shape.S / shape.H;
  Tensor tensor = result(generator, dtype, width);
  std::int64_t token = begin;
  for (const Chunk& chunk : chunks)
    for (std::int64_t row = chunk.row; row < chunk.row + chunk.count; ++row, ++token)
      for (std::int64_t h = 0; h < shape.H; ++h)
        for (std::int64_t x = 0; x < width; ++x)
          tensor.set(row, h, x, values[static_cast<std::size_t>((token * shape.H + h) * width + x)]);
  return tensor;
}

Tensor LinearCase::result(std::mt19937& generator, DType dtype, std::int64_t width) const {
  return random_tensor(generator, dtype, rows, shape.H, width);
}

std::vector<double> LinearCase::read(const Tensor& tensor) const {
  std::vector<double> values;
  for (const Chunk& chunk : chunks)
    for (std::int64_t row = chunk.row; row < chunk.row + chunk.count; ++row)
      for (std::int64_t h = 0; h < shape.H; ++h)
        for (std::int64_t x = 0; x < tensor.width(); ++x) values.push_back(tensor.at(row, h, x));
  return values;
}

std::vector<double> LinearCase::expected(const std::vector<double>& values) const {
  const std::int64_t token = std::ssize(values) / shape.S;
  return {values.begin() + begin * token, values.begin() + end * token};
}

Tolerance LinearCase::tolerance(DType out, ChunkWork work) const {
  const double u = unit_roundoff(wide(nominal)), r = nominal == wide(nominal) ? 0 : unit_roundoff(nominal);
  const double r_out = out == DType::fp64 ? 0 : unit_roundoff(out);
  const auto D = static_cast<double>(shape.D), E = static_cast<double>(shape.E);
  const auto S = static_cast<double>(shape.S);
  if (!decays()) {
    const double s = largest_norm(exact.key_states, shape.D * shape.E);
    const double m = largest_norm(exact.query_states, shape.D * shape.E);
    const double row = std::sqrt(std::max(D, E));
    return {.majorant = 0,
            .relative = r_out,
            .floor = 8 * S * (2 * D + 2 * E + 16) * u * (1 + s) * (1 + m) * (1 + row)};
  }
  const double n = D + E + 128 + 4 * (S / 64 + static_cast<double>(count())) + 32;
  const double sliced = work == ChunkWork::sliced ? r_out : 0;
  return {.majorant = (3 * r + n * u + sliced) * (1 + 8 * r),
          .relative = r_out * (1 + 8 * r),
          .floor = r == 0 ? 0 : S * std::max(D, E) * 0x1p-24};
}

double LinearCase::share(const Tensor& computed, const std::vector<double>& exact_values,
                         const std::vector<double>& majorant_values, ChunkWork work) const {
  const std::vector<double> values = expected(exact_values);
  return worst_share(read(computed), values, decays() ? expected(majorant_values) : values,
                     tolerance(computed.dtype(), work));
}

Tensor LinearCase::states(std::mt19937& generator, DType dtype, std::int64_t count,
                          std::int64_t width) const {
  return random_tensor(generator, dtype, count * shape.D, shape.H, width == 0 ? shape.E : width);
}

void LinearCase::set_state(Tensor& tensor, std::int64_t state, const std::vector<double>& values,
                           std::int64_t at) const {
  for (std::int64_t h = 0; h < shape.H; ++h)
    for (std::int64_t d = 0; d < shape.D; ++d)
      for (std::int64_t e = 0; e < shape.E; ++e)
        tensor.set(state * shape.D + d, h, e,
                   values[static_cast<std::size_t>(((at * shape.H + h) * shape.D + d) * shape.E + e)]);
}

double LinearCase::state_share(const Tensor& tensor, std::int64_t state,
                               const std::vector<double>& exact_values,
                               const std::vector<double>& majorant_values, std::int64_t at) const {
  std::vector<double> computed;
  for (std::int64_t h = 0; h < shape.H; ++h)
    for (std::int64_t d = 0; d < shape.D; ++d)
      for (std::int64_t e = 0; e < shape.E; ++e) computed.push_back(tensor.at(state * shape.D + d, h, e));
  const std::int64_t size = shape.H * shape.D * shape.E;
  const auto part = [&](const std::vector<double>& values) {
    return std::vector<double>(values.begin() + at * size, values.begin() + (at + 1) * size);
  };
  return worst_share(computed, part(exact_values), part(decays() ? majorant_values : exact_values),
                     tolerance(tensor.dtype()));
}

std::string describe(const LinearCase& c) {
  const char* const names[] = {"decay", "column", "matrix"};
  std::string text = std::string(names[static_cast<int>(c.shape.transition)]) +
                     (c.shape.gate == Gate::head ? " of heads " : " ") + name_of(c.nominal) +
                     " H=" + std::to_string(c.shape.H) + " D=" + std::to_string(c.shape.D) +
                     " E=" + std::to_string(c.shape.E) + " before=" + std::to_string(c.begin) +
                     " after=" + std::to_string(c.shape.S - c.end) + " chunks";
  for (const Chunk& chunk : c.chunks) text += " " + std::to_string(chunk.count);
  return text;
}

}  // namespace cplab::testing

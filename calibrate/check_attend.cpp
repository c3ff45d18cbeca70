// One small attend on the GPU beside a loop in double; see check_attend.hpp.
#include "calibrate/check_attend.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "calibrate/device.hpp"

namespace cplab::measure {
namespace {

constexpr std::int64_t rows = 320, heads = 2, width = 128;  // not whole tiles
constexpr std::int64_t elements = rows * heads * width;

using Values = std::vector<double>;

Values read(const char* from, std::int64_t count) {
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(count));
  require_cuda(cudaMemcpy(bits.data(), from, bits.size() * 2, cudaMemcpyDeviceToHost), "cudaMemcpy");
  Values values;
  for (const std::uint16_t each : bits)
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(each) << 16));
  return values;
}

std::size_t at(std::int64_t row, std::int64_t head, std::int64_t column) {
  return static_cast<std::size_t>((row * heads + head) * width + column);
}

// Causal attention of one row and head.
void attend(const Values& q, const Values& k, const Values& v, std::int64_t row, std::int64_t head,
            Values& out) {
  Values weights;
  double most = -INFINITY, sum = 0;
  for (std::int64_t key = 0; key <= row; ++key) {
    double logit = 0;
    for (std::int64_t d = 0; d < width; ++d) logit += q[at(row, head, d)] * k[at(key, head, d)];
    weights.push_back(logit / std::sqrt(static_cast<double>(width)));
    most = std::max(most, weights.back());
  }
  for (double& weight : weights) sum += weight = std::exp(weight - most);
  for (std::int64_t d = 0; d < width; ++d) {
    double value = 0;
    for (std::int64_t key = 0; key <= row; ++key)
      value += weights[static_cast<std::size_t>(key)] * v[at(key, head, d)];
    out[at(row, head, d)] = value / sum;
  }
}

}  // namespace

std::string wrong_attend(std::uint64_t seed) {
  const Stream stream;
  const DeviceMemory q(2 * elements), k(2 * elements), v(2 * elements), out(2 * elements),
      lse(4 * rows * heads);
  for (const DeviceMemory* operand : {&q, &k, &v})
    operand->fill_random(++seed, operand->bytes(), stream.get());
  kernels::Attend call;
  const auto view = [](const DeviceMemory& of) {
    return kernels::rows_first(of.data(), kernels::DType::bf16, rows, heads, width);
  };
  call.q = view(q);
  call.k = view(k);
  call.v = view(v);
  call.out = view(out);
  call.lse = {lse.data(), kernels::DType::fp32, rows, heads, 1, 1, rows, {}};
  const std::vector<kernels::Segment> segments{{0, rows, 0, rows, 0, -1, 0}};
  call.segments = segments;
  call.scale = 1 / std::sqrt(static_cast<double>(width));
  kernels::CudaCalls calls;
  const std::size_t index = calls.add(call);
  const DeviceMemory tables(std::max<std::int64_t>(256, static_cast<std::int64_t>(calls.table_bytes())));
  calls.upload(tables.data());
  calls.launch(index, stream.get());
  stream.synchronize();
  const Values qs = read(q.data(), elements), ks = read(k.data(), elements), vs = read(v.data(), elements),
               found = read(out.data(), elements);
  Values wanted(static_cast<std::size_t>(elements));
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t head = 0; head < heads; ++head) attend(qs, ks, vs, row, head, wanted);
  // Weights and results are rounded to bf16, each by at most 2^-9 of a mean of values: together 2^-8 of the
  // largest.
  double largest = 0, off = 0;
  for (const double value : vs) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double error = std::abs(found[i] - wanted[i]);
    if (!(error <= off)) off = error;  // NaN too
  }
  if (off <= largest / 256) return {};
  return calls.variant(index) + " is off by " + std::to_string(off) + " where bf16 rounds by at most " +
         std::to_string(largest / 256);
}

}  // namespace cplab::measure

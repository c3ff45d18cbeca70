// Operands, candidates and their times; see candidates.hpp.
#include "tests/rungs/candidates.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>

#include "kernels/cuda.hpp"
#include "kernels/families/parts/cuda_error.hpp"

namespace cplab::kernels::cuda::hopper::rungs {

namespace {

constexpr std::int64_t D = 128;

std::size_t rows_of(const Shape& shape) {
  return static_cast<std::size_t>(shape.S) * static_cast<std::size_t>(shape.heads);
}

// One of the library's kernels: B H heads of one sequence are the same problem as B sequences of H heads.
Candidate library_kernel(const char* rung, const Operands& operands, const Shape& shape,
                         KernelChoice choice) {
  const Problem problem = operands.problem();
  const auto view = [&](const void* data, DType dtype, std::int64_t width) {
    return View{.data = const_cast<void*>(data),
                .dtype = dtype,
                .rows = shape.S,
                .heads = shape.heads,
                .width = width,
                .row_stride = width,
                .head_stride = shape.S * width,
                .runs = {}};
  };
  const Segment whole{
      .q_begin = 0, .q_count = shape.S, .k_begin = 0, .k_count = shape.S, .right = shape.causal ? 0 : -1};
  const auto calls = std::make_shared<CudaCalls>(choice);
  calls->add(Attend{.q = view(problem.q, DType::bf16, D),
                    .k = view(problem.k, DType::bf16, D),
                    .v = view(problem.v, DType::bf16, D),
                    .out = view(problem.out, DType::bf16, D),
                    .lse = view(problem.lse, DType::fp32, 1),
                    .segments = {&whole, 1},
                    .scale = 1 / std::sqrt(static_cast<double>(D)),
                    .write = Write::store});
  const auto tables = std::make_shared<DeviceMemory>(calls->table_bytes());
  calls->upload(tables->data());
  return {std::string(rung) + calls->variant(0), [calls, tables] { calls->launch(0, cudaStreamPerThread); }};
}

double seconds_of(const Candidate& candidate, int calls, const DeviceMemory& memory) {
  const auto queue = [&](CudaStream) {
    for (int call = 0; call < calls; ++call) candidate.launch();
  };
  return seconds_hidden(queue, memory) / calls;
}

}  // namespace

Operands::Operands(const Shape& shape)
    : shape_(shape),
      q_(rows_of(shape) * D * 2),
      k_(q_.size()),
      v_(q_.size()),
      out_(q_.size()),
      lse_(rows_of(shape) * 4) {}

void Operands::upload(std::span<const std::uint16_t> q, std::span<const std::uint16_t> k,
                      std::span<const std::uint16_t> v) {
  q_.copy_in(std::as_bytes(q));
  k_.copy_in(std::as_bytes(k));
  v_.copy_in(std::as_bytes(v));
}

void Operands::fill(std::uint64_t seed) {
  for (DeviceMemory* memory : {&q_, &k_, &v_}) memory->fill_normal(DType::bf16, seed++);
}

void Operands::clear_results() {
  for (const DeviceMemory* memory : {&out_, &lse_})
    require_cuda(cudaMemsetAsync(memory->data(), 0xFF, memory->size(), cudaStreamPerThread),
                 "cudaMemsetAsync");
  require_cuda(cudaStreamSynchronize(cudaStreamPerThread), "cudaStreamSynchronize");
}

std::pair<std::vector<std::uint16_t>, std::vector<float>> Operands::results() const {
  std::pair<std::vector<std::uint16_t>, std::vector<float>> results;
  results.first.resize(out_.size() / 2);
  results.second.resize(lse_.size() / 4);
  out_.copy_out(std::as_writable_bytes(std::span(results.first)));
  lse_.copy_out(std::as_writable_bytes(std::span(results.second)));
  return results;
}

Problem Operands::problem() const {
  return {.q = q_.data(),
          .k = k_.data(),
          .v = v_.data(),
          .out = out_.data(),
          .lse = reinterpret_cast<float*>(lse_.data()),
          .S = shape_.S,
          .heads = shape_.heads,
          .causal = shape_.causal};
}

std::vector<Candidate> candidates(const Operands& operands) {
  const Problem problem = operands.problem();
  const Shape shape{problem.S, problem.heads, problem.causal};
  std::vector<Candidate> all = {library_kernel("0 ", operands, shape, KernelChoice::portable)};
  const std::vector<std::string> names = rung_names();
  for (std::size_t n = 0; n < names.size(); ++n)
    all.push_back(
        {names[n], [launch = bind_rung(static_cast<int>(n), problem)] { launch(cudaStreamPerThread); }});
  all.push_back(library_kernel("library: ", operands, shape, KernelChoice::best));
  return all;
}

std::vector<Times> time_shuffled(const std::vector<Candidate>& candidates, const Shape& shape, int rounds,
                                 std::uint64_t seed) {
  const DeviceMemory memory(std::size_t{2} << 30);
  const double flops = 4.0 * shape.S * shape.S * D * shape.heads / (shape.causal ? 2 : 1);
  const int calls = flops > 4e11 ? 2 : 8;
  for (const Candidate& candidate : candidates) seconds_of(candidate, 1, memory);
  std::vector<std::vector<double>> seconds(candidates.size());
  std::vector<std::size_t> order(candidates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 generator(seed);
  for (int round = 0; round < rounds; ++round) {
    std::shuffle(order.begin(), order.end(), generator);
    for (const std::size_t n : order) seconds[n].push_back(seconds_of(candidates[n], calls, memory));
  }
  std::vector<Times> times;
  for (std::size_t n = 0; n < candidates.size(); ++n) {
    std::vector<double>& all = seconds[n];
    std::sort(all.begin(), all.end());
    const double median = all[all.size() / 2];
    times.push_back({candidates[n].name, median, all.front(), all.back(), flops / median * 1e-12});
  }
  return times;
}

}  // namespace cplab::kernels::cuda::hopper::rungs

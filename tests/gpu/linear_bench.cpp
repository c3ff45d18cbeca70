// Times of the kernels of linear attention on whole problems: no checks.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "tests/gpu/attention_problem.hpp"
#include "tests/gpu/gpu_tile.hpp"

namespace cplab::testing {
namespace {

using kernels::Chunk;
using kernels::ChunkWork;
using kernels::CudaCalls;
using kernels::DeviceMemory;

struct LinearShape {
  std::int64_t pieces, tokens, H, D, E;  // tokens of a piece
  std::int64_t chunk_tokens;
  ChunkWork work;
  const char* work_name;
};

std::vector<Chunk> chunks_of(const LinearShape& shape) {
  std::vector<Chunk> chunks;
  for (std::int64_t piece = 0; piece < shape.pieces; ++piece)
    for (std::int64_t at = 0; at < shape.tokens; at += shape.chunk_tokens)
      chunks.push_back({.row = piece * shape.tokens + at,
                        .count = std::min(shape.chunk_tokens, shape.tokens - at),
                        .state = static_cast<std::int32_t>(chunks.size()),
                        .left = static_cast<std::int32_t>(piece),
                        .right = static_cast<std::int32_t>(piece),
                        .left_exponent = at,
                        .right_exponent = std::max<std::int64_t>(shape.tokens - at - shape.chunk_tokens, 0),
                        .resets = at == 0});
  return chunks;
}

// flops: of the recurrence cut in blocks of 64 tokens.
template <class Call>
void time_call(const LinearShape& shape, const Call& call, double flops, double bytes) {
  CudaCalls calls(kernel_choice);
  const std::vector<std::size_t> numbers(4, calls.add(call));
  const DeviceMemory tables(calls.table_bytes());
  calls.upload(tables.data());
  const double seconds = kernels::seconds_per_call(calls, numbers, 5);
  std::printf(
      "%-36s %-7s pieces=%-3lld tokens=%-6lld chunk=%-6lld H=%-3lld D=%-4lld E=%-4lld %9.1f us %7.2f TFLOP/s "
      "%7.1f GB/s\n",
      calls.variant(numbers[0]).c_str(), shape.work_name, static_cast<long long>(shape.pieces),
      static_cast<long long>(shape.tokens), static_cast<long long>(shape.chunk_tokens),
      static_cast<long long>(shape.H), static_cast<long long>(shape.D), static_cast<long long>(shape.E),
      seconds * 1e6, flops / seconds * 1e-12, bytes / seconds * 1e-9);
  std::fflush(stdout);
}

void time_shape(const LinearShape& shape) {
  const std::int64_t rows = shape.pieces * shape.tokens;
  const std::vector<Chunk> list = chunks_of(shape);
  const auto states = static_cast<std::int64_t>(list.size());
  const std::vector<double> slopes(static_cast<std::size_t>(shape.H), 0.05);
  const kernels::Chunks chunks{.list = list, .slopes = slopes, .work = shape.work};
  const auto tokens = [&](std::int64_t width) { return Operand(DType::bf16, rows, shape.H, width); };
  const auto of_states = [&](std::int64_t count) {
    return Operand(DType::fp32, count * shape.D, shape.H, shape.E);
  };
  const Operand q = tokens(shape.D), k = tokens(shape.D), v = tokens(shape.E), dout = tokens(shape.E);
  const Operand dq = tokens(shape.D), dk = tokens(shape.D), dv = tokens(shape.E), out = tokens(shape.E);
  const Operand carry = of_states(shape.pieces), final_state = of_states(shape.pieces);
  const Operand state = of_states(states), other = of_states(states);
  const double pairs = static_cast<double>(rows * shape.H) * 64;
  const double products = pairs * static_cast<double>(shape.D + shape.E);
  const double of_state = 2.0 * static_cast<double>(rows * shape.H * shape.D * shape.E);
  const double q_bytes = 2.0 * static_cast<double>(rows * shape.H * shape.D);
  const double v_bytes = 2.0 * static_cast<double>(rows * shape.H * shape.E);
  const double state_bytes = 4.0 * static_cast<double>(states * shape.H * shape.D * shape.E);
  if (shape.work != ChunkWork::blocked) {
    time_call(shape,
              kernels::LinearLocal{.q = q.view(),
                                   .k = k.view(),
                                   .v = v.view(),
                                   .carry = carry.view(),
                                   .out = out.view(),
                                   .final_state = final_state.view(),
                                   .chunks = chunks},
              products + 2 * of_state, 2 * q_bytes + 2 * v_bytes);
    time_call(shape,
              kernels::LinearLocalBackward{.q = q.view(),
                                           .k = k.view(),
                                           .v = v.view(),
                                           .dout = dout.view(),
                                           .carry = carry.view(),
                                           .dcarry = final_state.view(),
                                           .dq = dq.view(),
                                           .dk = dk.view(),
                                           .dv = dv.view(),
                                           .chunks = chunks},
              3 * products + 6 * of_state, 4 * q_bytes + 3 * v_bytes);
    return;
  }
  time_call(shape,
            kernels::LinearLocal{.q = q.view(),
                                 .k = k.view(),
                                 .v = v.view(),
                                 .state = state.view(),
                                 .out = out.view(),
                                 .chunks = chunks},
            products + of_state, 2 * q_bytes + 2 * v_bytes + state_bytes);
  time_call(shape,
            kernels::LinearLocalBackward{.q = q.view(),
                                         .k = k.view(),
                                         .v = v.view(),
                                         .dout = dout.view(),
                                         .state = state.view(),
                                         .dstate = other.view(),
                                         .dq = dq.view(),
                                         .dk = dk.view(),
                                         .dv = dv.view(),
                                         .chunks = chunks},
            3 * products + 3 * of_state, 4 * q_bytes + 3 * v_bytes + 2 * state_bytes);
  time_call(
      shape,
      kernels::LinearState{.rows = k.view(), .columns = v.view(), .state = state.view(), .chunks = chunks},
      of_state, q_bytes + v_bytes + state_bytes);
  time_call(shape,
            kernels::LinearScan{.state = state.view(), .final_state = final_state.view(), .chunks = chunks},
            0, 2 * state_bytes);
  time_call(shape, kernels::LinearCombine{.from = other.view(), .into = state.view(), .chunks = chunks}, 0,
            3 * state_bytes);
  time_call(shape,
            kernels::LinearInter{.q = q.view(), .carry = carry.view(), .out = out.view(), .chunks = chunks},
            of_state, q_bytes + 2 * v_bytes);
  time_call(shape,
            kernels::LinearInter{.k = k.view(),
                                 .v = v.view(),
                                 .dout = dout.view(),
                                 .carry = carry.view(),
                                 .dcarry = final_state.view(),
                                 .dq = dq.view(),
                                 .dk = dk.view(),
                                 .dv = dv.view(),
                                 .chunks = chunks},
            3 * of_state, 5 * q_bytes + 4 * v_bytes);
}

}  // namespace

void bench_linear() {
  // A rank of the benchmark of LASP, and a long sequence.
  for (const std::int64_t chunk_tokens : {std::int64_t{64}, std::int64_t{256}})
    time_shape({8, 512, 12, 128, 64, chunk_tokens, ChunkWork::blocked, "blocked"});
  time_shape({8, 512, 12, 128, 64, 512, ChunkWork::serial, "serial"});
  time_shape({8, 512, 12, 128, 64, 512, ChunkWork::sliced, "sliced"});
  time_shape({1, 32768, 16, 128, 128, 256, ChunkWork::blocked, "blocked"});
  time_shape({1, 32768, 16, 128, 128, 32768, ChunkWork::serial, "serial"});
}

}  // namespace cplab::testing

// Linear attention by hand on two ranks, executed in many orders: the recurrence over the whole sequence.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <vector>

#include "exec/cpu/executor.hpp"
#include "reference/linear_recurrence.hpp"
#include "tests/hand_plans/two_rank_linear.hpp"

namespace cplab {
namespace {

struct RandomTensors {
  std::vector<double> q, k, v, dout;
};

RandomTensors random_tensors(std::int64_t S, std::int64_t heads, std::int64_t D, std::int64_t E) {
  std::mt19937 generator(5);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const auto tensor = [&](std::int64_t width) {
    std::vector<double> values(static_cast<std::size_t>(S * heads * width));
    for (double& value : values) value = uniform(generator);
    return values;
  };
  return {tensor(D), tensor(D), tensor(E), tensor(E)};
}

void check_close(const std::vector<double>& values, const double* expected) {
  // At most 16 tokens, D + E = 7: sums of some hundred products of numbers up to 1.
  for (std::size_t x = 0; x < values.size(); ++x) CHECK(std::fabs(values[x] - expected[x]) <= 1e-13);
}

}  // namespace

TEST_CASE("states, scan, exchange, local, inter and combine on two ranks equal the recurrence") {
  const hand::LinearShape shape;
  const Plan plan = hand::two_rank_linear(shape);
  const Problem& p = plan.scenario.problem;
  std::vector<std::int64_t> begins = {0};
  for (const auto& lengths : shape.chunks)
    begins.push_back(std::accumulate(lengths.begin(), lengths.end(), begins.back()));
  const std::int64_t S = begins.back();
  const RandomTensors t = random_tensors(S, p.heads, p.head_size, p.value_size);
  const reference::LinearResult exact = reference::linear_recurrence(
      {.S = S, .H = p.heads, .D = p.head_size, .E = p.value_size},
      {.q = t.q, .k = t.k, .v = t.v, .dout = t.dout, .slopes = p.slopes}, std::vector<std::int64_t>{S});
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CpuOptions options;
    options.order = {seed > 0, seed};
    CpuExecutor executor(plan, options);
    const auto part = [&](const std::vector<double>& values, int rank) {
      const auto token = std::ssize(values) / S;
      const auto r = static_cast<std::size_t>(rank);
      return std::span(values).subspan(static_cast<std::size_t>(begins[r] * token),
                                       static_cast<std::size_t>((begins[r + 1] - begins[r]) * token));
    };
    for (int rank = 0; rank < 2; ++rank) {
      executor.write(rank, "q", part(t.q, rank));
      executor.write(rank, "k", part(t.k, rank));
      executor.write(rank, "v", part(t.v, rank));
      executor.write(rank, "dout", part(t.dout, rank));
    }
    executor.run();
    for (int rank = 0; rank < 2; ++rank) {
      check_close(executor.read(rank, "out"), part(exact.out, rank).data());
      check_close(executor.read(rank, "dq"), part(exact.dq, rank).data());
      check_close(executor.read(rank, "dk"), part(exact.dk, rank).data());
      check_close(executor.read(rank, "dv"), part(exact.dv, rank).data());
    }
    // [D,H,E] against [H,D,E].
    const std::vector<double> last = executor.read(1, "last_state");
    for (std::int64_t d = 0; d < p.head_size; ++d)
      for (std::int64_t h = 0; h < p.heads; ++h)
        for (std::int64_t e = 0; e < p.value_size; ++e)
          CHECK(std::fabs(
                    last[static_cast<std::size_t>((d * p.heads + h) * p.value_size + e)] -
                    exact.key_states[static_cast<std::size_t>((h * p.head_size + d) * p.value_size + e)]) <=
                1e-13);
  }
}

}  // namespace cplab

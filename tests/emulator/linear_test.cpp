// The linear attention kernels for Hopper, run by the emulator, against the recurrence in double.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/emulator/shim/device.hpp"
//
#include "kernels/families/linear/hopper/keys.cuh"
#include "kernels/families/linear/hopper/local.cuh"
#include "kernels/families/linear/hopper/state.cuh"

namespace cplab::kernels::cuda::hopper {

// What the kernels declare as dynamic shared memory.
alignas(1024) inline unsigned char keys_shared[emulator::shared_bytes];
alignas(1024) inline unsigned char local_shared[emulator::shared_bytes];
alignas(1024) inline unsigned char state_shared[emulator::shared_bytes];

}  // namespace cplab::kernels::cuda::hopper

namespace cplab::emulator {
namespace {

using namespace kernels::cuda::hopper;
using kernels::DType;
using kernels::cuda::DeviceChunk;
using kernels::cuda::DeviceView;
using T = __nv_bfloat16;

constexpr int heads = 2;
const double slopes[heads] = {0.4, 8.0};

// [rows, heads, width] in bf16; rows outside [begin, end) are NaN.
class Tensor {
 public:
  Tensor(int rows, int width, int begin, int end, unsigned seed) : rows_(rows), width_(width) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (int row = 0; row < rows; ++row)
      for (int x = 0; x < heads * width; ++x)
        bits_.push_back(emulated_bfloat16(
            row >= begin && row < end ? normal(random) : std::numeric_limits<float>::quiet_NaN()));
  }
  int width() const { return width_; }
  T element(int row, int head, int x) const {
    return bits_[(static_cast<std::size_t>(row) * heads + head) * width_ + x];
  }
  double at(int row, int head, int x) const { return emulated_float(element(row, head, x)); }
  DeviceView view() {
    return {bits_.data(), nullptr, std::int64_t{heads} * width_, width_, rows_, heads, width_, DType::bf16};
  }

 private:
  int rows_, width_;
  std::vector<T> bits_;
};

// States [count * D, heads, E].
class States {
 public:
  States(int count, int D, int E, unsigned seed)
      : D_(D), E_(E), values_(static_cast<std::size_t>(count) * D * heads * E) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (float& value : values_) value = normal(random);
  }
  float at(int state, int d, int head, int e) const {
    return values_[((static_cast<std::size_t>(state) * D_ + d) * heads + head) * E_ + e];
  }
  DeviceView view() {
    const auto rows = static_cast<std::int32_t>(values_.size()) / (heads * E_);
    return {values_.data(), nullptr, std::int64_t{heads} * E_, E_, rows, heads, E_, DType::fp32};
  }

 private:
  int D_, E_;
  std::vector<float> values_;
};

// One head of one chunk, token by token: S is what the chunk begins with, and in the end what it leaves;
// `reads(row, e, value)` is called with what row `row` of x reads.
template <class Reads>
void recur(std::vector<double>& S, const Tensor* x, const Tensor& y, const Tensor& z,
           const DeviceChunk& chunk, int head, bool reverse, Reads reads) {
  const int D = y.width(), E = z.width();
  const double lambda = std::exp(-slopes[head]);
  for (int i = 0; i < chunk.count; ++i) {
    const int row = chunk.row + (reverse ? chunk.count - 1 - i : i);
    for (double& value : S) value *= reverse || i > 0 ? lambda : 1;
    for (int d = 0; d < D; ++d)
      for (int e = 0; e < E; ++e) S[d * E + e] += y.at(row, head, d) * z.at(row, head, e);
    if (x == nullptr) continue;
    for (int e = 0; e < E; ++e) {
      double sum = 0;
      for (int d = 0; d < D; ++d) sum += x->at(row, head, d) * S[d * E + e];
      reads(row, e, sum);
    }
  }
  if (!reverse && chunk.count > 0)
    for (double& value : S) value *= lambda;
}

struct Distance {
  double error = 0, norm = 0;
  void add(double is, double should) {
    error += (is - should) * (is - should);
    norm += should * should;
  }
  double relative() const { return std::sqrt(error / norm); }
};

// The edge where a walk begins.
int edge_of(const DeviceChunk& chunk, Direction direction) {
  return direction == Direction::forward ? chunk.left : chunk.right;
}
double exponent_of(const DeviceChunk& chunk, Direction direction) {
  return static_cast<double>(direction == Direction::forward ? chunk.left_exponent : chunk.right_exponent);
}

struct Edge {
  std::int32_t state = -1;
  std::int64_t tokens = 0;  // between it and the chunk
};

DeviceChunk chunk(std::int32_t row, std::int32_t count, std::int32_t state, Edge left, Edge right) {
  return {row, count, 0, 0, state, left.state, right.state, 0, left.tokens, right.tokens};
}

struct Case {
  // Chunks that end in the middle of a tile, begin anywhere, or are empty; one has an edge far away.
  std::vector<DeviceChunk> chunks{chunk(3, 70, 0, {0, 2}, {1, 200}), chunk(73, 64, 2, {}, {}),
                                  chunk(137, 0, 1, {}, {}), chunk(137, 131, 3, {1, 900}, {0, 1})};
  int rows = 280, begin = 3, end = 268;
  WalkItems items(int blocks) const {
    WalkItems items;
    items.chunks = chunks.data();
    items.slopes = slopes;
    items.count = static_cast<int>(chunks.size()) * heads;
    items.blocks = blocks;
    items.heads = FastDivmod(heads);
    return items;
  }
};

template <int D, int E, Direction direction>
void test_state(std::uint64_t seed, bool late) {
  const Case test;
  Tensor y(test.rows, D, test.begin, test.end, 1), z(test.rows, E, test.begin, test.end, 2);
  States states(4, D, E, 3);
  StateParams params{{y.view(), 64}, {z.view(), 64}, states.view(), test.items(3)};
  Machine machine(seed, late);
  emulated_threads = StateShape<D, E>::threads;
  static_assert(sizeof(StateStorage<D, E>) + 1024 <= shared_bytes - 1024);
  for (unsigned block = 0; block < 3; ++block)
    machine.run(emulated_threads, block, state_shared,
                [&] { linear_state_kernel<T, D, E, direction>(params); });
  Distance distance;
  for (const DeviceChunk& chunk : test.chunks)
    for (int head = 0; head < heads; ++head) {
      std::vector<double> S(D * E);
      recur(S, nullptr, y, z, chunk, head, direction == Direction::reverse, [](int, int, double) {});
      for (int d = 0; d < D; ++d)
        for (int e = 0; e < E; ++e) distance.add(states.at(chunk.state, d, head, e), S[d * E + e]);
    }
  CHECK(distance.relative() < 3e-3);
}

// What a walk has written, against the recurrence; nothing else may have changed.
template <Direction direction>
void check_rows(const Case& test, const Tensor& x, const Tensor& y, const Tensor& z, States& state,
                States& carry, bool transposed, const Tensor& before, const Tensor& out, bool add) {
  const int D = y.width(), E = z.width();
  Distance distance;
  for (const DeviceChunk& chunk : test.chunks)
    for (int head = 0; head < heads; ++head) {
      std::vector<double> S(D * E);
      for (int d = 0; d < D; ++d)
        for (int e = 0; e < E; ++e) {
          const int r = transposed ? e : d, c = transposed ? d : e;
          S[d * E + e] = state.at(chunk.state, r, head, c);
          if (const int edge = edge_of(chunk, direction); edge >= 0)
            S[d * E + e] +=
                std::exp(-slopes[head] * exponent_of(chunk, direction)) * carry.at(edge, r, head, c);
        }
      recur(S, &x, y, z, chunk, head, direction == Direction::reverse, [&](int row, int e, double value) {
        distance.add(out.at(row, head, e), value + (add ? before.at(row, head, e) : 0));
      });
    }
  CHECK(distance.relative() < 6e-3);
  bool same = true;
  for (int row = 0; row < test.rows; ++row)
    if (row < test.begin || row >= test.end)
      for (int e = 0; e < heads * E; ++e)
        same = same && out.element(row, e / E, e % E).bits == before.element(row, e / E, e % E).bits;
  CHECK(same);
}

template <int D, int E>
void test_local(std::uint64_t seed, bool late, bool transposed, bool add) {
  const Case test;
  Tensor x(test.rows, D, test.begin, test.end, 1), y(test.rows, D, test.begin, test.end, 2),
      z(test.rows, E, test.begin, test.end, 3), out(test.rows, E, 0, add ? test.rows : 0, 4);
  const Tensor before = out;
  const int height = transposed ? E : D;
  States state(4, height, D + E - height, 5), carry(2, height, D + E - height, 6);
  LocalParams params{{x.view(), 64},
                     {y.view(), 64},
                     {z.view(), 64},
                     {out.view(), 64, 64},
                     out.view(),
                     test.items(3),
                     {state.view(), carry.view(), transposed},
                     !add,
                     add};
  Machine machine(seed, late);
  emulated_threads = LocalShape<D, E>::threads;
  static_assert(sizeof(LocalStorage<D, E>) + 1024 <= shared_bytes - 1024);
  for (unsigned block = 0; block < 3; ++block)
    machine.run(emulated_threads, block, local_shared, [&] { linear_local_kernel<T, D, E>(params); });
  check_rows<Direction::forward>(test, x, y, z, state, carry, transposed, before, out, add);
}

template <int D, int E>
void test_keys(std::uint64_t seed, bool late, bool transposed, bool add) {
  const Case test;
  Tensor q(test.rows, D, test.begin, test.end, 1), k(test.rows, D, test.begin, test.end, 2),
      v(test.rows, E, test.begin, test.end, 3), dout(test.rows, E, test.begin, test.end, 4),
      dk(test.rows, D, 0, add ? test.rows : 0, 5), dv(test.rows, E, 0, add ? test.rows : 0, 6);
  const Tensor dk_before = dk, dv_before = dv;
  const int height = transposed ? E : D;
  States state(4, height, D + E - height, 7), carry(2, height, D + E - height, 8);
  KeysParams params{{q.view(), 64},
                    {k.view(), 64},
                    {v.view(), 64},
                    {dout.view(), 64},
                    {dk.view(), 64},
                    {dv.view(), 64},
                    dk.view(),
                    dv.view(),
                    test.items(3),
                    {state.view(), carry.view(), transposed},
                    !add,
                    !add,
                    add};
  Machine machine(seed, late);
  emulated_threads = KeysShape<D, E>::threads;
  static_assert(sizeof(KeysStorage<D, E>) + 1024 <= shared_bytes - 1024);
  for (unsigned block = 0; block < 3; ++block)
    machine.run(emulated_threads, block, keys_shared, [&] { linear_keys_kernel<T, D, E>(params); });
  check_rows<Direction::reverse>(test, v, dout, q, state, carry, !transposed, dk_before, dk, add);
  check_rows<Direction::reverse>(test, k, q, dout, state, carry, transposed, dv_before, dv, add);
}

}  // namespace

TEST_CASE("Emulated linear attention: states of chunks") {
  for (const bool late : {false, true}) {
    CAPTURE(late);
    test_state<128, 128, Direction::forward>(1, late);
    test_state<128, 64, Direction::reverse>(2, late);
    test_state<64, 128, Direction::forward>(3, late);
    test_state<64, 64, Direction::reverse>(4, late);
  }
}

TEST_CASE("Emulated linear attention: what the rows of chunks read") {
  for (const bool late : {false, true}) {
    CAPTURE(late);
    test_local<128, 128>(1, late, false, false);
    test_local<128, 128>(2, late, true, true);
    test_local<128, 64>(3, late, true, false);
    test_local<64, 128>(4, late, false, false);
    test_local<64, 64>(5, late, false, true);
  }
}

TEST_CASE("Emulated linear attention: gradients of keys and values") {
  for (const bool late : {false, true}) {
    CAPTURE(late);
    test_keys<128, 128>(1, late, false, false);
    test_keys<128, 64>(2, late, true, true);
    test_keys<128, 64>(3, late, false, false);
    test_keys<64, 64>(4, late, false, false);
  }
}

}  // namespace cplab::emulator

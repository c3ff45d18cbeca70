// Products of an emulated warpgroup: what shared-memory descriptors and registers mean; see machine.hpp.
#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "kernels/cpu/convert.hpp"
#include "tests/emulator/machine_state.hpp"

namespace cplab::emulator {

namespace {

using kernels::DType;
using kernels::load_elements;

constexpr int product_rows = 64, depth = 16;  // depth: places of the summed index

// The byte of an element under the 128-byte swizzle: bits 4 to 6 are exchanged with bits 7 to 9.
std::uint32_t swizzled(std::uint32_t byte) {
  return byte ^ (byte >> 7 & 7) << 4;
}

struct Descriptor {
  explicit Descriptor(std::uint64_t bits)
      : start(static_cast<std::uint32_t>(bits & 0x3fff) << 4),
        leading(static_cast<std::uint32_t>(bits >> 16 & 0x3fff) << 4),
        stride(static_cast<std::uint32_t>(bits >> 32 & 0x3fff) << 4) {
    if (bits >> 62 != 1 || (bits >> 49 & 7) != 0)
      throw std::runtime_error("a descriptor without the 128-byte swizzle");
  }
  // Row r, place k of the summed index, which runs along the row.
  std::uint32_t k_major(int r, int k) const {
    return swizzled(start + static_cast<std::uint32_t>(r / 8) * stride +
                    static_cast<std::uint32_t>(r % 8 * 128 + k * 2));
  }
  // Column c, place k of the summed index, which runs over rows.
  std::uint32_t mn_major(int c, int k) const {
    return swizzled(start + static_cast<std::uint32_t>(c / 64) * leading +
                    static_cast<std::uint32_t>(k / 8) * stride +
                    static_cast<std::uint32_t>(k % 8 * 128 + c % 64 * 2));
  }
  std::uint32_t start, leading, stride;
};

using Bits = std::vector<std::uint16_t>;

// An operand as shared memory has it: [n][depth], or [depth][n] if n runs along rows (mn_major). Read in runs
// of eight elements: the swizzle leaves 16 bytes together.
Bits stored(const unsigned char* shared, std::uint64_t descriptor, bool mn_major, int n) {
  constexpr int run = 8;
  const Descriptor from(descriptor);
  const int rows = mn_major ? depth : n, row_elements = mn_major ? n : depth;
  Bits bits(static_cast<std::size_t>(n * depth));
  for (int r = 0; r < rows; ++r)
    for (int x = 0; x < row_elements; x += run) {
      const std::uint32_t byte = mn_major ? from.mn_major(x, r) : from.k_major(r, x);
      if (byte + 2 * run > shared_bytes) throw std::runtime_error("an operand beyond shared memory");
      std::memcpy(&bits[static_cast<std::size_t>(r * row_elements + x)], shared + byte, 2 * run);
    }
  return bits;
}

Bits transposed(const Bits& from, int rows) {
  const int columns = static_cast<int>(from.size()) / rows;
  Bits into(from.size());
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c)
      into[static_cast<std::size_t>(c * rows + r)] = from[static_cast<std::size_t>(r * columns + c)];
  return into;
}

std::vector<float> values_of(const Bits& bits, DType dtype) {
  std::vector<float> values(bits.size());
  load_elements(reinterpret_cast<const std::byte*>(bits.data()), dtype,
                static_cast<std::int64_t>(bits.size()), values.data());
  return values;
}

// `block` columns of a row of a product, as many sums as registers hold at once.
template <std::size_t block>
[[gnu::always_inline]] inline void multiply_block(const float* a, const float* b, std::size_t columns,
                                                  float* row) {
  std::array<float, block> sums{};
  for (std::size_t k = 0; k < depth; ++k)
    for (std::size_t e = 0; e < block; ++e) sums[e] += a[k] * b[k * columns + e];
  std::copy(sums.begin(), sums.end(), row);
}

// A row of a product: a[depth] times b[depth][columns], summed from the first place of the summed index on.
// AVX2, where there is any, has no fused multiply-add: the bits are those of the default.
#if defined(__x86_64__)
[[gnu::target_clones("avx2", "default")]]
#endif
void multiply_row(const float* a, const float* b,
                                                            std::size_t columns, float* row) {
  constexpr std::size_t many = 32, few = 8;
  std::size_t c = 0;
  for (; c + many <= columns; c += many) multiply_block<many>(a, b + c, columns, row + c);
  for (; c < columns; c += few) multiply_block<few>(a, b + c, columns, row + c);
}

}  // namespace

void Machine::State::multiply(std::size_t first_thread, std::size_t index) {
  const Product& shape = fibers[first_thread].products[index];
  Bits a(product_rows * depth);
  if (shape.a_registers == nullptr) {
    a = stored(shared, shape.a, shape.a_mn_major, product_rows);
    if (shape.a_mn_major) a = transposed(a, depth);
  } else {
    for (int t = 0; t < warpgroup_threads; ++t) {
      const std::uint32_t* const registers =
          fibers[first_thread + static_cast<std::size_t>(t)].products[index].a_registers;
      for (int part = 0; part < 4; ++part)
        for (int half = 0; half < 2; ++half) {
          const int r = t / 32 * 16 + t % 32 / 4 + part % 2 * 8;
          const int k = t % 4 * 2 + part / 2 * 8 + half;
          a[static_cast<std::size_t>(r * depth + k)] =
              static_cast<std::uint16_t>(registers[part] >> 16 * half);
        }
    }
  }
  Bits b = stored(shared, shape.b, shape.b_mn_major, shape.columns);
  if (!shape.b_mn_major) b = transposed(b, shape.columns);
  const std::vector<float> a_values = values_of(a, shape.dtype), b_values = values_of(b, shape.dtype);
  std::vector<float> row(static_cast<std::size_t>(shape.columns));
  for (int r = 0; r < product_rows; ++r) {
    multiply_row(&a_values[static_cast<std::size_t>(r * depth)], b_values.data(), row.size(), row.data());
    for (int lane = 0; lane < 4; ++lane) {
      const int t = r / 16 * 32 + r % 8 * 4 + lane;
      const Product& own = fibers[first_thread + static_cast<std::size_t>(t)].products[index];
      for (int n = 0; n < shape.columns / 8; ++n)
        for (int e = 0; e < 2; ++e) {
          float& sum = own.sums[4 * n + r % 16 / 8 * 2 + e];
          const float value = row[static_cast<std::size_t>(8 * n + 2 * lane + e)];
          sum = own.keep ? sum + value : value;
        }
    }
  }
}

void Machine::queue(const Product& product) {
  state_->fibers[state_->current].products.push_back(product);
}

void Machine::commit() {
  Fiber& fiber = state_->fibers[state_->current];
  fiber.groups.push_back(fiber.products.size());
}

void Machine::wait_products(int pending) {
  State& s = *state_;
  const std::size_t first = s.current / warpgroup_threads * warpgroup_threads;
  Meeting& meeting = s.warpgroups[static_cast<int>(first)];
  const std::uint32_t generation = meeting.generation;
  if (++meeting.arrived < warpgroup_threads) {
    return wait_until("its warpgroup", [&meeting, generation] { return meeting.generation != generation; });
  }
  meeting.arrived = 0;
  ++meeting.generation;
  const std::size_t groups = s.fibers[first].groups.size();
  if (groups <= static_cast<std::size_t>(pending)) return;
  const std::size_t done_groups = groups - static_cast<std::size_t>(pending);
  const std::size_t done = s.fibers[first].groups[done_groups - 1];
  for (std::size_t p = 0; p < done; ++p) s.multiply(first, p);
  for (std::size_t t = first; t < first + warpgroup_threads; ++t) {
    Fiber& fiber = s.fibers[t];
    fiber.products.erase(fiber.products.begin(), fiber.products.begin() + static_cast<std::ptrdiff_t>(done));
    fiber.groups.erase(fiber.groups.begin(), fiber.groups.begin() + static_cast<std::ptrdiff_t>(done_groups));
    for (std::size_t& end : fiber.groups) end -= done;
  }
}

}  // namespace cplab::emulator

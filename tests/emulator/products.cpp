// Products of an emulated warpgroup: what shared-memory descriptors and registers mean; see machine.hpp.
#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "tests/emulator/machine_state.hpp"

namespace cplab::emulator {

namespace {

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

}  // namespace

void Machine::State::multiply(std::size_t first_thread, std::size_t index) {
  const Product& shape = fibers[first_thread].products[index];
  const auto load = [&](std::uint32_t byte) {
    if (byte + 2 > shared_bytes) throw std::runtime_error("an operand beyond shared memory");
    return shape.value(static_cast<std::uint16_t>(shared[byte] | shared[byte + 1] << 8));
  };
  constexpr int rows = 64, depth = 16;
  std::array<float, rows * depth> a{};
  if (shape.a_registers == nullptr) {
    const Descriptor from(shape.a);
    for (int r = 0; r < rows; ++r)
      for (int k = 0; k < depth; ++k)
        a[static_cast<std::size_t>(r * depth + k)] =
            load(shape.a_mn_major ? from.mn_major(r, k) : from.k_major(r, k));
  } else {
    for (int t = 0; t < warpgroup_threads; ++t) {
      const std::uint32_t* const registers =
          fibers[first_thread + static_cast<std::size_t>(t)].products[index].a_registers;
      for (int part = 0; part < 4; ++part)
        for (int half = 0; half < 2; ++half) {
          const int r = t / 32 * 16 + t % 32 / 4 + part % 2 * 8;
          const int k = t % 4 * 2 + part / 2 * 8 + half;
          a[static_cast<std::size_t>(r * depth + k)] =
              shape.value(static_cast<std::uint16_t>(registers[part] >> 16 * half));
        }
    }
  }
  const int columns = shape.columns;
  std::vector<float> b(static_cast<std::size_t>(depth * columns));
  const Descriptor from(shape.b);
  for (int k = 0; k < depth; ++k)
    for (int c = 0; c < columns; ++c)
      b[static_cast<std::size_t>(k * columns + c)] =
          load(shape.b_mn_major ? from.mn_major(c, k) : from.k_major(c, k));
  std::vector<float> row(static_cast<std::size_t>(columns));
  for (int r = 0; r < rows; ++r) {
    std::fill(row.begin(), row.end(), 0.0f);
    for (int k = 0; k < depth; ++k)
      for (std::size_t c = 0; c < row.size(); ++c)
        row[c] +=
            a[static_cast<std::size_t>(r * depth + k)] * b[static_cast<std::size_t>(k) * row.size() + c];
    for (int lane = 0; lane < 4; ++lane) {
      const int t = r / 16 * 32 + r % 8 * 4 + lane;
      const Product& own = fibers[first_thread + static_cast<std::size_t>(t)].products[index];
      for (int n = 0; n < columns / 8; ++n)
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

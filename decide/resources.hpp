// What the critical path of a step uses, second by second: what would have to be faster for the step to be.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cplab {

// attention, products: kernels that the tensor cores bound. memory: kernels that the GPU's memory bounds,
// products of few rows too. launches: the least time of a kernel, and the host. links: inside a node. host:
// memory of the host, and the way there.
enum class Resource : std::uint8_t { attention, products, memory, launches, links, nics, host };
constexpr std::size_t resource_count = 7;
// As answers call it: "attention kernels", "NICs".
std::string_view name(Resource);

struct ResourceSeconds {
  std::array<double, resource_count> seconds{};
  void add(Resource resource, double s) { seconds[static_cast<std::size_t>(resource)] += s; }
  void add(const ResourceSeconds& more, double times = 1) {
    for (std::size_t i = 0; i < resource_count; ++i) seconds[i] += times * more.seconds[i];
  }
  double of(Resource resource) const { return seconds[static_cast<std::size_t>(resource)]; }
  double total() const {
    double sum = 0;
    for (const double s : seconds) sum += s;
    return sum;
  }
};

}  // namespace cplab

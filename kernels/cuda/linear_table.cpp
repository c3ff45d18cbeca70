// Gathers the kernels of linear attention; see linear_table.hpp.
#include "kernels/cuda/linear_table.hpp"

#include <map>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/cuda/hopper/hopper.hpp"
#include "kernels/cuda/linear/linear.hpp"

namespace cplab::kernels::cuda {
namespace {

using Table = std::map<std::string, LinearKernel, std::less<>>;

void add(Table& table, std::vector<LinearKernel> kernels) {
  for (LinearKernel& kernel : kernels) {
    std::string name = kernel.name;
    table.emplace(std::move(name), std::move(kernel));
  }
}

#ifdef CPLAB_HOPPER_KERNELS
template <int D, int... value_sizes>
void add_hopper_of(Table& table, std::integer_sequence<int, value_sizes...>) {
  (add(table, hopper::linear_kernels<D, value_sizes>()), ...);
}
template <int... head_sizes>
void add_hopper(Table& table, std::integer_sequence<int, head_sizes...> value_sizes) {
  (add_hopper_of<head_sizes>(table, value_sizes), ...);
}
#endif

// A family for one machine adds its kernels here, as in kernel_table.cpp.
Table make_table() {
  Table table;
#ifdef CPLAB_HOPPER_KERNELS
  add_hopper(table, std::integer_sequence<int, CPLAB_HOPPER_HEAD_SIZES>{});
#endif
  add(table, linear_mma_kernels());
  add(table, linear_walk_kernels());
  add(table, linear_state_kernels());
  add(table, linear_scan_kernels());
  const std::span<const LinearVariant> variants = linear_variants(built_kernels());
  for (const LinearVariant& variant : variants)
    if (!table.contains(variant.name)) throw std::logic_error(variant.name + ": a variant without a kernel");
  if (table.size() != variants.size())
    throw std::logic_error("a kernel of linear attention without a variant");
  return table;
}

}  // namespace

const LinearKernel& kernel_of(const LinearVariant& variant) {
  static const Table table = make_table();
  return table.at(variant.name);
}

}  // namespace cplab::kernels::cuda
